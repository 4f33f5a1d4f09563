//! `sweep serve_sla`: the largest load at which a server meets latency targets. Levels are shared between targets;
//! near the boundary a level is repeated until its verdict is more than luck.

use std::path::{Path, PathBuf};

use tacho_core::EventSink;
use tacho_core::json::{Dict, Value, parse, python_str};
use tacho_metrics::number::Known;
use tacho_metrics::search::{Answer, Criterion, Step, Tried, UNLIMITED, Verdict, boundary, bracket, is_monotone, next};

use super::combination::Combination;
use super::session::{Report, Session, Stop, SweepPlan};
use super::workload::{LoadVariable, dataset_size};
use tacho_metrics::statistics::mean;

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
    /// How many seconds a level lasts at least; without it as long as the targets need.
    pub seconds: Option<f64>,
}

/// Levels last between so many seconds.
const SECONDS: (f64, f64) = (10.0, 120.0);
/// How many times the largest latency allowed a level lasts: a load that is one fiftieth too large has then queued up by it.
const LATENCIES: f64 = 50.0;
/// Share of a rate that must come back as answers where nothing is known of the backlog: the last answers take time.
const DELIVERED: f64 = 0.9;

impl SlaPlan {
    /// How long a level of a rate must last to show whether it is sustained.
    fn seconds(&self) -> f64 {
        let limits = self.targets.iter().flatten().filter_map(Criterion::limit_seconds);
        let needed = (LATENCIES * limits.fold(0.0, f64::max)).clamp(SECONDS.0, SECONDS.1);
        self.seconds.unwrap_or(needed)
    }
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
        for criterion in &criteria {
            let known = Known::require(&criterion.metric);
            known.map_err(|error| Error::Number { path: path.to_owned(), error })?;
        }
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
        let first = sweep.bench_sets.first().map(|bench| {
            let pair = Pair { plan, serve, bench, base: place(bench) };
            level_folder(plan, &pair.base, pair.top())
        });
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
            self.measure(session, slot, self.top(), self.plan.sweep.num_runs)?;
            session.say("Omitting SLA search.");
            session.say("[SLA END]");
            return Ok(());
        }
        let mut levels: Vec<Level> = Vec::new();
        for level in self.stored(session.archive) {
            levels.extend(self.level(session, slot, level, target)?);
        }
        let (mut first, top, unit) = (None, self.top(), self.plan.variable.unit());
        let answer = loop {
            let tried: Vec<Tried> = levels.iter().map(|level| level.tried).collect();
            if first.is_none() && tried.iter().any(|tried| tried.level == top) {
                let start = self.first(&levels);
                session.say(format!("Initial {key} to search: {start} {unit}."));
                first = Some(start);
            }
            match next(&tried, first.unwrap_or(1), top, self.plan.tolerance) {
                Step::Done(answer) => break answer,
                Step::Try(level) => {
                    session.say(format!("Testing {key}: {level} {unit}"));
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
        let bench = self.set(level);
        loop {
            let swamped = results.iter().filter(|result| self.is_swamped(level, result)).count();
            let verdict = Verdict::of(target, &values(target, &results).map_err(Stop::Sweep)?);
            let verdict = verdict.with_own_width(own_width(target, &results)).with_swamped(swamped);
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
        let bench = self.set(level);
        let folder = level_folder(self.plan, &self.base, level);
        session.combine_runs(slot, Combination { serve: self.serve, bench: &bench, folder: &folder }, runs)
    }

    /// The largest load: no limit on the rate, or all prompts at a time.
    fn top(&self) -> u64 {
        match self.plan.variable {
            LoadVariable::RequestRate => UNLIMITED,
            LoadVariable::MaxConcurrency => self.prompts(),
        }
    }

    fn prompts(&self) -> u64 {
        u64::try_from(dataset_size(&self.plan.sweep.bench_cmd, self.bench)).unwrap_or(1).max(1)
    }

    /// The client's set at a level. A rate gets as many prompts as it takes to last: a burst of a moment shows nothing.
    fn set(&self, level: u64) -> ParamSet {
        let set = self.bench.with(self.plan.variable.key(), level);
        let needed = (level as f64 * self.plan.seconds()).ceil() as u64;
        let lasts =
            self.plan.variable == LoadVariable::MaxConcurrency || level == UNLIMITED || needed <= self.prompts();
        if lasts { set } else { set.with("num_prompts", needed) }
    }

    /// Whether a run did not keep up with its rate, so that its latencies are those of its length.
    fn is_swamped(&self, level: u64, result: &Dict) -> bool {
        if self.plan.variable == LoadVariable::MaxConcurrency {
            return false;
        }
        let own = |key: &str| result.get("tacho").and_then(|own| own.get(key));
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        let answered = number(result.get("request_throughput")).is_none_or(|rate| rate >= DELIVERED * level as f64);
        let sent = number(own("delivered_request_rate")).is_none_or(|rate| rate >= DELIVERED * level as f64);
        let steady = own("steady").is_none_or(|steady| {
            let grew = steady.get("backlog_grew").is_some_and(|grew| *grew == Value::Bool(true));
            !grew && number(steady.get("drift")).is_none_or(|drift| drift < 0.0)
        });
        // Where the backlog is known, the time that the last answers took is no sign of overload.
        !(sent && steady && (answered || own("steady").is_some() && level < UNLIMITED))
    }

    /// Where to begin: what the server managed under the largest load.
    fn first(&self, levels: &[Level]) -> u64 {
        let top = levels.iter().find(|level| level.tried.level == self.top());
        let estimate = top.and_then(|level| self.plan.variable.estimate(&level.results)).unwrap_or(1.0);
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
        let swamped = level.tried.verdict.swamped;
        if swamped > 0 && level.tried.level < UNLIMITED {
            let runs = level.results.len();
            session.say(format!("Not sustained: in {swamped} of {runs} runs the server did not keep up with the load"));
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
        let unit = self.plan.variable.unit();
        let right = right.min(self.top());
        self.table(session, target, levels);
        session.say(format!("Range of {key} to search: [{left}, {right}] {unit}."));
        session.say(match (answer, self.plan.variable) {
            (Answer::Infeasible, _) => format!("Maximum {key} for SLA: no feasible value."),
            (Answer::Unbounded, LoadVariable::RequestRate) => {
                format!("Maximum {key} for SLA: unbounded (>= {UNLIMITED}).")
            }
            (Answer::Unbounded, LoadVariable::MaxConcurrency) => {
                let top = self.top();
                format!(
                    "Maximum {key} for SLA: {top} or more: all prompts at a time meet it; more prompts would show more."
                )
            }
            (Answer::Level(level), _) => format!("Maximum {key} for SLA: {level} {unit}."),
        });
        let spoken: Vec<String> = target.iter().map(Criterion::spoken).collect();
        let unit = if key == "request_rate" { "requests/s" } else { unit };
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

    /// What was measured at each level, where it broke and why.
    fn table(&self, session: &Session<'_>, target: &[Criterion], levels: &[Level]) {
        let metrics: Vec<String> = target.iter().map(|one| format!("{:>16}", one.metric)).collect();
        session.say(format!(
            "{:>16} {:>5} {} {:>10} verdict",
            self.plan.variable.key(),
            "runs",
            metrics.join(" "),
            "answered/s"
        ));
        for level in levels {
            let means = values(target, &level.results).unwrap_or_default();
            let means: Vec<String> = means.iter().map(|values| format!("{:>16.2}", mean(values))).collect();
            let rates: Vec<f64> =
                level.results.iter().filter_map(|one| one.get("request_throughput")?.as_f64()).collect();
            let verdict = &level.tried.verdict;
            let word = match (verdict.passes(), verdict.is_sustained()) {
                (true, _) => "met",
                (false, true) => "not met",
                (false, false) => "not sustained",
            };
            let (load, runs) = (level.tried.level, level.results.len());
            session.say(format!("{load:>16} {runs:>5} {} {:>10.2} {word}", means.join(" "), mean(&rates)));
        }
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
        entry.set("curve", curve(target, levels));
        entry.set("runs", levels.iter().map(|level| level.results.len()).sum::<usize>());
        self.list.push(Value::Dict(entry));
    }

    fn store(&self, archive: &dyn Archive) -> Result<(), Failure> {
        archive.keep(&self.path, &Value::List(self.list.clone()), Style::Result)
    }
}

/// Each level with its values and verdict, for tables and pictures.
fn curve(target: &[Criterion], levels: &[Level]) -> Vec<Value> {
    let entry = |level: &Level| {
        let mut entry = Dict::new();
        entry.set("level", level.tried.level);
        entry.set("runs", level.results.len());
        entry.set("met", level.tried.verdict.passes());
        entry.set("sustained", level.tried.verdict.is_sustained());
        for (criterion, values) in target.iter().zip(values(target, &level.results).unwrap_or_default()) {
            entry.set(criterion.metric.as_str(), mean(&values));
        }
        Value::Dict(entry)
    };
    levels.iter().map(entry).collect()
}

/// How far a run may be off by its own interval, on the side of the target: the widest criterion's mean over the runs, as a
/// share of the target. Nothing where results have no intervals.
fn own_width(target: &[Criterion], results: &[Dict]) -> Option<f64> {
    let width = |criterion: &Criterion, result: &Dict| {
        let bounds = result.get("tacho")?.get("intervals")?.get(&criterion.metric)?.as_list()?;
        let bound = |at: usize| bounds.get(at).and_then(Value::as_f64);
        let margin = criterion.margin(result.get(&criterion.metric)?.as_f64()?);
        let ends = [bound(0)?, bound(1).unwrap_or(f64::INFINITY)].map(|value| criterion.margin(value));
        let nearest = if margin > 0.0 { ends[0].min(ends[1]) } else { ends[0].max(ends[1]) };
        Some((nearest - margin).abs())
    };
    let of = |criterion: &Criterion| {
        let widths: Option<Vec<f64>> = results.iter().map(|result| width(criterion, result)).collect();
        widths.map(|widths| mean(&widths))
    };
    target.iter().map(of).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}
