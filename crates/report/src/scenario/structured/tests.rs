use serde_json::Value as Json;
use tacho_core::{FailureKind, json::dumps};
use tacho_metrics::{GoodputLimits, MetricKind, MetricSettings, Setup, structured::Verdict};
use tacho_testkit::{golden_files, golden_json};

use super::*;

/// The value of a flag in the case's command line.
fn flag<'c>(case: &'c Json, name: &str) -> Option<&'c str> {
    let argv = case["argv"].as_array().unwrap();
    let at = argv.iter().position(|word| word == name)?;
    argv[at + 1].as_str()
}

fn dataset(case: &Json) -> &'static str {
    let name = flag(case, "--dataset").unwrap();
    ["json", "json-unique", "grammar", "regex", "choice", "xgrammar_bench"]
        .into_iter()
        .find(|known| *known == name)
        .unwrap()
}

fn setup(case: &Json) -> StructuredSetup {
    let number = |name: &str, preset: f64| flag(case, name).map_or(preset, |text| text.parse().unwrap());
    StructuredSetup {
        backend: "vllm".into(),
        model_id: flag(case, "--model").unwrap().into(),
        tokenizer_id: flag(case, "--model").unwrap().into(),
        dataset: dataset(case),
        num_prompts: number("--num-prompts", 1000.0) as i64,
        output_len: number("--output-len", 128.0) as i64,
        ratio: Some(number("--structured-output-ratio", 1.0)),
        request_rate: number("--request-rate", f64::INFINITY),
        burstiness: number("--burstiness", 1.0),
        max_concurrency: flag(case, "--max-concurrency").map(|text| text.parse().unwrap()),
        profiled: flag(case, "--profile").is_some(),
    }
}

/// The recorded responses, with the tokenizer's lengths and the score's verdicts.
fn responses(case: &Json) -> Vec<JudgedResponse> {
    let file = &case["file"];
    let number = |value: &Json| value.as_f64().unwrap_or(0.0);
    let response = |(at, outcome): (usize, &Json)| {
        let success = outcome["success"].as_bool().unwrap_or(false);
        let mut sample = Sample {
            failure: (!success).then_some(FailureKind::Empty),
            prompt_len: file["input_lens"][at].as_u64().unwrap(),
            output_len: file["output_lens"][at].as_u64().unwrap(),
            ttft: number(&outcome["ttft"]),
            latency: number(&outcome["latency"]),
            itl: outcome["itl"].as_array().into_iter().flatten().map(number).collect::<Vec<f64>>().into(),
            ..Sample::default()
        };
        sample.text = outcome["generated_text"].as_str().unwrap_or_default().into();
        sample.error = outcome["error"].as_str().unwrap_or_default().into();
        let verdict = Verdict { loose: file["outputs"][at]["correctness"].as_bool(), ..Verdict::default() };
        let expected = file["outputs"][at]["expected"].as_str().map(str::to_owned);
        JudgedResponse { sample, expected, constrained: true, fresh: false, verdict }
    };
    case["outcomes"].as_array().unwrap().iter().enumerate().map(response).collect()
}

fn goodput(case: &Json) -> Option<GoodputLimits> {
    let argv = case["argv"].as_array().unwrap();
    let at = argv.iter().position(|word| word == "--goodput")?;
    let limit = |name: &str| {
        let words = argv[at + 1..].iter().map(|word| word.as_str().unwrap()).take_while(|word| !word.starts_with("--"));
        words.filter_map(|word| word.split_once(':')).find(|(key, _)| *key == name).map(|(_, ms)| ms.parse().unwrap())
    };
    Some(GoodputLimits { ttft_ms: limit("ttft"), tpot_ms: limit("tpot"), e2el_ms: limit("e2el") })
}

#[test]
fn recorded_reports_are_made_again() {
    let cases = golden_files("scenarios/structured-output/report", ".json");
    assert_eq!(cases.len(), 16);
    for path in cases {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let case = golden_json(&format!("scenarios/structured-output/report/{name}"));
        let (setup, responses) = (setup(&case), responses(&case));
        let metrics = MetricKind::parse_list(flag(&case, "--percentile-metrics").unwrap_or("ttft,tpot,itl"));
        let percentiles = flag(&case, "--metric-percentiles").unwrap_or("99");
        let percentiles: Vec<f64> = percentiles.split(',').map(|text| text.parse().unwrap()).collect();
        let duration = case["duration"].as_f64().unwrap();
        let tacho = MetricSettings { goodput: goodput(&case), ..MetricSettings::default() };
        let run =
            Setup { percentile_metrics: metrics, metric_percentiles: percentiles, metrics: tacho, ..Setup::example() };
        let summary = StructuredSummary::of(&responses, &run, duration);
        let console: Vec<&str> =
            case["console"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let table = console.iter().position(|line| line.starts_with("====")).unwrap();
        assert_eq!(super::console(&setup, &summary, duration), console[table..], "{name}");
        assert_eq!(setup.traffic(), console[table - 3..table], "{name}");
        assert_eq!(setup.file_name(), case["file_name"].as_str().unwrap(), "{name}");
        let file = result(&setup, &summary, &responses, case["file"]["duration"].as_f64().unwrap());
        let keys: Vec<&str> = file.iter().map(|(key, _)| key).collect();
        assert_eq!(Json::from(keys), case["file_keys"], "{name}");
        assert_same(&file, &case["file"], &name);
    }
}

/// Equal except for the last bits of numbers, whose sums have another order.
fn assert_same(ours: &Dict, theirs: &Json, name: &str) {
    for (key, value) in ours.iter() {
        let theirs = &theirs[key];
        match value {
            Value::Dict(inner) => assert_same(inner, theirs, name),
            Value::Float(number) if number.is_nan() => assert_eq!(theirs["$float"], "NaN", "{name}: {key}"),
            Value::Float(number) => {
                let theirs = theirs.as_f64().unwrap();
                assert!((number - theirs).abs() <= theirs.abs() * 1e-12, "{name}: {key} {number} {theirs}");
            }
            other => assert_eq!(serde_json::from_str::<Json>(&dumps(other)).unwrap(), *theirs, "{name}: {key}"),
        }
    }
}
