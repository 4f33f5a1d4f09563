use super::*;

fn draws(text: &str, count: usize) -> Vec<f64> {
    let dist = LengthDist::parse(text).unwrap();
    let mut random = RandomState::new(11);
    (0..count).map(|_| dist.draw(&mut random) as f64).collect()
}

/// The error function (Abramowitz and Stegun 7.1.26, within 1.5e-7).
fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly =
        t * (0.254_829_592 + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let erf = 1.0 - poly * (-x * x).exp();
    if z < 0.0 { (1.0 - erf) / 2.0 } else { (1.0 + erf) / 2.0 }
}

/// The Kolmogorov-Smirnov distance of whole numbers from a distribution, times the square root of their number: above
/// 1.95 in less than one of a thousand samples.
fn distance(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    // A length stands for everything that is rounded to it, so both functions are compared at its upper edge.
    let off = |at: usize| (cdf(values[at] + 0.5) - (at + 1) as f64 / count).abs();
    let last = |at: &usize| values.get(at + 1).is_none_or(|next| *next > values[*at]);
    (0..values.len()).filter(last).map(off).fold(0.0, f64::max) * count.sqrt()
}

#[test]
fn draws_have_their_distribution() {
    let normal = distance(draws("normal(512,100)", 20_000), |x| normal_cdf((x - 512.0) / 100.0));
    assert!(normal < 1.95, "{normal}");
    // A mean of 512 and a deviation of 256: variance of the logarithm ln(1 + 1/4).
    let variance = 1.25_f64.ln();
    let log = |x: f64| normal_cdf((x.ln() - 512.0_f64.ln() + variance / 2.0) / variance.sqrt());
    let lognormal = distance(draws("lognormal(512,256)", 20_000), log);
    assert!(lognormal < 1.95, "{lognormal}");
    let uniform = distance(draws("uniform(100,899)", 20_000), |x| ((x - 99.5) / 800.0).clamp(0.0, 1.0));
    assert!(uniform < 1.95, "{uniform}");
    // The test can fail: another distribution with the same mean and deviation.
    let wrong = distance(draws("normal(512,256)", 20_000), log);
    assert!(wrong > 5.0, "{wrong}");
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean(&draws("lognormal(512,256)", 20_000)) / 512.0 - 1.0).abs() < 0.02);
}

#[test]
fn draws_stay_within_sane_bounds() {
    for text in ["normal(1,1000)", "lognormal(5,100000)", "normal(1000000,1000000)", "uniform(1,1)", "7"] {
        assert!(draws(text, 2000).iter().all(|tokens| (1.0..=MAX_TOKENS).contains(tokens)), "{text}");
    }
    assert_eq!(draws("normal(300,0)", 3), [300.0; 3]);
    assert_eq!(draws("128", 2), [128.0; 2]);
}

#[test]
fn files_give_bins_and_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let bins = path("bins.csv", "low,high,weight\n# short ones\n10,19,1\n100 109\t3\n\n5,0\n");
    let values = draws(&format!("histogram({bins})"), 20_000);
    let short = values.iter().filter(|tokens| (10.0..20.0).contains(*tokens)).count();
    // A quarter, with a standard deviation of 61.
    assert!(short.abs_diff(5000) < 240, "{short}");
    assert!(values.iter().all(|tokens| (10.0..20.0).contains(tokens) || (100.0..110.0).contains(tokens)));
    let pairs = path("pairs.csv", "100,5\n2000,50,3\n");
    let lengths = RequestLengths::parse(Some(&format!("pairs({pairs})")), None).unwrap();
    let (mut random, mut long) = (RandomState::new(1), 0);
    for _ in 0..4000 {
        let (mut input, mut output) = (0, 0);
        lengths.draw(&mut random, 0, &mut input, &mut output);
        assert!([(100, 5), (2000, 50)].contains(&(input, output)));
        long += usize::from(input == 2000);
    }
    assert!(long.abs_diff(3000) < 120, "{long}");
    for (name, text, expected) in [
        ("a", "1 2 3 4\n", "line 1"),
        ("b", "x y\n1 1\nz 2\n", "line 3"),
        ("c", "0 1\n", "line 1"),
        ("d", "20 10 1\n", "line 1"),
        ("e", "5 -1\n", "line 1"),
        ("f", "# nothing\n", "no row"),
        ("g", "5 0\n", "no row"),
    ] {
        let error = LengthDist::parse(&format!("histogram({})", path(name, text))).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    assert!(LengthDist::parse("histogram(/no/such/file)").is_err());
}

#[test]
fn bad_distributions_are_explained() {
    for (text, expected) in [
        ("", "use normal(MEAN,STD)"),
        ("gauss(1,2)", "use normal(MEAN,STD)"),
        ("normal(1)", "use normal(MEAN,STD)"),
        ("normal(1,2,3)", "use normal(MEAN,STD)"),
        ("normal(1,2", "use normal(MEAN,STD)"),
        ("normal(0,2)", "a mean from 1"),
        ("normal(nan,2)", "a mean from 1"),
        ("lognormal(5,-1)", "a standard deviation from 0"),
        ("uniform(9,5)", "the smaller first"),
        ("uniform(0,5)", "from 1"),
        ("0", "1 to 1000000"),
        ("2000000", "1 to 1000000"),
    ] {
        let error = LengthDist::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    for (input, output) in [(Some("pairs(x)"), Some("5")), (None, Some("pairs(x)"))] {
        let error = RequestLengths::parse(input, output).unwrap_err().to_string();
        assert!(error.contains("sets both lengths"), "{error}");
    }
}

#[test]
fn parts_have_their_own_lengths_and_the_rest_is_left() {
    let parse = |input, output| RequestLengths::parse(input, output).unwrap();
    let plan =
        LengthPlan(vec![(2, parse(Some("10"), None)), (0, parse(Some("1"), None)), (1, parse(None, Some("20")))]);
    let mut lengths = Lengths { inputs: vec![7; 5], outputs: vec![8; 5], offsets: vec![0; 5] };
    plan.apply(0, 2, &mut lengths);
    assert_eq!((lengths.inputs, lengths.outputs), (vec![8, 8, 7, 7, 7], vec![8, 8, 20, 20, 20]));
    let mut same = Lengths { inputs: vec![7; 5], outputs: vec![8; 5], offsets: vec![0; 5] };
    LengthPlan::default().apply(0, 2, &mut same);
    assert_eq!(same.inputs, [7; 5]);
}

#[test]
fn a_class_has_its_own_distribution() {
    use crate::{ClassSpec, MixOrder, MixSpec, RandomSpec, WorkloadSpec};
    use tacho_core::Counters;
    use tacho_pyrand::Globals;

    let class = |name: &str, output: &str| {
        let lengths = RequestLengths::parse(None, Some(output)).unwrap();
        let random = RandomSpec {
            seed: 5,
            num_prompts: 4000,
            input_len: 4,
            output_len: 1,
            length_plan: LengthPlan(vec![(0, lengths)]),
            ..RandomSpec::default()
        };
        let (name, workload) = (name.to_owned(), WorkloadSpec::Random(random));
        ClassSpec {
            name,
            weight: 1.0,
            workload,
            model: None,
            adapters: Vec::new(),
            adapter_weights: Vec::new(),
            body: <_>::default(),
        }
    };
    let classes = vec![class("chat", "lognormal(512,256)"), class("batch", "uniform(100,899)")];
    let mix = WorkloadSpec::Mix(MixSpec { seed: 5, num_prompts: 6000, classes, order: MixOrder::Drawn });
    let tokenizer = tacho_text::Tokenizer::builtin();
    let sampled = crate::sample(&mix, Some(&tokenizer), &mut Globals::seeded(5), &Counters::default()).unwrap();
    let lens = |class: &str| {
        let own = sampled.requests.iter().filter(|request| request.labels.get("class") == Some(class));
        own.map(|request| request.output_len as f64).collect::<Vec<f64>>()
    };
    let variance = 1.25_f64.ln();
    let log = |x: f64| normal_cdf((x.ln() - 512.0_f64.ln() + variance / 2.0) / variance.sqrt());
    let even = |x: f64| ((x - 99.5) / 800.0).clamp(0.0, 1.0);
    assert!(lens("chat").len() > 2500 && lens("batch").len() > 2500);
    let (chat, batch) = (distance(lens("chat"), log), distance(lens("batch"), even));
    assert!(chat < 1.95 && batch < 1.95, "{chat} {batch}");
    let swapped = distance(lens("chat"), even);
    assert!(swapped > 5.0, "the test can fail: {swapped}");
}

#[test]
fn outputs_of_any_dataset_have_the_distribution() {
    let plan = LengthPlan(vec![(0, RequestLengths::parse(None, Some("uniform(100,899)")).unwrap())]);
    let drawn = |seed| {
        let mut requests = vec![Request::text("p", 9, 1); 20_000];
        plan.apply_to_outputs(seed, &mut requests);
        assert!(requests.iter().all(|request| request.prompt_len == 9));
        requests.iter().map(|request| request.output_len as f64).collect::<Vec<f64>>()
    };
    let off = distance(drawn(3), |x| ((x - 99.5) / 800.0).clamp(0.0, 1.0));
    assert!(off < 1.95, "{off}");
    assert_eq!(drawn(3), drawn(3));
    assert_ne!(drawn(3), drawn(4));
}
