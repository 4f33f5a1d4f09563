//! `burstgpt`: the lengths of recorded GPT-4 requests, with made-up text.

use std::path::PathBuf;

use rayon::prelude::*;
use tacho_core::{Counters, Request};
use tacho_pyrand::RandomState;
use tacho_text::Tokenizer;

use crate::Error;
use crate::lengths::python_float;
use crate::selection::Selection;
use crate::sources::csv::Records;
use crate::spec::Sampled;

/// Settings of the dataset. Rows are drawn, so shuffling and repeating do not apply.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstGptSpec {
    /// The CSV file.
    pub path: PathBuf,
    /// Which rows.
    pub selection: Selection,
}

/// Prompt and output length of a row.
type Lengths = (u64, u64);

/// Makes the requests; the global generators are not touched.
pub(crate) fn sample(
    spec: &BurstGptSpec,
    tokenizer: Option<&Tokenizer>,
    counters: &Counters,
) -> Result<Sampled, Error> {
    let tokenizer = tokenizer.ok_or(Error::NoTokenizer { dataset: "burstgpt" })?;
    let selection = &spec.selection;
    let seed = u32::try_from(selection.seed).map_err(|_| Error::SeedOutOfRange { seed: selection.seed })?;
    let rows = spec.lengths()?;
    let count =
        usize::try_from(selection.num_prompts).map_err(|_| Error::NegativeCount { count: selection.num_prompts })?;
    let mut state = RandomState::new(seed);
    let chosen = if count <= rows.len() {
        state.choice_distinct(rows.len(), count)
    } else if rows.is_empty() {
        return Err(Error::NoMatchingRow { path: spec.path.clone() });
    } else {
        state.choice_replacing(rows.len(), count)
    };
    let vocab_size = tokenizer.vocab_size().max(1);
    let request = |(index, &row): (usize, &usize)| {
        let (input, output) = rows[row];
        let ids: Vec<u32> = (0..input as usize).map(|place| ((index + place) % vocab_size) as u32).collect();
        counters.finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Request { id: selection.id(index), ..Request::text(tokenizer.decode(&ids), input, output) }
    };
    let requests = chosen.par_iter().enumerate().map(request).collect();
    Ok(Sampled { requests, notices: Vec::new() })
}

impl BurstGptSpec {
    /// The rows of GPT-4 that were answered. They are found by the names of columns, but lengths by their places.
    fn lengths(&self) -> Result<Vec<Lengths>, Error> {
        let records = Records::read(&self.path)?;
        let column =
            |name| records.column(name).ok_or_else(|| Error::NoColumn { path: self.path.clone(), column: name });
        let (model, response) = (column("Model")?, column("Response tokens")?);
        let mut lengths = Vec::new();
        for (line, fields) in &records.rows {
            let number = |place: usize, field: &str| {
                fields.get(place).and_then(|text| python_float(text)).filter(|number| number.is_finite()).ok_or_else(
                    || Error::LineField {
                        path: self.path.clone(),
                        line: *line,
                        field: field.to_owned(),
                        expected: "a number",
                    },
                )
            };
            if fields.get(model).map(String::as_str) != Some("GPT-4") || number(response, "Response tokens")? <= 0.0 {
                continue;
            }
            let length = |place: usize| number(place, records.header.get(place).map_or("", String::as_str));
            lengths.push((length(2)?.max(0.0) as u64, length(3)?.max(0.0) as u64));
        }
        Ok(lengths)
    }
}
