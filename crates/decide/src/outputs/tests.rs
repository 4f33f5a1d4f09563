use super::*;

/// A run of `requests` distinct requests, each sent `copies` times. `differs` gets a random number, the load and
/// whether the prefix was cached, and decides whether an output differs.
fn run(seed: u64, requests: u32, copies: u32, differs: impl Fn(f64, f64, bool, &str) -> bool) -> Vec<Checked> {
    let mut random = Generator::new(seed);
    let adapters = ["one", "two", "base model"];
    let mut rows = Vec::new();
    for reference in 0..requests {
        let adapter = adapters[reference as usize % 3];
        let alone = Some(differs(random.random(), 1.0, false, adapter));
        for _ in 0..copies {
            let (in_flight, sent) = (1.0 + 31.0 * random.random(), 100.0 * random.random());
            let cached = random.random() < 0.5;
            let differs = differs(random.random(), in_flight, cached, adapter);
            let hit = if cached { "hit" } else { "miss" };
            let groups = [("adapter", adapter), ("prefix cache", hit), ("replica", ["a", "b"][rows.len() % 2])];
            let groups = groups.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            rows.push(Checked { reference, differs, alone, in_flight, sent, groups });
        }
    }
    rows
}

fn found(rows: &[Checked]) -> Vec<String> {
    let questions = judge_rows(rows).into_iter();
    questions.filter(|question| question.answer == Dependence::Found).map(|question| question.factor).collect()
}

/// Of `runs`, how many name this factor, and how many name one that does not matter.
fn named(
    runs: u64,
    (requests, copies): (u32, u32),
    factor: &str,
    unrelated: &[&str],
    differs: impl Fn(f64, f64, bool, &str) -> bool + Copy,
) -> (usize, usize) {
    let all: Vec<Vec<String>> = (0..runs).map(|seed| found(&run(seed, requests, copies, differs))).collect();
    let has = |names: &Vec<String>, name: &str| names.iter().any(|other| other == name);
    let wrong = |names: &&Vec<String>| unrelated.iter().any(|name| has(names, name));
    (all.iter().filter(|names| has(names, factor)).count(), all.iter().filter(wrong).count())
}

#[test]
fn noise_without_a_cause_raises_few_alarms() {
    for (rate, size) in [(0.0, (100, 1)), (0.1, (100, 1)), (0.3, (50, 4))] {
        let alarms =
            (0..40).filter(|seed| !found(&run(*seed, size.0, size.1, |u, _, _, _| u < rate)).is_empty()).count();
        assert!(alarms <= 6, "{rate}: {alarms} of 40");
    }
}

#[test]
fn causes_are_named() {
    let size = (200, 1);
    let (hits, _) = named(10, size, "load", &[], |u, load, _, _| u < 0.01 || (load > 1.0 && u < 0.15));
    assert!(hits >= 9, "load: {hits}");
    let (hits, _) = named(10, size, "requests in flight", &[], |u, load, _, _| load > 16.0 && u < 0.3);
    assert!(hits >= 9, "in flight: {hits}");
    let (hits, _) = named(10, size, "prefix cache", &[], |u, _, cached, _| cached && u < 0.2);
    assert!(hits >= 9, "cache: {hits}");
    let (hits, _) = named(10, size, "adapter", &[], |u, _, _, adapter| adapter == "two" && u < 0.4);
    assert!(hits >= 9, "adapter: {hits}");
}

/// The numbers of `docs/howto/check-outputs.md`. Run with --ignored --nocapture.
#[test]
#[ignore = "takes a minute"]
fn error_rates_and_power() {
    for (rate, size) in [(0.0, (100, 1)), (0.02, (100, 1)), (0.1, (100, 1)), (0.3, (50, 4)), (0.05, (100, 10))] {
        let alarms =
            (0..200).filter(|seed| !found(&run(*seed, size.0, size.1, |u, _, _, _| u < rate)).is_empty()).count();
        println!("A/A: {rate} of outputs differ, {} requests × {}: {alarms} of 200", size.0, size.1);
        assert!(alarms <= 18, "{alarms}");
    }
    struct Case(&'static str, &'static [&'static str], (u32, u32), fn(f64, f64, bool, &str) -> bool);
    let cases = [
        Case("load", &["replica"], (100, 1), |u, load, _, _| load > 1.0 && u < 0.15),
        Case("load", &["replica"], (200, 1), |u, load, _, _| load > 1.0 && u < 0.08),
        Case("load", &["replica"], (100, 5), |u, load, _, _| u < 0.05 || (load > 1.0 && u < 0.25)),
        Case("requests in flight", &["replica"], (200, 1), |u, load, _, _| load > 16.0 && u < 0.2),
        Case("prefix cache", &["replica", "adapter"], (200, 1), |u, _, cached, _| cached && u < 0.2),
        Case("adapter", &["replica", "prefix cache"], (200, 1), |u, _, _, adapter| adapter == "two" && u < 0.4),
    ];
    for Case(factor, unrelated, size, differs) in cases {
        let (hits, wrong) = named(100, size, factor, unrelated, differs);
        println!("{factor}, {} requests × {}: named in {hits} of 100, an unrelated one in {wrong}", size.0, size.1);
        assert!(hits >= 95 && wrong <= 10, "{factor} {hits} {wrong}");
    }
}

#[test]
fn answers_are_inconclusive_where_outputs_are_few_and_excluded_where_they_are_many() {
    let answer = |requests| {
        let questions = judge_rows(&run(1, requests, 1, |_, _, _, _| false));
        questions.iter().find(|question| question.factor == "load").map(|question| question.answer)
    };
    assert_eq!((answer(20), answer(200)), (Some(Dependence::Inconclusive), Some(Dependence::Excluded)));
    assert_eq!(judge_rows(&[]), []);
}

#[test]
fn the_load_test_of_pairs_is_mcnemars() {
    let row = |reference, differs, alone| Checked { reference, differs, alone: Some(alone), ..Checked::default() };
    let mut rows: Vec<Checked> = (0..6).map(|at| row(at, true, false)).collect();
    rows.extend((6..20).map(|at| row(at, false, false)));
    rows.push(row(20, false, true));
    // binomtest(1, 7).pvalue = 0.125
    let load = under_load(&rows).unwrap();
    assert!((load.p_value - 0.125).abs() < 1e-12, "{load:?}");
    assert!((load.effect - 5.0 / 21.0).abs() < 1e-12 && load.interval.low < load.effect);
}

#[test]
fn concurrency_is_that_when_a_request_is_sent() {
    let sample = |sent: f64, done: f64| Sample { sent, done, ..Sample::default() };
    let load = Concurrency::of(&vec![sample(0.0, 4.0), sample(1.0, 3.0), sample(2.0, 6.0)].into());
    assert_eq!([0.0, 1.0, 2.0, 3.0, 5.0].map(|time| load.at(time)), [1.0, 2.0, 3.0, 2.0, 1.0]);
}
