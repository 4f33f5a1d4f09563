//! Whether the server's prefix cache knew the prompts before the run: what was found in it against what the prompts
//! themselves, in the order they were sent, can account for.

use tacho_client::Rules;
use tacho_core::Content;
use tacho_metrics::{Caveat, RunRecord};
use tacho_workload::{BLOCK, PrefixSharing};

use super::prepare::Prepared;
use crate::plan::ServePlan;

/// Share of the tokens that may be found beyond what is accounted for: blocks of another size, a beginning of text.
const TOLERANCE: f64 = 0.01;
/// Tokens that a server's chat template puts before every conversation, at most.
const TEMPLATE: f64 = 64.0;

/// A caveat where more was found than can be accounted for. Nothing is computed where little was found.
pub(super) fn caveat(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let observed = record.measured.cache_hit_rate()?;
    // Whoever stopped the run does not want to wait for all prompts to be counted.
    let counts = observed > TOLERANCE && !record.setup.interrupted;
    let tokenizer = prepared.tokenizer.as_ref().filter(|_| counts)?;
    let countable = |content: &Content| matches!(content, Content::Text(_) | Content::Ids(_));
    // What a session sends grows with its answers: the sessions' own numbers tell what could be found.
    if prepared.dialogue.is_some() {
        return None;
    }
    if plan.endpoint.rules == Rules::Vllm || !prepared.requests.iter().all(|request| countable(&request.content)) {
        return None;
    }
    // The test request and the warm-ups are copies of the first.
    let rehearsed = plan.traffic.warmups > 0 || !plan.traffic.ready_timeout.is_zero();
    let first = prepared.requests.first().filter(|_| rehearsed && !plan.traffic.reset_caches).cloned();
    let sent: Vec<_> = first.into_iter().chain(prepared.requests.iter().cloned()).collect();
    let sharing = PrefixSharing::new(&sent, tokenizer);
    let tokens = sharing.tokens.max(1) as f64;
    let chat = plan.endpoint.url.path.ends_with("chat/completions");
    // Where prompts share a beginning, a token more or less of it can make a block.
    let block = if sharing.repeated > 0 { BLOCK as f64 } else { 0.0 };
    let unsure = if chat { TEMPLATE + block } else { block };
    let expected = (sharing.cached as f64 + unsure * prepared.requests.len() as f64) / tokens;
    (observed > expected + TOLERANCE).then_some(Caveat::WarmCache { observed, expected })
}
