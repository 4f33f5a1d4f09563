//! `burstgpt`: the lengths of recorded GPT-4 requests, with synthetic text.

use std::path::{Path, PathBuf};
use tacho_core::{bounded::TokenCount, json::python_float};

use tacho_core::{Counters, Request};
use tacho_pyrand::RandomState;
use tacho_text::Tokenizer;

use crate::{
    Error, limits::LENGTH, parallel, sampling::context::SampleContext, sampling::sampled::Sampled,
    sampling::selection::Selection, sampling::timing, sources::csv::Table,
};

/// Settings of the dataset. Rows are drawn, so shuffling and repeating do not apply.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstGptSpec {
    pub path: PathBuf,
    pub selection: Selection,
}

/// Settings of a replay: the first rows in file order, at their recorded times.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstReplaySpec {
    pub burst: BurstGptSpec,
    /// Factor by which recorded gaps are stretched.
    pub time_scale: f64,
}

/// Prompt and output length of a row, and its arrival time.
type Recorded = (u64, i64, Option<f64>);

/// Generates the requests; does not use the global generators.
pub(crate) fn sample(spec: &BurstGptSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("burstgpt")?;
    let selection = &spec.selection;
    let seed = u32::try_from(selection.seed).map_err(|_| Error::SeedOutOfRange { seed: selection.seed })?;
    let rows = spec.rows()?;
    let count =
        usize::try_from(selection.num_prompts).map_err(|_| Error::NegativeCount { count: selection.num_prompts })?;
    let mut state = RandomState::new(seed);
    let chosen = if count <= rows.len() {
        state.choice_distinct(rows.len(), count)
    } else if rows.is_empty() {
        return Err(no_row(&spec.path));
    } else {
        state.choice_replacing(rows.len(), count)
    };
    let chosen: Vec<Recorded> = chosen.into_iter().map(|row| (rows[row].0, rows[row].1, None)).collect();
    Ok(Sampled::of(spec.requests(&chosen, tokenizer, context.counters)))
}

pub(crate) fn replay(spec: &BurstReplaySpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("burstgpt")?;
    let mut rows = spec.burst.rows()?;
    rows.truncate(spec.burst.selection.wanted());
    if rows.is_empty() {
        return Err(no_row(&spec.burst.path));
    }
    let mut requests = spec.burst.requests(&rows, tokenizer, context.counters);
    timing::from_the_first(&mut requests, spec.time_scale)?;
    Ok(Sampled::of(requests))
}

fn no_row(path: &Path) -> Error {
    data!("{} has no row with Model GPT-4 and Response tokens above 0", path.display())
}

impl BurstGptSpec {
    /// Prompts of consecutive vocabulary entries.
    fn requests(&self, rows: &[Recorded], tokenizer: &Tokenizer, counters: &Counters) -> Vec<Request> {
        let vocab_size = tokenizer.vocab_size().max(1);
        let request = |(index, &(input, output, timestamp)): (usize, &Recorded)| {
            let ids: Vec<u32> = (0..input as usize).map(|position| ((index + position) % vocab_size) as u32).collect();
            counters.finish_one();
            let id = self.selection.id(index);
            Request { id, timestamp, ..Request::text(tokenizer.decode(&ids), input, output) }
        };
        parallel::map(rows, request)
    }

    /// The successful GPT-4 rows. They are found by column names, but lengths by column positions, as in vLLM.
    fn rows(&self) -> Result<Vec<Recorded>, Error> {
        let records = Table::read(&self.path)?;
        let column = |name| records.column(name).ok_or_else(|| data!("{} has no column {name:?}", self.path.display()));
        let (model, response) = (column("Model")?, column("Response tokens")?);
        let time = records.column("Timestamp");
        let mut rows = Vec::new();
        for (line, fields) in records.rows() {
            let number = |position: usize, field: &str| {
                let number = fields.get(position).and_then(|text| python_float(text));
                number.filter(|number| TokenCount::holds(*number as i64)).ok_or_else(|| Error::LineField {
                    path: self.path.clone(),
                    line,
                    field: field.to_owned(),
                    expected: LENGTH,
                })
            };
            if fields.get(model).map(String::as_str) != Some("GPT-4") || number(response, "Response tokens")? <= 0.0 {
                continue;
            }
            let length = |position: usize| number(position, records.header.get(position).map_or("", String::as_str));
            let seconds = time.and_then(|position| fields.get(position)).and_then(|text| python_float(text));
            rows.push((length(2)?.max(0.0) as u64, length(3)? as i64, seconds));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::context::with_builtin;

    #[test]
    fn a_replay_keeps_order_and_times() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let rows = "Timestamp,Model,Request tokens,Response tokens\n100,GPT-4,3,1\n101,ChatGPT,9,9\n104.5,GPT-4,4,2\n";
        std::fs::write(file.path(), rows).unwrap();
        let selection = Selection { num_prompts: 9, shuffle: true, oversample: true, ..Selection::default() };
        let burst = BurstGptSpec { path: file.path().to_path_buf(), selection };
        let spec = BurstReplaySpec { burst, time_scale: 2.0 };
        let requests = with_builtin(|context| replay(&spec, context)).unwrap().requests;
        let seen: Vec<_> =
            requests.iter().map(|request| (request.prompt_len, request.output_len, request.timestamp)).collect();
        assert_eq!(seen, [(3, 1, Some(0.0)), (4, 2, Some(9.0))]);
    }
}
