//! Detection of prefix caching: prompts with a common prefix against others of the same length.

use tacho_core::Timestamp;
use tacho_engine::{Machine, simulation::Arrival};
use tacho_forecast::fit::{self, Traced};

use crate::async_scheduling::{asynchronous, runs};
use crate::planted::{planted, sent, traced};

/// TTFTs in seconds of six sequential prompts of 1,000 tokens, with or without a common prefix.
fn first_tokens(machine: &Machine, alike: bool, seed: u64) -> Vec<f64> {
    let prompt = |at: u32| -> Vec<u32> {
        let begins = if alike { 7 } else { 100 + at };
        (0..984_u32).map(|id| id ^ (begins << 12)).chain((0..16).map(|id| id ^ (at << 20))).collect()
    };
    let one = |at: u32| Arrival { due: Timestamp::ZERO, prompt: prompt(at).into(), output: 2, priority: 0 };
    let arrivals: Vec<Arrival> = (0..6).map(one).collect();
    let run: Vec<Traced> = sent(machine, &arrivals, Some(1), seed);
    run.iter().map(|one| one.tokens[0] - one.sent).collect()
}

#[test]
fn prefix_caching_is_detected_by_measurement() {
    for (name, machine, loads) in [
        ("plain", planted(), (0..4).map(|at| traced(&planted(), 1 + 5 * at, 80, at as u64)).collect::<Vec<_>>()),
        ("async scheduling", asynchronous(33.0), runs(&asynchronous(33.0), 1)),
    ] {
        let fitted = fit::fit(&loads, &machine.engine, None).unwrap();
        let mut conclusive = 0;
        for (caches, seed) in [true, false].into_iter().flat_map(|on| (0..8).map(move |seed| (on, seed))) {
            let mut machine = machine.clone();
            machine.engine.enable_prefix_caching = caches;
            let (unlike, alike) = (first_tokens(&machine, false, seed), first_tokens(&machine, true, 100 + seed));
            let (first, later) = alike.split_at(1);
            let fresh = [unlike.as_slice(), first].concat();
            let found = fit::caches(&fresh, later, |share| fitted.first_token(1000.0, share * 1000.0));
            assert!(found.is_none_or(|found| found == caches), "{name}: {found:?} for {caches}: {fresh:?} {later:?}");
            conclusive += usize::from(found.is_some());
        }
        assert!(conclusive >= 14, "{name}: conclusive in {conclusive} of 16");
    }
}
