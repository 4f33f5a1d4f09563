//! Parameter recovery: known parameters are estimated within their intervals, and predictions match.

use tacho_core::Timestamp;
use tacho_engine::{CostModel, Machine, Slowdown, simulation::Arrival};
use tacho_forecast::PredictionInterval;
use tacho_forecast::fit::limits::reached::{KnownBefore, Reached, reached};
use tacho_forecast::fit::{self, Estimate, Fitted, Profile, Traced};

use crate::planted::{learn, others, planted, requests, sent, traced};

/// Fitted parameters with their true values, in seconds.
fn terms(fitted: &Fitted, planted: &CostModel) -> [(&'static str, Estimate, f64); 5] {
    let costs = &fitted.costs;
    [
        ("a step", costs.fixed, planted.fixed_ns / 1e9),
        ("a prompt token", costs.prefill, planted.per_prefill_token_ns / 1e9),
        ("a sequence", costs.sequence, planted.per_sequence_ns / 1e9),
        ("context", costs.kv, planted.per_kv_token_ns / 1e9),
        ("attention", costs.attention, planted.per_attention_ns / 1e9),
    ]
}

#[test]
#[ignore = "slow: fits many engines"]
fn slow_group_planted_parameters_come_back_and_their_intervals_cover_them() {
    let (mut covered, mut intervals) = (0, 0);
    println!("| server, seed | cost | planted (us) | found (us) | interval | off |\n|:---|:---|---:|---:|---:|---:|");
    for machine in [planted()].into_iter().chain(others()) {
        for seed in 0..3 {
            let fitted = learn(&machine, seed);
            for (name, found, truth) in terms(&fitted, &machine.cost) {
                let off = found.value / truth - 1.0;
                let (low, high) = found.interval();
                let [truth_us, found_us, low_us, high_us] = [truth, found.value, low, high].map(|cost| cost * 1e6);
                println!(
                    "| {}, {seed} | {name} | {truth_us:.4} | {found_us:.4} | {low_us:.4} to {high_us:.4} | {:+.1}% |",
                    machine.name,
                    off * 100.0
                );
                // The precision of a small part of the step time is limited by the noise: its interval shows how
                // precise it is, and insignificant costs are dropped.
                let small = name == "attention";
                if small && found.value == 0.0 {
                    continue;
                }
                let (allowed, widest) = (0.02_f64.max(1.5 * found.half / truth), if small { 1.0 } else { 0.1 });
                assert!(
                    off.abs() < allowed && found.half / truth < widest,
                    "{name}: {found:?}, off by {off}: {machine:?}"
                );
                intervals += 1;
                covered += usize::from(low <= truth && truth <= high);
            }
            assert_eq!(fitted.padded_up_to, machine.cost.padded_up_to, "{fitted:?}");
            assert_eq!(fitted.single.value, 0.0, "no single token is quicker here: {fitted:?}");
            assert!((fitted.noise / machine.noise - 1.0).abs() < 0.2, "{}", fitted.noise);
            // For a prompt of medium length: the costs per request and per prompt token separate only with little
            // noise.
            let front = (fitted.front.request.value + 600.0 * fitted.front.prompt_token.value) * 1e9;
            assert!((front / machine.front.takes(600).as_nanos() as f64 - 1.0).abs() < 0.3, "{:?}", fitted.front);
            assert!(fitted.held_out.0 < 0.05 && fitted.unclear * 10 < fitted.steps && fitted.is_good(), "{fitted:?}");
            assert!(fitted.interference.0 < 0.02, "{fitted:?}");
            assert!(
                fitted.async_scheduling.is_none() && fitted.memory_bound == 0,
                "no step is prepared ahead: {fitted:?}"
            );
        }
    }
    println!("{covered} of {intervals} intervals cover what was planted");
    assert!(covered * 100 >= intervals * 85, "{covered} of {intervals} intervals of 95% cover what was planted");
}

#[test]
fn limits_that_are_reached_are_found() {
    for (seqs, budget) in [(64, 512), (96, 1024), (200, 2048)] {
        let mut machine = planted();
        (machine.engine.max_num_seqs, machine.engine.max_num_batched_tokens) = (seqs, budget);
        let short = |seed: u64| -> Vec<Arrival> {
            let cut =
                |one: Arrival| Arrival { prompt: one.prompt.iter().copied().take(60 + one.output).collect(), ..one };
            requests(4 * seqs, seed).into_iter().map(cut).collect()
        };
        let runs = |machine: &Machine| -> Vec<Vec<Traced>> {
            (5..8).map(|seed| sent(machine, &short(seed), None, seed)).collect()
        };
        let found = reached(&runs(&machine), KnownBefore::default());
        let tokens = found.tokens.map(|held| held.limit);
        assert_eq!((found.sequences, tokens, found.splits), (Some(seqs), Some(budget), Some(true)), "{found:?}");
        // An engine without chunked prefill.
        machine.engine.enable_chunked_prefill = false;
        let found = reached(&runs(&machine), KnownBefore::default());
        assert!(found.tokens.is_none_or(|held| held.limit == budget) && found.splits != Some(true), "{found:?}");
        let limits = reached(&runs(&machine), KnownBefore { splits: Some(false), ..KnownBefore::default() });
        assert!(limits.tokens.is_none_or(|held| held.limit == budget), "{limits:?}");
    }
    let quiet = reached(&[traced(&planted(), 4, 40, 3)], KnownBefore::default());
    assert_eq!((quiet.sequences, quiet.tokens, quiet.widest), (None, None, 4));
}

/// A run as a busy client sees it: a front end that passes requests on one by one, a machine with slow periods, and a
/// fraction of tokens that arrive late, together with those of the next step.
fn interfered(machine: &Machine, count: usize, seed: u64, late: f64) -> Vec<Traced> {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut arrivals = requests(count, seed);
    let mut handed = 0.0;
    for one in &mut arrivals {
        // About three milliseconds each, and an occasional stall.
        handed += -0.003 * (1.0 - draw()).ln() + if draw() < 0.02 { 0.15 } else { 0.0 };
        one.due = Timestamp::from_secs(handed);
        one.prompt = one.prompt.iter().copied().take(60 + one.output).collect();
    }
    let slowdown = Slowdown { factors: vec![1.0, 1.0, 1.1, 1.6, 2.2], seconds: 0.4 };
    let busy = Machine { slowdown: Some(slowdown), noise: 0.1, ..machine.clone() };
    let mut run = sent(&busy, &arrivals, None, seed);
    for one in &mut run {
        one.sent = 0.0;
        for token in &mut one.tokens {
            *token += -0.0003 * (1.0 - draw()).ln() + if draw() < late / 100.0 { 0.02 } else { 0.0 };
        }
        for at in (1..one.tokens.len()).rev() {
            one.tokens[at - 1] = one.tokens[at - 1].min(one.tokens[at]);
        }
    }
    run
}

#[test]
fn interference_does_not_look_like_a_limit() {
    let (mut wrong, mut right) = (Vec::new(), 0);
    for (seqs, budget) in [(256, 8192), (256, 2048), (48, 8192), (32, 1024), (48, 512)] {
        let mut machine = planted();
        (machine.engine.max_num_seqs, machine.engine.max_num_batched_tokens) = (seqs, budget);
        for (seed, late) in (0..10).flat_map(|seed| [0.0, 0.1, 1.0].map(|late| (seed, late))) {
            let run = interfered(&machine, 30 + 30 * seed as usize, seed, late);
            let Reached { sequences, tokens, splits, widest, most_tokens } = reached(&[run], KnownBefore::default());
            let is_wrong = sequences.is_some_and(|found| found != seqs)
                || tokens.is_some_and(|found| found.limit != budget)
                || splits == Some(false);
            wrong.extend(is_wrong.then_some((seqs, budget, seed, late, sequences, tokens, splits)));
            right += usize::from(sequences.is_some()) + usize::from(tokens.is_some());
            // Tokens that arrive with those of the next step may seem to belong to it.
            assert!(widest <= 2 * seqs && most_tokens <= 2 * budget, "{widest} {most_tokens} of {seqs} {budget}");
        }
    }
    println!("{right} limits found, wrong: {wrong:?}");
    assert!(wrong.is_empty() && right > 20, "{right} {wrong:?}");
}

#[test]
#[ignore = "slow: fits many engines"]
fn slow_group_windows_are_separated_from_costs_and_simulated() {
    let mut machine = planted();
    machine.slowdown = Some(Slowdown { factors: vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5], seconds: 3.0 });
    let mean = |machine: &Machine, seed: u64| {
        let run = traced(machine, 14, 200, seed);
        run.iter().filter_map(|one| one.tokens.last()).copied().fold(0.0, f64::max)
    };
    let truths: Vec<f64> = (0..20).map(|seed| mean(&machine, 900 + seed)).collect();
    let truth = truths.iter().sum::<f64>() / 20.0;
    let (mut off, mut covered) = (Vec::new(), 0);
    for seed in 0..4 {
        let fitted = learn(&machine, seed);
        let (prompt, fixed) = (fitted.costs.prefill.value / 30e-6, fitted.costs.fixed.value / 8e-3);
        // The slowdown of a window is not a cost of prompts.
        assert!((prompt / fixed - 1.0).abs() < 0.04, "{fitted:?}");
        assert!(fitted.slowdown.is_some(), "{fitted:?}");
        let file = Profile { name: "slow".to_owned(), limits: machine.engine.clone(), fitted, sources: Vec::new() };
        let learned = Machine::parse(&tacho_core::json::dumps(&file.to_json()), "slow.json").unwrap();
        let plays: Vec<f64> = (1..=5).map(|play| mean(&learned, 50 * seed + play)).collect();
        off.push(plays.iter().sum::<f64>() / 5.0 / truth - 1.0);
        let PredictionInterval { low, high, .. } = PredictionInterval::of(&plays).unwrap();
        covered += truths.iter().filter(|truth| (low..=high).contains(truth)).count();
    }
    println!("off by {off:?}, {covered} of 80 runs within their intervals");
    assert!(off.iter().sum::<f64>().abs() / 4.0 < 0.06 && covered >= 64, "{off:?} {covered}");
}

#[test]
fn a_profile_predicts_loads_that_were_not_fitted() {
    let machine = planted();
    let fitted = learn(&machine, 7);
    let limits = machine.engine.clone();
    let file = Profile { name: "learned".to_owned(), limits, fitted, sources: Vec::new() };
    let learned = Machine::parse(&tacho_core::json::dumps(&file.to_json()), "learned.json").unwrap();
    // A load that was not fitted: other lengths and arrivals, and a concurrency limit.
    let mean = |machine: &Machine| {
        let run = traced(machine, 14, 200, 9);
        let ttft = run.iter().map(|one| one.tokens[0] - one.sent).sum::<f64>() / run.len() as f64;
        let last = run.iter().filter_map(|one| one.tokens.last()).copied().fold(0.0, f64::max);
        (ttft, last)
    };
    let ((true_ttft, true_end), (ttft, end)) = (mean(&machine), mean(&learned));
    assert!(
        (ttft / true_ttft - 1.0).abs() < 0.05 && (end / true_end - 1.0).abs() < 0.03,
        "{ttft} {true_ttft} {end} {true_end}"
    );
}

#[test]
fn too_few_steps_are_an_error() {
    let machine = planted();
    assert!(fit::fit(&[traced(&machine, 1, 1, 1)], &machine.engine, None).is_err(), "one request has too few steps");
}
