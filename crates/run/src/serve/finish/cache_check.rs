//! Whether the server's prefix cache knew the prompts before the run: what was found in it against what the prompts
//! themselves, in the order they were sent, can account for.

use tacho_client::Rules;
use tacho_core::Content;
use tacho_metrics::Caveat;
use tacho_record::RunRecord;
use tacho_workload::{BLOCK, PrefixSharing};

use crate::plan::ServePlan;
use crate::serve::prepare::Prepared;

/// Share of the tokens that may be found beyond what is accounted for: blocks of another size, a beginning of text.
const TOLERANCE: f64 = 0.01;
/// Tokens that a server's chat template puts before every conversation, at most.
const TEMPLATE: f64 = 64.0;

/// A caveat where more was found than can be accounted for. Nothing is computed where little was found.
pub(crate) fn caveat(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let requests = prepared.requests.kept();
    let observed = observed(prepared, record)?;
    // Whoever stopped the run does not want to wait for all prompts to be counted.
    let counts = observed > TOLERANCE && !record.setup.interrupted;
    let tokenizer = prepared.tokenizer.as_ref().filter(|_| counts)?;
    let countable = |content: &Content| matches!(content, Content::Text(_) | Content::Ids(_));
    // A session's prompts grow with its responses: the session metrics show what could be found.
    if prepared.sessions.is_some() {
        return None;
    }
    if plan.endpoint.rules == Rules::Vllm || !requests.iter().all(|request| countable(&request.content)) {
        return None;
    }
    // The test request and the warm-ups are copies of the first.
    let rehearsed = plan.traffic.warmups > 0 || !plan.traffic.ready_timeout.is_zero();
    let first = requests.first().filter(|_| rehearsed && !plan.traffic.reset_caches).cloned();
    let sent: Vec<_> = first.into_iter().chain(requests.iter().cloned()).collect();
    let sharing = PrefixSharing::new(&sent, tokenizer);
    let tokens = sharing.tokens.max(1) as f64;
    let chat = plan.endpoint.url.path.ends_with("chat/completions");
    // Where prompts share a beginning, a token more or less of it can make a block.
    let block = if sharing.repeated > 0 { BLOCK as f64 } else { 0.0 };
    let unsure = if chat { TEMPLATE + block } else { block };
    let expected = (sharing.cached as f64 + unsure * requests.len() as f64) / tokens;
    (observed > expected + TOLERANCE).then_some(Caveat::WarmCache { observed, expected })
}

/// What was found of the prompts in memory. Where there are more, these came first, and what is found among them owes
/// nothing to the others.
fn observed(prepared: &Prepared, record: &RunRecord) -> Option<f64> {
    let (measured, known) = (&record.measured, prepared.requests.kept().len());
    if prepared.requests.spill().is_empty() {
        return measured.cache_hit_rate();
    }
    // In a resumed run, places count from the first run.
    let whole = measured.samples.len() <= prepared.requests.len();
    let first = measured.samples.iter().filter(|sample| whole && sample.success() && sample.index < known);
    let tokens = first.clone().map(|sample| sample.prompt_len).sum::<u64>();
    let cached: u64 = first.map(|sample| sample.cached_tokens).sum::<Option<u64>>()?;
    (tokens > 0).then(|| cached as f64 / tokens as f64)
}
