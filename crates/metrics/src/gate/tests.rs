use super::*;
use crate::compare::tests::{numbers_only, run};
use tacho_core::json::Dict;

const TERMS: Terms = Terms { confidence: Confidence::USUAL, noise: None };

fn decided(rules: &[&str], base: &[StoredRun], new: &[StoredRun]) -> (Failures, Vec<Decision>) {
    let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    judge(&rules, &FailureRule::default(), base, new, TERMS).unwrap()
}

fn judged(rule: &str, base: &[StoredRun], new: &[StoredRun]) -> Judgement {
    decided(&[rule], base, new).1[0].judgement
}

#[test]
fn rules_are_a_key_and_a_limit() {
    assert_eq!(Rule::parse("p99_ttft_ms:5%"), Ok(Rule { key: "p99_ttft_ms".into(), limit: Limit::Share(0.05) }));
    assert_eq!(Rule::parse("mean_e2el_ms: 20"), Ok(Rule { key: "mean_e2el_ms".into(), limit: Limit::Amount(20.0) }));
    for text in ["p99_ttft_ms", ":5%", "x:", "x:-1%", "x:nan", "x:5%%"] {
        assert!(matches!(Rule::parse(text), Err(Error::Rule { .. })), "{text}");
    }
    assert!(matches!(Rule::parse("x:5%"), Err(Error::Unknown { .. })));
    assert!(matches!(Rule::parse("total_input_tokens:5%"), Err(Error::Neither { .. })));
    assert!(matches!(Rule::parse("failed:5%"), Err(Error::Failures { .. })));
}

#[test]
fn the_whole_interval_decides() {
    let (base, slow) = ([run(1, 3000, 1.0)], [run(2, 3000, 1.2)]);
    assert_eq!(judged("mean_e2el_ms:5%", &base, &slow), Judgement::Beyond);
    assert_eq!(judged("mean_e2el_ms:20%", &base, &slow), Judgement::Undecided);
    assert_eq!(judged("mean_e2el_ms:40%", &base, &slow), Judgement::Within);
    assert_eq!(judged("mean_e2el_ms:5", &base, &slow), Judgement::Beyond);
    assert_eq!(judged("mean_e2el_ms:50", &base, &slow), Judgement::Within);
    assert_eq!(judged("mean_e2el_ms:0%", &slow, &base), Judgement::Within);
}

#[test]
fn what_is_open_says_what_would_decide() {
    let remedy = |rule: &str, base: &[StoredRun], new: &[StoredRun]| decided(&[rule], base, new).1[0].remedy;
    let (base, slow) = ([run(1, 400, 1.0)], [run(2, 400, 1.1)]);
    let Some(Remedy::Requests(more)) = remedy("mean_e2el_ms:5%", &base, &slow) else { panic!() };
    assert!((100..40_000).contains(&more), "{more}");
    // Many times what it asks for, to be on the safe side of chance, does decide.
    let enough = 400 + 20 * more as usize;
    let (base, slow) = ([run(1, enough, 1.0)], [run(2, enough, 1.1)]);
    assert_eq!(judged("mean_e2el_ms:5%", &base, &slow), Judgement::Beyond);
    let single = ([numbers_only(10.0)], [numbers_only(900.0)]);
    assert_eq!(judged("p99_ttft_ms:5%", &single.0, &single.1), Judgement::Undecided);
    assert_eq!(remedy("p99_ttft_ms:5%", &single.0, &single.1), Some(Remedy::Spread));
    let runs = |values: [f64; 3]| values.map(numbers_only);
    let open = remedy("request_throughput:5%", &runs([10.0, 10.4, 9.6]), &runs([9.3, 9.7, 8.9]));
    assert!(matches!(open, Some(Remedy::Runs(1..))), "{open:?}");
}

fn counted(completed: u64, failed: u64) -> StoredRun {
    let mut dict = Dict::new();
    dict.set("duration", 1.0);
    dict.set("completed", completed);
    dict.set("failed", failed);
    dict.set("request_throughput", completed as f64);
    dict.set("p99_ttft_ms", if completed == 0 { 0.0 } else { 10.0 });
    StoredRun::from_dict(&dict).unwrap()
}

#[test]
fn failures_come_first() {
    let failures = |base: &[StoredRun], new: &[StoredRun], most: Option<f64>| {
        judge(&[], &FailureRule { most }, base, new, TERMS).unwrap().0.judgement
    };
    let good = [counted(200, 0)];
    assert_eq!(failures(&good, &[counted(0, 200)], None), Judgement::Beyond);
    assert_eq!(failures(&good, &[counted(180, 20)], None), Judgement::Beyond);
    assert_eq!(failures(&good, &[counted(199, 1)], None), Judgement::Within, "one failure is chance");
    assert_eq!(failures(&[counted(180, 20)], &[counted(182, 18)], None), Judgement::Within);
    assert_eq!(failures(&good, &[counted(196, 4)], Some(0.01)), Judgement::Beyond);
    assert_eq!(failures(&good, &[counted(199, 1)], Some(0.01)), Judgement::Within);
    let (all, decisions) = decided(&["p99_ttft_ms:5%"], &good, &[counted(0, 200)]);
    assert_eq!((all.judgement, decisions[0].judgement), (Judgement::Beyond, Judgement::Undecided));
    assert_eq!(decisions[0].remedy, Some(Remedy::Answers));
}

/// How often a gate with these rules calls anything beyond, over `rounds` comparisons of `runs` runs a side, the second `factor`
/// as slow.
fn alarms(rules: &[&str], rounds: u64, (runs, count): (u64, usize), factor: f64) -> f64 {
    let alarms = (0..rounds).filter(|round| {
        let side = |which: u64, factor: f64| -> Vec<StoredRun> {
            (0..runs).map(|at| run((2 * round + which) * runs + at, count, factor)).collect()
        };
        let (_, decisions) = decided(rules, &side(0, 1.0), &side(1, factor));
        decisions.iter().any(|decision| decision.judgement == Judgement::Beyond)
    });
    alarms.count() as f64 / rounds as f64
}

/// `cargo test --release -p tacho-metrics equal_runs -- --ignored --nocapture`; TACHO_ROUNDS is how many comparisons of each.
#[test]
#[ignore = "a minute with optimisation; prints the rates it finds"]
fn equal_runs_rarely_alarm_and_a_slow_down_of_five_percent_is_found() {
    let rounds: u64 = std::env::var("TACHO_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let all: &[&str] = &["mean_e2el_ms:0%", "median_e2el_ms:0%", "p90_e2el_ms:0%", "p99_e2el_ms:0%"];
    let cases: [(&[&str], u64, usize); 8] = [
        (&["mean_e2el_ms:0%"], 1, 4000),
        (&["median_e2el_ms:0%"], 1, 5000),
        (&["p99_e2el_ms:0%"], 1, 25_000),
        (all, 1, 8000),
        (&["mean_e2el_ms:0%"], 3, 2000),
        (&["median_e2el_ms:0%"], 3, 2500),
        (&["p99_e2el_ms:0%"], 3, 12_000),
        (all, 3, 4000),
    ];
    let mut off = Vec::new();
    for (rules, runs, count) in cases {
        let equal = alarms(rules, rounds, (runs, count), 1.0);
        let slower = alarms(rules, (rounds / 2).max(1), (runs, count), 1.05);
        println!(
            "{}, {runs} run(s) of {count} requests a side: {:.1} % alarms on equal builds, {:.1} % of slow-downs by 5 % found",
            rules.join(" "),
            equal * 100.0,
            slower * 100.0
        );
        off.extend((equal > 0.05 || slower < 0.9).then_some((rules, runs, equal, slower)));
    }
    assert!(off.is_empty(), "{off:?}");
}

#[test]
fn a_gate_is_neither_nervous_nor_blind() {
    let one = |rounds, count, factor| alarms(&["mean_e2el_ms:0%"], rounds, (1, count), factor);
    let (equal, slower) = (one(60, 3000, 1.0), one(30, 4000, 1.05));
    assert!(equal <= 0.08 && slower >= 0.85, "{equal} {slower}");
}
