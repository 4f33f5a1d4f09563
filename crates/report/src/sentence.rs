//! The texts of a run's notes: in vLLM's wording for programs, and for people.

use tacho_core::event::{Layout, Load, Note, SearchRow, Work, level_text};
use tacho_core::json::{Value, quoted};
use tacho_core::secret::redact_words;
use tacho_record::groups::split;
use tacho_record::metric::{Known, is_fraction};

use crate::style::command_lines;
use crate::tables::markdown::Table;

/// The text of a note in vLLM's wording; may have several lines.
pub fn of(note: &Note) -> String {
    note.text(&Upstream)
}

/// The text of a note for a terminal of this width, with commands that can be copied.
pub fn for_person(note: &Note, width: usize) -> String {
    note.text(&Person { width })
}

/// Columns for the text before a command.
const BEFORE: usize = 20;

/// Commands as Python prints a list.
struct Upstream;

impl Layout for Upstream {
    fn command(&self, words: &[String]) -> String {
        let words: Vec<String> = redact_words(words).iter().map(|word| quoted(word)).collect();
        format!("[{}]", words.join(", "))
    }

    fn search_table(&self, load: Load, metrics: &[String], rows: &[SearchRow]) -> String {
        search_table(load, metrics, rows)
    }
}

/// Commands as shell command lines.
struct Person {
    width: usize,
}

impl Layout for Person {
    fn command(&self, words: &[String]) -> String {
        command_lines(&redact_words(words), self.width.saturating_sub(BEFORE))
    }

    fn search_table(&self, load: Load, metrics: &[String], rows: &[SearchRow]) -> String {
        search_table(load, metrics, rows)
    }
}

/// A load, as an integer if possible.
fn number(load: f64) -> Value {
    match load {
        _ if load.is_infinite() => Value::from(level_text(load)),
        _ if load.fract() == 0.0 => Value::Int(load as i64),
        _ => Value::Float(load),
    }
}

/// The measurements at each level, and which SLO was violated.
fn search_table(load: Load, metrics: &[String], rows: &[SearchRow]) -> String {
    // A level whose runs have no steady part is compared by its whole runs: a column of its own.
    let mut keys: Vec<&str> = rows.iter().flat_map(|row| row.means.iter().map(|(key, _)| key.as_str())).collect();
    keys.sort_by_key(|key| (metrics.iter().position(|metric| key.ends_with(metric.as_str())), *key));
    keys.dedup();
    let first = [load.key, "runs"].into_iter().chain(keys.iter().copied());
    let headings = first.chain(["completed/s", "verdict"]).map(str::to_owned).collect();
    let row = |row: &SearchRow| {
        let word = match (row.met, row.sustained) {
            (true, _) if row.brief => "met, brief run",
            (true, _) => "met",
            (false, true) if row.doubtful => "inconclusive",
            (false, true) => "not met",
            (false, false) => "not sustained",
        };
        let level = [number(row.level), Value::from(row.runs)].into_iter();
        let rounded = |number: f64| Value::Float((number * 100.0).round() / 100.0);
        let shown = |key: &str, number: f64| match Known::find(split(key).1).filter(|_| is_fraction(key)) {
            Some(known) => Value::from(known.text(number, 2)),
            None => rounded(number),
        };
        let mean = |key: &str| row.means.iter().find(|(known, _)| known == key).map(|(_, mean)| *mean);
        let numbers = keys
            .iter()
            .map(|key| mean(key).map_or(Value::Null, |mean| shown(key, mean)))
            .chain([rounded(row.answered)]);
        let word = if row.client_unreliable { format!("{word}, client unreliable") } else { word.to_owned() };
        level.chain(numbers).chain([Value::from(word)]).collect()
    };
    Table { headings, rows: rows.iter().map(row).collect() }.markdown().trim_end().to_owned()
}

/// The title of a progress bar.
pub(crate) fn title(work: Work) -> &'static str {
    match work {
        Work::Downloading => "downloading",
        Work::Sampling => "sampling",
        Work::WaitingForServer => "waiting for the server",
        Work::WarmUp => "warm-up",
        Work::Benchmark => "benchmark",
        Work::Sweep => "sweep",
        Work::Suite => "suite",
        Work::Settings => "settings",
        Work::Selfcheck => "selfcheck",
        Work::WarmupIterations => "Warmup iterations",
        Work::BenchIterations => "Bench iterations",
        Work::ColdStarts => "Cold startup iterations",
        Work::WarmStarts => "Warm startup iterations",
    }
}

/// The unit of a progress bar, and the number of counted pieces per unit.
pub(crate) fn unit(work: Work) -> (&'static str, u64) {
    match work {
        Work::Downloading => ("MB/s", 1_000_000),
        Work::Sweep | Work::Suite | Work::Settings => ("run/s", 1),
        _ => ("req/s", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_whose_client_was_not_reliable_is_marked() {
        let row = |level: f64, client_unreliable: bool| SearchRow {
            level,
            runs: 2,
            means: vec![("p99_ttft_ms".to_owned(), 150.0)],
            answered: level,
            met: true,
            doubtful: false,
            brief: false,
            sustained: true,
            client_unreliable,
        };
        let load = Load { key: "request_rate", unit: "req/s" };
        let text = search_table(load, &["p99_ttft_ms".to_owned()], &[row(40.0, false), row(80.0, true)]);
        let marked: Vec<&str> = text.lines().filter(|line| line.contains("met, client unreliable")).collect();
        assert!(marked.len() == 1 && marked[0].contains("80"), "{text}");
    }
}
