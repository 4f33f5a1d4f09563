//! `tacho startup`.

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_metrics::offline::{Phase, Start, Startup, percentiles};
use tacho_metrics::statistics::mean;

use super::{floats, percentile_dict, records::Metric};
use crate::style::two;

const WIDTH: usize = 60;
const PHASES: [(Phase, &str); 2] = [(Phase::Cold, "COLD STARTUP:"), (Phase::Warm, "WARM STARTUP:")];

/// The phases with data: a run that ended early has no warm one.
fn finished(record: &Startup) -> impl Iterator<Item = (Phase, &'static str)> {
    PHASES.into_iter().filter(|(phase, _)| !record.starts(*phase).is_empty())
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), characters.as_str()))
}

pub(super) fn lines(record: &Startup) -> Vec<String> {
    let rule = "=".repeat(WIDTH);
    let mut lines = vec![String::new(), rule.clone(), "STARTUP TIME BENCHMARK RESULTS".to_owned(), rule.clone()];
    for (phase, heading) in finished(record) {
        lines.extend([String::new(), heading.to_owned()]);
        let metrics = record.metrics(phase);
        for (metric, values) in &metrics {
            lines.push(format!("Avg {} time: {} seconds", metric.replace('_', " "), two(mean(values))));
        }
        for (metric, values) in &metrics {
            lines.push(format!("{} time percentiles:", capital(&metric.replace('_', " "))));
            lines.extend(percentiles(values).iter().map(|(p, value)| format!("  {p}%: {} seconds", two(*value))));
        }
    }
    lines.push(rule);
    lines.extend(tacho_lines(record));
    lines
}

/// What vLLM omits: the import, and the total time.
fn tacho_lines(record: &Startup) -> Vec<String> {
    let average = |starts: &[Start], of: fn(&Start) -> f64| two(mean(&starts.iter().map(of).collect::<Vec<_>>()));
    let mut lines = Vec::new();
    for (phase, _) in finished(record) {
        let starts = record.starts(phase);
        let (import, wall) = (average(starts, |start| start.import), average(starts, |start| start.wall));
        lines.push(format!("From process start to ready ({}): {wall} seconds, {import} of them imports", phase.name()));
    }
    lines.push(
        "Cold means empty vLLM, inductor and Triton caches; weights and the system's page cache stay warm.".to_owned(),
    );
    lines.extend(record.failures.iter().map(|failure| format!("Failed {failure}")));
    lines
}

pub(super) fn keys(record: &Startup, model: &str) -> (Dict, Dict) {
    let mut dict = Dict::new();
    for (_, metrics) in metrics(record) {
        for Metric { name, values, extra } in metrics {
            dict.set(name, values[0]);
            extra.iter().for_each(|(key, value)| dict.set(key, value.clone()));
        }
    }
    let mut tacho = dict! { "model_id": model };
    for (phase, _) in PHASES {
        let values = |of: fn(&Start) -> f64| record.starts(phase).iter().map(of).collect::<Vec<_>>();
        tacho.set(format!("{}_import_times", phase.name()), floats(&values(|start| start.import)));
        tacho.set(format!("{}_wall_times", phase.name()), floats(&values(|start| start.wall)));
    }
    tacho.set("failures", record.failures.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>());
    (dict, tacho)
}

/// The metrics of PyTorch's format, with the suffix of each one's file.
pub(super) fn metrics(record: &Startup) -> Vec<(String, Vec<Metric>)> {
    let mut files = Vec::new();
    for (phase, _) in finished(record) {
        for (metric, values) in record.metrics(phase) {
            let stem = format!("{}_{metric}", phase.name());
            let mut extra = Dict::new();
            extra.set(format!("{stem}_times"), floats(&values));
            extra.set(format!("{stem}_percentiles"), percentile_dict(&percentiles(&values)));
            let entry = Metric { name: format!("avg_{stem}_time"), values: vec![mean(&values)], extra };
            files.push((format!("{stem}.pytorch.json"), vec![entry]));
        }
    }
    files
}
