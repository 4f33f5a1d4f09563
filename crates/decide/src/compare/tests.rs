use std::slice::from_ref;

use tacho_core::{dict, json::Value};
use tacho_pyrand::Generator;

use super::*;

const TERMS: Terms = Terms { confidence: Confidence::USUAL, noise: None };

/// Autocorrelated latencies: neighbors are similar, as in a queue.
pub(crate) fn latencies(seed: u64, count: usize, factor: f64) -> Vec<f64> {
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
    let latencies = latencies(seed, count, factor).into_iter().collect::<Value>();
    StoredRun::from_dict(&dict! { "latencies": latencies }).unwrap()
}

pub(crate) fn numbers_only(value: f64) -> StoredRun {
    StoredRun::from_dict(&dict! { "p99_ttft_ms": value, "request_throughput": value }).unwrap()
}

fn of_workload(workload: &str, value: f64) -> StoredRun {
    let own = dict! { "version": 1_i64, "workload": format!("v2:{workload}") };
    StoredRun::from_dict(&dict! { "p99_ttft_ms": value, "tacho": own }).unwrap()
}

/// Runs whose logarithms are 0.00 and 0.02 against 0.10 and 0.12. The pooled variance is (2 · 0.01² + 2 · 0.01²) / 2
/// = 0.0002, and that of a side's mean half of it, 0.01².
pub(crate) fn known_sides() -> [[StoredRun; 2]; 2] {
    [[0.0, 0.02], [0.10, 0.12]].map(|side| side.map(|log: f64| numbers_only(log.exp())))
}

/// The distances of an interval's ends from a change of +0.1, on logarithms.
fn distances((low, high): (f64, f64)) -> [f64; 2] {
    [0.1 - (1.0 + low).ln(), (1.0 + high).ln() - 0.1]
}

fn assert_close(found: [f64; 2], wanted: [f64; 2]) {
    assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 2e-5), "{found:?} {wanted:?}");
}

#[test]
fn the_interval_of_repeated_runs_is_that_worked_out_by_hand() {
    let [base, new] = known_sides();
    let effect = compared("p99_ttft_ms", &base, &new);
    // t(2) is 4.30265; two sides of 0.01 each: 4.30265 · 0.01 · √2.
    assert_close(distances(effect.interval.unwrap()), [0.060_849; 2]);
    // Twice the data: t(2 · 2 + 2) is 2.44691, and a side's standard error is √(0.0002 / 4).
    assert_close(distances(effect.harm_bounds(Confidence::USUAL, 2.0).unwrap()), [0.024_469; 2]);
    // An assumed deviation of 3%: 1.95996 · 0.03 / √2 a side.
    let assumed = compare("p99_ttft_ms", &base, &new, Terms { noise: Some(0.03), ..TERMS }).unwrap();
    assert_close(distances(assumed.interval.unwrap()), [0.058_799; 2]);
    // Of the same workload, two degrees of freedom are too few to count alone: both ways at 97.5%, where t(2) is
    // 6.20535, times √0.0002.
    let alike = |side: [f64; 2]| side.map(|log| of_workload("a", log.exp()));
    let paired = compared("p99_ttft_ms", &alike([0.0, 0.02]), &alike([0.10, 0.12]));
    assert_close(distances(paired.interval.unwrap()), [0.087_757; 2]);
    assert_eq!([1, 2, 5].map(|several| Confidence::USUAL.each_of(several).percent()), [95.0, 97.5, 99.0]);
}

#[test]
fn the_errors_of_requests_combine_end_by_end() {
    let of = |run: &StoredRun| {
        let spread = run.spread("p90_e2el_ms").unwrap();
        let (low, high) = spread.bounds(0.95, 1.0);
        ((spread.value / low).ln(), (high / spread.value).ln(), (high / low).ln() / 2.0 / 1.959_964)
    };
    // One run a side: what is uncertain above in the baseline is uncertain below in the change.
    let (base, new) = (run(1, 4000, 1.0), run(2, 4000, 1.2));
    let effect = compared("p90_e2el_ms", from_ref(&base), from_ref(&new));
    let ((base_low, base_high, base_error), (new_low, new_high, new_error)) = (of(&base), of(&new));
    let ends = |(low, high): (f64, f64)| [effect.change, low, high].map(|change| (1.0 + change).ln());
    let [middle, low, high] = ends(effect.interval.unwrap());
    assert!((base_low - base_high).abs() > 1e-4, "the bounds of a far percentile are uneven");
    assert_close([middle - low, high - middle], [new_low.hypot(base_high), new_high.hypot(base_low)]);
    // Two runs a side that differ by less than their requests explain: the normal distribution, and half the variance.
    let near = |side: &StoredRun, seed, factor| [side.clone(), run(seed, 4000, factor * 1.0001)];
    let effect = compared("p90_e2el_ms", &near(&base, 1, 1.0), &near(&new, 2, 1.2));
    let [middle, low, high] = ends(effect.interval.unwrap());
    let half = 1.959_964 * base_error.hypot(new_error) / 2.0_f64.sqrt();
    assert!(((high - low) / 2.0 / half - 1.0).abs() < 1e-3, "{middle} {low} {high} {half}");
}

fn compared(key: &str, base: &[StoredRun], new: &[StoredRun]) -> Effect {
    compare(key, base, new, TERMS).unwrap()
}

#[test]
fn a_large_change_is_found_and_none_is_not() {
    let (base, slow) = ([run(1, 2000, 1.0)], [run(2, 2000, 1.2)]);
    let worse = compared("mean_e2el_ms", &base, &slow);
    assert_eq!(worse.verdict(0.02), Verdict::Worse);
    let (low, high) = worse.interval.unwrap();
    assert!(low > 0.1 && high < 0.3 && low < worse.change && worse.change < high, "{worse:?}");
    assert_eq!(compared("mean_e2el_ms", &slow, &base).verdict(0.02), Verdict::Better);
    assert_eq!(compared("p99_e2el_ms", &base, &base).verdict(0.02), Verdict::Inconclusive);
    assert_eq!(compared("p99_e2el_ms", &base, &slow).interval, compared("p99_e2el_ms", &base, &slow).interval);
}

#[test]
fn equal_needs_an_interval_inside_the_margin() {
    let effect = compared("mean_e2el_ms", &[run(3, 20_000, 1.0)], &[run(4, 20_000, 1.0)]);
    assert_eq!(effect.verdict(0.03), Verdict::Equal, "{:?}", effect.interval);
    assert_eq!(effect.verdict(0.001), Verdict::Inconclusive, "{:?}", effect.interval);
}

#[test]
fn without_requests_repeated_runs_decide_or_nothing_does() {
    let side = |values: [f64; 3]| values.map(numbers_only);
    let effect = compared("request_throughput", &side([10.0, 10.1, 9.9]), &side([12.0, 12.1, 11.9]));
    assert_eq!((effect.verdict(0.02), effect.basis), (Verdict::Better, Basis::Runs(3)));
    let single = compared("p99_ttft_ms", &side([1.0; 3])[..1], &side([2.0; 3])[..1]);
    assert_eq!([1, 2].map(|pairs| Basis::Sequence(pairs).text()), ["1 pair", "2 pairs"]);
    assert_eq!((single.verdict(0.02), single.basis, single.change), (Verdict::Inconclusive, Basis::Single, 1.0));
    let assumed = Terms { noise: Some(0.03), ..TERMS };
    let assumed = compare("p99_ttft_ms", &side([1.0; 3])[..1], &side([2.0; 3])[..1], assumed).unwrap();
    assert_eq!((assumed.verdict(0.02), assumed.basis), (Verdict::Worse, Basis::Assumed(0.03)));
    let missing = compare("mean_itl_ms", &side([1.0; 3]), &side([1.0; 3]), TERMS).unwrap_err();
    assert_eq!(missing, Error::Missing { key: "mean_itl_ms".into() });
    assert_eq!(shared_keys(&side([1.0; 3]), &side([1.0; 3])), ["request_throughput", "p99_ttft_ms"]);
    let only_rates = [StoredRun::from_dict(&dict! { "request_throughput": 1.0 }).unwrap()];
    assert_eq!(shared_keys(&side([1.0; 3]), &only_rates), ["request_throughput"]);
    assert_eq!(shared_keys(&only_rates, &side([1.0; 3])), ["request_throughput"]);
}

/// Per-request lists and repeats are used together: more data never makes a verdict inconclusive.
#[test]
fn more_data_never_gives_less() {
    let width = |effect: &Effect| effect.interval.map_or(f64::INFINITY, |(low, high)| high - low);
    let side = |seeds: [u64; 3], factor: f64| seeds.map(|seed| run(seed, 100, factor));
    let (base, fast) = (side([1, 2, 3], 1.0), side([4, 5, 6], 0.25));
    let effect = compared("p99_e2el_ms", &base, &fast);
    assert_eq!((effect.verdict(0.02), effect.basis), (Verdict::Better, Basis::Runs(3)));
    let one = compared("mean_e2el_ms", &base[..1], &fast[..1]);
    assert!(width(&compared("mean_e2el_ms", &base, &fast)) < width(&one));
}

#[test]
fn runs_that_differ_by_more_than_their_requests_widen_the_interval() {
    let steady = [run(1, 3000, 1.0), run(2, 3000, 1.0), run(3, 3000, 1.0)];
    let shaky = [run(4, 3000, 0.8), run(5, 3000, 1.0), run(6, 3000, 1.25)];
    let one = compared("mean_e2el_ms", &steady[..1], &shaky[2..]);
    assert_eq!(one.verdict(0.02), Verdict::Worse);
    assert_eq!(compared("mean_e2el_ms", &steady, &shaky).verdict(0.02), Verdict::Inconclusive);
}

#[test]
fn a_side_without_a_success_has_no_value() {
    let failed = dict! { "completed": 0_u64, "failed": 9_u64, "duration": 1.0, "p99_ttft_ms": 0.0 };
    let effect = compared("p99_ttft_ms", &[numbers_only(5.0)], &[StoredRun::from_dict(&failed).unwrap()]);
    assert_eq!((effect.basis, effect.interval), (Basis::Empty, None));
    assert!(effect.new.is_nan());
}

/// A run whose ITLs are all zero, as when every token arrives with the previous one, is an outlier and proves
/// nothing.
#[test]
fn a_run_of_zero_gives_no_sure_answer() {
    let (base, new) = ([numbers_only(1.0), numbers_only(1.1)], [numbers_only(0.0), numbers_only(0.7)]);
    let effect = compared("p99_ttft_ms", &base, &new);
    assert_eq!((effect.interval, effect.verdict(0.02), effect.basis), (None, Verdict::Inconclusive, Basis::Empty));
}

#[test]
fn one_run_in_two_files_counts_once() {
    let run = |value: f64, more: bool| {
        let mut dict = dict! { "duration": value, "p99_ttft_ms": value, "request_throughput": 1.0 / value };
        if more {
            dict.set("latencies", Value::List(vec![Value::Float(1.0); 3]));
        }
        StoredRun::from_dict(&dict).unwrap()
    };
    let (base, new) = ([run(1.0, true), run(1.0, false)], [run(2.0, false), run(2.0, true)]);
    assert_eq!(StoredRun::once(base.to_vec()), [run(1.0, true)]);
    let effect = compared("p99_ttft_ms", &base, &new);
    assert_eq!((effect.interval, effect.basis), (None, Basis::Single));
    assert_eq!(StoredRun::once(vec![run(1.0, true), run(1.5, true)]).len(), 2);
}

fn latency(values: &[f64]) -> StoredRun {
    let (mean, latencies) = (tacho_metrics::statistics::mean(values), values.iter().copied().collect::<Value>());
    let dict = dict! { "avg_latency": mean, "latencies": latencies, "percentiles": dict! { "50": values[0] } };
    StoredRun::from_dict(&dict).unwrap()
}

#[test]
fn iterations_decide_where_there_is_one_run_a_side() {
    let (base, new) = ([latency(&[1.0, 1.01, 0.99, 1.0, 1.01])], [latency(&[1.5, 1.52, 1.48, 1.5])]);
    let effect = compared("avg_latency", &base, &new);
    assert_eq!((effect.verdict(0.02), effect.basis), (Verdict::Worse, Basis::Iterations(4)));
    assert_eq!(shared_keys(&base, &new), ["avg_latency", "p50_latency", "p90_latency", "p99_latency"]);
    let runs = [latency(&[1.0, 1.0]), latency(&[1.1, 1.1])];
    assert_eq!(compared("avg_latency", &runs, &runs).basis, Basis::Runs(2));
    let foreign = compare("p99_ttft_ms", &base, &new, TERMS).unwrap_err();
    assert_eq!(foreign.to_string(), "p99_ttft_ms is not a metric of a latency result");
}

fn paced(throughput: f64, unstable: Option<bool>) -> StoredRun {
    let mut dict = dict! { "duration": 10.0, "completed": 400_u64, "request_rate": 40.0 };
    dict.set("request_throughput", throughput);
    if let Some(unstable) = unstable {
        let steady = dict! { "queue_unstable": unstable };
        dict.set("tacho", dict! { "version": 1_i64, "steady_state": steady });
    }
    StoredRun::from_dict(&dict).unwrap()
}

#[test]
fn throughput_at_a_fixed_rate_has_no_verdict_unless_the_server_fell_behind() {
    let side = |values: [f64; 3], unstable: Option<bool>| values.map(|value| paced(value, unstable));
    for unstable in [None, Some(false)] {
        let effect =
            compared("request_throughput", &side([38.0, 38.1, 38.2], unstable), &side([39.0, 39.1, 39.2], unstable));
        assert_eq!((effect.verdict(0.02), effect.offered), (Verdict::Scheduled, Some(40.0)));
        assert!(effect.basis_text().starts_with("delivered 38.10 and 39.10 of 40.00"), "{}", effect.basis_text());
    }
    let behind = |unstable| {
        compared("request_throughput", &side([20.0, 20.1, 20.2], unstable), &side([30.0, 30.1, 30.2], unstable))
    };
    assert_eq!([behind(None), behind(Some(true))].map(|effect| effect.verdict(0.02)), [Verdict::Better; 2]);
}

#[test]
fn the_change_is_the_ratio_of_the_values_shown() {
    let side = |values: &[f64]| values.iter().map(|value| numbers_only(*value)).collect::<Vec<_>>();
    let unpaired = compared("p99_ttft_ms", &side(&[10.0, 90.0]), &side(&[20.0, 40.0, 160.0]));
    assert!((unpaired.new / unpaired.base - 1.0 - unpaired.change).abs() < 1e-12);
    let of = of_workload;
    let base = [of("a", 10.0), of("a", 12.0), of("b", 90.0)];
    let new = [of("a", 12.0), of("b", 100.0), of("b", 120.0)];
    let paired = compared("p99_ttft_ms", &base, &new);
    assert!((paired.new / paired.base - 1.0 - paired.change).abs() < 1e-12, "{paired:?}");
    assert_eq!(paired.basis, Basis::Paired(3));
    // Digests of version 1 left out most of a request: equal ones do not mean the same requests.
    let old = |run: &StoredRun| {
        let mut dict = run.fields.clone();
        dict.set("tacho", dict! { "workload": run.workload().unwrap().trim_start_matches("v2:") });
        StoredRun::from_dict(&dict).unwrap()
    };
    let unknown = compared("p99_ttft_ms", &base.each_ref().map(old), &new.each_ref().map(old));
    assert_eq!(unknown.basis, Basis::Runs(3));
}

#[test]
fn an_interval_that_touches_zero_is_inconclusive() {
    let [base, new] = known_sides();
    let effect = compared("p99_ttft_ms", &base, &new);
    let at = |low, high| Effect { interval: Some((low, high)), ..effect.clone() }.verdict(0.02);
    assert_eq!([at(0.0, 0.1), at(-0.1, 0.0)], [Verdict::Inconclusive; 2]);
    assert_eq!([at(0.01, 0.1), at(-0.1, -0.01)], [Verdict::Worse, Verdict::Better]);
    assert_eq!(at(-0.02, 0.02), Verdict::Equal);
}

#[test]
fn pairs_of_workloads_weigh_by_their_runs() {
    // Workload a: one run of 1 and one of e^0.1; workload b: two runs of e and two of e^1.2, with twice the weight.
    let of = |workload: &str, log: f64| of_workload(workload, log.exp());
    let base = [of("a", 0.0), of("b", 1.0), of("b", 1.0)];
    let new = [of("a", 0.1), of("b", 1.2), of("b", 1.2)];
    let effect = compared("p99_ttft_ms", &base, &new);
    let change = (0.5 * 0.1 + 1.0 * 0.2) / 1.5_f64;
    assert!((effect.change - change.exp_m1()).abs() < 1e-9, "{}", effect.change);
}

/// All ways to an interval, on fixed data: requests, runs, pairs of workloads, pairs of runs, iterations, assumed noise.
#[test]
fn intervals_of_fixed_sides_do_not_change() {
    let sized = |seeds: &[u64], count: usize, factor: f64| {
        let one = |(at, seed): (usize, &u64)| run(*seed, count, factor * (1.0 + 0.002 * at as f64));
        seeds.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    let alike = |workloads: &[&str], seed: u64, factor: f64| {
        let run = |(at, workload): (usize, &&str)| {
            let seconds = latencies(seed + at as u64, 300, factor * (1.0 + at as f64));
            let own = dict! { "version": 1_i64, "workload": format!("v2:{workload}") };
            let all = seconds.into_iter().collect::<Value>();
            StoredRun::from_dict(&dict! { "latencies": all, "tacho": own }).unwrap()
        };
        workloads.iter().enumerate().map(run).collect::<Vec<_>>()
    };
    let single = |values: &[f64]| values.iter().map(|value| numbers_only(*value)).collect::<Vec<_>>();
    let many = ["a", "b", "c", "a", "b", "c", "a", "b", "c", "d"];
    let iterations = |shift: f64| vec![latency(&[1.0, 1.02 + shift, 0.99, 1.01, 1.0 + shift, 0.98])];
    let noisy = Terms { noise: Some(0.03), ..TERMS };
    let sides = [
        ("requests", "mean_e2el_ms", TERMS, sized(&[1], 500, 1.0), sized(&[2], 700, 1.05)),
        ("percentile", "p99_e2el_ms", TERMS, sized(&[1], 500, 1.0), sized(&[2], 700, 1.05)),
        ("two runs", "median_e2el_ms", TERMS, sized(&[1, 2], 400, 1.0), sized(&[3, 4], 400, 1.1)),
        ("several runs", "mean_e2el_ms", TERMS, sized(&[1, 2, 3], 400, 1.0), sized(&[4, 5], 900, 0.9)),
        (
            "shaky runs",
            "mean_e2el_ms",
            TERMS,
            sized(&[1, 2, 3], 90, 1.0),
            [sized(&[4], 90, 0.8), sized(&[5], 90, 1.2)].concat(),
        ),
        ("numbers", "p99_ttft_ms", TERMS, single(&[9.0, 9.4, 9.1]), single(&[9.9, 10.6])),
        ("assumed", "p99_ttft_ms", noisy, single(&[9.0, 9.4, 9.1]), single(&[9.9, 10.6])),
        ("assumed once", "p99_ttft_ms", noisy, single(&[9.0]), single(&[9.9])),
        ("few pairs", "mean_e2el_ms", TERMS, alike(&["a", "b"], 1, 1.0), alike(&["a", "b"], 11, 1.1)),
        ("pairs", "mean_e2el_ms", TERMS, alike(&many, 1, 1.0), alike(&many, 31, 1.1)),
        ("assumed pairs", "mean_e2el_ms", noisy, alike(&many, 1, 1.0), alike(&many, 31, 1.1)),
        ("iterations", "avg_latency", TERMS, iterations(0.0), iterations(0.07)),
    ];
    let mut text = String::new();
    let mut write = |name: &str, effect: &Effect| {
        let bounds = [(95.0, 1.0), (80.0, 1.0), (95.0, 3.0)].map(|(percent, data)| {
            let found = effect.harm_bounds(Confidence::from_percent(percent).unwrap(), data);
            found.map_or("none".to_owned(), |(low, high)| format!("{low:.9e} {high:.9e}"))
        });
        let (base, new, change) = (effect.base, effect.new, effect.change);
        let line = format!("{name}: {base:.9e} {new:.9e} {change:.9e} {} {:?}\n", bounds.join(" "), effect.basis);
        text.push_str(&line);
    };
    for (name, key, terms, base, new) in &sides {
        write(name, &compare(key, base, new, *terms).unwrap());
    }
    for count in [1, 2, 3, 5, 8] {
        let (base, new) =
            (sized(&[1, 2, 3, 4, 5, 6, 7, 8], 200, 1.0), sized(&[11, 12, 13, 14, 15, 16, 17, 18], 200, 1.04));
        let effect = compare_pairs("mean_e2el_ms", &base[..count], &new[..count], Confidence::USUAL).unwrap();
        write(&format!("{count} after another"), &effect);
    }
    tacho_testkit::assert_golden_numbers("known/comparisons.txt", &text);
}
