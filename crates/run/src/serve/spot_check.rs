//! Whether the tokenizer is the server's: a few prompts, counted by both once the run is over. Nothing is sent before or
//! during a run that upstream would not send.

use tacho_client::Rules;
use tacho_client::control::TokenizeServer;
use tacho_core::{Content, Request};
use tacho_metrics::{Caveat, RunRecord};

use super::prepare::Prepared;
use crate::plan::{ServePlan, WorkloadPlan};

/// Prompts that are checked.
const PROMPTS: usize = 3;

/// A caveat where both count differently; nothing where they agree, the server does not count, or the prompts have
/// already been aligned with it.
pub(super) fn tokenizers(plan: &ServePlan, prepared: &Prepared, record: &RunRecord) -> Option<Caveat> {
    let aligned = matches!(plan.workload, WorkloadPlan::Sample { align: true, .. });
    let answered = record.measured.samples.iter().any(|sample| sample.success());
    if aligned || !answered || record.setup.interrupted || plan.endpoint.rules == Rules::Vllm {
        return None;
    }
    let tokenizer = prepared.tokenizer.as_ref()?;
    let server = TokenizeServer { caller: &prepared.caller, model: &prepared.model_name, signed: true };
    let (mut ours, mut theirs, mut prompts) = (0, 0, 0);
    for text in sampled(&prepared.requests) {
        theirs += server.tokenize(text)?.len() as u64;
        ours += tokenizer.count(text, false) as u64;
        prompts += 1;
    }
    (ours != theirs).then_some(Caveat::TokenizerMismatch { prompts, ours, theirs })
}

/// Texts from the beginning, the middle and the end.
fn sampled(requests: &[Request]) -> Vec<&str> {
    let texts: Vec<&str> = requests
        .iter()
        .filter_map(|request| match &request.content {
            Content::Text(text) => Some(text.as_str()),
            Content::Texts(texts) => texts.first().map(String::as_str),
            _ => None,
        })
        .filter(|text| !text.is_empty())
        .collect();
    let mut places: Vec<usize> = (0..PROMPTS)
        .map(|at| at * texts.len().saturating_sub(1) / (PROMPTS - 1))
        .filter(|at| *at < texts.len())
        .collect();
    places.dedup();
    places.into_iter().map(|at| texts[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_taken_from_all_over() {
        let requests: Vec<Request> = (0..10).map(|at| Request::text(format!("p{at}"), 1, 1)).collect();
        assert_eq!(sampled(&requests), ["p0", "p4", "p9"]);
        assert_eq!(sampled(&requests[..1]), ["p0"]);
        assert_eq!(sampled(&requests[..2]), ["p0", "p1"]);
        assert!(sampled(&[]).is_empty());
    }
}
