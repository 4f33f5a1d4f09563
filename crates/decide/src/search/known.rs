//! Searches on servers with fixed noise, run by run. The constants behind them were chosen together, by the tables of
//! `run/tests/sla_search/tables.rs`: a change of these numbers asks for those again.

use std::fmt::Write;

use tacho_pyrand::Generator;

use super::*;

/// Runs after which a search is cut off: the posterior of many takes long in a debug build.
const MOST: usize = 10;

/// Latency as a fraction of its target at a load, and whether the server keeps up.
type Server = fn(f64) -> (f64, bool);

/// A queue of this capacity that meets its target up to 80% of it.
fn queue(load: f64, capacity: f64) -> (f64, bool) {
    if load < capacity { (0.1 + 0.9 * 0.2 / (1.0 - load / capacity), true) } else { (9.0, false) }
}

/// A search on a server: each run, the estimate, and the end.
fn found(search: &Search<'_>, seed: u64, server: Server, measure: fn(Measurement) -> Measurement) -> String {
    let (mut random, mut runs, mut text) = (Generator::new(seed), Vec::new(), String::new());
    let mut write = |line: String| writeln!(text, "{line}").expect("a string takes all");
    loop {
        let (level, seconds) = match search.next(&runs) {
            Step::Run { level, seconds } if runs.len() < MOST => (level, seconds),
            end => {
                let Outcome { largest_met, monotone, levels, estimate } = search.outcome(&runs);
                let ends =
                    |one: Estimate| format!("{:.9e} {:.9e} {:.9e}", one.value, one.low, one.high.unwrap_or(-1.0));
                write(estimate.map(ends).unwrap_or_default());
                let marks = levels.iter().map(|one| (one.is_met(), one.by_chance, one.brief, one.is_unsettled()));
                write(format!("{end:?} {largest_met:?} {monotone} {:?}", marks.collect::<Vec<_>>()));
                return text;
            }
        };
        // Short runs vary more.
        let noise = |random: &mut Generator| (0..4).map(|_| random.random()).sum::<f64>() - 2.0;
        let arrival_rate = level * (1.0 + 0.1 * noise(&mut random) / seconds.max(1.0).sqrt());
        let ((ratio, sustained), error) = (server(arrival_rate), 0.5 / seconds.max(1.0).sqrt());
        let margin = ratio * (error * noise(&mut random)).exp() - 1.0;
        let completed_rate = if sustained { arrival_rate } else { 0.9 * level };
        let exact = Measurement::exact(level, true);
        let run = Measurement { arrival_rate, seconds, margin, error: Some(error), sustained, completed_rate, ..exact };
        runs.push(measure(run));
        write(format!("{level:.9e} {seconds:.9e}"));
    }
}

#[test]
fn searches_on_fixed_servers_do_not_change() {
    let unit: &dyn Fn(f64) -> f64 = &|load| 8.0 + 40.0 / load;
    let of = |levels: Levels, model: Model| Search { levels, model, unit, budget: 700.0, tolerance: 0.05 };
    let open = |first: f64| Levels { growth: Growth::Factor(1.5), ..Levels::rates(first, 65_535.0) };
    let users = Levels { growth: Growth::Steps { from: 16.0, step: 8.0 }, ..Levels::users(30.0, 500.0) };
    let same = |run: Measurement| run;
    let outputs = |run: Measurement| Measurement { bounds: (run.margin - 0.2, run.margin + 0.2), ..run };
    let latencies = |run: Measurement| Measurement { error: None, ..run };
    let long = |run: Measurement| {
        let ratio = 0.7 * run.ratio() + 0.3 * queue(run.level, 100.0).0;
        Measurement { long_run: Some(LongRunRatio { ratio, explained: 0.6 }), ..run }
    };
    let limit = |limit: f64| Model::OpenLoop { limit };
    let mut text = String::new();
    for (name, found) in [
        ("queue", found(&of(open(90.0), limit(0.2)), 1, |load| queue(load, 100.0), same)),
        ("far below", found(&of(open(4.0), limit(0.2)), 1, |load| queue(load, 100.0), same)),
        ("far above", found(&of(open(700.0), limit(2.0)), 1, |load| queue(load, 100.0), same)),
        ("long run", found(&of(open(90.0), limit(1.0)), 1, |load| queue(load, 100.0), long)),
        ("infeasible", found(&of(open(90.0), limit(0.2)), 1, |_| (1.3, true), same)),
        ("unlimited", found(&of(users, Model::ClosedLoop), 1, |_| (0.4, true), same)),
        ("users", found(&of(users, Model::ClosedLoop), 1, |users| ((users / 70.0).powf(1.4), true), same)),
        ("step", found(&of(users, Model::ClosedLoop), 1, |users| (if users < 64.0 { 0.7 } else { 1.6 }, true), same)),
        ("bisected", found(&of(users, Model::Monotone), 1, |users| (users / 70.0, users < 90.0), latencies)),
        ("outputs", found(&of(open(90.0), Model::Monotone), 1, |load| queue(load, 100.0), outputs)),
    ] {
        write!(text, "{name}\n{found}").expect("a string takes all");
    }
    tacho_testkit::assert_golden_numbers("known/searches.txt", &text);
}
