use tacho_core::{dict, json::Value};
use tacho_pyrand::Generator;

use super::*;
use crate::compare::tests::{known_sides, numbers_only, run};

const TERMS: Terms = Terms { confidence: Confidence::USUAL, noise: None };

fn decided(rules: &[&str], base: &[StoredRun], new: &[StoredRun]) -> (Failures, Vec<Decision>) {
    let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    judge(&rules, &FailureRule::default(), base, new, TERMS).unwrap()
}

fn judged(rule: &str, base: &[StoredRun], new: &[StoredRun]) -> Judgment {
    decided(&[rule], base, new).1[0].judgment
}

#[test]
fn rules_are_a_key_and_a_limit() {
    assert_eq!(Rule::parse("p99_ttft_ms:5%"), Ok(Rule { key: "p99_ttft_ms".into(), limit: Limit::Share(0.05) }));
    assert_eq!(Rule::parse("mean_e2el_ms: 20 ms"), Ok(Rule { key: "mean_e2el_ms".into(), limit: Limit::Amount(20.0) }));
    for text in ["p99_ttft_ms", ":5%", "x:", "x:-1%", "x:nan", "x:5%%"] {
        assert!(matches!(Rule::parse(text), Err(Error::Rule { .. })), "{text}");
    }
    let error = Rule::parse("p99_ttft_ms:5").unwrap_err();
    assert!(matches!(&error, Error::LimitUnit { unit: "ms", .. }), "{error}");
    assert!(error.to_string().contains("p99_ttft_ms:5%") && error.to_string().contains("p99_ttft_ms:5ms"));
    assert_eq!(Rule::parse("request_throughput:2req/s").map(|rule| rule.limit_text()), Ok("2 req/s".to_owned()));
    assert_eq!(Rule::parse("p99_ttft_ms:7%").map(|rule| rule.limit_text()), Ok("7%".to_owned()));
    assert!(matches!(Rule::parse("x:5%"), Err(Error::Unknown { .. })));
    assert!(matches!(Rule::parse("total_input_tokens:5%"), Err(Error::Neither { .. })));
    assert!(matches!(Rule::parse("failed:5%"), Err(Error::Failures { .. })));
    for text in ["output_divergence:1pp", "output_divergence: 1 pt"] {
        let points = Rule::parse(text).unwrap();
        assert_eq!((points.limit, points.limit_text().as_str()), (Limit::Amount(0.01), "1 pp"));
    }
    let error = Rule::parse("accuracy:2%").unwrap_err();
    assert_eq!(error.to_string(), "accuracy is a fraction: write its limit in percentage points, accuracy:2pp");
}

/// A run of which `count` of `of` outputs count for this metric.
fn checked(key: &str, count: u64, of: u64, workload: &str) -> StoredRun {
    let own = dict! { "workload": workload };
    let dict = dict! { "duration": 1.0, "completed": of, "failed": 0_u64, "mean_tpot_ms": 5.0, "tacho": own };
    let mut run = StoredRun::from_dict(&dict).unwrap();
    run.set_share(key, tacho_metrics::Share::of(count, of).unwrap());
    run
}

#[test]
fn outputs_are_judged_by_their_counts() {
    let one = |key: &str, count: u64, of: u64| [checked(key, count, of, "v2:a")];
    let outcome = |rule: &str, base: (u64, u64), new: (u64, u64)| {
        let key = rule.split(':').next().unwrap();
        judged(rule, &one(key, base.0, base.1), &one(key, new.0, new.1))
    };
    assert_eq!(outcome("output_divergence:1pp", (0, 1000), (0, 1000)), Judgment::Within);
    assert_eq!(outcome("output_divergence:1pp", (0, 100), (0, 100)), Judgment::Inconclusive);
    assert_eq!(outcome("output_divergence:1pp", (0, 1000), (50, 1000)), Judgment::Beyond);
    assert_eq!(outcome("output_divergence:1pp", (50, 1000), (0, 1000)), Judgment::Within, "less is better");
    assert_eq!(outcome("accuracy:2pp", (900, 1000), (820, 1000)), Judgment::Beyond, "more is better");
    assert_eq!(outcome("accuracy:2pp", (820, 1000), (900, 1000)), Judgment::Within);
    // Newcombe's interval of 12 and 2 of 100 is 2.93 to 17.95 points.
    let (_, decisions) =
        decided(&["output_divergence:5pp"], &one("output_divergence", 2, 100), &one("output_divergence", 12, 100));
    let (low, high) = decisions[0].effect.interval.unwrap();
    assert!((low - 0.029_276).abs() < 1e-5 && (high - 0.179_456).abs() < 1e-5, "{low} {high}");
    assert!(matches!(decisions[0].remedy, Some(Remedy::Requests(1..))), "{decisions:?}");
    // The same requests four times say no more than once; other requests do.
    let four = |workload: fn(u64) -> String| -> Vec<StoredRun> {
        (0..4).map(|at| checked("output_divergence", 0, 200, &workload(at))).collect()
    };
    let (same, other) = (four(|_| "v2:a".to_owned()), four(|at| format!("v2:{at}")));
    assert_eq!(judged("output_divergence:1pp", &same, &same), Judgment::Inconclusive);
    assert_eq!(judged("output_divergence:1pp", &other, &other), Judgment::Within);
}

#[test]
fn faster_but_different_fails_without_a_rule() {
    let overall = |base: u64, new: u64| {
        let side = |count| [checked("output_divergence", count, 200, "v2:a")];
        let rules = [Rule::parse("duration:50%").unwrap()];
        let (failures, decisions) = judge(&rules, &FailureRule::default(), &side(base), &side(new), TERMS).unwrap();
        assert_eq!(decisions.len(), 2);
        (decisions[1].judgment, Judgment::overall(&failures, &decisions[1..]))
    };
    assert_eq!(overall(0, 0), (Judgment::Within, Judgment::Within));
    assert_eq!(overall(0, 1), (Judgment::Within, Judgment::Within), "it may be chance");
    assert_eq!(overall(0, 12), (Judgment::Beyond, Judgment::Beyond));
}

#[test]
fn the_whole_interval_decides() {
    let (base, slow) = ([run(1, 3000, 1.0)], [run(2, 3000, 1.2)]);
    assert_eq!(judged("mean_e2el_ms:5%", &base, &slow), Judgment::Beyond);
    assert_eq!(judged("mean_e2el_ms:20%", &base, &slow), Judgment::Inconclusive);
    assert_eq!(judged("mean_e2el_ms:40%", &base, &slow), Judgment::Within);
    assert_eq!(judged("mean_e2el_ms:5ms", &base, &slow), Judgment::Beyond);
    assert_eq!(judged("mean_e2el_ms:50ms", &base, &slow), Judgment::Within);
    assert_eq!(judged("mean_e2el_ms:0%", &slow, &base), Judgment::Within);
}

#[test]
fn what_is_open_says_what_would_decide() {
    let remedy = |rule: &str, base: &[StoredRun], new: &[StoredRun]| decided(&[rule], base, new).1[0].remedy;
    let (base, slow) = ([run(1, 400, 1.0)], [run(2, 400, 1.1)]);
    let Some(Remedy::Requests(more)) = remedy("mean_e2el_ms:5%", &base, &slow) else { panic!() };
    assert!((100..40_000).contains(&more), "{more}");
    // At that amount the interval is just narrow enough, as far as it can be extrapolated.
    let (_, decisions) = decided(&["mean_e2el_ms:5%"], &base, &slow);
    let min = |data: f64| decisions[0].effect.harm_bounds(Confidence::USUAL, data).unwrap().0;
    let data = 1.0 + more as f64 / 400.0;
    assert!(min(data) > 0.05 && min(data / 1.1) <= 0.05, "{} {}", min(data), min(data / 1.1));
    // Many times the recommended amount, to exclude chance, does decide.
    let enough = 400 + 20 * more as usize;
    let (base, slow) = ([run(1, enough, 1.0)], [run(2, enough, 1.1)]);
    assert_eq!(judged("mean_e2el_ms:5%", &base, &slow), Judgment::Beyond);
    let single = ([numbers_only(10.0)], [numbers_only(900.0)]);
    assert_eq!(judged("p99_ttft_ms:5%", &single.0, &single.1), Judgment::Inconclusive);
    assert_eq!(remedy("p99_ttft_ms:5%", &single.0, &single.1), Some(Remedy::Spread));
    let runs = |values: [f64; 3]| values.map(numbers_only);
    let open = remedy("request_throughput:5%", &runs([10.0, 10.4, 9.6]), &runs([9.3, 9.7, 8.9]));
    assert!(matches!(open, Some(Remedy::Runs(1..))), "{open:?}");
}

#[test]
fn a_metric_beyond_its_limit_alone_is_reported_with_others() {
    let (base, slow) = ([run(1, 3000, 1.0)], [run(2, 3000, 1.2)]);
    let (low, _) = decided(&["mean_e2el_ms:0%"], &base, &slow).1[0].effect.interval.unwrap();
    let rule = format!("mean_e2el_ms:{}%", low * 100.0 - 0.1);
    assert_eq!(judged(&rule, &base, &slow), Judgment::Beyond);
    let (_, all) = decided(&[&rule, "mean_e2el_ms:500%", "mean_e2el_ms:600%"], &base, &slow);
    assert_eq!((all[0].judgment, all[0].alone), (Judgment::Inconclusive, true));
    let (_, fewer) = decided(&[&rule, "mean_e2el_ms:500%"], &base, &slow);
    let needs = |decisions: &[Decision]| match decisions[0].remedy {
        Some(Remedy::Requests(more)) => more,
        other => panic!("{other:?}"),
    };
    assert!(needs(&all) > needs(&fewer), "more rules share the confidence: {} {}", needs(&all), needs(&fewer));
    assert!(all[1..].iter().all(|other| other.judgment == Judgment::Within && !other.alone));
}

#[test]
fn a_schedule_that_was_kept_has_no_verdict_on_throughput() {
    let paced = |throughput: f64| {
        let mut dict = dict! { "duration": 10.0, "request_rate": 40.0, "completed": 400_u64 };
        ["request_throughput", "request_goodput"].iter().for_each(|key| dict.set(*key, throughput));
        StoredRun::from_dict(&dict).unwrap()
    };
    let side = |level: f64| [paced(level), paced(level * 1.001), paced(level * 0.999)];
    let overall = |rules: &[&str], new: f64| {
        let (failures, decisions) = decided(rules, &side(39.9), &side(new));
        (decisions[0].judgment, Judgment::overall(&failures, &decisions))
    };
    assert_eq!(overall(&["request_throughput:1%"], 38.8), (Judgment::Scheduled, Judgment::Inconclusive));
    let both = overall(&["request_throughput:1%", "request_goodput:20%"], 38.8);
    assert_eq!(both, (Judgment::Scheduled, Judgment::Within), "goodput is the server's");
    assert_eq!(overall(&["request_throughput:1%"], 20.0), (Judgment::Beyond, Judgment::Beyond), "not kept");
}

fn counted(completed: u64, failed: u64) -> StoredRun {
    let (rate, latency) = (completed as f64, if completed == 0 { 0.0 } else { 10.0 });
    let mut dict = dict! { "completed": completed, "failed": failed, "duration": 1.0, "request_throughput": rate };
    dict.set("p99_ttft_ms", latency);
    StoredRun::from_dict(&dict).unwrap()
}

#[test]
fn limits_beside_the_bounds_worked_out_by_hand_decide() {
    // The change of the known sides is between exp(0.1 - 0.060849) - 1 = +3.99% and exp(0.1 + 0.060849) - 1 = +17.45%.
    let [base, new] = known_sides();
    let of = |limit: &str| judged(&format!("p99_ttft_ms:{limit}%"), &base, &new);
    let judgments = ["3.9", "4.1", "17.3", "17.6"].map(of);
    assert_eq!(judgments, [Judgment::Beyond, Judgment::Inconclusive, Judgment::Inconclusive, Judgment::Within]);
    // With a second rule the level is 97.5%, where t(2) is 6.20535: from exp(0.1 - 0.087757) - 1 = +1.23% on.
    let first = |limit: &str| decided(&[limit, "request_throughput:900%"], &base, &new).1[0].judgment;
    let judgments = ["p99_ttft_ms:1.2%", "p99_ttft_ms:1.3%"].map(first);
    assert_eq!(judgments, [Judgment::Beyond, Judgment::Inconclusive]);
    // A third run a side is 1.5 times the data, where t(2 · 1.5 + 1) is 2.77645: times √(0.0002 / 1.5) the lower bound
    // is exp(0.1 - 0.03206) - 1 = +7.03%, beyond 5%.
    let remedy = decided(&["p99_ttft_ms:5%"], &base, &new).1[0].remedy;
    assert_eq!(remedy, Some(Remedy::Runs(1)));
    // All failures are the candidate's: C(20, 5) / C(40, 5) = 2.36% and C(30, 5) / C(60, 5) = 2.61%, around 2.5%.
    let failures = |all: u64| decided(&[], &[counted(all, 0)], &[counted(all - 5, 5)]).0;
    assert_eq!([20, 30].map(|all| failures(all).judgment), [Judgment::Beyond, Judgment::Within]);
    assert!((failures(20).chance - 15_504.0 / 658_008.0).abs() < 1e-9, "{:?}", failures(20));
}

#[test]
fn failures_come_first() {
    let failures = |base: &[StoredRun], new: &[StoredRun], max: Option<f64>| {
        judge(&[], &FailureRule { max }, base, new, TERMS).unwrap().0.judgment
    };
    let good = [counted(200, 0)];
    assert_eq!(failures(&good, &[counted(0, 200)], None), Judgment::Beyond);
    assert_eq!(failures(&good, &[counted(180, 20)], None), Judgment::Beyond);
    assert_eq!(failures(&good, &[counted(199, 1)], None), Judgment::Within, "one failure is chance");
    assert_eq!(failures(&[counted(180, 20)], &[counted(182, 18)], None), Judgment::Within);
    assert_eq!(failures(&good, &[counted(196, 4)], Some(0.01)), Judgment::Beyond);
    assert_eq!(failures(&good, &[counted(199, 1)], Some(0.01)), Judgment::Within);
    let (all, decisions) = decided(&["p99_ttft_ms:5%"], &good, &[counted(0, 200)]);
    assert_eq!((all.judgment, decisions[0].judgment), (Judgment::Beyond, Judgment::Inconclusive));
    assert_eq!(decisions[0].remedy, Some(Remedy::Answers));
}

const ALL: &[&str] = &["mean_e2el_ms:0%", "median_e2el_ms:0%", "p90_e2el_ms:0%", "p99_e2el_ms:0%"];

/// The number of comparisons of each kind.
fn rounds() -> u64 {
    std::env::var("TACHO_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

/// Fraction of comparisons in which a gate with these rules reports a regression. `make` makes one of `runs` runs of a
/// side by its round, its place in the side and a number of its own, slowed down by a factor.
fn alarms(rules: &[&str], rounds: u64, runs: u64, factor: f64, make: impl Fn(u64, u64, u64, f64) -> StoredRun) -> f64 {
    let alarms = (0..rounds).filter(|&round| {
        let side = |which: u64, factor: f64| -> Vec<StoredRun> {
            (0..runs).map(|at| make(round, at, (2 * round + which) * runs + at, factor)).collect()
        };
        let (_, decisions) = decided(rules, &side(0, 1.0), &side(1, factor));
        decisions.iter().any(|decision| decision.judgment == Judgment::Beyond)
    });
    alarms.count() as f64 / rounds as f64
}

/// `cargo test --release -p tacho-decide equal_runs -- --ignored --nocapture`; TACHO_ROUNDS is the number of
/// comparisons of each kind.
#[test]
#[ignore = "a minute with optimization; prints the rates it finds"]
fn equal_runs_rarely_alarm_and_a_slow_down_of_five_percent_is_found() {
    let one = [("mean_e2el_ms:0%", 4000, 2000), ("median_e2el_ms:0%", 5000, 2500), ("p99_e2el_ms:0%", 25_000, 12_000)];
    let one = one.iter().map(|(rule, single, several)| (std::slice::from_ref(rule), [(1, *single), (3, *several)]));
    let mut off = Vec::new();
    for (rules, cases) in one.chain([(ALL, [(1, 8000), (3, 4000)])]) {
        for (runs, count) in cases {
            let of = |rounds, factor| alarms(rules, rounds, runs, factor, |_, _, number, by| run(number, count, by));
            let (equal, slower) = (of(rounds(), 1.0), of((rounds() / 2).max(1), 1.05));
            println!(
                "{}, {runs} run(s) of {count} requests a side: {:.1}% alarms on equal builds, {:.1}% of slow-downs by 5% found",
                rules.join(" "),
                equal * 100.0,
                slower * 100.0
            );
            off.extend((equal > 0.05 || slower < 0.9).then_some((rules, runs, equal, slower)));
        }
    }
    assert!(off.is_empty(), "{off:?}");
}

/// A run of a queue near its capacity: the workload determines arrivals and lengths, the run the speed of the server
/// (its `noise`, as a fraction), and each request has a little noise of its own.
fn queue_run(workload: u64, run: u64, noise: f64, factor: f64) -> StoredRun {
    const LOAD: f64 = 0.88;
    const REQUESTS: usize = 2500;
    let (mut planned, mut chance) = (Generator::new(workload), Generator::new(1_000_000 + run));
    let normal = |random: &mut Generator| (0..12).map(|_| random.random()).sum::<f64>() - 6.0;
    let speed = factor * (noise * normal(&mut chance)).exp();
    let (mut now, mut free) = (0.0_f64, 0.0_f64);
    let mut latency = || {
        now -= (1.0 - planned.random()).ln() / LOAD;
        let length = 0.5 - 0.5 * (1.0 - planned.random()).ln();
        free = free.max(now) + length * speed * (0.1 * normal(&mut chance)).exp();
        Value::Float(free - now)
    };
    let latencies = (0..REQUESTS).map(|_| latency()).collect::<Value>();
    let own = dict! { "workload": format!("v2:{workload:016x}") };
    StoredRun::from_dict(&dict! { "latencies": latencies, "tacho": own }).unwrap()
}

/// With the command above: queues near their capacity, the same requests on both sides.
#[test]
#[ignore = "minutes with optimization; prints the rates it finds"]
fn equal_runs_of_the_same_requests_rarely_alarm_either() {
    let one: &[&str] = &["p99_e2el_ms:0%"];
    let mut off = Vec::new();
    for (rules, runs, varied) in [(one, 4, false), (ALL, 4, false), (ALL, 4, true), (ALL, 2, false)] {
        for noise in [0.003, 0.01, 0.03] {
            // The workload is one for all runs or one for each, the same on both sides.
            let make = |round: u64, at: u64, number: u64, factor: f64| {
                queue_run(if varied { round * runs + at } else { round }, number, noise, factor)
            };
            let equal = alarms(rules, rounds(), runs, 1.0, make);
            let slower = alarms(rules, (rounds() / 2).max(1), runs, 1.05, make);
            println!(
                "{} rule(s), {runs} runs a side of {}, {}% from run to run: {:.1}% alarms on equal builds, {:.1}% of slow-downs by 5% found",
                rules.len(),
                if varied { "as many workloads" } else { "one workload" },
                noise * 100.0,
                equal * 100.0,
                slower * 100.0
            );
            // Four pairs with different requests leave three degrees of freedom.
            let blind = runs >= 4 && !varied && noise <= 0.01 && slower < 0.9;
            off.extend((equal > 0.05 || blind).then_some((rules.len(), runs, varied, noise, equal, slower)));
        }
    }
    assert!(off.is_empty(), "{off:?}");
}

#[test]
fn the_same_requests_on_both_sides_decide_near_saturation() {
    let side = |first: u64, workload: &dyn Fn(u64) -> u64, factor: f64| -> Vec<StoredRun> {
        (0..4).map(|at| queue_run(workload(at), first + at, 0.002, factor)).collect()
    };
    let one = |_: u64| 7;
    let (base, slow) = (side(0, &one, 1.0), side(4, &one, 1.05));
    let (_, found) = decided(&["p99_e2el_ms:5%"], &base, &slow);
    assert_eq!((found[0].judgment, found[0].effect.basis), (Judgment::Beyond, Basis::Paired(4)));
    let own = |at: u64| at;
    let paired = judged("p99_e2el_ms:5%", &side(0, &own, 1.0), &side(4, &own, 1.05));
    assert_eq!(paired, Judgment::Beyond, "pair by pair");
    let other = |at: u64| 10 + at;
    let (_, unpaired) = decided(&["p99_e2el_ms:5%"], &side(0, &own, 1.0), &side(4, &other, 1.02));
    assert_eq!((unpaired[0].judgment, unpaired[0].effect.basis), (Judgment::Inconclusive, Basis::Runs(4)));
    assert_eq!(judged("p99_e2el_ms:25%", &base, &side(8, &one, 1.0)), Judgment::Within);
}

#[test]
fn a_gate_is_neither_nervous_nor_blind() {
    let one = |rounds, count, factor| {
        alarms(&["mean_e2el_ms:0%"], rounds, 1, factor, |_, _, number, by| run(number, count, by))
    };
    let (equal, slower) = (one(60, 3000, 1.0), one(30, 4000, 1.05));
    assert!(equal <= 0.08 && slower >= 0.85, "{equal} {slower}");
}

/// A run of 20 requests per second whose goodput counts those of up to 1.5 times the mean latency.
fn goodput_run(seed: u64, count: usize, factor: f64) -> StoredRun {
    let latencies = crate::compare::tests::latencies(seed, count, factor);
    let list = |of: &dyn Fn(usize) -> f64| (0..count).map(|at| Value::Float(of(at))).collect::<Value>();
    let own = dict! { "provenance": dict! { "goodput": dict! { "e2el_ms": 150.0 } } };
    let dict = dict! {
        "duration": count as f64 / 20.0, "request_rate": 20.0, "latencies": list(&|at| latencies[at]), "ttfts": list(&|at| latencies[at]),
        "start_times": list(&|at| at as f64 / 20.0), "output_lens": list(&|_| 1.0), "tacho": own,
    };
    StoredRun::from_dict(&dict).unwrap()
}

#[test]
fn goodput_is_judged_by_the_requests_that_met_their_limits() {
    let one = |rounds, factor| {
        alarms(&["request_goodput:0%"], rounds, 1, factor, |_, _, number, by| goodput_run(number, 1500, by))
    };
    let (equal, slower) = (one(60, 1.0), one(20, 1.2));
    assert!(equal <= 0.06 && slower >= 0.9, "{equal} {slower}");
}

mod pairs;
