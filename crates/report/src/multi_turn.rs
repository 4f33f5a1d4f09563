//! The output of a multi-turn benchmark, in the layout of vLLM's script. All columns are always shown.

use std::{collections::HashMap, fmt::Write, path::Path};

use tacho_core::json::{Value, dumps_indented};
use tacho_metrics::multi_turn::TurnSample;

use crate::tables::workbook::{self, Sheet, SheetRow};
use crate::{Error, style::harmless_line, tables::describe::Describe};

pub const SEPARATOR: &str =
    "----------------------------------------------------------------------------------------------------";

/// The facts in the report other than samples.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Names and values of the run's settings.
    pub parameters: Vec<(String, Value)>,
    /// How conversations were generated, if they were.
    pub generator: Vec<(String, String)>,
    /// Percentages of the first samples to exclude, from 0 to below 100.
    pub warmup_percentages: Vec<f64>,
    /// Seconds of the warm-up step.
    pub warmup_runtime_sec: Option<f64>,
    /// Whether the time between a user's messages is shown.
    pub verbose: bool,
}

impl Summary {
    pub fn text(&self, samples: &[TurnSample]) -> String {
        let mut out = format!("{SEPARATOR}\nParameters:\n");
        for (name, value) in &self.parameters {
            writeln!(out, "{name}={}", shown(value)).expect("a text can be written to");
        }
        if !self.generator.is_empty() {
            out += "Conversations Generation Parameters:\n";
            for (name, value) in &self.generator {
                writeln!(out, "{name}={value}").expect("a text can be written to");
            }
        }
        out += &format!("{SEPARATOR}\n");
        for block in self.blocks(samples) {
            out += &block.text();
        }
        out
    }

    /// One block per excluded percentage.
    fn blocks(&self, samples: &[TurnSample]) -> Vec<Block> {
        let (sorted, gaps) = in_order(samples);
        let all = sorted.len();
        let block = |percent: &f64| {
            let skipped = (percent / 100.0 * all as f64) as usize;
            self.block(*percent, &sorted[skipped..], &gaps[skipped..], all)
        };
        self.warmup_percentages.iter().map(block).collect()
    }

    fn block(&self, percent: f64, samples: &[TurnSample], gaps: &[Option<f64>], all: usize) -> Block {
        let mut percentiles = vec![25.0, 50.0, 75.0, 90.0];
        percentiles.extend(
            [(100, 99.0), (1000, 99.9), (10_000, 99.99)].iter().filter(|(min, _)| all >= *min).map(|(_, p)| *p),
        );
        let mut table = Describe::new(&percentiles);
        let names = samples.first().map(|sample| sample.metrics().map(|(name, _)| name)).unwrap_or_default();
        for (at, name) in names.iter().enumerate() {
            table.row(name, &samples.iter().map(|sample| sample.metrics()[at].1).collect::<Vec<f64>>());
        }
        if self.verbose {
            table.row("time_between_user_turns_sec", &gaps.iter().copied().flatten().collect::<Vec<f64>>());
        }
        // As in vLLM: up to the end of the sample that started last.
        let runtime = match samples {
            [first, .., last] => (last.end_time_ms() - first.start_time_ms) / 1000.0,
            [only] => only.latency_ms / 1000.0,
            [] => 0.0,
        };
        let mut numbers = vec![("runtime_sec", runtime), ("requests_per_sec", samples.len() as f64 / runtime)];
        if let Some(warmup) = self.warmup_runtime_sec {
            numbers.push(("warmup_runtime_sec", warmup));
            numbers.push(("total_runtime_incl_warmup_sec", runtime + warmup));
        }
        let several = self.warmup_percentages.iter().any(|percent| *percent > 0.0);
        Block { percent: several.then_some(percent), numbers, table }
    }

    pub fn write_workbook(&self, path: &Path, samples: &[TurnSample]) -> Result<(), Error> {
        workbook::write(path, &self.sheets(samples))
    }

    fn sheets(&self, samples: &[TurnSample]) -> [Sheet; 2] {
        let mut summary = named_row(self.parameters.iter().map(|(name, value)| (name.as_str(), value.clone())));
        if !self.generator.is_empty() {
            summary
                .extend(named_row(self.generator.iter().map(|(name, value)| (name.as_str(), value.as_str().into()))));
            summary.push(SheetRow::plain(Vec::new()));
        }
        summary.push(SheetRow::plain(Vec::new()));
        for block in self.blocks(samples) {
            summary.extend(block.rows());
        }
        let (sorted, gaps) = in_order(samples);
        let mut raw = Vec::new();
        for (sample, gap) in sorted.iter().zip(gaps) {
            let mut dict = sample.to_json();
            if self.verbose {
                dict.set("time_between_user_turns_sec", gap);
            }
            dict.set("end_time_ms", sample.end_time_ms());
            if raw.is_empty() {
                raw.push(SheetRow::heading(dict.iter().map(|(key, _)| Value::from(key)).collect()));
            }
            raw.push(SheetRow::plain(dict.iter().map(|(_, value)| value.clone()).collect()));
        }
        [Sheet { name: "Summary".into(), rows: summary }, Sheet { name: "Raw data".into(), rows: raw }]
    }
}

struct Block {
    percent: Option<f64>,
    numbers: Vec<(&'static str, f64)>,
    table: Describe,
}

impl Block {
    fn text(&self) -> String {
        let mut out = match self.percent {
            Some(percent) => format!("Statistics summary (assuming {percent:.0}% warmup samples):\n"),
            None => "Statistics summary:\n".to_owned(),
        };
        for (name, value) in &self.numbers {
            writeln!(out, "{name} = {value:.3}").expect("a text can be written to");
        }
        out + &format!("{SEPARATOR}\n{}\n{SEPARATOR}\n", self.table.text(2))
    }

    fn rows(&self) -> Vec<SheetRow> {
        let mut rows = named_row(self.numbers.iter().map(|(name, value)| (*name, Value::Float(*value))));
        let headings = std::iter::once(Value::Null).chain(self.table.headings().into_iter().map(Value::from));
        rows.push(SheetRow::heading(headings.collect()));
        for (name, values) in self.table.rows() {
            let cells = values.iter().map(|value| if value.is_nan() { Value::Null } else { Value::Float(*value) });
            rows.push(SheetRow::plain(std::iter::once(Value::from(name)).chain(cells).collect()));
        }
        rows.extend([(); 2].map(|()| SheetRow::plain(Vec::new())));
        rows
    }
}

/// A row of values under their names, and an empty row.
fn named_row<'a>(values: impl Iterator<Item = (&'a str, Value)>) -> Vec<SheetRow> {
    let (names, values) = values.map(|(name, value)| (Value::from(name), value)).unzip();
    vec![SheetRow::heading(names), SheetRow::plain(values), SheetRow::plain(Vec::new())]
}

/// The samples in send order, and the seconds since the previous message of the same conversation.
fn in_order(samples: &[TurnSample]) -> (Vec<TurnSample>, Vec<Option<f64>>) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|left, right| left.start_time_ms.total_cmp(&right.start_time_ms));
    let (mut last, mut gaps) = (HashMap::new(), Vec::with_capacity(sorted.len()));
    for sample in &sorted {
        let before = last.insert(sample.conversation_id.clone(), sample.start_time_ms);
        gaps.push(before.map(|before| (sample.start_time_ms - before) / 1000.0));
    }
    (sorted, gaps)
}

pub fn samples_json(samples: &[TurnSample]) -> String {
    dumps_indented(&samples.iter().map(|sample| Value::Dict(sample.to_json())).collect::<Vec<Value>>().into(), 2)
}

/// As Python prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Str(text) => harmless_line(text),
        other => tacho_core::json::dumps(other),
    }
}

#[cfg(test)]
mod tests;
