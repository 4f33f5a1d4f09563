//! A table of the adapters that were asked for: whether one of them is slower than the others.

use std::collections::BTreeMap;

use tacho_metrics::percentile::percentile;
use tacho_metrics::{RunRecord, Sample};

use crate::html::escape;
use crate::style::two;

/// Adapters that have a row of their own.
const SHOWN: usize = 100;

/// The section; nothing for a run without adapters.
pub(super) fn section(record: &RunRecord) -> String {
    let mut by_name: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &record.measured.samples {
        if let Some(name) = sample.lora.as_deref() {
            by_name.entry(name).or_default().push(sample);
        }
    }
    if by_name.is_empty() {
        return String::new();
    }
    let more = by_name.len().saturating_sub(SHOWN);
    let rows: String = by_name.into_iter().take(SHOWN).map(|(name, samples)| row(name, &samples)).collect();
    let more = if more > 0 { format!("<p class=\"note\">{more} more are not shown.</p>") } else { String::new() };
    format!(
        "<section><h2>By adapter</h2>\n<div class=\"wide\"><table class=\"cells\"><tr><th>adapter</th><th>answers</th>\
         <th>failed</th><th>TTFT median, ms</th><th>TTFT p99, ms</th><th>E2EL median, ms</th><th>E2EL p99, ms</th>\
         <th>tokens out</th></tr>\n{rows}</table></div>{more}</section>\n"
    )
}

fn row(name: &str, samples: &[&Sample]) -> String {
    let good: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.success()).collect();
    let times = |of: fn(&Sample) -> f64| {
        let mut times: Vec<f64> = good.iter().map(|sample| of(sample) * 1e3).collect();
        times.sort_unstable_by(f64::total_cmp);
        [50.0, 99.0].map(|rung| if times.is_empty() { "–".to_owned() } else { two(percentile(&times, rung)) })
    };
    let [ttft, ttft_p99] = times(|sample| sample.ttft);
    let [e2el, e2el_p99] = times(|sample| sample.latency);
    let tokens: u64 = good.iter().map(|sample| sample.output_len).sum();
    let (answers, failed) = (good.len(), samples.len() - good.len());
    let cells = [answers.to_string(), failed.to_string(), ttft, ttft_p99, e2el, e2el_p99, tokens.to_string()];
    let cells: String = cells.iter().map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
    format!("<tr><th>{}</th>{cells}</tr>\n", escape(name))
}
