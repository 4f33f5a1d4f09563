//! `sweep serve_sla`: the largest load at which a server meets SLOs, by the search of `decide`. Runs are shared between SLOs.

mod answers;
mod pair;
mod search;

use std::path::{Path, PathBuf};

use tacho_core::json::{Value, parse, python_str};
use tacho_decide::search::{Criterion, SearchAnswer};
use tacho_record::{groups::split, metric::Known};

use self::{answers::Answers, pair::Pair};
use super::session::{Sweep, SweepPlan};
use super::workload::LoadVariable;
use crate::experiment::{Error, ParamSet, Report, Tools, clean, spelled};

#[derive(Debug, Clone)]
pub struct SlaPlan {
    pub sweep: SweepPlan,
    pub variable: LoadVariable,
    /// The SLOs; all criteria of one must hold.
    pub targets: Vec<Vec<Criterion>>,
    /// Relative precision of the result; 0 bisects down to single steps.
    pub tolerance: f64,
    /// Duration of a deciding run in seconds; by default as long as the SLOs need.
    pub seconds: Option<f64>,
    /// Time budget of a search in seconds: after it, no run is made only to narrow the range.
    pub budget: f64,
    /// Longest duration in seconds of the first run, at the largest load; otherwise its prompts determine it.
    pub first_run: Option<f64>,
    /// Whether the client can start its users one after the other (`--concurrency-ramp-up`).
    pub ramps: bool,
    /// The flags that have the SLOs and that extend the search and its runs, for messages.
    pub flags: SearchFlags,
}

#[derive(Debug, Clone, Copy)]
pub struct SearchFlags {
    pub slo: &'static str,
    pub budget: &'static str,
    pub seconds: &'static str,
}

/// Shortest and longest duration of a decision, in seconds.
const SECONDS: (f64, f64) = (5.0, 120.0);
/// Duration of a decision as a multiple of the largest allowed latency: a load 2% above capacity has then built up that
/// much delay. [`REQUESTS`] may shorten it.
const LATENCIES: f64 = 50.0;
/// Most requests of a decision: they show a throughput 2% below the arrival rate, whatever the allowed latency.
const REQUESTS: f64 = 10_000.0;
/// Least mean latencies of a decision: while the first requests are in flight, the backlog can only grow.
const RESPONSES: f64 = 4.0;
/// Largest fraction of the budget of a decision, so that several fit.
const DECISION_FRACTION: f64 = 0.2;
/// Largest fraction of the budget of a single run.
const RUN_FRACTION: f64 = 0.25;

impl SlaPlan {
    /// Duration of a run that shows whether the rate is sustained; `response` is the mean latency in seconds.
    fn seconds(&self, rate: f64, response: f64) -> f64 {
        let limits = self.targets.iter().flatten().filter_map(Criterion::limit_seconds);
        let queued = LATENCIES * limits.fold(0.0, f64::max);
        let longest = (DECISION_FRACTION * self.budget).clamp(SECONDS.0, SECONDS.1);
        let needed = queued.min(REQUESTS / rate).clamp(SECONDS.0, longest);
        self.seconds.unwrap_or(needed.max(RESPONSES * response))
    }
}

/// The SLOs in a file; `path` is for error messages.
pub fn parse_targets(path: &Path, text: &str) -> Result<Vec<Vec<Criterion>>, Error> {
    let sets = crate::experiment::parse_params(path, text)?;
    if !matches!(parse(text), Ok(Value::List(_))) {
        return Err(Error::file(path, "must be a list of objects or an object of named objects, not an object"));
    }
    let wrong = |problem: String| Error::Targets { path: path.to_owned(), problem };
    let criterion = |(key, value): (&str, &Value)| -> Result<Criterion, Error> {
        let criterion = Criterion::parse(key, &python_str(value)).map_err(|fault| wrong(fault.to_string()))?;
        Known::require(split(&criterion.metric).1).map_err(|error| wrong(error.to_string()))?;
        Ok(criterion)
    };
    let read = |(at, set): (usize, ParamSet)| {
        let criteria = set.params().map(criterion).collect::<Result<Vec<Criterion>, Error>>()?;
        let none = || wrong(format!("item {at} has no criterion: write such as {{\"p99_ttft_ms\": \"<=200\"}}"));
        if criteria.is_empty() { Err(none()) } else { Ok(criteria) }
    };
    sets.into_iter().enumerate().map(read).collect()
}

/// Runs the searches. Returns the answers of this run; those of earlier runs are in `sla_summary.json` too.
pub fn sla(plan: &SlaPlan, tools: Tools<'_>) -> Result<(Report, Vec<SearchAnswer>), Error> {
    let (sweep, archive) = (&plan.sweep, tools.archive);
    plan.variable.check(&sweep.bench_sets, "the search")?;
    sweep.check()?;
    // The number of runs of a search is not known in advance.
    let mut session = Sweep::of(sweep, tools, 0);
    let mut answers = Answers::stored(archive, &sweep.experiment);
    for serve in &sweep.serve_sets {
        let position = |bench: &ParamSet| base(&sweep.experiment, serve, bench);
        let open = sweep
            .bench_sets
            .iter()
            .any(|bench| plan.targets.iter().any(|target| archive.value(&marker(&position(bench), target)).is_none()));
        let first = sweep.bench_sets.first().map(|bench| {
            let pair = Pair { plan, serve, bench, base: position(bench) };
            level_directory(plan, &pair.base, pair.top())
        });
        let needed = open && first.is_some_and(|directory| !session.has_runs(&directory, sweep.num_runs));
        session.with_server(serve, open, needed, |session, slot| {
            for bench in &sweep.bench_sets {
                let pair = Pair { plan, serve, bench, base: position(bench) };
                for target in &plan.targets {
                    pair.search(session, slot, target, &mut answers)?;
                }
                session.add_rows(pair.stored(archive).into_iter().flat_map(|level| level.results).collect())?;
            }
            Ok(())
        })?;
    }
    let unmet = answers.unmet();
    Ok((session.finish().map(|report| Report { unmet, ..report })?, answers.found))
}

/// The directory of a pair, by its parameters even if it has a name.
fn base(experiment: &Path, serve: &ParamSet, bench: &ParamSet) -> PathBuf {
    let mut args = Vec::new();
    for (label, set) in [("SERVE-", serve), ("BENCH-", bench)] {
        if !set.is_empty() {
            args.extend([label.to_owned(), set.as_text("-")]);
        }
    }
    experiment.join(clean(&args.join("-")))
}

fn level_directory(plan: &SlaPlan, base: &Path, level: f64) -> PathBuf {
    base.join(format!("{}={}", plan.variable.name(), spelled(level)))
}

/// A load as text; an unlimited one is infinite.
fn load_text(load: f64) -> String {
    if load.is_finite() { load.to_string() } else { "unlimited".to_owned() }
}

/// The file that marks a complete search.
fn marker(base: &Path, target: &[Criterion]) -> PathBuf {
    let conditions: Vec<String> = target.iter().map(Criterion::to_string).collect();
    base.join(clean(&format!("SLA--{}.json", conditions.join("-"))))
}
