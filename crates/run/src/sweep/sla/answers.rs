//! The results of searches as they are stored in `sla_summary.json`.

use std::path::{Path, PathBuf};

use tacho_core::json::{Json, Value};
use tacho_decide::search::{
    Criterion, Estimate, LevelAnswer, LoadLevel, Means, Model, Outcome, SearchAnswer, StopReason, Verdict,
};
use tacho_record::{ResultFields, groups::split, metric::Known};

use super::{SlaPlan, load_text, marker, pair::Pair, search::PRECISE};
use crate::experiment::{Archive, Failure, Level, Style};

/// The largest measured load that met the criteria.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    Infeasible,
    Unlimited,
    Level(f64),
}

pub(super) struct Found {
    pub(super) answer: Answer,
    /// The load at which the criteria are just met.
    pub(super) estimate: Option<Estimate>,
    pub(super) loads: Vec<LoadLevel>,
    pub(super) levels: Vec<Level>,
    pub(super) monotone: bool,
    pub(super) stopped: StopReason,
    pub(super) model: Model,
}

impl Found {
    /// The outcome of a search, with the largest load after the others.
    pub(super) fn new(
        outcome: Outcome,
        (stopped, model): (StopReason, Model),
        mut levels: Vec<Level>,
        (top_summary, top): (LoadLevel, Level),
    ) -> Self {
        let Outcome { largest_met, estimate, levels: mut loads, monotone } = outcome;
        let answer = match largest_met {
            _ if stopped == StopReason::Unlimited && levels.is_empty() => Answer::Unlimited,
            Some(level) => Answer::Level(level),
            None => Answer::Infeasible,
        };
        loads.push(top_summary);
        levels.push(top);
        Found { answer, estimate, loads, levels, monotone, stopped, model }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&LoadLevel, &Level)> {
        self.loads.iter().zip(&self.levels)
    }

    /// The largest load that met the criteria, or 0, and the smallest larger load that did not.
    pub(super) fn bracket(&self) -> (f64, f64) {
        let left = if let Answer::Level(level) = self.answer { level } else { 0.0 };
        let above = self.loads.iter().filter(|load| load.level > left && !load.is_met()).map(|load| load.level);
        (left, above.reduce(f64::min).unwrap_or(f64::INFINITY))
    }

    /// The load with the smallest violation; sustained loads come first.
    pub(super) fn nearest(&self) -> Option<(&LoadLevel, &Level)> {
        let distance = |load: &LoadLevel| (!load.is_sustained(), load.margin);
        self.each().min_by(|(a, _), (b, _)| {
            let (a, b) = (distance(a), distance(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }

    /// The largest finite load at which the client may have decided the test, and the verdict on that client; the loads
    /// that decide the answer come first.
    pub(super) fn unreliable(&self, target: &[Criterion]) -> Option<(f64, String)> {
        let limited = self.levels.iter().filter(|level| level.level.is_finite());
        let doubted = limited.filter_map(|level| Some((level, client_doubt(level, target)?)));
        let (level, doubt) =
            doubted.max_by(|(a, _), (b, _)| self.decides(a).cmp(&self.decides(b)).then(a.level.total_cmp(&b.level)))?;
        Some((level.level, doubt))
    }

    /// Whether a latency of the SLO at the answer still changes with the length of the runs. Users that started together, with
    /// outputs of one length, drift apart over hundreds of requests. That tells on waits that a run cannot bound.
    fn is_in_step(&self, target: &[Criterion], plan: &SlaPlan) -> bool {
        let waits = |one: &Criterion| !matches!(Known::find(split(&one.metric).1), Some(Known::Timed(one)) if !one.times.waits());
        let is_bounded = |run: ResultFields<'_>, one: &Criterion| {
            run.interval(&one.metric).is_some_and(|interval| interval.high.is_finite())
        };
        let changing = |run: ResultFields<'_>| {
            run.caveats().unwrap_or_default().iter().any(|caveat| caveat.kind == "autocorrelated")
                && target.iter().any(|one| waits(one) && !is_bounded(run, one))
        };
        let mut deciding = self.levels.iter().filter(|level| self.decides(level));
        plan.variable.is_closed_loop() && deciding.any(|level| level.runs().all(changing))
    }

    /// Whether a load is the answer, or the first larger one that failed.
    fn decides(&self, level: &Level) -> bool {
        let (left, right) = self.bracket();
        level.level == left || (level.level == right && right.is_finite())
    }

    /// Seconds of load for the requested precision, as the range narrows with the square root of the time.
    fn needed_budget(&self, plan: &SlaPlan) -> Option<f64> {
        let wider = self.estimate?.reach()? / (PRECISE * plan.tolerance);
        (wider > 1.0).then(|| (plan.budget * wider * wider / 10.0).ceil() * 10.0)
    }

    /// Why the search ended: the requested and the reached precision.
    pub(super) fn stop_text(&self, target: &[Criterion], plan: &SlaPlan) -> String {
        let reached = match self.estimate.map(|found| found.reach()) {
            Some(_) if self.is_in_step(target, plan) => "the range is unknown".to_owned(),
            Some(Some(reach)) => format!("reached ±{:.1}%", reach * 100.0),
            Some(None) => "no load fails for certain".to_owned(),
            None => "no load met the criteria".to_owned(),
        };
        let precision = format!("asked ±{:.1}%, {reached}", PRECISE * plan.tolerance * 100.0);
        match self.stopped {
            StopReason::Precise if self.model == Model::Monotone => {
                format!("the next larger load, {}, fails", load_text(self.bracket().1))
            }
            StopReason::Precise => precision,
            StopReason::Budget => {
                let needed =
                    self.needed_budget(plan).map_or_else(String::new, |time| format!("; about {time} s for that"));
                format!("budget {} s reached ({}); {precision}{needed}", plan.budget, plan.flags.budget)
            }
            StopReason::Runs => {
                let runs = self.loads.iter().map(|load| load.runs).sum::<usize>();
                format!("{runs} runs made; {precision}")
            }
            StopReason::Infeasible => "even the lowest load fails".to_owned(),
            StopReason::Unlimited => "even the largest load passes".to_owned(),
        }
    }
}

/// The verdict on the client of a run whose criteria it may have decided.
pub(super) fn client_doubt(level: &Level, target: &[Criterion]) -> Option<String> {
    let doubt = |run: ResultFields<'_>, one: &Criterion| run.client_doubt(&one.metric, |value| one.is_met(value));
    level.runs().find_map(|run| target.iter().find_map(|one| doubt(run, one)))
}

/// A range that is this many times wider than requested is inconclusive.
const INCONCLUSIVE: f64 = 5.0;

impl Found {
    /// The verdict, and why it is inconclusive.
    pub(super) fn verdict(&self, target: &[Criterion], plan: &SlaPlan) -> (Verdict, Option<String>) {
        let found = self;
        let inconclusive = |why: &str| (Verdict::Inconclusive, Some(why.to_owned()));
        let few = |load: &LoadLevel| {
            let text = format!(
                "the outputs at load {} are too few to tell whether they meet the criteria",
                load_text(load.level)
            );
            inconclusive(&format!("{text}: raise {}, or --check-outputs", plan.flags.budget))
        };
        let unsettled = found.each().find(|(load, level)| load.is_unsettled() && found.decides(level));
        let longer = |why: &str| {
            let why = || inconclusive(&format!("{why}: raise {}", plan.flags.budget));
            unsettled.map_or_else(why, |(load, _)| few(load))
        };
        match (found.answer, found.estimate) {
            (Answer::Unlimited, _) if found.loads.iter().any(LoadLevel::is_unsettled) => return few(&found.loads[0]),
            (Answer::Unlimited, _) => return (Verdict::Unlimited, None),
            (Answer::Infeasible, None) if found.stopped == StopReason::Budget => {
                return longer("no load met the criteria within the time budget");
            }
            (Answer::Infeasible, _) if found.loads.iter().any(|load| load.is_met() && load.brief) => {
                return longer("no load met the criteria in a run long enough to decide");
            }
            (Answer::Infeasible, Some(_)) => {
                return inconclusive("runs of one load disagree, and no load met the criteria on average");
            }
            (Answer::Infeasible, None) | (Answer::Level(_), _) => {}
        }
        if found.levels.iter().filter(|level| found.decides(level)).any(|level| client_doubt(level, target).is_some()) {
            return inconclusive("the client may have decided the levels next to the answer");
        }
        // Without a steady state only the throughput would say that the rate is sustained, and a burst delivers it too.
        let (left, _) = found.bracket();
        let mut answer = found.levels.iter().filter(|level| level.level == left).flat_map(Level::runs).peekable();
        if answer.peek().is_some() && answer.all(|run| run.planned_rate().is_some() && run.steady_state().is_none()) {
            let flag = plan.flags.seconds;
            return inconclusive(&format!("the runs at the answer are too short for a steady state: raise {flag}"));
        }
        if found.is_in_step(target, plan) {
            return inconclusive(&format!(
                "latencies still change during the runs, as of users in step: vary the lengths (--random-range-ratio), or raise {}",
                plan.flags.budget
            ));
        }
        let max = INCONCLUSIVE * PRECISE * plan.tolerance;
        match found.estimate.map(|found| found.reach()) {
            _ if found.answer == Answer::Infeasible => (Verdict::Infeasible, None),
            // Two adjacent levels bound the result.
            _ if found.stopped == StopReason::Precise => (Verdict::Found, None),
            Some(None) => longer("no load that was measured fails for certain"),
            Some(Some(reach)) if reach > max => longer(&format!(
                "the 95% range reaches {:.0}% away from the estimate, more than {:.0}%",
                reach * 100.0,
                max * 100.0
            )),
            _ => (Verdict::Found, None),
        }
    }
}

pub(super) struct Answers {
    path: PathBuf,
    list: Vec<Value>,
    /// Those of this run.
    pub(super) found: Vec<SearchAnswer>,
}

impl Answers {
    pub(super) fn stored(archive: &dyn Archive, experiment: &Path) -> Self {
        let path = experiment.join("sla_summary.json");
        let list = archive.value(&path).and_then(|stored| stored.as_list().map(<[Value]>::to_vec)).unwrap_or_default();
        Answers { path, list, found: Vec::new() }
    }

    pub(super) fn has(&self, base: &Path, target: &[Criterion]) -> bool {
        let marker = marker(base, target).display().to_string();
        self.list.iter().any(|entry| entry.text("search") == Some(&marker))
    }

    /// Number of searches without a load that meets the criteria.
    pub(super) fn unmet(&self) -> usize {
        let verdicts = self.list.iter().filter_map(|entry| Verdict::from_json(entry.get("verdict")?).ok());
        verdicts.filter(|verdict| [Verdict::Infeasible, Verdict::Inconclusive].contains(verdict)).count()
    }

    pub(super) fn add(&mut self, pair: &Pair<'_>, target: &[Criterion], found: &Found) -> Result<(), Failure> {
        let search = marker(&pair.base, target).display().to_string();
        self.list.retain(|known| known.text("search") != Some(&search));
        let (verdict, reason) = found.verdict(target, pair.plan);
        let max_measured = if let Answer::Level(level) = found.answer { Some(level) } else { None };
        let range = found.estimate.filter(|_| found.answer != Answer::Unlimited);
        let known = !found.is_in_step(target, pair.plan);
        let mut achieved = Means::default();
        if let Some(level) = found.levels.iter().find(|level| Some(level.level) == max_measured) {
            achieved = means(pair, target, level)?;
            achieved.0.extend(COSTS.into_iter().filter_map(|key| Some((key.to_owned(), Some(level.mean(key)?)))));
        }
        let nearest = found.nearest().filter(|_| found.answer == Answer::Infeasible);
        let answer = SearchAnswer {
            search,
            serve: pair.serve.shown(),
            bench: pair.bench.shown(),
            criteria: target.iter().map(Criterion::to_string).collect(),
            variable: pair.plan.variable.name().to_owned(),
            verdict,
            reason,
            stopped: found.stopped,
            stop_reason: found.stop_text(target, pair.plan),
            max_measured,
            estimate: range.map(|found| found.value).or(max_measured),
            ci_low: range.filter(|_| known).map(|found| found.low),
            ci_high: range.filter(|_| known).and_then(|found| found.high),
            monotone: found.monotone,
            achieved,
            limited_by: limited_by(pair, target, found)?,
            best_attempt: nearest.map(|(nearest, _)| nearest.level),
            levels: found.levels.len(),
            curve: curve(pair, target, found)?,
            runs: found.loads.iter().map(|load| load.runs).sum(),
        };
        self.list.push(answer.to_json());
        self.found.push(answer);
        Ok(())
    }

    pub(super) fn store(&self, archive: &dyn Archive) -> Result<(), Failure> {
        archive.keep(&self.path, &Value::List(self.list.clone()), Style::Result)
    }
}

/// Costs at the answer, of runs that know a price.
const COSTS: [&str; 2] = ["cost_per_million_tokens", "cost_per_million_output_tokens"];

/// What fails first above the answer, or else at the load that came closest: the metric that misses its criterion most,
/// or `sustained` if the server only fails to keep up. `None` if nothing fails.
fn limited_by(pair: &Pair<'_>, target: &[Criterion], found: &Found) -> Result<Option<String>, Failure> {
    let (left, _) = found.bracket();
    let above = found.each().find(|(load, _)| load.level > left && !load.passes());
    let first = if found.answer == Answer::Infeasible { found.nearest() } else { above };
    let Some((_, level)) = first.filter(|(load, _)| !load.passes()) else { return Ok(None) };
    let means = pair.means(target, level)?;
    let margins = target.iter().zip(&means).map(|(one, (_, mean))| (one, one.margin(*mean)));
    let worst = margins.max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, margin)| *margin > 0.0);
    Ok(Some(worst.map_or_else(|| "sustained".to_owned(), |(one, _)| one.metric.clone())))
}

/// Each level with its values and verdict, for tables and charts.
fn curve(pair: &Pair<'_>, target: &[Criterion], found: &Found) -> Result<Vec<LevelAnswer>, Failure> {
    let entry = |(load, level): (&LoadLevel, &Level)| {
        Ok(LevelAnswer {
            level: load.level,
            runs: load.runs,
            met: load.is_met(),
            sustained: load.is_sustained(),
            brief: load.brief,
            client_unreliable: client_doubt(level, target).is_some(),
            means: means(pair, target, level)?,
        })
    };
    found.each().map(entry).collect()
}

/// The metrics of the criteria at a load: those of whole runs, as in the result files, and those that were compared.
fn means(pair: &Pair<'_>, target: &[Criterion], level: &Level) -> Result<Means, Failure> {
    let mut means = Means::default();
    for (Criterion { metric, .. }, (key, mean)) in target.iter().zip(pair.means(target, level)?) {
        if *metric != key {
            means.0.push((metric.clone(), level.mean(metric)));
        }
        means.0.push((key, Some(mean)));
    }
    Ok(means)
}
