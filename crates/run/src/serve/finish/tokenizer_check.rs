//! Compares the tokenizer with the server's on a few prompts after the run. Nothing is sent before or during a run
//! that vLLM would not send.

use tacho_client::Rules;
use tacho_client::control::TokenizeServer;
use tacho_core::{Content, Request};
use tacho_metrics::Caveat;
use tacho_record::RunRecord;
use tacho_workload::Requests;

use crate::plan::{ServePlan, WorkloadPlan};
use crate::serve::prepare::Prepared;

/// Number of prompts to check.
const PROMPTS: usize = 3;

/// A caveat if the counts differ; `None` if they agree, the server does not count tokens, or the prompts were already
/// aligned with it.
pub(crate) fn caveat(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
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
    let mut places: Vec<usize> = (0..PROMPTS).map(|at| at * requests.len().saturating_sub(1) / (PROMPTS - 1)).collect();
    places.dedup();
    let found = places.into_iter().filter_map(|place| requests.get(place).ok().flatten());
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
