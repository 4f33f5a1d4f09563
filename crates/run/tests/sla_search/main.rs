//! `sweep serve_sla` on servers with known capacity: simulated queues.

mod graded;
mod queue;
mod tables;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use tacho_core::dict;
use tacho_core::event::{EventSink, Note, RunEvent};
use tacho_core::json::{Dict, Value};
use tacho_decide::search::Criterion;
use tacho_run::experiment::{Archive, Bench, Failure, Tools, option};
use tacho_run::sweep::{LoadVariable, SlaPlan, sla};

use queue::{Memory, NoHost, Queue, Server, USUAL, plan};

/// The result entry of a search.
fn search(server: Server, target: &str, longest: f64, seed: u64) -> Dict {
    search_by(LoadVariable::RequestRate, server, target, longest, seed)
}

fn search_by(variable: LoadVariable, server: Server, target: &str, longest: f64, seed: u64) -> Dict {
    searched(variable, server, target, longest, seed, true).0
}

/// The result entry, and the number of searches without a result, which determines the exit code.
fn searched(
    variable: LoadVariable,
    server: Server,
    target: &str,
    longest: f64,
    seed: u64,
    reliable: bool,
) -> (Dict, usize) {
    let memory = Memory::default();
    let bench = Queue { reliable, ..Queue::new(server, seed) };
    let plan = SlaPlan { budget: longest, ..plan(target, variable, 200) };
    let (report, _) =
        sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
    let answers = memory.answers();
    let mut entry = answers[0].as_dict().expect("an entry").clone();
    entry.set("seconds", bench.seconds.get());
    (entry, report.unmet)
}

#[test]
fn a_burst_is_not_taken_for_capacity() {
    let entry = search(Server::Even(245.0), "<=200", USUAL, 1);
    let value = entry.get("estimate").and_then(Value::as_f64).unwrap();
    assert!((215.0..=252.0).contains(&value), "{value}: a server that does 245 a second");
    let loose = search(Server::Even(60.0), "<=100000", USUAL, 2);
    let value = loose.get("estimate").and_then(Value::as_f64).unwrap();
    assert!((54.0..=66.0).contains(&value), "{value}: no latency limit lets it do more than 60 a second");
}

/// The levels of a search that met the criteria: in brief runs only, or in longer ones.
fn met(entry: &Dict, brief: bool) -> Option<f64> {
    let curve = entry.get("curve").and_then(Value::as_list).expect("a curve");
    let is = |level: &Value, key: &str| level.get(key) == Some(&Value::Bool(true));
    let met = curve.iter().filter(|level| is(level, "met") && is(level, "brief") == brief);
    met.filter_map(|level| level.get("level")?.as_f64()).reduce(f64::max)
}

#[test]
fn the_answer_is_a_load_that_was_measured_and_met() {
    let entry = search(Server::Random(150.0), "<=150", 900.0, 3);
    assert!(entry.get("max_measured").and_then(Value::as_f64) == met(&entry, false));
    let achieved = entry.get("achieved").and_then(|achieved| achieved.get("p99_ttft_ms")?.as_f64()).unwrap();
    assert!(achieved <= 150.0, "{achieved}");
}

#[test]
fn the_answer_never_rests_on_a_brief_run() {
    let mut found = 0;
    for (server, limit) in [(Server::Even(245.0), 200.0), (Server::Random(400.0), 100.0), (Server::Even(60.0), 500.0)] {
        for seed in 1..=10 {
            let entry = search(server, &format!("<={limit}"), USUAL, seed);
            let answer = entry.get("max_measured").and_then(Value::as_f64);
            assert_eq!(answer, met(&entry, false), "{server:?} {seed}: {entry:?}");
            // A precise search confirms the largest load that met the criteria.
            let precise = entry.get("stopped").and_then(Value::as_str) == Some("precision");
            assert!(!precise || met(&entry, true) <= answer, "{server:?} {seed}: {entry:?}");
            found += u32::from(entry.get("verdict").and_then(Value::as_str) == Some("found"));
        }
    }
    assert!(found >= 27, "{found} of 30");
}

#[test]
fn a_limit_below_the_service_time_is_infeasible() {
    // Even an idle server takes 20 ms to the first token.
    for (server, limit) in [(Server::Even(20.0), 8.0), (Server::Random(150.0), 15.0), (Server::Even(1000.0), 10.0)] {
        let (entry, unmet) = searched(LoadVariable::RequestRate, server, &format!("<={limit}"), USUAL, 1, true);
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        assert_eq!(
            (text("verdict"), text("stopped"), unmet),
            ("infeasible".into(), "infeasible".into(), 1),
            "{server:?}"
        );
        assert!(entry.get("seconds").and_then(Value::as_f64).unwrap() < 0.9 * USUAL, "{entry:?}");
    }
    let (entry, _) = searched(LoadVariable::MaxConcurrency, Server::Even(20.0), "<=8", USUAL, 1, true);
    assert_eq!(entry.get("verdict").and_then(Value::as_str), Some("infeasible"), "{entry:?}");
}

#[test]
fn a_metric_of_the_steady_part_has_its_own_key() {
    let memory = Memory::default();
    let bench = Queue::new(Server::Random(100.0), 1);
    let plan = SlaPlan { budget: 300.0, ..plan("<=500", LoadVariable::MaxConcurrency, 200) };
    sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
    let answers = memory.answers();
    let mut differ = 0;
    for level in answers[0].get("curve").and_then(Value::as_list).unwrap() {
        let number = |key: &str| level.get(key).and_then(Value::as_f64);
        let directory = PathBuf::from(format!("exp/max_concurrency={}", number("level").unwrap()));
        let runs = (0..).map_while(|run| memory.result(&directory.join(format!("run={run}.json"))));
        let whole: Vec<f64> = runs.filter_map(|run| run.get("p99_ttft_ms")?.as_f64()).collect();
        let mean = whole.iter().sum::<f64>() / whole.len() as f64;
        assert!((number("p99_ttft_ms").unwrap() / mean - 1.0).abs() < 1e-9, "as in the files: {level:?}");
        differ += u32::from(number("steady_p99_ttft_ms").is_some_and(|steady| steady != mean));
    }
    assert!(differ > 2, "{answers:?}");
}

#[test]
fn a_range_that_misses_the_tolerance_widely_is_inconclusive() {
    // Queues of a slow server vary over minutes; fifteen seconds carry little information.
    let (entry, unmet) = searched(LoadVariable::RequestRate, Server::Random(20.0), "<=1000", 15.0, 2, true);
    assert_eq!(entry.get("verdict").and_then(Value::as_str), Some("inconclusive"), "{entry:?}");
    assert_eq!((entry.get("stopped").and_then(Value::as_str), unmet), (Some("budget"), 1));
}

/// The reasons for which searches stopped.
#[derive(Default)]
struct Reasons(RefCell<Vec<String>>);

impl EventSink for Reasons {
    fn event(&self, event: RunEvent) {
        if let RunEvent::Status(Note::Sweep { text, .. }) = event {
            self.0.borrow_mut().extend(text.split_once("The search stopped: ").map(|(_, reason)| reason.to_owned()));
        }
    }
}

#[test]
fn a_search_that_ends_with_its_budget_says_what_it_reached() {
    let (memory, reasons) = (Memory::default(), Reasons::default());
    let bench = Queue::new(Server::Random(20.0), 2);
    let plan = SlaPlan { budget: 15.0, ..plan("<=1000", LoadVariable::RequestRate, 200) };
    sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &reasons }).expect("the search ends");
    let reason = reasons.0.into_inner().concat();
    assert!(reason.starts_with("budget 15 s reached (--sla-budget); asked ±4.5%, "), "{reason}");
    assert!(reason.ends_with("no load fails for certain") || reason.contains("reached ±"), "{reason}");
}

/// A bench whose results lack some keys of the server's.
struct Forgetful {
    queue: Queue,
    keys: &'static [&'static str],
}

impl Forgetful {
    fn without(&self, dict: &Dict) -> Dict {
        let mut kept = Dict::new();
        for (key, value) in dict.iter().filter(|(key, _)| !self.keys.contains(key)) {
            kept.set(key, value.as_dict().map_or_else(|| value.clone(), |inner| Value::Dict(self.without(inner))));
        }
        kept
    }
}

impl Bench for Forgetful {
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        Ok(self.queue.run(command, output, log)?.map(|result| self.without(&result)))
    }
}

#[test]
fn a_missing_key_never_means_sustained() {
    let verdict = |keys| {
        let memory = Memory::default();
        let bench = Forgetful { queue: Queue::new(Server::Even(245.0), 1), keys };
        let plan = SlaPlan { budget: USUAL, ..plan("<=200", LoadVariable::RequestRate, 200) };
        let (report, _) =
            sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
        report.unmet
    };
    assert_eq!((verdict(&[]), verdict(&["queue_unstable"])), (0, 1));
    // A run without a steady state is not judged by its throughput.
    assert_eq!(verdict(&["steady_state"]), 1);
}

/// Users in step: waits that change during all runs. Whether they tell on the metric of the SLO.
struct InStep(Queue, bool);

impl Bench for InStep {
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        let mut result = self.0.run(command, output, log)?.unwrap_or_default();
        let mut own = result.get("tacho").and_then(Value::as_dict).cloned().unwrap_or_default();
        own.set("caveats", Value::List(vec![dict! { "kind": "autocorrelated", "text": "" }.into()]));
        let p99 = result.get("p99_ttft_ms").and_then(Value::as_f64).unwrap_or(0.0);
        let interval = |high: Option<f64>| Value::List(vec![(0.98 * p99).into(), high.into()]);
        let ttft = interval(Some(1.02 * p99).filter(|_| !self.1));
        own.set("intervals", dict! { "p99_ttft_ms": ttft, "p99_tpot_ms": interval(None) });
        result.set("p99_tpot_ms", p99);
        result.set("tacho", own);
        Ok(Some(result))
    }
}

#[test]
fn users_in_step_have_no_range() {
    let answer_of = |metric: &str, variable: LoadVariable, tells: bool| {
        let (memory, bench) = (Memory::default(), InStep(Queue::new(Server::Even(100.0), 1), tells));
        let targets = vec![vec![Criterion::parse(metric, "<=305").expect("a criterion")]];
        let plan = SlaPlan { targets, ..plan("<=1", variable, 200) };
        sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
        let answer = memory.answers()[0].as_dict().expect("an answer").clone();
        let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        (text("verdict"), text("reason"), answer.get("ci_low").and_then(Value::as_f64).is_some())
    };
    let answer = |variable: LoadVariable, tells: bool| answer_of("p99_ttft_ms", variable, tells);
    let (verdict, reason, range) = answer(LoadVariable::MaxConcurrency, true);
    assert!(verdict == "inconclusive" && reason.contains("--random-range-ratio") && !range, "{verdict} {reason}");
    // Arrivals do not wait for each other.
    assert!(answer(LoadVariable::RequestRate, true).2);
    // What every run bounds does not change with its length.
    let (verdict, _, range) = answer(LoadVariable::MaxConcurrency, false);
    assert!(verdict == "found" && range, "{verdict}");
    // Decodes do not wait for the others' prefills in step.
    let (verdict, _, range) = answer_of("p99_tpot_ms", LoadVariable::MaxConcurrency, true);
    assert!(verdict == "found" && range, "{verdict}");
}

/// A server that ends none of more than fifty requests at once in time.
struct Crowded {
    queue: Queue,
    runs: RefCell<Vec<(String, String)>>,
}

impl Bench for Crowded {
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        let of = |flag: &str| option(command, flag).unwrap_or("").to_owned();
        self.runs.borrow_mut().push((of("--request-rate"), of("--num-prompts")));
        let mut result = self.queue.run(command, output, log)?.unwrap_or_default();
        if of("--request-rate") == "65536" && of("--num-prompts") == "200" {
            result.set("completed", 0_i64);
            result.set("request_throughput", 0.0);
            result.set("duration", 3.0);
        }
        Ok(Some(result))
    }
}

#[test]
fn a_first_run_without_an_end_is_repeated_with_fewer_requests() {
    let memory = Memory::default();
    let bench = Crowded { queue: Queue::new(Server::Even(60.0), 1), runs: RefCell::default() };
    let plan = SlaPlan { budget: 30.0, first_run: Some(3.0), ..plan("<=500", LoadVariable::RequestRate, 200) };
    sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
    let runs = bench.runs.into_inner();
    let rate = |at: usize| runs[at].0.parse::<f64>().unwrap();
    assert_eq!(runs[..2], [("65536", "200"), ("65536", "25")].map(|(rate, size)| (rate.to_owned(), size.to_owned())));
    assert!((40.0..70.0).contains(&rate(2)), "{runs:?}");
    let estimate = memory.answers()[0].get("estimate").and_then(Value::as_f64).unwrap();
    assert!((47.0..66.0).contains(&estimate), "{estimate}: 55 a second meet it");
}

/// Notes the seeds of the runs.
struct Seeds<'q> {
    queue: &'q Queue,
    seeds: RefCell<Vec<Option<String>>>,
}

impl Bench for Seeds<'_> {
    fn run(&self, command: &[String], output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        self.seeds.borrow_mut().push(option(command, "--seed").map(str::to_owned));
        self.queue.run(command, output, log)
    }
}

#[test]
fn the_runs_of_a_search_have_different_seeds() {
    let seeds = |tolerance: f64| {
        let memory = Memory::default();
        let bench = Seeds { queue: &Queue::new(Server::Even(245.0), 1), seeds: RefCell::default() };
        let mut plan = SlaPlan { tolerance, ..plan("<=200", LoadVariable::RequestRate, 200) };
        plan.sweep.bench_cmd.extend(["--seed".to_owned(), "7".to_owned()]);
        sla(&plan, Tools { archive: &memory, bench: &bench, host: &NoHost, sink: &() }).expect("the search ends");
        bench.seeds.into_inner().into_iter().map(Option::unwrap).collect::<Vec<String>>()
    };
    let sampled = seeds(0.02);
    assert!(sampled.len() > 3, "{sampled:?}");
    assert!(sampled.iter().enumerate().all(|(run, seed)| *seed == (7 + 1000 * run).to_string()), "{sampled:?}");
    // Bisection compares single runs, as vLLM does.
    assert!(seeds(0.0).iter().all(|seed| seed == "7"));
}

#[test]
fn an_unreliable_client_decides_nothing() {
    let verdict = |reliable: bool| {
        let (entry, unmet) = searched(LoadVariable::RequestRate, Server::Even(245.0), "<=200", USUAL, 1, reliable);
        (entry.get("verdict").and_then(Value::as_str).map(str::to_owned), unmet)
    };
    assert_eq!(verdict(true), (Some("found".into()), 0));
    assert_eq!(verdict(false), (Some("inconclusive".into()), 1));
}
