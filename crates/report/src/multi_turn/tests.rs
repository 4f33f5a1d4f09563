//! Tables and workbooks compared with those of vLLM's script for the same samples.

use serde_json::Value as Json;
use tacho_testkit::{golden_files, golden_json};

use super::*;

fn number(sample: &Json, key: &str) -> f64 {
    sample[key].as_f64().unwrap_or_else(|| panic!("{key}"))
}

fn sample(json: &Json) -> TurnSample {
    let count = |key: &str| json[key].as_u64().unwrap();
    TurnSample {
        ttft_ms: number(json, "ttft_ms"),
        tpot_ms: number(json, "tpot_ms"),
        latency_ms: number(json, "latency_ms"),
        start_time_ms: number(json, "start_time_ms"),
        input_num_turns: count("input_num_turns"),
        input_num_tokens: count("input_num_tokens"),
        output_num_tokens: count("output_num_tokens"),
        output_num_chunks: count("output_num_chunks"),
        output_num_first_chunk_tokens: count("output_num_first_chunk_tokens"),
        approx_cached_percent: number(json, "approx_cached_percent"),
        conversation_id: json["conversation_id"].as_str().unwrap().to_owned(),
        client_id: count("client_id") as usize,
    }
}

/// The sample with this index, for cases that state only their number.
fn formula(at: u64, count: u64) -> TurnSample {
    let (a, b) = ((7919 * at % 1009) as f64 / 8.0, (31 * at % 97) as f64);
    TurnSample {
        ttft_ms: a,
        tpot_ms: b / 8.0,
        latency_ms: a + b,
        start_time_ms: (1000 + 4 * (37 * at % count)) as f64,
        input_num_turns: 1 + 2 * (at % 5),
        input_num_tokens: 40 + at % 200,
        output_num_tokens: 5 + at % 11,
        output_num_chunks: 4 + at % 7,
        output_num_first_chunk_tokens: 1 + at % 2,
        approx_cached_percent: (at % 8) as f64 * 12.5,
        conversation_id: format!("c{}", at % 13),
        client_id: (at % 3) as usize,
    }
}

fn samples(case: &Json) -> Vec<TurnSample> {
    match case["samples_by_formula"].as_u64() {
        Some(count) => (0..count).map(|at| formula(at, count)).collect(),
        None => case["samples"].as_array().unwrap().iter().map(sample).collect(),
    }
}

fn summary(case: &Json) -> Summary {
    let value = |value: &Json| tacho_core::json::parse(&value.to_string()).unwrap();
    let text = |value: &Json| match value.as_array() {
        Some(files) => files.iter().map(|file| file.as_str().unwrap()).collect::<Vec<&str>>().join(", "),
        None => value.as_str().unwrap().to_owned(),
    };
    let pairs = |key: &str| case[key].as_object().into_iter().flatten();
    let shares = case["warmup_percentages"].as_array().unwrap();
    Summary {
        parameters: pairs("parameters").map(|(name, given)| (name.clone(), value(given))).collect(),
        generator: pairs("generator").map(|(name, given)| (name.clone(), text(given))).collect(),
        warmup_percentages: shares.iter().map(|share| share.as_f64().unwrap() * 100.0).collect(),
        warmup_runtime_sec: case["warmup_runtime_sec"].as_f64(),
        verbose: case["verbose"].as_bool().unwrap(),
    }
}

fn plain(text: &str) -> String {
    text.replace("\u{1b}[93m", "").replace("\u{1b}[0m", "")
}

fn same(found: &Value, expected: &Json) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-14 * expected.abs(),
        _ => {
            tacho_core::json::dumps(found)
                == tacho_core::json::dumps(&tacho_core::json::parse(&expected.to_string()).unwrap())
        }
    }
}

/// Drops empty cells and rows at the end.
fn trimmed<T: Clone>(list: &[T], empty: impl Fn(&T) -> bool) -> Vec<T> {
    let end = list.iter().rposition(|item| !empty(item)).map_or(0, |last| last + 1);
    list[..end].to_vec()
}

#[test]
fn tables_and_workbooks_are_those_of_the_script() {
    let files = golden_files("scenarios/multi-turn/stats", ".json");
    assert!(files.len() >= 18);
    let mut wrong = Vec::new();
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let case = golden_json(&format!("scenarios/multi-turn/stats/{name}"));
        let (samples, summary) = (samples(&case), summary(&case));
        let text = if samples.is_empty() { String::new() } else { summary.text(&samples) };
        // All columns, regardless of the terminal's width.
        if text.trim_end() != plain(case["stdout"]["240"].as_str().unwrap()).trim_end() {
            wrong.push(format!("{name}:\n{text}\nis not\n{}", plain(case["stdout"]["240"].as_str().unwrap())));
        }
        for sheet in if case.get("xlsx").is_some() { summary.sheets(&samples).to_vec() } else { Vec::new() } {
            let expected = case["xlsx"]["sheets"][sheet.name.as_str()].as_array().unwrap();
            let rows = trimmed(&sheet.rows, |row| row.cells.is_empty());
            assert_eq!(rows.len(), expected.len(), "{name}: rows of {}", sheet.name);
            for (at, (row, expected)) in rows.iter().zip(expected).enumerate() {
                let expected = trimmed(expected.as_array().unwrap(), Json::is_null);
                let cells = trimmed(&row.cells, |cell| *cell == Value::Null);
                let equal = cells.len() == expected.len() && cells.iter().zip(&expected).all(|(a, b)| same(a, b));
                if !equal {
                    wrong.push(format!("{name}: {} row {}: {cells:?} is not {expected:?}", sheet.name, at + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
