//! Checks after the run: the counts of the tokenizer and of the server, and a prefix cache that was warm. Nothing is sent
//! before or during a run that vLLM would not send.

use std::borrow::Cow;

use tacho_client::{Rules, control::TokenizeServer};
use tacho_core::{Content, Request, json::Value};
use tacho_metrics::{Caveat, Sample};
use tacho_record::RunRecord;
use tacho_workload::{BLOCK, PrefixSharing, Requests};

use crate::plan::{ServePlan, WorkloadPlan};
use crate::serve::prepare::Prepared;

/// Prompt tokens that special tokens, or a chat template, may add to a request.
const ADDED: u64 = 8;
const ADDED_BY_TEMPLATE: u64 = 64;

/// The successes whose requests are in memory, with their requests.
fn pairs<'a>(prepared: &'a Prepared, record: &'a RunRecord) -> impl Iterator<Item = (Cow<'a, Sample>, &'a Request)> {
    let requests = prepared.requests.kept();
    let samples = record.measured.samples.iter().filter(|sample| sample.success());
    samples.filter_map(|sample| requests.get(sample.index).map(|request| (sample, request)))
}

/// A caveat if the server counts prompts in another unit, such as characters.
pub(crate) fn prompts(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    if prepared.tokenizer.is_none() || plan.ranks.is_some() || plan.endpoint.rules == Rules::Vllm {
        return None;
    }
    let is_plain = |request: &Request| {
        let is_text = matches!(request.content, Content::Text(_) | Content::Texts(_));
        is_text && request.media.is_none() && request.chat_messages.is_none() && request.session.is_none()
    };
    let counted = pairs(prepared, record).filter(|(sample, request)| sample.prompt_len > 0 && is_plain(request));
    let (mut prompts, mut ours, mut theirs) = (0, 0, 0);
    for (sample, request) in counted {
        (prompts, ours, theirs) = (prompts + 1, ours + request.prompt_len, theirs + sample.prompt_len);
    }
    let added = if plan.endpoint.backend.sends_messages() { ADDED_BY_TEMPLATE } else { ADDED };
    let differs = theirs.abs_diff(ours) > ours / 10 + added * prompts;
    (ours > 0 && differs).then_some(Caveat::TokenizerMismatch { prompts, ours, theirs })
}

/// A caveat if outputs are longer than asked for: the server ignores the field with the limit.
pub(crate) fn outputs(prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let (mut responses, mut total, mut worst) = (0, 0, (0, 0));
    for (sample, request) in pairs(prepared, record) {
        let asked = u64::try_from(request.output_len).unwrap_or(0);
        let got = sample.output_tokens.unwrap_or(sample.events() as u64);
        total += 1;
        // Some servers count the end of the sequence, or send an event without a token.
        if asked > 0 && got > asked + asked / 10 + 2 {
            responses += 1;
            worst = worst.max((got, asked));
        }
    }
    let (got, asked) = worst;
    (responses > 0).then_some(Caveat::OutputsLonger { responses, total, got, asked })
}

/// Fraction of tokens that may be cached without explanation: another block size, a begin-of-text token.
const TOLERANCE: f64 = 0.01;
/// Most tokens that a server's chat template puts before every conversation.
const TEMPLATE_TOKENS: f64 = 64.0;

/// A caveat if more tokens were cached than the prompts explain. Skips the computation if few were.
pub(crate) fn cache(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let requests = prepared.requests.kept();
    let observed = observed(prepared, record)?;
    // After an interrupt the user does not want to wait until all prompts are counted.
    let counts = observed > TOLERANCE && !record.setup.interrupted;
    let tokenizer = prepared.tokenizer.as_ref().filter(|_| counts)?;
    let countable = |content: &Content| matches!(content, Content::Text(_) | Content::Ids(_));
    // Prompts of a session contain its earlier responses: the session metrics show the possible hits.
    if prepared.sessions.is_some() {
        return None;
    }
    if plan.endpoint.rules == Rules::Vllm || !requests.iter().all(|request| countable(&request.content)) {
        return None;
    }
    // The test request and the warm-ups are copies of the first request.
    let rehearsed = plan.traffic.warmups > 0 || !plan.traffic.ready_timeout.is_zero();
    let first = requests.first().filter(|_| rehearsed && !plan.traffic.reset_caches).cloned();
    let sent: Vec<_> = first.into_iter().chain(requests.iter().cloned()).collect();
    let sharing = PrefixSharing::new(&sent, tokenizer);
    let tokens = sharing.tokens.max(1) as f64;
    let chat = plan.endpoint.url.path.ends_with("chat/completions");
    // If prompts share a prefix, one token more or less can complete a block.
    let block = if sharing.repeated > 0 { BLOCK as f64 } else { 0.0 };
    let unsure = if chat { TEMPLATE_TOKENS + block } else { block };
    let expected = (sharing.cached as f64 + unsure * requests.len() as f64) / tokens;
    (observed > expected + TOLERANCE).then_some(Caveat::WarmCache { observed, expected })
}

/// Fraction of cached tokens of the prompts in memory. If there are more prompts, these were sent first, so that the
/// others do not contribute to their hits.
fn observed(prepared: &Prepared, record: &RunRecord) -> Option<f64> {
    let (measured, known) = (&record.measured, prepared.requests.kept().len());
    if prepared.requests.spill().is_empty() {
        return measured.cache_hit_rate();
    }
    // In a resumed run, indices count from the first run.
    let whole = measured.samples.len() <= prepared.requests.len();
    let first = measured.samples.iter().filter(|sample| whole && sample.success() && sample.index < known);
    let tokens = first.clone().map(|sample| sample.prompt_len).sum::<u64>();
    let cached: u64 = first.map(|sample| sample.cached_tokens).sum::<Option<u64>>()?;
    (tokens > 0).then(|| cached as f64 / tokens as f64)
}

/// Whether the requests ask for the most likely tokens.
pub(crate) fn is_greedy(plan: &ServePlan) -> bool {
    let traffic = &plan.traffic;
    let given =
        traffic.payload.extra_body.get("temperature").and_then(Value::as_f64).or(traffic.payload.chat_temperature);
    given == Some(0.0) || plan.endpoint.backend.fixes_temperature()
}

const PROMPTS: usize = 3;

/// A caveat if the tokenizer and the server's count a few prompts differently; `None` if the server does not count tokens,
/// or the prompts were already aligned with it.
pub(crate) fn tokenizer(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let aligned = matches!(plan.workload, WorkloadPlan::Sample { align: true, .. });
    let answered = record.measured.samples.iter().any(|sample| sample.success());
    if aligned || !answered || record.setup.interrupted || plan.endpoint.rules == Rules::Vllm {
        return None;
    }
    let tokenizer = prepared.tokenizer.as_ref()?;
    let server = TokenizeServer { caller: &prepared.caller, model: &prepared.model_name, signed: true };
    let (mut ours, mut theirs, mut prompts) = (0, 0, 0);
    for text in sampled(&prepared.requests) {
        theirs += server.tokenize(&text)?.len() as u64;
        ours += tokenizer.count(&text, false) as u64;
        prompts += 1;
    }
    (ours != theirs).then_some(Caveat::TokenizerMismatch { prompts, ours, theirs })
}

/// Prompts from the beginning, the middle and the end of the workload.
fn sampled(requests: &Requests) -> Vec<String> {
    let mut indices: Vec<usize> =
        (0..PROMPTS).map(|at| at * requests.len().saturating_sub(1) / (PROMPTS - 1)).collect();
    indices.dedup();
    let found = indices.into_iter().filter_map(|index| requests.get(index).ok().flatten());
    let text = |request: Request| match request.content {
        Content::Text(text) => Some(text),
        Content::Texts(texts) => texts.into_iter().next(),
        _ => None,
    };
    found.filter_map(text).filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_taken_from_all_over() {
        let requests: Vec<Request> = (0..10).map(|at| Request::text(format!("p{at}"), 1, 1)).collect();
        let of = |count: usize| sampled(&requests[..count].to_vec().into());
        assert_eq!(of(10), ["p0", "p4", "p9"]);
        assert_eq!(of(1), ["p0"]);
        assert_eq!(of(2), ["p0", "p1"]);
        assert!(of(0).is_empty());
    }
}
