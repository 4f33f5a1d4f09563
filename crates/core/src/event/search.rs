//! Notes of a search for the largest load.

use super::note::notes;

notes! {
    /// Notes of a search for the largest load within a service level.
    SearchNote, layout;
    Begins(criteria: Vec<String>) => format!("[SLA START]\nSLA criteria: {}", criteria.join(", "));
    Omitted => "Omitting SLA search.";
    From { load: Load, level: f64 } => format!("Initial {} to search: {level} {}.", load.key, load.unit);
    TakesAtMost { seconds: f64 } => format!(
        "Runs take {} at most (--sla-budget), less where the answer is known sooner.",
        spoken_time(*seconds)
    );
    Testing { load: Load, level: f64 } => format!("Testing {}: {level} {}", load.key, load.unit);
    Criterion { metric: String, mean: f64, condition: String, met: bool } => {
        let verdict = if *met { "PASSED" } else { "FAILED" };
        format!("Validating SLA: {metric} = {mean:.2}{condition} | {verdict}")
    };
    NotSustained { overloaded: usize, runs: usize } => format!(
        "Not sustained: in {overloaded} of {runs} runs the server did not keep up with the load, or requests failed"
    );
    Verdict { met: bool } => format!("SLA criteria are {}met.", if *met { "" } else { "not " });
    /// What was measured at each level, where it broke and why.
    Table { load: Load, metrics: Vec<String>, rows: Vec<SearchRow> } => layout.search_table(*load, metrics, rows);
    Range { load: Load, left: f64, right: f64 } =>
        format!("Range of {} to search: [{left}, {right}] {}.", load.key, load.unit);
    Most { load: Load, most: Most } => answer(*load, most);
    /// Where no level meets the criteria: the one that comes nearest, with numbers as `p99_ttft_ms = 350.20<=200.00`.
    Nearest { load: Load, level: f64, found: Vec<String>, sustained: bool } => {
        let kept_up = if *sustained { "" } else { ", and the server did not keep up with it" };
        format!("Nearest is {} {level} {}: {}{kept_up}.", load.key, load.unit, found.join(", "))
    };
    Stopped { reason: String } => format!("The search stopped: {reason}.");
    Inconclusive { why: String } => format!("Inconclusive: {why}");
    NotMonotone { load: Load } =>
        format!("{}: a level passed although a lower one failed; the answer is the lower one", load.key);
    ClientDoubted { load: Load, level: f64, verdict: String } =>
        format!("{} {level}: {verdict}; the server may be able to do more than was found", load.key);
    Ends => "[SLA END]";
}

fn spoken_time(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} seconds") } else { format!("{:.0} minutes", seconds / 60.0) }
}

/// The headline: the largest load that was measured and met, then the estimate with its range.
fn answer(Load { key, unit }: Load, most: &Most) -> String {
    match most {
        Most::Nothing => format!("Maximum {key} for SLA: no feasible value."),
        Most::Unbounded(top) => format!("Maximum {key} for SLA: unbounded (>= {top})."),
        Most::AllPrompts(top) => format!(
            "Maximum {key} for SLA: {top} or more: all prompts at a time meet it; more prompts would show more."
        ),
        Most::Level { level, range, spoken } => {
            let estimate = match range {
                Some((value, low, Some(high))) => format!("; estimate {value:.1} (95% CI {low:.1}–{high:.1})"),
                Some((value, low, None)) => format!("; estimate {value:.1} (at least {low:.1})"),
                None => String::new(),
            };
            format!("Maximum {key} for SLA: {level} {unit}, measured and met{estimate}, for {}.", spoken.join(" and "))
        }
    }
}

/// What a search varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its key.
    pub key: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

/// The largest load within the criteria.
#[derive(Debug, Clone, PartialEq)]
pub enum Most {
    /// None.
    Nothing,
    /// Any rate, up to the one that stands for no limit.
    Unbounded(f64),
    /// All prompts at a time.
    AllPrompts(f64),
    /// A load that was measured and met.
    Level {
        /// The load.
        level: f64,
        /// The estimate with the ends of its 95% range; no upper end where no load fails for certain.
        range: Option<(f64, f64, Option<f64>)>,
        /// The criteria, as people say them.
        spoken: Vec<String>,
    },
}

/// A level of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRow {
    /// The level.
    pub level: f64,
    /// How often it was run.
    pub runs: usize,
    /// The criteria's numbers, on average.
    pub means: Vec<f64>,
    /// Requests that were answered in a second.
    pub answered: f64,
    /// Whether the criteria are met.
    pub met: bool,
    /// Whether it was within the targets, which may have been luck.
    pub doubtful: bool,
    /// Whether it was looked at only briefly.
    pub brief: bool,
    /// Whether the server kept up.
    pub sustained: bool,
    /// Whether the client was not reliable in a run.
    pub client_unreliable: bool,
}
