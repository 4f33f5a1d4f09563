//! `sweep serve_sla`: the largest load at which a server meets latency targets. Levels are shared between targets;
//! near the boundary a level is repeated until its verdict is more than luck.

use std::path::{Path, PathBuf};

use tacho_core::EventSink;
use tacho_core::json::{Dict, Value, parse, python_str};
use tacho_metrics::search::{Answer, Criterion, Step, Tried, UNLIMITED, Verdict, boundary, bracket, is_monotone, next};

use super::combination::Combination;
use super::session::{Report, Session, Stop, SweepPlan};
use super::workload::LoadVariable;
use crate::experiment::{Archive, Bench, Error, Failure, Host, ParamSet, Slot, Style, clean, run_file};

/// Runs that a level may take beyond the number asked for before its verdict stands as it is.
const MORE_RUNS: usize = 6;

/// A search for the largest load.
#[derive(Debug, Clone)]
pub struct SlaPlan {
    /// The sets, and all that sweeps share.
    pub sweep: SweepPlan,
    /// What is varied.
    pub variable: LoadVariable,
    /// The targets; all criteria of one must hold.
    pub targets: Vec<Vec<Criterion>>,
    /// The share of the answer by which it may be too low.
    pub tolerance: f64,
}

/// The targets in a file; `path` is named in errors.
pub fn parse_targets(path: &Path, text: &str) -> Result<Vec<Vec<Criterion>>, Error> {
    let sets = crate::experiment::parse_params(path, text)?;
    if !matches!(parse(text), Ok(Value::List(_))) {
        return Err(Error::NotAGrid { path: path.to_owned(), found: "an object" });
    }
    let read = |(at, set): (usize, ParamSet)| {
        let criteria: Vec<Criterion> = set
            .params()
            .map(|(key, value)| Criterion::parse(key, &python_str(value)))
            .collect::<Result<_, _>>()
            .map_err(|fault| Error::Criterion { path: path.to_owned(), fault })?;
        if criteria.is_empty() { Err(Error::NoCriterion { path: path.to_owned(), at }) } else { Ok(criteria) }
    };
    sets.into_iter().enumerate().map(read).collect()
}

/// Runs the search. Its answers are in `sla_summary.json`.
pub fn sla(
    plan: &SlaPlan,
    archive: &dyn Archive,
    bench: &dyn Bench,
    host: &dyn Host,
    sink: &dyn EventSink,
) -> Result<Report, Error> {
    let sweep = &plan.sweep;
    plan.variable.check(&sweep.bench_sets, "the search")?;
    sweep.check()?;
    let pairs = sweep.serve_sets.len() * sweep.bench_sets.len();
    // About as many levels as halving a thousand takes.
    let total = pairs * plan.targets.len() * 10 * sweep.num_runs;
    let mut session = Session::begin(sweep, archive, bench, host, sink, total);
    let mut answers = Answers::stored(archive, &sweep.experiment);
    for serve in &sweep.serve_sets {
        let place = |bench: &ParamSet| base(&sweep.experiment, serve, bench);
        let open = sweep
            .bench_sets
            .iter()
            .any(|bench| plan.targets.iter().any(|target| !archive.has(&marker(&place(bench), target))));
        let first = sweep.bench_sets.first().map(|bench| level_folder(plan, &place(bench), UNLIMITED));
        let needed = open && first.is_some_and(|folder| !session.has_runs(&folder, sweep.num_runs));
        session.with_server(serve, open, needed, |session, slot| {
            for bench in &sweep.bench_sets {
                let pair = Pair { plan, serve, bench, base: place(bench) };
                for target in &plan.targets {
                    pair.search(session, slot, target, &mut answers)?;
                }
                session.add(pair.rows(archive))?;
            }
            Ok(())
        })?;
    }
    session.finish()
}

/// The folder of a pair, by its parameters even where it has a name.
fn base(experiment: &Path, serve: &ParamSet, bench: &ParamSet) -> PathBuf {
    let mut words = Vec::new();
    for (label, set) in [("SERVE-", serve), ("BENCH-", bench)] {
        if !set.is_empty() {
            words.extend([label.to_owned(), set.as_text("-")]);
        }
    }
    experiment.join(clean(&words.join("-")))
}

fn level_folder(plan: &SlaPlan, base: &Path, level: u64) -> PathBuf {
    base.join(format!("{}={level}", plan.variable.key()))
}

/// The file that says that a search is complete.
fn marker(base: &Path, target: &[Criterion]) -> PathBuf {
    let conditions: Vec<String> = target.iter().map(Criterion::to_string).collect();
    base.join(clean(&format!("SLA--{}.json", conditions.join("-"))))
}

/// A server set and a client set.
struct Pair<'a> {
    plan: &'a SlaPlan,
    serve: &'a ParamSet,
    bench: &'a ParamSet,
    base: PathBuf,
}

/// A level and its results.
struct Level {
    tried: Tried,
    results: Vec<Dict>,
}

impl Pair<'_> {
    fn search(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        target: &[Criterion],
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        let key = self.plan.variable.key();
        let done = marker(&self.base, target);
        if session.archive.has(&done) && answers.has(&self.base, target) {
            session.count();
            return Ok(());
        }
        let conditions: Vec<String> = target.iter().map(Criterion::to_string).collect();
        session.say("[SLA START]");
        session.say(format!("SLA criteria: {}", conditions.join(", ")));
        if self.plan.sweep.dry_run {
            self.measure(session, slot, UNLIMITED, self.plan.sweep.num_runs)?;
            session.say("Omitting SLA search.");
            session.say("[SLA END]");
            return Ok(());
        }
        let mut levels: Vec<Level> = Vec::new();
        for level in self.stored(session.archive) {
            levels.extend(self.level(session, slot, level, target)?);
        }
        let mut first = None;
        let answer = loop {
            let tried: Vec<Tried> = levels.iter().map(|level| level.tried).collect();
            if first.is_none() && tried.iter().any(|tried| tried.level == UNLIMITED) {
                let start = self.first(&levels);
                session.say(format!("Initial {key} to search: {start} req/s."));
                first = Some(start);
            }
            match next(&tried, first.unwrap_or(1), self.plan.tolerance) {
                Step::Done(answer) => break answer,
                Step::Try(level) => {
                    session.say(format!("Testing {key}: {level} req/s"));
                    let Some(level) = self.level(session, slot, level, target)? else {
                        let text = format!("no result at {key}={level}, which the search cannot do without");
                        return Err(Stop::Sweep(Failure::new("ValueError", text)));
                    };
                    self.tell(session, &level, target);
                    levels.push(level);
                }
            }
        };
        // A search taken up again knows its levels in another order; what it leaves must be the same.
        levels.sort_by_key(|level| level.tried.level);
        self.conclude(session, target, &levels, answer, answers)
    }

    /// Levels with results on disk, in order.
    fn stored(&self, archive: &dyn Archive) -> Vec<u64> {
        let prefix = format!("{}=", self.plan.variable.key());
        let mut levels: Vec<u64> = archive
            .folders(&self.base)
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix)?.parse().ok())
            .filter(|level| archive.result(&run_file(&level_folder(self.plan, &self.base, *level), 0)).is_some())
            .collect();
        levels.sort_unstable();
        levels
    }

    /// Measures a level, again while its verdict could be luck.
    fn level(
        &self,
        session: &mut Session<'_>,
        slot: &mut Slot,
        level: u64,
        target: &[Criterion],
    ) -> Result<Option<Level>, Stop> {
        let folder = level_folder(self.plan, &self.base, level);
        let asked = self.plan.sweep.num_runs;
        // What an earlier target needed is there for this one too.
        let mut runs = asked;
        while runs < asked + MORE_RUNS && session.archive.result(&run_file(&folder, runs)).is_some() {
            runs += 1;
        }
        let mut results = self.measure(session, slot, level, runs)?;
        if results.is_empty() {
            return Ok(None);
        }
        let bench = self.bench.with(self.plan.variable.key(), level);
        loop {
            let verdict = Verdict::of(target, &values(target, &results).map_err(Stop::Sweep)?);
            // Unlimited load is far off every boundary worth a repetition.
            if level == UNLIMITED || !verdict.is_open() || runs >= asked + MORE_RUNS {
                return Ok(Some(Level { tried: Tried { level, verdict }, results }));
            }
            let what = Combination { serve: self.serve, bench: &bench, folder: &folder };
            session.combine_once_more(slot, what, runs, &mut results)?;
            runs += 1;
        }
    }

    fn measure(&self, session: &mut Session<'_>, slot: &mut Slot, level: u64, runs: usize) -> Result<Vec<Dict>, Stop> {
        let bench = self.bench.with(self.plan.variable.key(), level);
        let folder = level_folder(self.plan, &self.base, level);
        session.combine_runs(slot, Combination { serve: self.serve, bench: &bench, folder: &folder }, runs)
    }

    /// Where to begin: what the server managed under unlimited load.
    fn first(&self, levels: &[Level]) -> u64 {
        let unlimited = levels.iter().find(|level| level.tried.level == UNLIMITED);
        let estimate = unlimited.and_then(|level| self.plan.variable.estimate(&level.results)).unwrap_or(1.0);
        (estimate.ceil() as u64).clamp(1, UNLIMITED - 1)
    }

    /// The verdict on a level, criterion by criterion.
    fn tell(&self, session: &Session<'_>, level: &Level, target: &[Criterion]) {
        let Ok(values) = values(target, &level.results) else { return };
        for (criterion, values) in target.iter().zip(&values) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let verdict = if criterion.is_met(mean) { "PASSED" } else { "FAILED" };
            let (metric, condition) = (&criterion.metric, criterion.condition());
            session.say(format!("Validating SLA: {metric} = {mean:.2}{condition} | {verdict}"));
        }
        let not = if level.tried.verdict.passes() { "" } else { "not " };
        session.say(format!("SLA criteria are {not}met."));
    }

    fn conclude(
        &self,
        session: &mut Session<'_>,
        target: &[Criterion],
        levels: &[Level],
        answer: Answer,
        answers: &mut Answers,
    ) -> Result<(), Stop> {
        let key = self.plan.variable.key();
        let tried: Vec<Tried> = levels.iter().map(|level| level.tried).collect();
        let (left, right) = bracket(&tried);
        session.say(format!("Range of {key} to search: [{left}, {right}] req/s."));
        session.say(match answer {
            Answer::Infeasible => format!("Maximum {key} for SLA: no feasible value."),
            Answer::Unbounded => format!("Maximum {key} for SLA: unbounded (>= {UNLIMITED})."),
            Answer::Level(level) => format!("Maximum {key} for SLA: {level} req/s."),
        });
        let spoken: Vec<String> = target.iter().map(Criterion::spoken).collect();
        let unit = if key == "request_rate" { "requests/s" } else { "concurrent requests" };
        if let (Answer::Level(_), Some(found)) = (answer, boundary(&tried)) {
            let (value, low, high) = (found.value, found.low, found.high);
            session.say(format!("{value:.1} {unit} ({low:.1}–{high:.1}) meets {}", spoken.join(" and ")));
        }
        if !is_monotone(&tried) {
            session.warn(format!("{key}: a level passed although a lower one failed; the answer is the lower one"));
        }
        session.say("[SLA END]");
        answers.add(self, target, levels, answer);
        let all = levels.iter().flat_map(|level| level.results.iter().cloned().map(Value::Dict)).collect();
        session.archive.keep(&marker(&self.base, target), &Value::List(all), Style::Result).map_err(Stop::Sweep)?;
        answers.store(session.archive).map_err(Stop::Sweep)
    }

    /// All results of the pair, level by level.
    fn rows(&self, archive: &dyn Archive) -> Vec<Dict> {
        let mut rows = Vec::new();
        for level in self.stored(archive) {
            let folder = level_folder(self.plan, &self.base, level);
            rows.extend((0..).map_while(|number| archive.result(&run_file(&folder, number))));
        }
        rows
    }
}

/// The values of each criterion's metric, one per result.
fn values(target: &[Criterion], results: &[Dict]) -> Result<Vec<Vec<f64>>, Failure> {
    let of = |criterion: &Criterion| {
        let value = |result: &Dict| result.get(&criterion.metric).and_then(Value::as_f64);
        results.iter().map(value).collect::<Option<Vec<f64>>>().ok_or_else(|| {
            let text = format!("the results have no number {:?}: check --sla-params", criterion.metric);
            Failure::new("KeyError", text)
        })
    };
    target.iter().map(of).collect()
}

/// The answers so far, as they are stored.
struct Answers {
    path: PathBuf,
    list: Vec<Value>,
}

impl Answers {
    fn stored(archive: &dyn Archive, experiment: &Path) -> Self {
        let path = experiment.join("sla_summary.json");
        let list = archive.list(&path).unwrap_or_default();
        Answers { path, list }
    }

    fn has(&self, base: &Path, target: &[Criterion]) -> bool {
        let marker = marker(base, target).display().to_string();
        self.list.iter().any(|entry| entry.get("search").and_then(Value::as_str) == Some(&marker))
    }

    fn add(&mut self, pair: &Pair<'_>, target: &[Criterion], levels: &[Level], answer: Answer) {
        let tried: Vec<Tried> = levels.iter().map(|level| level.tried).collect();
        let mut entry = Dict::new();
        let name = marker(&pair.base, target).display().to_string();
        self.list.retain(|known| known.get("search").and_then(Value::as_str) != Some(&name));
        entry.set("search", name);
        entry.set("serve", pair.serve.shown());
        entry.set("bench", pair.bench.shown());
        entry.set("criteria", Value::List(target.iter().map(|one| Value::from(one.to_string())).collect()));
        entry.set("variable", pair.plan.variable.key());
        let (verdict, value) = match answer {
            Answer::Infeasible => ("infeasible", None),
            Answer::Unbounded => ("unbounded", None),
            Answer::Level(level) => ("found", Some(level)),
        };
        entry.set("verdict", verdict);
        entry.set("value", Value::from(value));
        let found = boundary(&tried).filter(|_| value.is_some());
        entry.set("boundary", Value::from(found.map(|found| found.value)));
        entry.set("boundary_low", Value::from(found.map(|found| found.low)));
        entry.set("boundary_high", Value::from(found.map(|found| found.high)));
        entry.set("monotone", is_monotone(&tried));
        let chosen = levels.iter().find(|level| Some(level.tried.level) == value);
        let mut achieved = Dict::new();
        for (criterion, values) in
            chosen.iter().flat_map(|level| target.iter().zip(values(target, &level.results).unwrap_or_default()))
        {
            achieved.set(criterion.metric.as_str(), values.iter().sum::<f64>() / values.len() as f64);
        }
        entry.set("achieved", achieved);
        entry.set("levels", levels.len());
        entry.set("runs", levels.iter().map(|level| level.results.len()).sum::<usize>());
        self.list.push(Value::Dict(entry));
    }

    fn store(&self, archive: &dyn Archive) -> Result<(), Failure> {
        archive.keep(&self.path, &Value::List(self.list.clone()), Style::Result)
    }
}
