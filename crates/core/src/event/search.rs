//! What a search for the largest load has to say.

/// Notes of a search for the largest load within a service level.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchNote {
    /// It begins, with these criteria.
    Begins(Vec<String>),
    /// Nothing is run, so there is nothing to search.
    Omitted,
    /// Where it begins.
    From {
        /// What is varied.
        load: Load,
        /// The level.
        level: f64,
    },
    /// How long its runs will take at most.
    TakesAtMost {
        /// All of them.
        seconds: f64,
    },
    /// A level's turn.
    Testing {
        /// What is varied.
        load: Load,
        /// The level.
        level: f64,
    },
    /// A criterion at a level.
    Criterion {
        /// The number.
        metric: String,
        /// What it is.
        mean: f64,
        /// What it should be, as `<=200.00`.
        condition: String,
        /// Whether it is.
        met: bool,
    },
    /// The server did not keep up.
    NotSustained {
        /// In this many runs.
        overloaded: usize,
        /// Of these.
        runs: usize,
    },
    /// The verdict on a level.
    Verdict {
        /// Whether all criteria are met.
        met: bool,
    },
    /// All levels: the numbers, and a row each.
    Table {
        /// What is varied.
        load: Load,
        /// The criteria's numbers.
        metrics: Vec<String>,
        /// The levels.
        rows: Vec<SearchRow>,
    },
    /// Where the answer lies.
    Range {
        /// What is varied.
        load: Load,
        /// From here.
        left: f64,
        /// To here.
        right: f64,
    },
    /// The answer, as upstream gives it.
    Most {
        /// What is varied.
        load: Load,
        /// How much of it.
        most: Most,
    },
    /// Where no level meets the criteria: the one that comes nearest.
    Nearest {
        /// What is varied.
        load: Load,
        /// The level.
        level: f64,
        /// Its numbers and what they should be, as `p99_ttft_ms = 350.20<=200.00`.
        found: Vec<String>,
        /// Whether the server kept up.
        sustained: bool,
    },
    /// Why the search made no further run.
    Stopped {
        /// What was asked and what was reached.
        reason: String,
    },
    /// The search decides nothing.
    Inconclusive {
        /// Why.
        why: String,
    },
    /// A level passed although a lower one failed.
    NotMonotone {
        /// What is varied.
        load: Load,
    },
    /// The client may be what broke.
    ClientDoubted {
        /// What is varied.
        load: Load,
        /// The level that broke.
        level: f64,
        /// The verdict on the client.
        verdict: String,
    },
    /// It is over.
    Ends,
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
