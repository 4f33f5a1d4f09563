//! Fits of engines with asynchronous scheduling.

use tacho_core::Timestamp;
use tacho_engine::{CostModel, Front, Machine, simulation::Arrival};
use tacho_forecast::fit::{self, Fitted, Profile, Traced};

use crate::planted::{planted, requests, sent};

/// An engine modeled on a measured accelerator: scheduling a prefill step takes longer than a decode step.
pub(crate) fn asynchronous(schedule_ms: f64) -> Machine {
    let mut machine = Machine { name: "async scheduling".to_owned(), ..planted() };
    machine.cost = CostModel {
        fixed_ns: 12e6,
        per_prefill_token_ns: 68e3,
        memory_bound_tokens: 160,
        single_token_saves_ns: 5e5,
        per_sequence_ns: 20e3,
        per_kv_token_ns: 130.0,
        schedule_ns: schedule_ms * 1e6,
        schedule_cudagraph_ns: schedule_ms / 2.0 * 1e6,
        cudagraph_max_tokens: 128,
        schedule_noise: 0.2,
        drain_ns: 3e6,
        ..CostModel::FREE
    };
    machine.engine.async_scheduling = true;
    machine.engine.max_num_seqs = 64;
    machine.engine.max_num_batched_tokens = 2048;
    machine.front = Front { per_request_ns: 4e6, per_prompt_token_ns: 8e3, per_token_ns: 50e3, shared_cpu_ns: 0.8e6 };
    machine
}

/// The load of a fit: low and high concurrency, long and short prompts.
pub(crate) fn runs(machine: &Machine, seed: u64) -> Vec<Vec<Traced>> {
    let cut = |one: Arrival, max: usize| Arrival { prompt: one.prompt[..one.prompt.len().min(max)].into(), ..one };
    let load = |limit: Option<usize>, count: usize, (max, output): (usize, usize), own: u64| {
        let own = own + 100 * seed;
        let arrivals: Vec<Arrival> = requests(count, own)
            .into_iter()
            .map(|one| Arrival { output: 2 + one.output % output, ..cut(one, max) })
            .collect();
        sent(machine, &arrivals, limit, own)
    };
    (0..3)
        .flat_map(|round| {
            [
                load(Some(1), 25, (1000, 14), 10 * round),
                load(Some(4), 60, (900, 30), 10 * round + 1),
                load(Some(12), 120, (500, 38), 10 * round + 2),
                load(Some(40), 200, (320, 46), 10 * round + 3),
                load(None, 130, (170, 46), 10 * round + 4),
            ]
        })
        .collect()
}

fn learn(machine: &Machine, seed: u64) -> Fitted {
    fit::fit(&runs(machine, seed), &machine.engine, None).unwrap()
}

#[test]
fn scheduling_times_are_separated_from_step_costs() {
    for seed in 0..3 {
        let machine = asynchronous(33.0);
        let fitted = learn(&machine, seed);
        let found = fitted.async_scheduling.unwrap();
        println!("{:?}\n{:?}\n{found:?} {}", fitted.costs, fitted.front, fitted.memory_bound);
        let near = |found: f64, truth: f64, within: f64| (found / truth - 1.0).abs() < within;
        assert!(near(found.schedule.value, 33e-3, 0.06) && near(found.cudagraph.value, 16.5e-3, 0.15), "{found:?}");
        assert!(found.cudagraph_max_tokens == 128 && (0.1..0.3).contains(&found.noise), "{found:?}");
        let costs = fitted.costs;
        assert!(near(costs.fixed.value, 12e-3, 0.02) && near(costs.prefill.value, 68e-6, 0.05), "{costs:?}");
        assert!((128..=192).contains(&fitted.memory_bound), "{}", fitted.memory_bound);
        assert!(near(fitted.single.value, 5e-4, 0.2), "{:?}", fitted.single);
        assert!(near(fitted.front.shared.value, 0.8e-3, 0.4), "{:?}", fitted.front);
        assert!(fitted.is_good() && fitted.slowdown.is_none(), "{fitted:?}");
    }
}

#[test]
fn back_to_back_prefill_costs_are_recovered() {
    for (planted, seed) in [(0.0, 0), (0.0, 1), (3e6, 0), (3e6, 1)] {
        let mut machine = asynchronous(5.0);
        machine.cost.back_to_back_prefill_ns = planted;
        let found = learn(&machine, seed).costs.back_to_back_prefill;
        println!("{planted} ns: {found:?}");
        let (low, high) = found.interval();
        assert!((found.value - planted / 1e9).abs() < 8e-4, "{found:?} for {planted} ns");
        assert!(planted == 0.0 || (low..=high).contains(&(planted / 1e9)), "{found:?}");
    }
}

/// Parts of prompts have no tokens: they are not taken for scheduling.
#[test]
fn chunked_prefills_are_no_scheduling_times() {
    for (budget, seed) in [(512, 3), (512, 4), (700, 5), (512, 6)] {
        let mut machine = Machine { noise: 0.01, ..planted() };
        machine.cost =
            CostModel { fixed_ns: 6.4e6, per_prefill_token_ns: 32e3, per_sequence_ns: 6e4, ..CostModel::FREE };
        machine.engine.async_scheduling = true;
        machine.engine.max_num_batched_tokens = budget;
        // Prompts of three that come close together share iterations.
        let due = |at: usize| Timestamp::from_secs((at / 3) as f64 * 0.75 + (at % 3) as f64 * 0.03);
        let twice = |one: &Arrival| one.prompt.iter().chain(one.prompt.iter()).copied().collect();
        let paced = requests(300, seed).into_iter().enumerate();
        let paced = paced.map(|(at, one)| Arrival { due: due(at), prompt: twice(&one), output: 64, ..one });
        let runs = vec![sent(&machine, &paced.collect::<Vec<_>>(), None, seed)];
        let found = fit::fit(&runs, &machine.engine, Some(true)).unwrap();
        println!("{budget} {seed}: {:?}", found.async_scheduling);
        let schedule = found.async_scheduling.unwrap().schedule;
        assert!(schedule.value - schedule.half <= 0.0, "{budget}, seed {seed}: {schedule:?}");
    }
}

/// Mean TTFT and total duration in seconds, at a rate that was not fitted.
fn at_a_rate(machine: &Machine, rate: f64) -> (f64, f64) {
    let arrivals: Vec<Arrival> = requests(200, 77)
        .into_iter()
        .enumerate()
        .map(|(at, one)| Arrival {
            due: Timestamp::from_secs((at as f64 + (at * 7 % 5) as f64 / 5.0) / rate),
            prompt: one.prompt[..one.prompt.len().min(300)].into(),
            output: 40,
            ..one
        })
        .collect();
    let run = sent(machine, &arrivals, None, 5);
    let ttft = run.iter().map(|one| one.tokens[0] - one.sent).sum::<f64>() / run.len() as f64;
    (ttft, run.iter().filter_map(|one| one.tokens.last()).copied().fold(0.0, f64::max))
}

#[test]
fn ttfts_are_predicted_with_slow_and_fast_scheduling() {
    for prepare in [0.0, 5.0, 33.0] {
        let machine = asynchronous(prepare);
        let fitted = learn(&machine, 4);
        assert!(fitted.async_scheduling.is_some(), "{prepare} ms: {fitted:?}");
        let file = Profile { name: "ahead".to_owned(), limits: machine.engine.clone(), fitted, sources: Vec::new() };
        let learned = Machine::parse(&tacho_core::json::dumps(&file.to_json()), "ahead.json").unwrap();
        let ((true_ttft, true_end), (ttft, end)) = (at_a_rate(&machine, 15.0), at_a_rate(&learned, 15.0));
        println!("{prepare} ms: {ttft} for {true_ttft}, {end} for {true_end}");
        assert!((ttft / true_ttft - 1.0).abs() < 0.06 && (end / true_end - 1.0).abs() < 0.03, "{prepare} ms");
    }
}
