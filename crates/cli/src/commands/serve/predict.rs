//! `tacho predict`: the benchmark that `serve` would run, simulated in virtual time.

use std::sync::Arc;
use std::time::Instant;

use tacho_client::Task;
use tacho_core::{ManualClock, Request, Timestamp};
use tacho_engine::Machine;
use tacho_engine::simulation::Arrival;
use tacho_forecast::EngineTarget;
use tacho_forecast::predict::Prediction;
use tacho_record::{PREDICTED_BY, RunRecord};
use tacho_report::html::run::About;
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, Prepared, predicted, prepare};
use tacho_sim::Server;
use tacho_text::{Tokenizer, prompt_ids};

use super::destination::Destination;
use super::{charts, findings, inform, plan, simulator};
use crate::args::serve::ServeArgs;
use crate::commands::check::code;
use crate::commands::say;
use crate::commands::sim::profile;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let destination = Destination::open(args)?;
    args.outputs.check()?;
    let workload = Workload::of(args)?;
    let before = Instant::now();
    let prediction = workload.predict()?;
    let took = before.elapsed().as_secs_f64() / prediction.runs as f64;
    let record = &prediction.record;
    let saved = destination.save(args, record)?;
    args.outputs.print(record)?;
    args.outputs.write(record, &About::default())?;
    if let Some(path) = &saved {
        inform(args, &format!("saved: {}", path.display()));
    }
    if let Some(path) = saved.or_else(|| destination.path(args, record)) {
        charts::draw(args, record, &charts::dataset_note(args, &workload.prepared)?, &path, &())?;
    }
    let findings = findings(args, record)?;
    // If a script reads metrics from standard output, nothing else is printed there.
    if !args.outputs.owns_stdout() {
        say(&lines(&workload.machine.name, &prediction, took))?;
    }
    Ok(code(&findings, args.own.allow_inconclusive))
}

fn lines(machine: &str, prediction: &Prediction, took: f64) -> Vec<String> {
    let duration = prediction.record.measured.duration;
    let mut lines = vec![format!(
        "predicted with profile {machine}, not measured: {duration:.1} s simulated in {took:.3} s, {:.0}x real time",
        duration / took.max(1e-9)
    )];
    if !prediction.intervals.is_empty() {
        lines.push(format!("expected value and 95% prediction interval ({} simulations):", prediction.simulations));
    }
    lines.extend(prediction.intervals.iter().map(|(metric, interval)| {
        format!("  {metric:<20} {:>12.2} {:>12.2} to {:>10.2}", interval.expected, interval.low, interval.high)
    }));
    lines
}

/// A workload with the inputs of its simulation.
pub(crate) struct Workload {
    pub(crate) machine: Machine,
    plan: ServePlan,
    prepared: Prepared,
    /// Counts tokens if the workload needs no tokenizer.
    builtin: Tokenizer,
    requests: Vec<Request>,
    prompts: Vec<Arc<[u32]>>,
    /// Provides the model name and counts prompt tokens while the workload is generated.
    _server: Server,
}

impl Workload {
    /// Builds the workload; the arguments must select the simulator.
    pub(crate) fn of(args: &ServeArgs) -> anyhow::Result<Self> {
        let machine = profile(args.own.sim_profile.as_deref())?;
        let server = simulator::start(args)?.ok_or_else(|| anyhow::anyhow!("a prediction needs --sim"))?;
        let mut plan = plan::of(args, Some(&server))?;
        plan.report.metadata.push((PREDICTED_BY.to_owned(), machine.name.clone()));
        let prepared = prepare(&plan, Contact::Minimal, &())?;
        let builtin = Tokenizer::builtin();
        let tokenizer = prepared.tokenizer.as_ref().unwrap_or(&builtin);
        let requests = prepared.requests.all()?.into_owned();
        let prompts = requests.iter().map(|request| prompt_ids(request, tokenizer)).collect();
        Ok(Workload { machine, plan, prepared, builtin, requests, prompts, _server: server })
    }

    /// Whether requests depend on one another.
    pub(crate) fn is_sessions(&self) -> bool {
        self.prepared.sessions.is_some()
    }

    fn is_pooling(&self) -> bool {
        self.plan.endpoint.backend.task() == Task::Pooling
    }

    /// The requests with their scheduled times.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        let requests = self.requests.iter().zip(&self.prompts);
        let length = |request: &Request| if self.is_pooling() { 1 } else { request.output_len };
        let one = |((request, prompt), due): ((&Request, &Arc<[u32]>), &f64)| Arrival {
            due: Timestamp::from_secs(*due),
            prompt: Arc::clone(prompt),
            output: usize::try_from(length(request)).unwrap_or(1).max(1),
            priority: tacho_workload::scenarios::priority_of(request).unwrap_or(0),
        };
        requests.zip(self.prepared.timeline.scheduled()).map(one).collect()
    }

    fn predict(&self) -> anyhow::Result<Prediction> {
        let tokens = self.requests.iter().map(|request| request.output_len.max(1)).sum();
        Prediction::of(&self.machine, tokens, |machine, seed| self.record(machine, seed))
    }

    /// The record of one simulation.
    fn record(&self, machine: &Machine, seed: u64) -> anyhow::Result<RunRecord> {
        let clock = ManualClock::default();
        let requests = (self.requests.as_slice(), self.prompts.as_slice());
        let tokenizer = self.prepared.tokenizer.as_ref().unwrap_or(&self.builtin);
        let target = EngineTarget::new(machine, seed, &clock, requests, (tokenizer, self.is_pooling()))?;
        Ok(predicted(&self.plan, &self.prepared, &target, &clock)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::serve::TABLE;
    use crate::commands::values_for;
    use tacho_record::metric::Known;

    /// Metrics whose confidence intervals are checked.
    const NUMBERS: [&str; 5] = ["mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_e2el_ms", "p99_e2el_ms"];

    /// Rate and number of requests at 20%, 50%, and 80% of the server's capacity. The samples are long enough for the
    /// autocorrelation at each load.
    const LOADS: [(f64, u32); 3] = [(80.0, 2_000), (200.0, 5_000), (320.0, 20_000)];

    /// The realized rate of an independent run. A plan scales arrivals to a fixed duration, which reduces the
    /// variance between runs; this restores it.
    fn as_it_falls(rate: f64, requests: u32, seed: u64) -> String {
        let draw = |at: u64| {
            let mixed = (seed * 12 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 11) as f64 / (1_u64 << 53) as f64
        };
        let normal = (0..12).map(draw).sum::<f64>() - 6.0;
        (rate * (1.0 + normal / f64::from(requests).sqrt())).to_string()
    }

    fn simulated(rate: f64, requests: u32, seed: u64) -> RunRecord {
        let (rate, prompts, seed) = (as_it_falls(rate, requests, seed), requests.to_string(), (seed + 1).to_string());
        let words = ["serve", "--num-prompts", &prompts, "--request-rate", &rate, "--random-input-len", "64"];
        let more = ["--random-output-len", "16", "--seed", &seed, "--percentile-metrics", "ttft,e2el"];
        let varied = ["--sim-profile", "h100-8b", "--random-range-ratio", "0.5"];
        let words: Vec<String> = words.iter().chain(&more).chain(&varied).map(|word| (*word).to_owned()).collect();
        let values = values_for(&TABLE, &words).unwrap().unwrap();
        let workload = Workload::of(&ServeArgs::read_simulated(values).unwrap()).unwrap();
        workload.record(&workload.machine, seed.parse().unwrap()).unwrap()
    }

    /// `cargo test --release -p tacho-cli simulated_runs -- --ignored --nocapture`; `TACHO_RUNS` sets the number of
    /// runs per load. The true value of a metric is its mean over all runs.
    #[test]
    #[ignore = "minutes with optimisation; prints the table of coverage"]
    fn intervals_of_simulated_runs_hold_the_truth() {
        let runs: u64 = std::env::var("TACHO_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
        let mut off = Vec::new();
        println!("{:>8} {:>8} {}", "rate", "requests", NUMBERS.map(|key| format!("{key:>16}")).join(" "));
        for (rate, requests) in LOADS {
            let records: Vec<RunRecord> = (0..runs).map(|seed| simulated(rate, requests, seed)).collect();
            let shares = NUMBERS.map(|key| {
                let known = Known::find(key).unwrap();
                let values: Vec<f64> = records.iter().filter_map(|record| known.read(record)).collect();
                let truth = values.iter().sum::<f64>() / values.len() as f64;
                let holds = |record: &&RunRecord| {
                    let interval = record.intervals.get(key);
                    interval.is_some_and(|interval| interval.low <= truth && truth <= interval.high)
                };
                records.iter().filter(holds).count() as f64 / runs as f64
            });
            println!("{rate:>8} {requests:>8} {}", shares.map(|share| format!("{:>15.1}%", share * 100.0)).join(" "));
            let chance = 1.96 * (0.95 * 0.05 / runs as f64).sqrt();
            let outside = shares.iter().any(|share| !(0.93 - chance..=0.97 + chance).contains(share));
            off.extend(outside.then_some((rate, shares)));
        }
        assert!(off.is_empty(), "{off:?}");
    }
}
