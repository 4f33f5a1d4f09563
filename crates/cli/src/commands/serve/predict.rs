//! `tacho predict`: the benchmark that `serve` would run, played by the engine's model on a clock of its own.

mod model;

use std::sync::Arc;
use std::time::Instant;

use tacho_client::Task;
use tacho_core::{ManualClock, Request, Stamp};
use tacho_record::RunRecord;
use tacho_report::html::run::About;
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, Prepared, predicted, prepare};
use tacho_sim::foresight::{Coming, Gone, Sending, foresee};
use tacho_sim::{Machine, Server, prompt_ids};
use tacho_text::Tokenizer;

use super::destination::Destination;
use super::{findings, pictures, plan, simulator, tell};
use crate::args::serve::ServeArgs;
use crate::commands::check::code;
use crate::commands::foreseen;
use crate::commands::sim::profile;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use model::Model;

/// Rounds of plays are made until so many tokens of answers were played,
const TOKENS: i64 = 1_000_000;
/// and no more than these: runs of few tokens are ruled by chance, and quick to play.
const ROUNDS: i64 = 5;

/// Predicts the benchmark that the arguments ask for.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let destination = Destination::open(args)?;
    args.outputs.check()?;
    let workload = Workload::of(args)?;
    let before = Instant::now();
    let plays = workload.plays()?;
    let numbers = foreseen::numbers(&plays);
    // A pace that changes makes plays too unlike for one of them to stand for all.
    let steady = match workload.machine.pace.is_some() || plays.is_empty() {
        true => Some(workload.record(&workload.machine.steady(), 1)?),
        false => None,
    };
    let took = before.elapsed().as_secs_f64() / (plays.len() + usize::from(steady.is_some())) as f64;
    let record = steady.as_ref().unwrap_or_else(|| &plays[foreseen::middle(&numbers)]);
    let saved = destination.save(args, record)?;
    args.outputs.print(record)?;
    args.outputs.write(record, &About::default())?;
    if let Some(path) = &saved {
        tell(args, &format!("saved: {}", path.display()));
    }
    if let Some(path) = saved.or_else(|| destination.path(args, record)) {
        pictures::draw(args, record, &pictures::dataset_note(args, &workload.prepared)?, &path, &())?;
    }
    let findings = findings(args, record)?;
    let machine = &workload.machine;
    let times = record.measured.duration / took.max(1e-9);
    let mut lines = vec![format!(
        "predicted by {}, not measured: {:.1} s played in {took:.3} s, {times:.0} times as fast",
        machine.name, record.measured.duration
    )];
    lines.extend(foreseen::ranges(&numbers, steady.as_ref()));
    // A script that takes the numbers from standard output takes nothing else.
    if !args.outputs.owns_stdout() {
        foreseen::say(&lines)?;
    }
    Ok(code(&findings, args.own.pass_undecided))
}

/// Requests with all that is needed to play them.
pub(crate) struct Workload {
    pub(crate) machine: Machine,
    plan: ServePlan,
    prepared: Prepared,
    /// Counts where the workload needs no tokenizer.
    builtin: Tokenizer,
    requests: Vec<Request>,
    prompts: Vec<Arc<[u32]>>,
    /// Names the model and counts prompts while the workload is made.
    _server: Server,
}

impl Workload {
    /// The workload of these arguments, which ask for the simulator.
    pub(crate) fn of(args: &ServeArgs) -> anyhow::Result<Self> {
        let machine = profile(args.own.sim_profile.as_deref())?;
        let server = simulator::start(args)?.ok_or_else(|| anyhow::anyhow!("a prediction needs --sim"))?;
        let mut plan = plan::of(args, Some(&server))?;
        plan.report.metadata.push(("predicted_by".to_owned(), machine.name.clone()));
        let prepared = prepare(&plan, Contact::Minimal, &())?;
        let builtin = Tokenizer::builtin();
        let tokenizer = prepared.tokenizer.as_ref().unwrap_or(&builtin);
        let requests = prepared.requests.all()?.into_owned();
        let prompts = requests.iter().map(|request| prompt_ids(request, tokenizer)).collect();
        Ok(Workload { machine, plan, prepared, builtin, requests, prompts, _server: server })
    }

    /// Whether its requests wait for one another.
    pub(crate) fn is_sessions(&self) -> bool {
        self.prepared.dialogue.is_some()
    }

    /// Whether answers come whole.
    fn is_pooling(&self) -> bool {
        self.plan.endpoint.backend.task() == Task::Pooling
    }

    /// The requests with when they are due.
    pub(crate) fn coming(&self) -> Vec<Coming> {
        let requests = self.requests.iter().zip(&self.prompts);
        let length = |request: &Request| if self.is_pooling() { 1 } else { request.output_len };
        let one = |((request, prompt), due): ((&Request, &Arc<[u32]>), &f64)| Coming {
            due: Stamp::from_secs(*due),
            prompt: Arc::clone(prompt),
            output: usize::try_from(length(request)).unwrap_or(1).max(1),
            priority: tacho_workload::scenarios::priority_of(request).unwrap_or(0),
        };
        requests.zip(self.prepared.timeline.scheduled()).map(one).collect()
    }

    /// Plays requests to their end, whatever the workload's own limits are.
    pub(crate) fn play(&self, coming: &[Coming], sending: &Sending) -> anyhow::Result<Vec<Gone>> {
        Ok(foresee(&self.machine, coming, sending)?)
    }

    /// Plays that differ in their noise and in what is not known for certain of the machine; none where nothing is noisy.
    fn plays(&self) -> anyhow::Result<Vec<RunRecord>> {
        let versions: Vec<Machine> =
            if self.machine.is_noisy() { self.machine.versions().collect() } else { Vec::new() };
        let tokens: i64 = self.requests.iter().map(|request| request.output_len.max(1)).sum();
        let rounds = (TOKENS / (tokens * versions.len() as i64).max(1)).clamp(1, ROUNDS);
        let plays = (0..rounds).flat_map(|_| &versions).zip(1..);
        plays.map(|(machine, seed)| self.record(machine, seed)).collect()
    }

    /// The record of the workload as it would be sent, with the noise of a seed.
    fn record(&self, machine: &Machine, seed: u64) -> anyhow::Result<RunRecord> {
        let clock = ManualClock::default();
        let asked = (self.requests.as_slice(), self.prompts.as_slice());
        let tokenizer = self.prepared.tokenizer.as_ref().unwrap_or(&self.builtin);
        let model = Model::new(machine, seed, &clock, asked, (tokenizer, self.is_pooling()))?;
        Ok(predicted(&self.plan, &self.prepared, &model, &clock)?)
    }
}

/// Requests again and again, none sharing a prefix with those of another round.
pub(crate) fn repeated(coming: &[Coming], rounds: usize) -> Vec<Coming> {
    let last = coming.iter().map(|one| one.due.0).max().unwrap_or(0);
    let period = last + last / coming.len().max(1) as u64 + 1;
    let round = |number: usize| {
        coming.iter().map(move |one| Coming {
            due: Stamp(one.due.0 + period * number as u64),
            prompt: match number {
                0 => Arc::clone(&one.prompt),
                _ => one.prompt.iter().map(|id| id.wrapping_add(1_000_003 * number as u32)).collect(),
            },
            ..one.clone()
        })
    };
    (0..rounds.max(1)).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::serve::TABLE;
    use crate::commands::values_for;
    use tacho_record::number::Known;

    /// The numbers whose intervals are looked at.
    const NUMBERS: [&str; 5] = ["mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_e2el_ms", "p99_e2el_ms"];

    /// A fifth, a half and four fifths of what the server can do, with requests enough for what each remembers.
    const LOADS: [(f64, u32); 3] = [(80.0, 2_000), (200.0, 5_000), (320.0, 20_000)];

    /// A rate as it is in a run of its own. Arrivals of a plan are stretched until they last as long as they should, which
    /// makes runs more alike than what happens to them: this is by how much they would have been off.
    fn as_it_falls(rate: f64, requests: u32, seed: u64) -> String {
        let draw = |at: u64| {
            let mixed = (seed * 12 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 11) as f64 / (1_u64 << 53) as f64
        };
        let normal = (0..12).map(draw).sum::<f64>() - 6.0;
        (rate * (1.0 + normal / f64::from(requests).sqrt())).to_string()
    }

    fn played(rate: f64, requests: u32, seed: u64) -> RunRecord {
        let (rate, prompts, seed) = (as_it_falls(rate, requests, seed), requests.to_string(), (seed + 1).to_string());
        let words = ["serve", "--num-prompts", &prompts, "--request-rate", &rate, "--random-input-len", "64"];
        let more = ["--random-output-len", "16", "--seed", &seed, "--percentile-metrics", "ttft,e2el"];
        let varied = ["--sim-profile", "h100-8b", "--random-range-ratio", "0.5"];
        let words: Vec<String> = words.iter().chain(&more).chain(&varied).map(|word| (*word).to_owned()).collect();
        let values = values_for(&TABLE, &words).unwrap().unwrap();
        let workload = Workload::of(&ServeArgs::read_simulated(values).unwrap()).unwrap();
        workload.record(&workload.machine, seed.parse().unwrap()).unwrap()
    }

    /// `cargo test --release -p tacho-cli simulated_runs -- --ignored --nocapture`; TACHO_RUNS is how many of each load. The
    /// truth of a number is its mean over all runs.
    #[test]
    #[ignore = "minutes with optimisation; prints the table of coverage"]
    fn intervals_of_simulated_runs_hold_the_truth() {
        let runs: u64 = std::env::var("TACHO_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
        let mut off = Vec::new();
        println!("{:>8} {:>8} {}", "rate", "requests", NUMBERS.map(|key| format!("{key:>16}")).join(" "));
        for (rate, requests) in LOADS {
            let records: Vec<RunRecord> = (0..runs).map(|seed| played(rate, requests, seed)).collect();
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
