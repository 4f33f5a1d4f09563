//! Repeats every recorded draw of CPython and NumPy.

#![expect(clippy::unwrap_used, reason = "a broken golden file fails the test")]

use serde_json::Value;
use tacho_pyrand::{Generator, HashKey, Pcg64, Random, RandomState, SeedSequence};
use tacho_testkit::{golden_json, sha256};

fn cases(file: &str) -> Vec<Value> {
    let cases = golden_json(file)["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{file} holds cases");
    cases
}

fn int(value: &Value) -> i128 {
    match value {
        Value::String(digits) => digits.parse().unwrap(),
        number => i128::from(number.as_i64().unwrap()),
    }
}

fn ints(value: &Value) -> Vec<i128> {
    value.as_array().unwrap().iter().map(int).collect()
}

fn arg(step: &Value, name: &str) -> usize {
    usize::try_from(int(&step["args"][name])).unwrap()
}

fn float_arg(step: &Value, name: &str) -> f64 {
    step["args"][name].as_f64().unwrap()
}

/// The length in an argument such as `0..20`.
fn list_len(step: &Value) -> usize {
    step["args"]["list"].as_str().unwrap().strip_prefix("0..").unwrap().parse().unwrap()
}

fn assert_bits(step: &Value, drawn: &[f64], case: &Value) {
    let bits: Vec<String> = drawn.iter().map(|value| format!("{:016x}", value.to_bits())).collect();
    let expected: Vec<&str> = step["out_bits"].as_array().unwrap().iter().map(|bits| bits.as_str().unwrap()).collect();
    assert_eq!(bits, expected, "{} with seed {}: {}", case["script"], case["seed"], step["args"]);
}

fn assert_ints(step: &Value, drawn: impl IntoIterator<Item = impl Into<i128>>, case: &Value) {
    let drawn: Vec<i128> = drawn.into_iter().map(Into::into).collect();
    assert_eq!(drawn, ints(&step["out"]), "{} with seed {}: {}", case["script"], case["seed"], step["args"]);
}

fn wide(indices: Vec<usize>) -> Vec<u64> {
    indices.into_iter().map(|index| index as u64).collect()
}

#[test]
fn python_random_draws_as_recorded() {
    for case in cases("rng/python_random.json") {
        let mut random = Random::new(u64::try_from(int(&case["seed"])).unwrap());
        for step in case["steps"].as_array().unwrap() {
            python_step(&mut random, step, &case);
        }
    }
}

fn python_step(random: &mut Random, step: &Value, case: &Value) {
    match step["op"].as_str().unwrap() {
        "random" => {
            let drawn: Vec<f64> = (0..arg(step, "count")).map(|_| random.random()).collect();
            assert_bits(step, &drawn, case);
        }
        "uniform" => {
            let (a, b) = (float_arg(step, "a"), float_arg(step, "b"));
            let drawn: Vec<f64> = (0..arg(step, "count")).map(|_| random.uniform(a, b)).collect();
            assert_bits(step, &drawn, case);
        }
        "shuffle" => {
            let mut items: Vec<u64> = (0..list_len(step) as u64).collect();
            random.shuffle(&mut items);
            assert_ints(step, items, case);
        }
        "choice" => {
            let n = arg(step, "n");
            let drawn = (0..arg(step, "count")).map(|_| random.choice_index(n).unwrap()).collect();
            assert_ints(step, wide(drawn), case);
        }
        "randint" => {
            let (a, b) = (int(&step["args"]["a"]) as i64, int(&step["args"]["b"]) as i64);
            assert_ints(step, (0..arg(step, "count")).map(|_| random.randint(a, b)), case);
        }
        "choices" => assert_ints(step, wide(random.choices_indices(arg(step, "n"), arg(step, "k"))), case),
        "sample" => assert_ints(step, wide(random.sample_indices(arg(step, "n"), arg(step, "k"))), case),
        "getrandbits" => {
            let bits = arg(step, "bits") as u32;
            assert_ints(step, (0..arg(step, "count")).map(|_| random.getrandbits(bits)), case);
        }
        other => panic!("unknown step {other}"),
    }
}

#[test]
fn numpy_legacy_draws_as_recorded() {
    for case in cases("rng/numpy_legacy_global.json") {
        let mut state = RandomState::new(u32::try_from(int(&case["seed"])).unwrap());
        for step in case["steps"].as_array().unwrap() {
            legacy_step(&mut state, step, &case);
        }
    }
}

fn legacy_step(state: &mut RandomState, step: &Value, case: &Value) {
    match step["op"].as_str().unwrap() {
        "random_sample" => {
            let drawn: Vec<f64> = (0..arg(step, "size")).map(|_| state.random_sample()).collect();
            assert_bits(step, &drawn, case);
        }
        "standard_normal" => {
            let drawn: Vec<f64> = (0..arg(step, "size")).map(|_| state.standard_normal()).collect();
            assert_bits(step, &drawn, case);
        }
        "gamma_scalar_calls" => {
            let (shape, scale) = (float_arg(step, "shape"), float_arg(step, "scale"));
            let drawn: Vec<f64> = (0..arg(step, "count")).map(|_| state.gamma(shape, scale)).collect();
            assert_bits(step, &drawn, case);
        }
        "randint" => {
            let (low, high) = (int(&step["args"]["low"]) as i64, int(&step["args"]["high"]) as i64);
            assert_ints(step, state.randint_vec(low, high, arg(step, "size")), case);
        }
        other => panic!("unknown step {other}"),
    }
}

#[test]
fn pandas_row_choice_draws_as_recorded() {
    for case in cases("rng/numpy_random_state_choice.json") {
        let mut state = RandomState::new(u32::try_from(int(&case["seed"])).unwrap());
        let (n, size) = (int(&case["n"]) as usize, int(&case["size"]) as usize);
        let drawn = if case["replace"].as_bool().unwrap() {
            state.choice_replacing(n, size)
        } else {
            state.choice_distinct(n, size)
        };
        assert_ints(&case, wide(drawn), &case);
        assert_eq!(state.random_sample(), case["next_random_sample"].as_f64().unwrap());
    }
}

#[test]
fn pcg64_words_are_as_recorded() {
    for case in cases("rng/numpy_pcg64.json") {
        let sequence = SeedSequence::new(u64::try_from(int(&case["seed"])).unwrap());
        let words: Vec<i128> = sequence.words(8).into_iter().map(i128::from).collect();
        assert_eq!(words, ints(&case["seed_sequence_uint32"]));
        let mut pcg = Pcg64::from_sequence(&sequence);
        assert_eq!(pcg.state().to_string(), case["state"].as_str().unwrap());
        assert_eq!(pcg.increment().to_string(), case["inc"].as_str().unwrap());
        let raw = ints(&case["raw"]);
        assert_eq!((0..raw.len()).map(|_| i128::from(pcg.next_u64())).collect::<Vec<_>>(), raw);
    }
}

#[test]
fn default_rng_draws_as_recorded() {
    for case in cases("rng/numpy_default_rng.json") {
        let mut generator = Generator::new(u64::try_from(int(&case["seed"])).unwrap());
        for step in case["steps"].as_array().unwrap() {
            generator_step(&mut generator, step, &case);
        }
    }
}

fn generator_step(generator: &mut Generator, step: &Value, case: &Value) {
    match step["op"].as_str().unwrap() {
        "integers" => assert_ints(step, integers(generator, step, arg(step, "size")), case),
        "integers_scalar" => assert_ints(step, integers(generator, step, 1), case),
        "random" => {
            let drawn: Vec<f64> = (0..arg(step, "size")).map(|_| generator.random()).collect();
            assert_bits(step, &drawn, case);
        }
        "choice_rows" => {
            let p: Vec<f64> = step["args"]["p"].as_array().unwrap().iter().map(|p| p.as_f64().unwrap()).collect();
            assert_eq!(step["args"]["rows"][generator.choice_weighted(&p)], step["out"], "{}", case["script"]);
        }
        "integers_uint8" => {
            let size: i128 = ints(&step["args"]["shape"]).iter().product();
            assert_eq!(size, int(&step["out_len"]));
            let mut bytes = vec![0; size as usize];
            generator.fill_bytes(&mut bytes);
            let digest = sha256(&bytes);
            assert_eq!(digest, step["out_sha256"].as_str().unwrap(), "{}", case["script"]);
        }
        "permutation" => assert_ints(step, wide(generator.permutation(arg(step, "n"))), case),
        "shuffle_list" => {
            let mut items: Vec<u64> = (0..list_len(step) as u64).collect();
            generator.shuffle(&mut items);
            assert_ints(step, items, case);
        }
        other => panic!("unknown step {other}"),
    }
}

/// `integers` with bounds that may lie outside int64, as an exclusive upper bound of 2^63 does.
fn integers(generator: &mut Generator, step: &Value, size: usize) -> Vec<i128> {
    let (low, high) = (int(&step["args"]["low"]), int(&step["args"]["high"]));
    let max = u64::try_from(high - 1 - low).unwrap();
    (0..size).map(|_| low + i128::from(generator.up_to(max))).collect()
}

#[test]
fn string_hash_is_as_recorded() {
    for case in cases("rng/python_str_hash.json") {
        let key = HashKey::from_seed(u32::try_from(int(&case["PYTHONHASHSEED"])).unwrap());
        for (i, text) in case["keys"].as_array().unwrap().iter().enumerate() {
            let hash = key.hash(text.as_str().unwrap());
            assert_eq!(i128::from(hash), int(&case["hash"][i]));
            let seed = hash as u32;
            assert_eq!(i128::from(seed), int(&case["seed32"][i]));
            let drawn = Random::new(u64::from(seed)).choices_indices(50_256, 4);
            let drawn: Vec<i128> = drawn.into_iter().map(|index| index as i128).collect();
            assert_eq!(drawn, ints(&case["first_choices_of_50256"][i]));
        }
    }
}
