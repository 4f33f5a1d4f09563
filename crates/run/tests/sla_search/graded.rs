//! Searches for the load above which outputs are wrong.

use std::path::Path;

use tacho_core::json::{Dict, Value};
use tacho_decide::search::Criterion;
use tacho_metrics::outputs::Share;
use tacho_pyrand::Generator;
use tacho_run::experiment::{Bench, Failure, Tools, option};
use tacho_run::sweep::{LoadVariable, SlaPlan, sla};

use super::queue::{Memory, NoHost, Queue, Server, plan};

/// A server whose outputs have a fault, each with one probability up to a load and with another above it.
#[derive(Clone, Copy)]
struct Faulty {
    metric: &'static str,
    knee: f64,
    below: f64,
    above: f64,
}

struct Graded(Queue, Faulty);

impl Bench for Graded {
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        let Graded(queue, Faulty { metric, knee, below, above }) = self;
        let mut result = queue.run(command, output, log)?.unwrap_or_default();
        let number = |flag: &str| option(command, flag).and_then(|text| text.parse::<f64>().ok());
        let load = number("--max-concurrency").or(number("--request-rate")).unwrap_or(f64::INFINITY);
        let share = if load <= *knee { *below } else { *above };
        let mut random = Generator::new(queue.seed << 32 | number("--seed").unwrap_or(0.0) as u64 | 1 << 20);
        let of = result.get("completed").and_then(Value::as_f64).unwrap_or(0.0) as u64;
        let found = Share::of((0..of).filter(|_| random.random() < share).count() as u64, of).expect("outputs");
        let mut own = result.get("tacho").and_then(Value::as_dict).cloned().unwrap_or_default();
        let mut intervals = own.get("intervals").and_then(Value::as_dict).cloned().unwrap_or_default();
        intervals.set(*metric, [found.interval.low, found.interval.high].into_iter().collect::<Value>());
        own.set("intervals", intervals);
        own.set(*metric, found.value);
        result.set("tacho", own);
        Ok(Some(result))
    }
}

/// The verdict of a search, its reason, the largest load that was met, and its range.
#[derive(Debug)]
struct Found {
    verdict: String,
    reason: String,
    met: Option<f64>,
    range: Option<(f64, f64)>,
    limited_by: String,
}

fn found(variable: LoadVariable, faulty: Faulty, slos: &[&str], budget: f64, seed: u64) -> Found {
    let (memory, bench) = (Memory::default(), Graded(Queue::new(Server::Even(245.0), seed), faulty));
    let targets = vec![slos.iter().map(|slo| slo.parse::<Criterion>().expect("a criterion")).collect()];
    let plan = SlaPlan { targets, budget, ..plan("<=200", variable, 200) };
    sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
    let answer = memory.answers()[0].clone();
    let text = |key: &str| answer.text(key).unwrap_or("").to_owned();
    let number = |key: &str| answer.get(key).and_then(Value::as_f64);
    Found {
        verdict: text("verdict"),
        reason: text("reason"),
        met: number("max_measured"),
        range: number("ci_low").zip(number("ci_high")),
        limited_by: text("limited_by"),
    }
}

const USERS: LoadVariable = LoadVariable::MaxConcurrency;
const ACCURATE: Faulty = Faulty { metric: "accuracy", knee: 8.0, below: 0.97, above: 0.6 };
const DIVERGING: Faulty = Faulty { metric: "output_divergence", knee: 8.0, below: 0.0, above: 0.2 };

#[test]
fn the_load_above_which_outputs_get_worse_is_found() {
    for (variable, faulty, slo) in [
        (USERS, ACCURATE, "accuracy>=0.90"),
        (LoadVariable::RequestRate, Faulty { knee: 80.0, ..ACCURATE }, "accuracy>=0.90"),
        (USERS, DIVERGING, "output_divergence<=1%"),
    ] {
        let all: Vec<Found> = (1..=10).map(|seed| found(variable, faulty, &[slo], 120.0, seed)).collect();
        let knee = faulty.knee;
        let right = |one: &&Found| one.verdict == "found" && one.met == Some(knee) && one.limited_by == faulty.metric;
        let covers = |one: &&Found| one.range.is_some_and(|(low, high)| low <= knee && knee < high);
        let counts = (all.iter().filter(right).count(), all.iter().filter(covers).count());
        assert!(counts.0 >= 9 && counts.1 >= 9, "{slo} {counts:?} {all:?}");
    }
}

#[test]
fn outputs_that_are_right_at_every_load_do_not_limit_it() {
    let fine = Faulty { above: 0.97, ..ACCURATE };
    for seed in 1..=5 {
        assert_eq!(found(USERS, fine, &["accuracy>=0.90"], 60.0, seed).verdict, "unlimited");
        let both = found(USERS, fine, &["accuracy>=0.90", "p99_ttft_ms<=200"], 60.0, seed);
        assert!(both.verdict == "found" && both.limited_by == "p99_ttft_ms", "{both:?}");
    }
}

#[test]
fn too_few_outputs_are_inconclusive() {
    let near = Faulty { below: 0.905, ..ACCURATE };
    let answer = found(USERS, near, &["accuracy>=0.90"], 40.0, 1);
    assert!(answer.verdict == "inconclusive" && answer.reason.contains("too few"), "{answer:?}");
    // All at once meet it, but by 200 outputs only.
    let all = found(USERS, Faulty { below: 0.92, above: 0.92, ..ACCURATE }, &["accuracy>=0.90"], 40.0, 1);
    assert!(all.verdict == "inconclusive" && all.reason.contains("too few"), "{all:?}");
}
