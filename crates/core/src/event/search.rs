//! Notes of a search for the maximum load.

use super::note::notes;

notes! {
    /// Notes of a search for the maximum load that meets the SLO.
    SearchNote, layout;
    Begins(criteria: Vec<String>) => format!("[SLA START]\nSLA criteria: {}", criteria.join(", "));
    Omitted => "Omitting SLA search.";
    From { load: Load, level: f64 } => format!("Initial {} to search: {}.", load.key, load.amount(*level));
    TakesAtMost { seconds: f64, flag: &'static str } => format!(
        "Runs take {} at most ({flag}), less where the answer is known sooner.",
        spoken_time(*seconds)
    );
    Testing { load: Load, level: f64 } => format!("Testing {}: {}", load.key, load.amount(*level));
    Criterion { metric: String, mean: f64, condition: String, met: bool } => {
        let verdict = if *met { "PASSED" } else { "FAILED" };
        format!("Validating SLA: {metric} = {mean:.2}{condition} | {verdict}")
    };
    NotSustained { overloaded: usize, runs: usize } => format!(
        "Not sustained: in {overloaded} of {runs} runs the server did not keep up with the load, or requests failed"
    );
    Verdict { met: bool } => format!("SLA criteria are {}met.", if *met { "" } else { "not " });
    /// The measured levels, which of them failed, and why.
    Table { load: Load, metrics: Vec<String>, rows: Vec<SearchRow> } => layout.search_table(*load, metrics, rows);
    Range { load: Load, left: f64, right: f64 } =>
        format!("Range of {} to search: [{left}, {}] {}.", load.key, level_text(*right), load.unit);
    Most { load: Load, most: Most } => answer(*load, most);
    /// The level that comes closest if none meets the criteria, with metrics such as `p99_ttft_ms = 350.20<=200.00`.
    Nearest { load: Load, level: f64, found: Vec<String>, sustained: bool } => {
        let kept_up = if *sustained { "" } else { ", and the server did not keep up with it" };
        format!("Nearest is {} {}: {}{kept_up}.", load.key, load.amount(*level), found.join(", "))
    };
    Stopped { reason: String } => format!("The search stopped: {reason}.");
    Inconclusive { why: String } => format!("Inconclusive: {why}");
    NotMonotone { load: Load } =>
        format!("{}: a level passed although a lower one failed; the answer is the lower one", load.key);
    ClientUnreliable { load: Load, level: f64, verdict: String } =>
        format!("{} {level}: {verdict}; it may have decided whether this level passes", load.key);
    Ends => "[SLA END]";
}

fn spoken_time(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} seconds") } else { format!("{:.0} minutes", seconds / 60.0) }
}

/// The headline: the highest measured load that meets the criteria, then the estimate with its range.
fn answer(Load { key, unit }: Load, most: &Most) -> String {
    match most {
        Most::Infeasible => format!("Maximum {key} for SLA: no feasible value: even the lowest load fails."),
        Most::NotFound => format!("Maximum {key} for SLA: not found."),
        Most::Unlimited => format!("Maximum {key} for SLA: unlimited."),
        Most::AllPrompts(top) => {
            format!("Maximum {key} for SLA: {top} or more: all at a time meet it; a longer run would show more.")
        }
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

/// A load as text; an unlimited one is infinite.
pub fn level_text(level: f64) -> String {
    if level.is_finite() { level.to_string() } else { "unlimited".to_owned() }
}

/// The parameter that a search varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its key.
    pub key: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

impl Load {
    fn amount(self, level: f64) -> String {
        if level.is_finite() { format!("{level} {}", self.unit) } else { level_text(level) }
    }
}

/// The maximum load that meets the criteria.
#[derive(Debug, Clone, PartialEq)]
pub enum Most {
    /// No load meets them.
    Infeasible,
    /// No load is known to meet them.
    NotFound,
    /// Any request rate meets them.
    Unlimited,
    /// All prompts in flight at once.
    AllPrompts(f64),
    /// A measured load that meets them.
    Level {
        /// The load.
        level: f64,
        /// The estimate and its 95% range; no upper end if no load fails with confidence.
        range: Option<(f64, f64, Option<f64>)>,
        /// The criteria in words.
        spoken: Vec<String>,
    },
}

/// A measured level of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRow {
    /// The level.
    pub level: f64,
    /// The number of runs.
    pub runs: usize,
    /// The mean of each criterion's metric, with the key of the metric: it says which part of the runs it is of.
    pub means: Vec<(String, f64)>,
    /// Completed requests per second.
    pub answered: f64,
    /// Whether the criteria are met.
    pub met: bool,
    /// Whether the mean meets the criteria but not with confidence.
    pub doubtful: bool,
    /// Whether only a short run was made.
    pub brief: bool,
    /// Whether the server kept up with the load.
    pub sustained: bool,
    /// Whether the client was unreliable in any run.
    pub client_unreliable: bool,
}
