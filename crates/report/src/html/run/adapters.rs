//! A table of the requested adapters, which shows whether one is slower than the others.

use std::collections::BTreeMap;

use tacho_metrics::Sample;
use tacho_metrics::percentile::percentile;
use tacho_record::RunRecord;

use crate::html::escape;
use crate::style::two;

/// Most adapters with their own row.
const SHOWN: usize = 100;

/// The section; empty for a run without adapters.
pub(super) fn section(record: &RunRecord) -> String {
    let mut by_name: BTreeMap<String, Adapter> = BTreeMap::new();
    for sample in &record.measured.samples {
        if let Some(name) = sample.lora.as_deref() {
            by_name.entry(name.to_owned()).or_default().add(&sample);
        }
    }
    if by_name.is_empty() {
        return String::new();
    }
    let more = by_name.len().saturating_sub(SHOWN);
    let rows: String = by_name.into_iter().take(SHOWN).map(|(name, adapter)| adapter.row(&name)).collect();
    let more = if more > 0 { format!("<p class=\"note\">{more} more are not shown.</p>") } else { String::new() };
    format!(
        "<section><h2>By adapter</h2>\n<div class=\"wide\" tabindex=\"0\"><table class=\"cells\"><tr><th>adapter</th><th>answers</th>\
         <th>failed</th><th>TTFT median, ms</th><th>TTFT p99, ms</th><th>E2EL median, ms</th><th>E2EL p99, ms</th>\
         <th>tokens out</th></tr>\n{rows}</table></div>{more}</section>\n"
    )
}

/// Statistics of the requests of one adapter.
#[derive(Default)]
struct Adapter {
    /// In milliseconds.
    ttfts: Vec<f64>,
    latencies: Vec<f64>,
    tokens: u64,
    failed: usize,
}

impl Adapter {
    fn add(&mut self, sample: &Sample) {
        if !sample.success() {
            self.failed += 1;
            return;
        }
        self.ttfts.push(sample.ttft * 1e3);
        self.latencies.push(sample.latency * 1e3);
        self.tokens += sample.output_len;
    }

    fn row(self, name: &str) -> String {
        let answers = self.ttfts.len();
        let times = |mut times: Vec<f64>| {
            times.sort_unstable_by(f64::total_cmp);
            [50.0, 99.0].map(|rung| if times.is_empty() { "–".to_owned() } else { two(percentile(&times, rung)) })
        };
        let [ttft, ttft_p99] = times(self.ttfts);
        let [e2el, e2el_p99] = times(self.latencies);
        let counts = [answers.to_string(), self.failed.to_string()];
        let cells = counts.into_iter().chain([ttft, ttft_p99, e2el, e2el_p99, self.tokens.to_string()]);
        let cells: String = cells.map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
        format!("<tr><th>{}</th>{cells}</tr>\n", escape(name))
    }
}
