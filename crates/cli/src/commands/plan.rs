//! `tacho plan`: replicas for a rate within limits, played by a profile.

use std::path::Path;

use anyhow::{Context, bail};
use tacho_core::Stamp;
use tacho_core::json::Value;
use tacho_decide::search::Criterion;
use tacho_record::StoredRun;
use tacho_record::number::Known;
use tacho_report::compare::load;
use tacho_report::html::picture_page;
use tacho_report::plots::load::{LoadCurve, picture};
use tacho_report::plots::{png, svg};
use tacho_report::tables::markdown::Table;
use tacho_run::experiment::split;
use tacho_sim::foresight::{Coming, Router, Sending};

use super::foreseen::{Played, say};
use super::outputs::check_writable;
use super::serve::predict::{Workload, repeated};
use super::values_for;
use crate::args;
use crate::args::error::Refusal;
use crate::args::plan::PlanArgs;
use crate::args::serve::ServeArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Seconds of load that a play has, within these numbers of requests.
const SECONDS: f64 = 60.0;
const REQUESTS: std::ops::RangeInclusive<usize> = 2_000..=6_000;
/// A load under which more than this share of the requests pile up is not borne, whatever its latencies are so far.
const PILES_UP: f64 = 0.05;
/// How many times as long a load is played that seems to pile up: chance does so, too, but not for long.
const LONGER: usize = 4;
/// The share of requests at the beginning that fill an empty engine.
const SKIP: f64 = 0.2;
/// Plays that differ in their noise.
const PLAYS: u64 = 5;
/// Flags of a workload that hold requests back or end them: a plan plays all that come, when they come.
const NOT_PLANNED: &[&str] =
    &["--max-concurrency", "--prefill-concurrency", "--request-cancellation-rate", "--ramp-up-strategy"];
/// How many times the rate is looked at for what the replicas would bear.
const MOST_HEADROOM: f64 = 64.0;
/// How exactly the largest rate is found.
const EXACT: f64 = 0.01;

/// Plans and tells.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    args.plot.as_deref().map_or(Ok(()), check_writable)?;
    let planner = Planner::new(args)?;
    let measured: Vec<Measured> = args.measured.iter().map(|path| measured(path)).collect::<anyhow::Result<_>>()?;
    let Some(most) = planner.largest_rate()? else {
        let broken = planner.broken(1e-3, 1)?;
        say(&[format!("no rate meets the limits: one request alone already breaks {}", broken.join(", "))])?;
        return Ok(Exit::Gate);
    };
    let Some(replicas) = planner.fewest((args.rate / most).ceil().max(1.0) as usize)? else {
        say(&[format!("{} replicas do not serve {} requests/s within the limits", args.max_replicas, args.rate)])?;
        return Ok(Exit::Gate);
    };
    let headroom = planner.headroom(replicas)?;
    let binds = planner.broken(most * (1.0 + 5.0 * EXACT), 1)?;
    let mut lines = vec![
        format!("replicas for {} requests/s: {replicas} ({})", args.rate, args.router),
        format!("largest rate of one replica: {most:.2} requests/s"),
        format!("headroom of {replicas}: {headroom:+.0} %"),
        format!(
            "what binds: {}",
            if binds.is_empty() { "nothing up to 5 % more".to_owned() } else { binds.join(", ") }
        ),
        "one replica by load, range over plays of the noise:".to_owned(),
    ];
    let levels = planner.curves(most)?;
    lines.extend(table(&levels));
    lines.extend(planner.against(&measured)?);
    lines.push(format!("predicted by {}, not measured", planner.workload.machine.name));
    if let Some(path) = &args.plot {
        draw(&planner.picture(&levels, &measured), path)?;
        lines.push(format!("drawn: {}", path.display()));
    }
    say(&lines)?;
    Ok(Exit::Done)
}

struct Planner<'a> {
    args: &'a PlanArgs,
    workload: Workload,
    router: Router,
    /// Requests at one per second.
    base: Vec<Coming>,
}

impl<'a> Planner<'a> {
    fn new(args: &'a PlanArgs) -> anyhow::Result<Self> {
        let mut words = split("--bench-cmd", &args.bench_cmd)?;
        if words.first().is_some_and(|word| word == "tacho") {
            words.remove(0);
        }
        // The rate is the one that is searched for: the times of one request a second are stretched.
        let added = ["--sim", "--sim-profile", &args.sim_profile, "--request-rate", "1"];
        words.extend(added.map(str::to_owned));
        let refused = |allowed: &'static str| Refusal::OutOfRange {
            flag: "--bench-cmd",
            value: format!("{:?}", args.bench_cmd),
            allowed,
        };
        let sessions = "requests that stand alone: sessions cannot be stretched to a rate, see tacho predict";
        if words.iter().any(|word| word == "--multi-turn" || word.starts_with("--sessions")) {
            return Err(refused(sessions).into());
        }
        let values = values_for(&args::serve::TABLE, &words)?;
        let values =
            values.ok_or_else(|| refused("a command line of tacho serve, such as 'serve --num-prompts 500'"))?;
        if let Some(&flag) = NOT_PLANNED.iter().find(|flag| values.is_given(flag)) {
            return Err(Refusal::NotPlanned { flag }.into());
        }
        let workload = Workload::of(&ServeArgs::read_simulated(values)?)?;
        if workload.is_sessions() {
            return Err(refused(sessions).into());
        }
        let planner = Planner {
            args,
            base: workload.coming(),
            router: Router::parse(&args.router).unwrap_or_default(),
            workload,
        };
        if planner.base.is_empty() {
            bail!("--bench-cmd {:?} has no requests", args.bench_cmd);
        }
        let played = planner.play_for(1, 1.0, 1, 1)?;
        if played.refused > 0 {
            bail!("{} requests of the workload could never run on this server; see tacho predict", played.refused);
        }
        for criterion in args.sla.iter().chain(&args.fail) {
            if played.value(&criterion.metric).is_none() {
                bail!("{:?} is no number of this workload: its answers have one token each", criterion.metric);
            }
        }
        Ok(planner)
    }

    fn play_for(&self, times: usize, rate: f64, replicas: usize, seed: u64) -> anyhow::Result<Played> {
        let wanted = times * ((SECONDS * rate) as usize).clamp(*REQUESTS.start(), *REQUESTS.end());
        let rounds = wanted.div_ceil(self.base.len());
        let mut coming = repeated(&self.base, rounds);
        coming.truncate(wanted);
        coming.iter_mut().for_each(|one| one.due = Stamp((one.due.0 as f64 / rate) as u64));
        let sending = Sending { limit: None, replicas, router: self.router, seed };
        let gone = self.workload.play(&coming, &sending)?;
        Ok(Played::of(&coming, &gone, SKIP))
    }

    /// Plays of a load that differ in their noise, of which there is one where there is none.
    fn plays(&self, times: usize, rate: f64, replicas: usize) -> anyhow::Result<Level> {
        let most = if self.workload.machine.is_noisy() { PLAYS } else { 1 };
        let plays = (1..=most).map(|seed| self.play_for(times, rate, replicas, seed)).collect::<anyhow::Result<_>>()?;
        Ok(Level { rate, plays })
    }

    /// The limits that are broken at a rate, in the middle one of the plays.
    fn broken(&self, rate: f64, replicas: usize) -> anyhow::Result<Vec<String>> {
        let mut played = self.plays(1, rate, replicas)?;
        if played.growth() > PILES_UP {
            played = self.plays(LONGER, rate, replicas)?;
        }
        let value = |criterion: &Criterion| played.range(&criterion.metric)[1];
        let missed = self.args.sla.iter().filter(|criterion| !criterion.is_met(value(criterion)));
        let met = self.args.fail.iter().filter(|criterion| criterion.is_met(value(criterion)));
        let told =
            |criterion: &Criterion| format!("{}{} ({:.2})", criterion.metric, criterion.condition(), value(criterion));
        let mut broken: Vec<String> = missed.chain(met).map(told).collect();
        if played.growth() > PILES_UP {
            broken.push(format!("requests pile up ({:.0} % of those that come)", played.growth() * 100.0));
        }
        Ok(broken)
    }

    /// The largest rate at which one replica breaks nothing; none where one request alone does.
    fn largest_rate(&self) -> anyhow::Result<Option<f64>> {
        let holds = |rate: f64| Ok::<_, anyhow::Error>(self.broken(rate, 1)?.is_empty());
        let mut low = 0.01;
        if !holds(low)? {
            return Ok(None);
        }
        let mut high = low * 2.0;
        while high < 1e6 && holds(high)? {
            (low, high) = (high, high * 2.0);
        }
        while high / low > 1.0 + EXACT {
            let middle = (low * high).sqrt();
            if holds(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(low))
    }

    /// The fewest replicas that serve the rate, looked for around a guess: several behind a router even out what comes to
    /// each, so that fewer may do than one alone says. None where the most that are allowed do not.
    fn fewest(&self, guess: usize) -> anyhow::Result<Option<usize>> {
        let most = self.args.max_replicas;
        let holds = |replicas: usize| Ok::<_, anyhow::Error>(self.broken(self.args.rate, replicas)?.is_empty());
        let (mut fails, mut serves) = (0, guess.min(most));
        while !holds(serves)? {
            if serves >= most {
                return Ok(None);
            }
            (fails, serves) = (serves, (serves + 1 + serves / 10).min(most));
        }
        while serves - fails > 1 {
            let middle = (fails + serves) / 2;
            if holds(middle)? { serves = middle } else { fails = middle }
        }
        Ok(Some(serves))
    }

    /// How much more than the rate the replicas would bear, in percent.
    fn headroom(&self, replicas: usize) -> anyhow::Result<f64> {
        let holds = |times: f64| Ok::<_, anyhow::Error>(self.broken(self.args.rate * times, replicas)?.is_empty());
        let (mut low, mut high) = (1.0, 2.0);
        while high <= MOST_HEADROOM && holds(high)? {
            (low, high) = (high, high * 2.0);
        }
        while high - low > 0.02 * low {
            let middle = f64::midpoint(low, high);
            if holds(middle)? { low = middle } else { high = middle }
        }
        Ok((low - 1.0) * 100.0)
    }

    /// Latencies of one replica by load, up to a little more than it bears.
    fn curves(&self, most: f64) -> anyhow::Result<Vec<Level>> {
        [0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1].into_iter().map(|share| self.plays(1, most * share, 1)).collect()
    }

    /// The numbers that are limited, as curves with what was measured.
    fn picture(&self, levels: &[Level], measured: &[Measured]) -> Vec<LoadCurve> {
        let mut metrics: Vec<&str> = self.criteria().map(|criterion| criterion.metric.as_str()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        let curve = |metric: &str| LoadCurve {
            label: Known::find(metric).map_or_else(|| metric.to_owned(), |known| known.heading(metric)),
            limits: self
                .criteria()
                .filter(|criterion| criterion.metric == metric)
                .map(|criterion| (criterion.target(), format!("{metric}{}", criterion.condition())))
                .collect(),
            predicted: levels.iter().map(|level| (level.rate, level.range(metric))).collect(),
            measured: measured
                .iter()
                .filter_map(|one| Some((one.rate, one.run.number(metric)?, one.name.clone())))
                .collect(),
        };
        metrics.into_iter().map(curve).collect()
    }

    /// What was measured beside what is predicted at the same rate.
    fn against(&self, measured: &[Measured]) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        for one in measured {
            let plays = self.plays(1, one.rate, 1)?;
            let pair = |key: &&str| {
                let predicted = Some(plays.range(key)[1]).filter(|value| value.is_finite())?;
                let real = one.run.number(key)?;
                Some(format!("{key} {real:.1} ({predicted:.1}, {:+.0} %)", (predicted / real - 1.0) * 100.0))
            };
            let pairs: Vec<String> = COLUMNS.iter().filter_map(pair).collect();
            lines.push(format!("  {} at {:.2} requests/s: {}", one.name, one.rate, pairs.join(", ")));
        }
        if !lines.is_empty() {
            lines.insert(0, "measured, and in brackets what is predicted at that rate:".to_owned());
        }
        Ok(lines)
    }

    fn criteria(&self) -> impl Iterator<Item = &Criterion> {
        self.args.sla.iter().chain(&self.args.fail)
    }
}

/// The numbers of the table.
const COLUMNS: [&str; 5] = ["median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "output_throughput"];

/// Plays of one rate that differ in their noise.
struct Level {
    rate: f64,
    plays: Vec<Played>,
}

impl Level {
    /// The least, the middle and the largest value.
    fn range(&self, key: &str) -> [f64; 3] {
        let mut values: Vec<f64> = self.plays.iter().filter_map(|play| play.value(key)).collect();
        values.sort_by(f64::total_cmp);
        match values.as_slice() {
            [] => [f64::NAN; 3],
            [least, .., most] => [*least, values[values.len() / 2], *most],
            [one] => [*one; 3],
        }
    }

    /// The share of requests that pile up, in the middle.
    fn growth(&self) -> f64 {
        let mut values: Vec<f64> = self.plays.iter().map(|play| play.growth).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }
}

fn table(levels: &[Level]) -> Vec<String> {
    let row = |level: &Level| {
        let rate = [Value::Float(rounded(level.rate))].into_iter();
        rate.chain(COLUMNS.map(|key| cell(level.range(key)))).collect()
    };
    let headings = ["requests/s"].into_iter().chain(COLUMNS).map(str::to_owned).collect();
    let text = Table { headings, rows: levels.iter().map(row).collect() }.markdown();
    text.lines().map(str::to_owned).collect()
}

/// What the plays agree on is one number.
fn cell([least, _, most]: [f64; 3]) -> Value {
    match (format!("{least:.1}"), format!("{most:.1}")) {
        (least, most) if least != most => Value::from(format!("{least} to {most}")),
        _ => Value::Float(rounded(least)),
    }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// A run of the server itself.
struct Measured {
    name: String,
    rate: f64,
    run: StoredRun,
}

fn measured(path: &Path) -> anyhow::Result<Measured> {
    let sides = load(&[path.to_owned()])?;
    let [run] = <[StoredRun; 1]>::try_from(sides.iter().flat_map(|side| side.runs()).collect::<Vec<_>>())
        .map_err(|runs| anyhow::anyhow!("--measured {} holds {} runs, not one", path.display(), runs.len()))?;
    let rate = run.number("request_rate").filter(|rate| rate.is_finite());
    let rate = rate.with_context(|| {
        format!("--measured {} has no finite request rate: measure with --request-rate", path.display())
    })?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Measured { name, rate, run })
}

/// Writes the picture in the form that its name asks for.
fn draw(curves: &[LoadCurve], path: &Path) -> anyhow::Result<()> {
    let Some(picture) = picture(curves) else { return Ok(()) };
    let bytes = match path.extension().and_then(|ending| ending.to_str()) {
        Some("png") => png(&picture.scene(), 150.0)?,
        Some("html") => picture_page("Latency against load, predicted", &[picture]).into_bytes(),
        _ => svg(&picture.scene()).into_bytes(),
    };
    std::fs::write(path, bytes).with_context(|| format!("the picture cannot be written to {}", path.display()))
}
