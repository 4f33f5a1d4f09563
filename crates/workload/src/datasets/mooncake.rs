//! `mooncake`: a Mooncake trace, sorted by time, with exact lengths. Blocks are as in `timed_trace`.

use std::path::PathBuf;

use tacho_core::Request;

use super::timed_trace::{self, TimedTraceSpec};
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled, sampling::timing};

#[derive(Debug, Clone, PartialEq)]
pub struct MooncakeSpec {
    /// How its lines are parsed. The path may be a directory of traces.
    pub trace: TimedTraceSpec,
    /// Which trace of a directory: `conversation`, `toolagent`, `synthetic` or `mooncake`.
    pub workload: String,
}

/// Generates the requests; times count from the first.
pub(crate) fn sample(spec: &MooncakeSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("mooncake")?;
    let trace = TimedTraceSpec { path: spec.file(), ..spec.trace.clone() };
    context.globals.seed(0);
    let mut rows = Vec::new();
    for row in trace.rows(&crate::sources::read_rows(&trace.path)?) {
        let row = row?;
        rows.push((trace.seconds(&row)?, row));
    }
    rows.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    rows.truncate(trace.selection.wanted());
    let mut blocks = timed_trace::Blocks::new(tokenizer, trace.hash_seed)?;
    let mut requests: Vec<Request> = Vec::with_capacity(rows.len());
    for (index, (_, row)) in rows.iter().enumerate() {
        let request = trace.request(row, &mut blocks, true)?;
        requests.push(Request { id: trace.selection.id(index), ..request });
        context.counters.finish_one();
    }
    timing::from_the_first(&mut requests, 1.0)?;
    Ok(Sampled::of(requests))
}

impl MooncakeSpec {
    fn file(&self) -> PathBuf {
        let path = &self.trace.path;
        if path.is_dir() { path.join(format!("{}_trace.jsonl", self.workload)) } else { path.clone() }
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::Content;

    use super::*;
    use crate::{sampling::context::with_builtin, sampling::selection::Selection};

    #[test]
    fn traces_come_in_order_at_exact_lengths() {
        let directory = tempfile::tempdir().unwrap();
        let lines = r#"{"timestamp": 3000, "input_length": 10, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 1000, "input_length": 6, "output_length": 2, "hash_ids": [0]}
{"timestamp": 9000, "input_length": 1, "output_length": 1, "hash_ids": [7]}
"#;
        std::fs::write(directory.path().join("toolagent_trace.jsonl"), lines).unwrap();
        let trace = TimedTraceSpec {
            path: directory.path().to_path_buf(),
            selection: Selection { num_prompts: 2, shuffle: true, oversample: true, ..Selection::default() },
            chunk_size: 4,
            sec_multiplier: 0.002,
            timestamp_label: "timestamp".to_owned(),
            input_length_label: "input_length".to_owned(),
            output_length_label: "output_length".to_owned(),
            hash_ids_label: "hash_ids".to_owned(),
            hash_seed: 0,
        };
        let spec = MooncakeSpec { trace, workload: "toolagent".to_owned() };
        let requests = with_builtin(|context| sample(&spec, context)).unwrap().requests;
        let seen: Vec<_> = requests.iter().map(|request| (request.prompt_len, request.timestamp)).collect();
        assert_eq!(seen, [(6, Some(0.0)), (10, Some(4.0))], "sorted, from the first, twice as slow");
        let (Content::Ids(first), Content::Ids(second)) = (&requests[0].content, &requests[1].content) else {
            panic!("token ids");
        };
        assert_eq!((first.len(), &first[..4]), (6, &second[..4]), "equal ids, equal blocks");
        assert_ne!(first[4..6], second[4..6]);
    }
}
