//! `tacho predict`: the benchmark that `serve` would run, simulated in virtual time.

use std::{sync::Arc, time::Instant};

use tacho_client::Task;
use tacho_core::{ManualClock, Request, Timestamp};
use tacho_engine::{Machine, simulation::Arrival};
use tacho_forecast::{EngineTarget, predict::Prediction};
use tacho_record::{PREDICTED_BY, RunRecord};
use tacho_report::html::run::About;
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, Prepared, predicted, prepare};
use tacho_sim::Server;
use tacho_text::{Tokenizer, prompt_ids};

use super::{charts, destination::Destination, findings, inform, plan, simulator};
use crate::{
    args::serve::ServeArgs, commands::check::code, commands::say, commands::sim::profile, exit::Exit,
    interrupt::Interrupt,
};

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
    destination.keep(args, record);
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
    Ok(code(&findings, args.tacho.allow_inconclusive))
}

fn lines(machine: &str, prediction: &Prediction, took: f64) -> Vec<String> {
    let duration = prediction.record.measured.duration;
    let mut lines = vec![format!(
        "predicted with profile {machine}, not measured: {duration:.1} s simulated in {took:.3} s, {:.0}x real time",
        duration / took.max(1e-9)
    )];
    if prediction.is_uneven {
        lines.push(
            "the server's speed varied while it was fitted (interference): the report shows one typical simulation"
                .to_owned(),
        );
    }
    if !prediction.intervals.is_empty() {
        lines.push(format!("expected value and 95% prediction interval ({} simulations):", prediction.simulations));
    }
    lines.extend(prediction.intervals.iter().map(|(metric, interval)| {
        format!("  {metric:<20} {:>12.2} {:>12.2} to {:>10.2}", interval.expected, interval.low, interval.high)
    }));
    lines
}

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
        let machine = profile(args.tacho.sim_profile.as_deref())?;
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
    use crate::{args::serve::PREDICT, commands::values_for};
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
        let (rate, prompts, seed) = (as_it_falls(rate, requests, seed), requests.to_string(), seed + 1);
        let load = ["--num-prompts", &prompts, "--request-rate", &rate, "--seed", &seed.to_string()];
        predicted_with(&[&load[..], &["--random-range-ratio", "0.5"]].concat(), seed)
    }

    fn predicted(args: &[&str]) -> RunRecord {
        predicted_with(args, 1)
    }

    fn predicted_with(args: &[&str], seed: u64) -> RunRecord {
        let general = ["predict", "--random-input-len", "64", "--random-output-len", "16", "--sim-profile", "h100-8b"];
        let metrics = ["--percentile-metrics", "ttft,e2el"];
        let args: Vec<String> = general.iter().chain(&metrics).chain(args).map(|word| (*word).to_owned()).collect();
        let values = values_for(&PREDICT, &args).unwrap().unwrap();
        let workload = Workload::of(&ServeArgs::read_simulated(values).unwrap()).unwrap();
        workload.record(&workload.machine, seed).unwrap()
    }

    #[test]
    fn stages_measure_what_separate_runs_measure() {
        let spec = "low:20s@40, high:20s@240, mid:20s@120";
        let staged = predicted(&["--stages", spec, "--random-range-ratio", "0.5"]);
        let interval = |record: &RunRecord, key: &str| {
            let interval = record.intervals.get(key).unwrap();
            (interval.low, interval.high)
        };
        let overlap = |one: (f64, f64), other: (f64, f64)| one.0 <= other.1 && other.0 <= one.1;
        for (stage, rate, requests) in [("low", "40", "800"), ("high", "240", "4800"), ("mid", "120", "2400")] {
            let group = &staged.group(stage).unwrap().record;
            let load = ["--request-rate", rate, "--num-prompts", requests, "--seed", "3"];
            let alone = predicted(&[&load[..], &["--random-range-ratio", "0.5"]].concat());
            assert_eq!(group.summary.completed, alone.summary.completed);
            assert!((group.summary.request_throughput / alone.summary.request_throughput - 1.0).abs() < 0.02);
            for key in NUMBERS {
                let (one, other) = (interval(group, key), interval(&alone, key));
                assert!(overlap(one, other), "{stage} {key}: {one:?} and {other:?}");
            }
        }
        // The loads differ by more than the intervals.
        let [low, high] = ["low", "high"].map(|stage| interval(&staged.group(stage).unwrap().record, "mean_e2el_ms"));
        assert!(low.1 < high.0, "{low:?} and {high:?}");
    }

    #[test]
    fn an_overload_takes_time_to_recover() {
        let recovery = |spec: &str| predicted(&["--stages", spec]).recoveries;
        // The machine serves about 400 requests/s: five seconds at 600 leave 1,000 of them, which take five more
        // seconds at 200.
        let found = recovery("calm:10s@200, spike:5s@600, drain:20s@200");
        let seconds = found[1].unwrap();
        assert!((1.0..15.0).contains(&seconds), "{found:?}");
        assert!(recovery("calm:10s@50, more:5s@100, drain:10s@50")[1].unwrap() < 0.5);
        assert_eq!(recovery("calm:5s@200, spike:20s@800, drain:3s@200"), [None; 3]);
    }

    #[test]
    fn stages_have_their_own_lengths() {
        let spec = "short:5s@20 input_len=32 output_len=8, long:5s@20 input_len=uniform(300,400) output_len=40";
        let record = predicted(&["--stages", spec]);
        let mean = |stage: &str| {
            let summary = &record.group(stage).unwrap().record.summary;
            let (input, output) = (summary.total_input, summary.generation().unwrap().total_output);
            (input as f64 / 100.0, output as f64 / 100.0)
        };
        assert_eq!(mean("short"), (32.0, 8.0));
        let (input, output) = mean("long");
        assert!((330.0..370.0).contains(&input) && output == 40.0, "{input} {output}");
    }

    /// `cargo test --release -p tacho-cli simulated_runs -- --ignored --nocapture`; `TACHO_RUNS` sets the number of
    /// runs per load. The true value of a metric is its mean over all runs.
    #[test]
    #[ignore = "minutes with optimization; prints the table of coverage"]
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
