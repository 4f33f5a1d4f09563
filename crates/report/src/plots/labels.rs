//! Labels of axes, titles and points: a result key as text, with its unit.

use tacho_core::json::Value;
use tacho_record::metric::Known;

use super::sweep::python_text;

/// Settings with better labels than their names.
const SETTINGS: [(&str, &str); 6] = [
    ("request_rate", "request rate (requests/s)"),
    ("max_concurrency", "maximum concurrency (requests)"),
    ("sessions_concurrency", "concurrency (sessions)"),
    ("num_prompts", "requests"),
    ("random_input_len", "prompt length (tokens)"),
    ("random_output_len", "output length (tokens)"),
];

/// The key as text, with its unit if it has one.
pub(crate) fn key_label(key: &str) -> String {
    let plain = key.replace('-', "_");
    if let Some((_, words)) = SETTINGS.iter().find(|(known, _)| *known == plain) {
        return (*words).to_owned();
    }
    match Known::find(key) {
        Some(Known::Row(number)) if !number.line.is_empty() => number.line.trim_end_matches(':').to_owned(),
        Some(known) => {
            let heading = known.heading(key);
            let words = heading.split(" (").next().unwrap_or(&heading).replace('_', " ");
            match known.unit().text() {
                "" => words,
                unit => format!("{words} ({unit})"),
            }
        }
        None => plain.replace('_', " "),
    }
}

/// The key as text without its unit.
pub(crate) fn bare(key: &str) -> String {
    let words = key_label(key);
    words.split(" (").next().unwrap_or(&words).to_owned()
}

/// A value as text: integers without a decimal point.
pub(crate) fn value_text(value: &Value) -> String {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        other => python_text(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_words_with_units() {
        let words =
            ["p99_ttft_ms", "output_throughput", "max-concurrency", "max_num_seqs", "avg_latency"].map(key_label);
        let expected = [
            "P99 TTFT (ms)",
            "Output token throughput (tok/s)",
            "maximum concurrency (requests)",
            "max num seqs",
            "Mean latency (s)",
        ];
        assert_eq!(words, expected);
        assert_eq!([Value::Float(1.0), Value::Float(0.5), Value::Int(3)].map(|v| value_text(&v)), ["1", "0.5", "3"]);
    }
}
