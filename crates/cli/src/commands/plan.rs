//! `tacho plan`: replicas for a rate within limits, played by a profile.

use anyhow::{Context, bail};
use tacho_core::Stamp;
use tacho_metrics::search::Criterion;
use tacho_run::experiment::split;
use tacho_sim::foresight::{Coming, Router, Sending};

use super::foreseen::{Played, say};
use super::serve::predict::{Workload, repeated};
use super::values_for;
use crate::args;
use crate::args::plan::PlanArgs;
use crate::args::serve::ServeArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Seconds of load that a play has at least, and requests at most.
const SECONDS: f64 = 60.0;
const MOST_REQUESTS: usize = 4_000;
/// The share of requests at the beginning that fill an empty engine.
const SKIP: f64 = 0.2;
/// Plays that differ in their noise.
const PLAYS: u64 = 3;
/// How exactly the largest rate is found.
const EXACT: f64 = 0.01;

/// Plans and tells.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let planner = Planner::new(args)?;
    let Some(most) = planner.largest_rate()? else {
        let broken = planner.broken(1e-3, 1)?;
        say(&[format!("no rate meets the limits: one request alone already breaks {}", broken.join(", "))])?;
        return Ok(Exit::Gate);
    };
    let mut replicas = (args.rate / most).ceil().max(1.0) as usize;
    while !planner.broken(args.rate, replicas)?.is_empty() {
        replicas += 1 + replicas / 20;
        if replicas > args.max_replicas {
            say(&[format!("{} replicas do not serve {} requests/s within the limits", args.max_replicas, args.rate)])?;
            return Ok(Exit::Gate);
        }
    }
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
    lines.extend(planner.table(most)?);
    lines.push(format!("predicted by {}, not measured", planner.workload.machine.name));
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
        let values = values_for(&args::serve::TABLE, &words)?;
        let values =
            values.with_context(|| format!("--bench-cmd {:?} is no command line of tacho serve", args.bench_cmd))?;
        let workload = Workload::of(&ServeArgs::read(values)?)?;
        let planner = Planner {
            args,
            base: workload.coming.clone(),
            router: Router::parse(&args.router).unwrap_or_default(),
            workload,
        };
        if planner.base.is_empty() {
            bail!("--bench-cmd {:?} has no requests", args.bench_cmd);
        }
        let played = planner.play(1.0, 1, 1)?;
        for criterion in args.sla.iter().chain(&args.fail) {
            if played.value(&criterion.metric).is_none() {
                bail!("{:?} is no number of a prediction: give one such as p99_ttft_ms", criterion.metric);
            }
        }
        if played.refused > 0 {
            bail!("{} requests of the workload could never run on this server; see tacho predict", played.refused);
        }
        Ok(planner)
    }

    fn play(&self, rate: f64, replicas: usize, seed: u64) -> anyhow::Result<Played> {
        let wanted = ((SECONDS * rate) as usize).clamp(self.base.len().min(200), MOST_REQUESTS);
        let rounds = wanted.div_ceil(self.base.len());
        let mut coming = repeated(&self.base, rounds);
        coming.truncate(wanted.max(1));
        coming.iter_mut().for_each(|one| one.due = Stamp((one.due.0 as f64 / rate) as u64));
        let sending = Sending { limit: None, replicas, router: self.router, seed };
        let gone = self.workload.play(&coming, &sending)?;
        Ok(Played::of(&coming, &gone, SKIP))
    }

    /// The limits that are broken at a rate.
    fn broken(&self, rate: f64, replicas: usize) -> anyhow::Result<Vec<String>> {
        let played = self.play(rate, replicas, 1)?;
        let value = |criterion: &Criterion| played.value(&criterion.metric).unwrap_or(f64::NAN);
        let missed = self.args.sla.iter().filter(|criterion| !criterion.is_met(value(criterion)));
        let met = self.args.fail.iter().filter(|criterion| criterion.is_met(value(criterion)));
        let told =
            |criterion: &Criterion| format!("{}{} ({:.2})", criterion.metric, criterion.condition(), value(criterion));
        Ok(missed.chain(met).map(told).collect())
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

    /// How much more than the rate the replicas would bear, in percent, looked for up to twice of it.
    fn headroom(&self, replicas: usize) -> anyhow::Result<f64> {
        let (mut low, mut high) = (1.0, 2.0);
        while high - low > 0.02 {
            let middle = (low + high) / 2.0;
            if self.broken(self.args.rate * middle, replicas)?.is_empty() { low = middle } else { high = middle }
        }
        Ok((low - 1.0) * 100.0)
    }

    /// Latencies of one replica by load.
    fn table(&self, most: f64) -> anyhow::Result<Vec<String>> {
        let keys = ["median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "output_throughput"];
        let mut lines = vec![format!("  {:>10}  {}", "requests/s", keys.map(|key| format!("{key:>24}")).join("  "))];
        for share in [0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1] {
            let rate = most * share;
            let plays: Vec<Played> = (1..=PLAYS).map(|seed| self.play(rate, 1, seed)).collect::<anyhow::Result<_>>()?;
            let cell = |key: &str| {
                let values: Vec<f64> = plays.iter().filter_map(|play| play.value(key)).collect();
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                let most = values.iter().copied().fold(0.0, f64::max);
                format!("{:>24}", format!("{least:.1} to {most:.1}"))
            };
            lines.push(format!("  {rate:>10.2}  {}", keys.map(cell).join("  ")));
        }
        Ok(lines)
    }
}
