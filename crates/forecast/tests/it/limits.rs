//! Scheduler limits that the experiment of a fit finds, on engines with known limits in virtual time.

use std::{convert::Infallible, sync::Arc};

use tacho_core::Timestamp;
use tacho_engine::{Machine, simulation::Arrival};
use tacho_forecast::fit::{self, Experiment, KnownLimits, Length, Load, Profile, Server, Traced};

use crate::async_scheduling::asynchronous;
use crate::planted::{others, planted, requests, sent, traced};

/// A simulated server.
struct Planted {
    machine: Machine,
    elapsed: f64,
}

impl Planted {
    fn arrivals(load: &Load, count: usize) -> Vec<Arrival> {
        let mut state = (load.seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |mean: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0;
            (mean as f64 * (1.0 + load.range * uniform)).round().max(1.0) as u32
        };
        let mut one = |at: u32| {
            let (prompt, output) = (draw(load.input), draw(load.output) as usize);
            let own = (0..prompt).map(|id| id.wrapping_mul(31) ^ (at << 14) ^ ((load.seed as u32) << 25));
            let ids: Arc<[u32]> = (0..load.prefix as u32).chain(own).collect();
            Arrival { due: Timestamp::ZERO, prompt: ids, output, priority: 0 }
        };
        (0..count as u32).map(&mut one).collect()
    }
}

impl Server for Planted {
    type Error = Infallible;

    fn run(&mut self, load: &Load) -> Result<Vec<Traced>, Infallible> {
        let (count, until) = match load.length {
            Length::Requests(count) => (count, f64::INFINITY),
            Length::Seconds(seconds) => (load.concurrency * 8 + (seconds * 30.0) as usize, seconds),
        };
        let run = sent(&self.machine, &Self::arrivals(load, count), Some(load.concurrency), load.seed as u64);
        let run: Vec<Traced> = run.into_iter().filter(|one| one.sent < until).collect();
        self.elapsed += run.iter().filter_map(|one| one.tokens.last()).copied().fold(0.0, f64::max);
        Ok(run)
    }

    fn elapsed(&self) -> f64 {
        self.elapsed
    }
}

/// Engines with and without chunked prefill, synchronous and asynchronous: twenty with five token budgets, and ten with a
/// smaller and a larger one.
fn engines() -> Vec<Machine> {
    let [slow, padded, noisy] = others();
    let kinds = [(planted(), 256), (slow, 128), (padded, 64), (noisy, 48), (asynchronous(5.0), 96)];
    let budgets = [512, 1024, 2048, 4096, 8192];
    let engine = |number: usize| {
        let (mut machine, seqs) = kinds[number % 5].clone();
        machine.engine.max_num_seqs = seqs;
        let budget = if number < 20 { budgets[(number / 5 + number) % 5] } else { [256, 16_384][number / 5 % 2] };
        machine.engine.max_num_batched_tokens = budget;
        // An engine without chunked prefill has a budget of at least its model length.
        machine.engine.enable_chunked_prefill = number % 4 != 3;
        machine.engine.max_model_len = if number % 4 == 3 { machine.engine.max_num_batched_tokens } else { 32_768 };
        machine
    };
    (0..30).map(engine).collect()
}

#[test]
fn the_token_budget_is_found_or_bounded_within_the_minute() {
    let mut found = 0;
    for (number, machine) in engines().into_iter().enumerate() {
        let truth = machine.engine.clone();
        let mut server = Planted { machine, elapsed: 0.0 };
        let experiment = Experiment::measure(&mut server, 60.0, truth.max_model_len).unwrap().unwrap();
        let mut known = KnownLimits::default();
        experiment.learn_limits(&mut known);
        let (budget, source) = (known.limits.max_num_batched_tokens, source(&known, "max_num_batched_tokens"));
        println!(
            "{number}: {} of {} {} in {:.0} s: {budget} ({source}), {:?}",
            server.machine.name,
            truth.max_num_batched_tokens,
            truth.enable_chunked_prefill,
            server.elapsed,
            known.limits.enable_chunked_prefill
        );
        let is_found = source.starts_with("reached");
        found += usize::from(is_found);
        assert!(!is_found || budget == truth.max_num_batched_tokens, "{number}: {budget} {source}");
        // A limit that is not found has a lower bound of at least half its true value, so that no prediction splits
        // prompts that fit.
        let bound: usize = source.rsplit(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        assert!(is_found || 2 * bound >= truth.max_num_batched_tokens.min(8192), "{number}: {source}");
        assert!(server.elapsed < 90.0, "{number}: {} s", server.elapsed);
    }
    assert!(found >= 24, "{found} of 30");
}

/// A loop that no run of the fit had: a wrong token budget shows in its TTFT.
#[test]
fn a_closed_loop_is_predicted_with_the_budget_that_was_found() {
    for (number, budget) in [512, 2048, 8192].into_iter().enumerate() {
        let mut machine = [planted(), others()[1].clone(), asynchronous(5.0)][number].clone();
        machine.engine.max_num_batched_tokens = budget;
        machine.engine.max_model_len = 32_768;
        let mut server = Planted { machine: machine.clone(), elapsed: 0.0 };
        let experiment = Experiment::measure(&mut server, 60.0, 32_768).unwrap().unwrap();
        let mut known = KnownLimits::default();
        experiment.learn_limits(&mut known);
        let fitted = fit::fit(&experiment.runs, &known.limits, None).unwrap();
        let profile = Profile { name: "fitted".to_owned(), limits: known.limits, fitted, sources: Vec::new() };
        let learned = Machine::parse(&tacho_core::json::dumps(&profile.to_json()), "fitted.json").unwrap();
        let ttfts = |machine: &Machine| {
            let runs = (77..81).flat_map(|seed| traced(machine, 24, 300, seed));
            let mut ttfts: Vec<f64> = runs.map(|one| one.tokens[0] - one.sent).collect();
            ttfts.sort_by(f64::total_cmp);
            [ttfts.iter().sum::<f64>() / 1200.0, ttfts[600]]
        };
        let (truth, found) = (ttfts(&machine), ttfts(&learned));
        for (truth, found) in truth.into_iter().zip(found) {
            println!("{budget}: {:.1} ms for {:.1} ms", found * 1e3, truth * 1e3);
            assert!((found / truth - 1.0).abs() < 0.15, "{budget}: {found} {truth}");
        }
    }
}

/// 1,000 is not taken for 1,024, and a limit that is not round is bounded.
#[test]
fn a_token_budget_that_is_no_power_of_two_is_bounded_by_long_prompts() {
    let mut named = 0;
    for (number, budget) in [1000, 700, 500, 900, 1000, 530].into_iter().enumerate() {
        let mut machine = planted();
        machine.engine.async_scheduling = number % 2 == 1;
        machine.engine.max_num_batched_tokens = budget;
        let due = |at: usize| Timestamp::from_secs((at as f64 + (at * 7 % 5) as f64 / 5.0) / 3.0);
        let seed = 30 + number as u64;
        let paced = requests(400, seed).into_iter().enumerate().map(|(at, one)| Arrival { due: due(at), ..one });
        let runs = vec![sent(&machine, &paced.collect::<Vec<_>>(), None, seed)];
        let (experiment, mut known) = (Experiment { runs, ..Experiment::default() }, KnownLimits::default());
        experiment.learn_limits(&mut known);
        let (found, source) = (known.limits.max_num_batched_tokens, source(&known, "max_num_batched_tokens"));
        println!("{budget}: {found} ({source})");
        let bounds: Vec<usize> = source.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(bounds.len() < 2 || (bounds[0]..=bounds[1]).contains(&budget), "{budget}: {found} ({source})");
        named += usize::from(source.starts_with("reached") && found.abs_diff(budget) * 50 <= budget);
        assert!(
            !source.starts_with("reached") || found.abs_diff(budget) * 25 <= budget,
            "{budget}: {found} ({source})"
        );
    }
    assert!(named >= 4, "{named} of 6");
}

fn source(known: &KnownLimits, name: &str) -> String {
    known.rows().find(|row| row.0 == name).map(|row| row.2).unwrap_or_default()
}

/// A run whose prompts are longer than the token budget, and that never has several of them queued for long.
#[test]
fn long_prompts_show_the_token_budget_without_a_burst() {
    for (async_scheduling, budget) in [(false, 512), (true, 512), (false, 8192), (true, 8192)] {
        let mut machine = planted();
        machine.engine.async_scheduling = async_scheduling;
        machine.engine.max_num_batched_tokens = budget;
        let due = |at: usize| Timestamp::from_secs((at as f64 + (at * 7 % 5) as f64 / 5.0) / 3.0);
        let paced = requests(250, 5).into_iter().enumerate().map(|(at, one)| Arrival { due: due(at), ..one });
        let runs = vec![sent(&machine, &paced.collect::<Vec<_>>(), None, 5)];
        let (experiment, mut known) = (Experiment { runs, ..Experiment::default() }, KnownLimits::default());
        experiment.learn_limits(&mut known);
        assert_eq!(known.limits.max_num_batched_tokens, budget, "async {async_scheduling}: {:?}", known.sources);
        let costs = fit::fit(&experiment.runs, &known.limits, None).unwrap().costs;
        assert!((costs.prefill.value / 30e-6 - 1.0).abs() < 0.1, "async {async_scheduling}, {budget}: {costs:?}");
    }
}
