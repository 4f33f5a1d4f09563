//! Plans of a queue whose capacity is known.

use super::*;
use tacho_engine::{CostModel, Profile};

/// Every request takes one step of 100 ms, and a step has at most eight: 80 requests/s.
fn spec(rate: f64, slo: (&str, &str)) -> PlanSpec {
    let mut machine = Machine::from(Profile::Tiny);
    machine.cost = CostModel { fixed_ns: 1e8, ..CostModel::FREE };
    machine.engine.max_num_seqs = 8;
    let arrival =
        |at: u32| Arrival { due: Timestamp::from_secs(f64::from(at)), prompt: [at, 7].into(), output: 1, priority: 0 };
    PlanSpec {
        machine,
        arrivals: (0..100).map(arrival).collect(),
        rate,
        slos: vec![Criterion::parse(slo.0, slo.1).unwrap()],
        router: Router::LeastLoaded,
        max_replicas: 16,
    }
}

fn plan(rate: f64, slo: (&str, &str)) -> Plan {
    Planner::new(spec(rate, slo)).unwrap().plan().unwrap()
}

#[test]
fn the_capacity_of_a_replica_and_the_replicas_for_a_rate_are_found() {
    let Plan::Feasible { replicas, largest_rate, headroom, limiting } = plan(200.0, ("p99_ttft_ms", "<=1000")) else {
        panic!("80 requests/s per replica")
    };
    assert!((78.0..=81.0).contains(&largest_rate.value), "{largest_rate:?}");
    assert_eq!(replicas, (3, [3, 3]));
    assert!((0.1..0.3).contains(&headroom), "{headroom}");
    assert!(!limiting.is_empty());
}

/// Requests that arrive at random, one per second, with 1 to 9 output tokens.
fn random_arrivals(count: u32, seed: u64) -> Vec<Arrival> {
    let (mut now, mut state) = (0.0, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut uniform = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((state ^ (state >> 33)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut arrive = |at: u32| {
        now -= (1.0 - uniform()).ln();
        let output = 1 + (uniform() * 9.0) as usize;
        Arrival { due: Timestamp::from_secs(now), prompt: [at, 7].into(), output, priority: 0 }
    };
    (0..count).map(&mut arrive).collect()
}

#[test]
fn the_range_holds_the_true_rate_however_many_requests_are_given() {
    // Steps of 40 ms with at most eight sequences: 40 requests/s of five tokens. The truth is that of a long run.
    let slo = ("p99_ttft_ms", "<=1500");
    let base = |arrivals: Vec<Arrival>| {
        let mut spec = PlanSpec { arrivals, ..spec(500.0, slo) };
        spec.machine.cost.fixed_ns = 4e7;
        spec
    };
    let long = Planner::new(base(random_arrivals(120_000, 99))).unwrap();
    let long = Planner { requests: 120_000, ..long };
    let truth = long.largest_rate(1, search(20.0, IDLE_RATE, Growth::Factor(2.0))).unwrap().unwrap();
    let truth = truth.value;
    let (mut covered, mut off) = (0, Vec::new());
    for (count, seed) in [200, 2_000, 10_000].into_iter().flat_map(|count| (1..=4).map(move |seed| (count, seed))) {
        let Plan::Feasible { replicas: (replicas, [fewest, max]), largest_rate: found, .. } =
            Planner::new(base(random_arrivals(count, seed))).unwrap().plan().unwrap()
        else {
            panic!("{count} {seed}: 500 requests/s take about 14 replicas")
        };
        println!("{count} {seed}: {found:?} for {truth:.2}, {replicas} ({fewest} to {max}) replicas");
        covered += u32::from((found.low..=found.high).contains(&truth));
        assert!((fewest..=max).contains(&replicas));
        off.extend((count == 10_000).then_some((found.value / truth - 1.0).abs()));
    }
    assert!(covered >= 11, "{covered} of 12");
    assert!(off.iter().all(|off| *off < 0.05), "{off:?}");
}

#[test]
fn an_slo_below_one_request_alone_has_no_rate() {
    let Plan::Infeasible(violations) = plan(1.0, ("p99_ttft_ms", "<=50")) else { panic!("a step takes 100 ms") };
    assert!(matches!(&violations[..], [Violation::Slo { value, .. }] if (*value - 100.0).abs() < 1.0));
}

#[test]
fn rates_beyond_all_replicas_end_at_once() {
    assert_eq!(plan(1e6, ("p99_ttft_ms", "<=1000")), Plan::TooFewReplicas);
    for rate in [1e9, 1e-300, 0.0, f64::NAN] {
        let error = Planner::new(spec(rate, ("p99_ttft_ms", "<=1000"))).unwrap_err();
        assert!(matches!(error, PlanError::Rate { .. }), "{error}");
    }
}

#[test]
fn workloads_that_cannot_be_planned_are_refused() {
    let slo = ("p99_ttft_ms", "<=1000");
    let empty = Planner::new(PlanSpec { arrivals: Vec::new(), ..spec(1.0, slo) }).unwrap_err();
    assert!(matches!(empty, PlanError::Empty));
    let single = Planner::new(spec(1.0, ("p99_tpot_ms", "<=10"))).unwrap_err();
    assert!(matches!(single, PlanError::NoMetric { .. }));
    let mut long = spec(1.0, slo);
    long.machine.engine.max_model_len = 1;
    assert!(matches!(Planner::new(long).unwrap_err(), PlanError::Rejected { count: 10_000 }));
}

#[test]
fn repeated_arrivals_keep_their_rate_and_share_no_prefix() {
    let base = spec(1.0, ("p99_ttft_ms", "<=1")).arrivals;
    let many = repeated(&base, 0, 250);
    assert_eq!((many.len(), many[200].prompt[0]), (250, 2 * 1_000_003));
    assert!((many[249].due.secs() - 249.0).abs() < 0.1, "{}", many[249].due.secs());
}

/// Prints ranges of queues with known capacity: `cargo test -p tacho-forecast --lib ranges_of_queues -- --ignored --nocapture`.
#[test]
#[ignore = "minutes; prints the coverage of ranges"]
fn ranges_of_queues_hold_the_true_rate() {
    let set = |name: &str, preset: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset);
    let (plans, first) = (set("TACHO_PLANS", 20), set("TACHO_SEED", 1));
    println!("| slots | step | SLO | truth/s | covered | mean off | largest off | median half-width |");
    println!("|---|---|---|---|---|---|---|---|");
    let cases = [
        (8, 4e7, ("p99_ttft_ms", "<=1500")),
        (8, 4e7, ("p99_ttft_ms", "<=500")),
        (1, 4e7, ("p99_ttft_ms", "<=2000")),
        (1, 4e7, ("p90_ttft_ms", "<=400")),
        (32, 4e7, ("p99_e2el_ms", "<=900")),
        (32, 1e7, ("p99_ttft_ms", "<=40")),
        (8, 4e7, ("mean_ttft_ms", "<=200")),
        (4, 2e7, ("p95_ttft_ms", "<=300")),
        (16, 2e7, ("p99_ttft_ms", "<=250")),
        (64, 1e7, ("p99_e2el_ms", "<=300")),
    ];
    let mut bad = Vec::new();
    let only = std::env::var("TACHO_CASE").ok().and_then(|text| text.parse().ok());
    for (_, (slots, step, slo)) in (0..).zip(cases).filter(|(at, _)| only.is_none_or(|only: usize| only == *at)) {
        let base = |arrivals: Vec<Arrival>| {
            let mut spec = PlanSpec { arrivals, rate: 1.0, ..spec(1.0, slo) };
            spec.machine.cost.fixed_ns = step;
            spec.machine.engine.max_num_seqs = slots;
            spec
        };
        let widest = || search(20.0, IDLE_RATE, Growth::Factor(2.0));
        let long = Planner { requests: 200_000, ..Planner::new(base(random_arrivals(200_000, 99))).unwrap() };
        let truth = long.largest_rate(1, widest()).unwrap().unwrap().value;
        let (mut covered, mut off, mut widths) = (0, Vec::new(), Vec::new());
        for seed in first..first + plans {
            let planner = Planner::new(base(random_arrivals(10_000, seed + 1000))).unwrap();
            let found = planner.largest_rate(1, widest()).unwrap().unwrap();
            covered += u64::from((found.low..=found.high).contains(&truth));
            off.push((found.value / truth - 1.0).abs());
            widths.push((found.high / found.low).ln() / 2.0);
        }
        widths.sort_by(f64::total_cmp);
        println!(
            "| {slots} | {:.0} ms | {}{} | {truth:.2} | {covered} of {plans} | {:.1}% | {:.1}% | {:.1}% |",
            step / 1e6,
            slo.0,
            slo.1,
            mean(&off) * 100.0,
            off.iter().copied().fold(0.0, f64::max) * 100.0,
            widths[widths.len() / 2] * 100.0
        );
        bad.extend((covered * 100 < 93 * plans).then_some((slots, slo, covered)));
    }
    assert!(bad.is_empty(), "{bad:?}");
}
