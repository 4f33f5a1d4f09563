//! Detects a warm prefix cache: compares the server's cache hits with those that the prompts themselves explain, in
//! the order in which they were sent.

use tacho_client::Rules;
use tacho_core::Content;
use tacho_metrics::Caveat;
use tacho_record::RunRecord;
use tacho_workload::{BLOCK, PrefixSharing};

use crate::plan::ServePlan;
use crate::serve::prepare::Prepared;

/// Fraction of tokens that may be cached without explanation: another block size, a begin-of-text token.
const TOLERANCE: f64 = 0.01;
/// Most tokens that a server's chat template puts before every conversation.
const TEMPLATE: f64 = 64.0;

/// A caveat if more tokens were cached than the prompts explain. Skips the computation if few were.
pub(crate) fn caveat(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
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
    let unsure = if chat { TEMPLATE + block } else { block };
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
