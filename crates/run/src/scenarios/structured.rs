//! Structured outputs: the responses, checked against their constraints.

use std::{borrow::Cow, collections::HashSet, path::Path};

use tacho_core::Request;
use tacho_core::json::{Value, dumps, write_value};
use tacho_metrics::{Gaps, Sample, structured::JudgedResponse};
use tacho_record::RunRecord;
use tacho_text::Tokenizer;
use tacho_workload::scenarios::{Constraint, StructuredSpec};

use super::Judge;
use crate::Error;

/// Checks the responses of a run. The test request has already sent the first constraint.
pub fn responses(
    record: &RunRecord,
    spec: &StructuredSpec,
    prompt_lens: &[u64],
    constraints: Vec<Constraint>,
    tokenizer: &Tokenizer,
) -> Vec<JudgedResponse> {
    let mut judge = Judge::default();
    let mut seen: HashSet<String> =
        constraints.iter().take(1).filter(|first| first.sent).map(|first| dumps(&first.value)).collect();
    let samples = record.measured.samples.iter().zip(prompt_lens).zip(constraints);
    let response = |((sample, &prompt_len), constraint): ((Cow<'_, Sample>, &u64), Constraint)| {
        let text = String::from_utf8_lossy(&sample.text).into_owned();
        let timed = match sample.success() {
            true => Sample { output_len: tokenizer.count(&text, false) as u64, ..sample.into_owned() },
            false => Sample { output_len: 0, ttft: 0.0, itl: Gaps::default(), ..sample.into_owned() },
        };
        JudgedResponse {
            sample: Sample { prompt_len, ..timed },
            expected: constraint.expected,
            constrained: constraint.sent,
            fresh: constraint.sent && seen.insert(dumps(&constraint.value)),
            verdict: judge.verdict(spec.dataset.kind(), &constraint.value, &text),
        }
    };
    samples.map(response).collect()
}

/// Writes the requests in the format of vLLM's script.
pub fn save(path: &Path, requests: &[Request]) -> Result<(), Error> {
    let mut out = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let line = tacho_core::dict! {
            "index": index,
            "prompt": request.content.to_json(),
            "prompt_len": request.prompt_len,
            "output_len": request.output_len,
            "extra_body": request.overrides.clone(),
        };
        write_value(&mut out, &Value::Dict(line));
        out.push(b'\n');
    }
    std::fs::write(path, out).map_err(|source| Error::SaveWorkload { path: path.to_owned(), source })
}
