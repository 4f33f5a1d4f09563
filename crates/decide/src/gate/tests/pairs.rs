//! `judge_pairs` in virtual time: alarms on equal servers, slow-downs found, and how long either takes.

use super::*;

/// Two servers that are measured in blocks.
#[derive(Debug, Clone, Copy)]
struct Servers {
    /// Standard deviation of a server's speed from block to block.
    noise: f64,
    /// Growth of the time per token of both servers from block to block.
    drift: f64,
    /// Standard deviation of the steps of a random walk of both servers' speed.
    walk: f64,
    /// Time per token of the candidate, in that of the baseline.
    factor: f64,
}

const REQUESTS: usize = 250;
const PAIRS: u64 = 30;

fn normal(random: &mut Generator) -> f64 {
    (0..12).map(|_| random.random()).sum::<f64>() - 6.0
}

/// A block of a queue at 88% of its capacity: mean TPOT is the server's speed, mean E2EL includes waiting.
fn block(workload: u64, requests: usize, speed: f64, chance: &mut Generator) -> StoredRun {
    let mut planned = Generator::new(workload);
    let (mut now, mut free, mut waits, mut speeds) = (0.0_f64, 0.0_f64, 0.0, 0.0);
    for _ in 0..requests {
        now -= (1.0 - planned.random()).ln() / 0.88;
        let length = 0.5 - 0.5 * (1.0 - planned.random()).ln();
        let own = speed * (0.1 * normal(chance)).exp();
        free = free.max(now) + length * own;
        waits += free - now;
        speeds += own;
    }
    let mean = |sum: f64| 10.0 * sum / requests as f64;
    let own = dict! { "workload": format!("v2:{workload:016x}") };
    StoredRun::from_dict(&dict! { "mean_tpot_ms": mean(speeds), "mean_e2el_ms": mean(waits), "tacho": own }).unwrap()
}

/// The judgment of a test that looks after every pair and stops when decided, and its number of pairs.
fn test(rules: &[Rule], servers: Servers, trial: u64) -> (Judgment, u64) {
    let mut chance = Generator::new(900_000 + trial);
    let (mut base, mut new, mut common) = (Vec::new(), Vec::new(), 0.0);
    for pair in 0..PAIRS {
        let candidate_first = chance.random() < 0.5;
        for is_candidate in [candidate_first, !candidate_first] {
            common += servers.drift + servers.walk * normal(&mut chance);
            let factor = if is_candidate { servers.factor } else { 1.0 };
            let speed = factor * (common + servers.noise * normal(&mut chance)).exp();
            let run = block(trial * PAIRS + pair, REQUESTS, speed, &mut chance);
            if is_candidate { new.push(run) } else { base.push(run) }
        }
        let (failures, decisions) =
            judge_pairs(rules, &FailureRule::default(), &base, &new, Confidence::USUAL).unwrap();
        let decided = decisions.iter().all(|decision| decision.judgment != Judgment::Inconclusive);
        if decided || pair + 1 == PAIRS {
            return (Judgment::overall(&failures, &decisions), pair + 1);
        }
    }
    unreachable!("the last pair ends the test")
}

/// The judgment of a gate over eight runs of the same requests, alternating, each ten times as long as a block.
fn fixed(rules: &[Rule], servers: Servers, trial: u64) -> (Judgment, u64) {
    let mut chance = Generator::new(900_000 + trial);
    let mut common = 0.0;
    let mut run = |factor: f64| {
        common += 10.0 * servers.drift + 10.0_f64.sqrt() * servers.walk * normal(&mut chance);
        block(trial, 10 * REQUESTS, factor * (common + servers.noise * normal(&mut chance)).exp(), &mut chance)
    };
    let (base, new): (Vec<_>, Vec<_>) = (0..4).map(|_| (run(1.0), run(servers.factor))).unzip();
    let (failures, decisions) = judge(rules, &FailureRule::default(), &base, &new, TERMS).unwrap();
    (Judgment::overall(&failures, &decisions), 4)
}

/// Percentages of trials that found a regression and that passed, and the mean number of pairs.
fn rates(
    rules: &[&str],
    servers: Servers,
    trials: u64,
    test: impl Fn(&[Rule], Servers, u64) -> (Judgment, u64),
) -> [f64; 3] {
    let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    let all: Vec<(Judgment, u64)> = (0..trials).map(|trial| test(&rules, servers, trial)).collect();
    let share = |wanted| 100.0 * all.iter().filter(|(found, _)| *found == wanted).count() as f64 / trials as f64;
    let pairs = all.iter().map(|(_, pairs)| pairs).sum::<u64>() as f64 / trials as f64;
    [share(Judgment::Beyond), share(Judgment::Within), pairs]
}

const QUIET: Servers = Servers { noise: 0.01, drift: 0.0, walk: 0.0, factor: 1.0 };

#[test]
fn a_test_that_stops_when_decided_rarely_errs() {
    let [alarms, ..] = rates(&["mean_tpot_ms:0%"], QUIET, 60, test);
    assert!(alarms <= 5.0, "{alarms}% alarms at a limit that equal servers are on");
    let [alarms, passed, pairs] = rates(&["mean_tpot_ms:3%"], QUIET, 60, test);
    assert!(alarms == 0.0 && passed >= 95.0 && pairs < 15.0, "{alarms}% alarms, {passed}% passed, {pairs} pairs");
    let drifting = Servers { drift: 0.01, factor: 1.05, ..QUIET };
    let [found, _, pairs] = rates(&["mean_tpot_ms:3%"], drifting, 60, test);
    assert!(found >= 90.0 && pairs < 20.0, "{found}% found, {pairs} pairs");
}

#[test]
fn looks_share_the_error_rate_of_failures() {
    let judged = |base, new| {
        let failures = judge_pairs(&[], &FailureRule::default(), &[base], &[new], Confidence::USUAL).unwrap().0;
        failures.judgment
    };
    // 5 of 20 against none of 20 has a p-value of 2.36%, below 2.5%; the first look has half of that.
    assert_eq!(judged(counted(20, 0), counted(15, 5)), Judgment::Within);
    assert_eq!(judged(counted(200, 0), counted(180, 20)), Judgment::Beyond);
}

/// `cargo test --release -p tacho-decide pairs_of_equal -- --ignored --nocapture`; TACHO_ROUNDS is the number of tests of
/// each kind.
#[test]
#[ignore = "minutes with optimization; prints the rates it finds"]
fn pairs_of_equal_servers_rarely_alarm_and_a_slow_down_of_five_percent_is_found() {
    let rounds = rounds();
    let kinds = [
        ("1% noise", QUIET),
        ("0.3% noise", Servers { noise: 0.003, ..QUIET }),
        ("2% noise", Servers { noise: 0.02, ..QUIET }),
        ("1% noise, 60% slower over the test", Servers { drift: 0.01, ..QUIET }),
        ("1% noise, random walk of 1% a block", Servers { walk: 0.01, ..QUIET }),
    ];
    let cases: [(&[&str], &[&str]); 3] = [
        (&["mean_tpot_ms:0%"], &["mean_tpot_ms:3%"]),
        (&["mean_e2el_ms:0%"], &["mean_e2el_ms:3%"]),
        (&["mean_tpot_ms:0%", "mean_e2el_ms:0%"], &["mean_tpot_ms:3%", "mean_e2el_ms:3%"]),
    ];
    let mut off = Vec::new();
    for (name, servers) in kinds {
        for (at_limit, rules) in cases {
            let slow = Servers { factor: 1.05, ..servers };
            let [alarms, ..] = rates(at_limit, servers, rounds, test);
            let [false_alarms, passed, pairs] = rates(rules, servers, rounds, test);
            let [found, missed, slow_pairs] = rates(rules, slow, rounds, test);
            let [fixed_found, ..] = rates(rules, slow, rounds, fixed);
            let [_, fixed_passed, _] = rates(rules, servers, rounds, fixed);
            println!(
                "{name}, {}: limit 0%: {alarms:.1}% alarms on equal servers; limit 3%: {false_alarms:.1}% alarms, \
                 {passed:.1}% ok after {pairs:.1} pairs; 5% slower: {found:.1}% found after {slow_pairs:.1} pairs, \
                 {missed:.1}% ok; gate of 8 runs: {fixed_passed:.1}% ok, {fixed_found:.1}% found",
                rules.join(" ")
            );
            off.extend((alarms > 5.0 || false_alarms > 5.0 || missed > 5.0).then_some((name, rules)));
        }
    }
    assert!(off.is_empty(), "{off:?}");
}
