//! `tacho mm-processor`.

use tacho_core::dict;
use tacho_core::json::{Dict, Json, Value, float_repr};
use tacho_metrics::offline::{MmProcessor, StageStatistics};

use crate::style::{percent, two};

const WIDTH: usize = 80;

/// The report, up to the line about saved results.
pub(super) fn lines(record: &MmProcessor) -> Vec<String> {
    let rule = "=".repeat(WIDTH);
    let heading = "Multimodal Processor Benchmark Results".to_owned();
    let mut lines = vec![String::new(), rule.clone(), heading, rule, String::new(), "MM Processor Metrics:".to_owned()];
    lines.extend(stage_table(record));
    if let Some((calls, requests)) = record.encoder {
        lines.push(String::new());
        lines.push(format!("Summary: {calls} total encoder calls across {requests} requests."));
    }
    lines.extend([String::new(), "End-to-End Latency (ms):".to_owned()]);
    lines.extend(e2e_table(&record.e2e));
    lines
}

fn stage_table(record: &MmProcessor) -> Vec<String> {
    if record.stages.is_empty() {
        return ["Empty DataFrame", "Columns: []", "Index: []"].map(str::to_owned).to_vec();
    }
    let mut header = vec!["Stage".to_owned(), "Mean".to_owned(), "Median".to_owned(), "Std".to_owned()];
    let (_, first) = &record.stages[0];
    header.extend(first.percentiles.iter().map(|(percent, _)| format!("P{}", float_repr(*percent))));
    let row = |(name, stage): &(String, StageStatistics)| {
        let mut cells = vec![name.clone(), two(stage.mean), two(stage.median), two(stage.std)];
        cells.extend(stage.percentiles.iter().map(|(_, value)| two(*value)));
        cells
    };
    table(std::iter::once(header).chain(record.stages.iter().map(row)).collect())
}

fn e2e_table(e2e: &StageStatistics) -> Vec<String> {
    let mut rows = vec![
        ["Metric".to_owned(), "Value (ms)".to_owned()],
        ["Mean".to_owned(), two(e2e.mean)],
        ["Median".to_owned(), two(e2e.median)],
        ["Std".to_owned(), two(e2e.std)],
    ];
    rows.extend(e2e.percentiles.iter().map(|(percent, value)| [format!("P{}", float_repr(*percent)), two(*value)]));
    table(rows.into_iter().map(Vec::from).collect())
}

/// Right-aligned columns, separated by a space.
fn table(rows: Vec<Vec<String>>) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join(" ")
    };
    rows.iter().map(line).collect()
}

pub(super) fn keys(record: &MmProcessor, model: &str) -> (Dict, Dict) {
    let stages = record.stages.iter().map(|(name, stage)| (name.clone(), stage_dict(stage)));
    let encoder = record.encoder.map_or_else(Dict::new, |(calls, requests)| {
        dict! { "total_encoder_calls": calls, "num_requests_with_encoder_calls": requests }
    });
    let config = dict! {
        "model": model,
        "num_prompts": record.num_prompts,
        "input_len": record.input_len,
        "output_len": record.output_len,
    };
    let keys = dict! {
        "completed": record.completed,
        "failed": record.failed,
        "mean_e2el_ms": record.e2e.mean,
        "median_e2el_ms": record.e2e.median,
        "std_e2el_ms": record.e2e.std,
        "percentiles_e2el_ms": record.e2e.percentiles.to_json(),
        "mm_processor_stats": stages.collect::<Dict>(),
        "encoder_summary": encoder,
        "config": config,
        "timestamp": record.timestamp.as_str(),
    };
    (keys, dict! { "e2el_is_average": record.e2e_is_average })
}

/// vLLM writes `p99.0`; the plain `p99` is added.
fn stage_dict(stage: &StageStatistics) -> Value {
    let mut dict = dict! { "mean": stage.mean, "median": stage.median, "std": stage.std };
    for (at, value) in &stage.percentiles {
        dict.set(format!("p{}", float_repr(*at)), *value);
    }
    for (at, value) in &stage.percentiles {
        dict.set(format!("p{}", percent(*at)), *value);
    }
    Value::Dict(dict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_to_the_right() {
        let rows = [["Stage", "Mean", "Std"], ["get_mm_hashes_ms", "12.34", "100.00"], ["x", "1.00", "0.00"]];
        let lines = table(rows.map(|row| row.map(str::to_owned).to_vec()).to_vec());
        assert_eq!(
            lines,
            ["           Stage  Mean    Std", "get_mm_hashes_ms 12.34 100.00", "               x  1.00   0.00"]
        );
    }
}
