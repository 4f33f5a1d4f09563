use super::*;
use tacho_core::json::{Dict, Value};

/// Latencies with memory: neighbours are alike, as under a queue.
fn latencies(seed: u64, count: usize, factor: f64) -> Vec<f64> {
    let mut random = Generator::new(seed);
    let mut state = 0.0;
    (0..count)
        .map(|_| {
            let noise: f64 = (0..12).map(|_| random.random()).sum::<f64>() - 6.0;
            state = 0.6 * state + 0.8 * noise;
            0.1 * factor * (0.3 * state).exp()
        })
        .collect()
}

pub(crate) fn run(seed: u64, count: usize, factor: f64) -> StoredRun {
    let list = latencies(seed, count, factor).into_iter().map(Value::Float).collect();
    let mut dict = Dict::new();
    dict.set("latencies", Value::List(list));
    StoredRun::from_dict(&dict).unwrap()
}

fn numbers_only(value: f64) -> StoredRun {
    let mut dict = Dict::new();
    dict.set("p99_ttft_ms", value);
    dict.set("request_throughput", value);
    StoredRun::from_dict(&dict).unwrap()
}

fn compared(key: &str, base: &[StoredRun], new: &[StoredRun]) -> Effect {
    compare(key, base, new, Confidence::NinetyFive).unwrap()
}

#[test]
fn keys_name_metrics() {
    assert_eq!(timed("p99.9_ttft_ms"), Some((MetricKind::Ttft, Statistic::Percentile(99.9))));
    assert_eq!(timed("median_e2el_ms"), Some((MetricKind::E2el, Statistic::Percentile(50.0))));
    assert_eq!([timed("p101_ttft_ms"), timed("mean_x_ms"), timed("duration")], [None, None, None]);
}

#[test]
fn a_large_change_is_found_and_none_is_not() {
    let (base, slow) = ([run(1, 2000, 1.0)], [run(2, 2000, 1.2)]);
    let worse = compared("mean_e2el_ms", &base, &slow);
    assert_eq!(worse.verdict(), Verdict::Worse);
    let (low, high) = worse.interval.unwrap();
    assert!(low > 0.1 && high < 0.3 && low < worse.change && worse.change < high, "{worse:?}");
    assert_eq!(compared("mean_e2el_ms", &slow, &base).verdict(), Verdict::Better);
    assert_eq!(compared("p99_e2el_ms", &base, &base).verdict(), Verdict::NoDifference);
    assert_eq!(compared("p99_e2el_ms", &base, &slow), compared("p99_e2el_ms", &base, &slow));
}

#[test]
fn without_requests_repeated_runs_decide_or_nothing_does() {
    let side = |values: [f64; 3]| values.map(numbers_only);
    let effect = compared("request_throughput", &side([10.0, 10.1, 9.9]), &side([12.0, 12.1, 11.9]));
    assert_eq!((effect.verdict(), effect.basis), (Verdict::Better, Basis::Runs(3)));
    let single = compared("p99_ttft_ms", &side([1.0; 3])[..1], &side([2.0; 3])[..1]);
    assert_eq!((single.verdict(), single.basis, single.change), (Verdict::Unknown, Basis::Single, 1.0));
    let missing = compare("mean_itl_ms", &side([1.0; 3]), &side([1.0; 3]), Confidence::Ninety);
    assert_eq!(missing, Err(Error::Missing { key: "mean_itl_ms".into() }));
    assert_eq!(shared_keys(&side([1.0; 3]), &side([1.0; 3])), ["request_throughput", "p99_ttft_ms"]);
}

fn latency(values: &[f64]) -> StoredRun {
    let mut dict = Dict::new();
    dict.set("avg_latency", mean(values));
    dict.set("latencies", Value::List(values.iter().copied().map(Value::Float).collect()));
    dict.set("percentiles", Value::Dict([("50".to_owned(), Value::Float(values[0]))].into_iter().collect()));
    StoredRun::from_dict(&dict).unwrap()
}

#[test]
fn iterations_decide_where_there_is_one_run_a_side() {
    let (base, new) = ([latency(&[1.0, 1.01, 0.99])], [latency(&[1.5, 1.52, 1.48, 1.5])]);
    let effect = compared("avg_latency", &base, &new);
    assert_eq!((effect.verdict(), effect.basis), (Verdict::Worse, Basis::Iterations(3)));
    assert_eq!(shared_keys(&base, &new), ["avg_latency", "p50_latency"]);
    assert_eq!(compared("p50_latency", &base, &new).basis, Basis::Single);
    let runs = [latency(&[1.0, 1.0]), latency(&[1.1, 1.1])];
    assert_eq!(compared("avg_latency", &runs, &runs).basis, Basis::Runs(2));
    let foreign = compare("p99_ttft_ms", &base, &new, Confidence::Ninety).unwrap_err();
    assert_eq!(foreign.to_string(), "p99_ttft_ms is no number of a latency result");
}

#[test]
fn extreme_percentiles_of_few_requests_stay_open() {
    let effect = compared("p99_e2el_ms", &[run(1, 200, 1.0)], &[run(2, 200, 2.0)]);
    assert_eq!((effect.verdict(), effect.basis), (Verdict::Unknown, Basis::TooFew));
}

#[test]
fn students_distribution_has_its_known_bounds() {
    for (freedom, bound) in [(4.0, 2.776), (10.0, 2.228), (30.0, 2.042)] {
        assert!((Confidence::NinetyFive.student(freedom) - bound).abs() < 0.03, "{freedom}");
    }
}
