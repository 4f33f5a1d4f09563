//! `metrics/results.json`: whole runs on a given clock, from their flags to the file and the report.

use tacho_core::json::{self, Dict, Value};
use tacho_metrics::{GoodputLimits, Samples, Setup};
use tacho_record::{Measured, Provenance, RunRecord, ServerFacts, restored::restored};
use tacho_report::console::vllm_report;
use tacho_report::json::{Detail, SaveMode, save};

use crate::given::{Flags, assert_same, golden, list, rate_changes, sample, text, whole};

fn record(case: &Value, flags: &Flags<'_>) -> RunRecord {
    let expected = &list(case, "result_file")[0];
    let clock: Vec<f64> = list(case, "clock").iter().filter_map(Value::as_f64).collect();
    let setup =
        Setup { date: text(expected, "date").into(), rps_change_events: rate_changes(expected), ..flags.setup() };
    let samples: Samples = list(case, "outputs")
        .iter()
        .zip(&clock[1..])
        .map(|(output, &dispatched)| sample(output, dispatched, output.get("output_tokens").map_or(0, whole)))
        .collect();
    let duration = clock[clock.len() - 1] - clock[0];
    RunRecord::compute(setup, Measured { samples, duration, ..Measured::default() })
}

/// The same run without strict parity, whose file has tacho's own part.
fn relaxed(mut record: RunRecord) -> RunRecord {
    record.setup.strict_parity = false;
    record
}

fn without_own_part(line: &str) -> Value {
    let Value::Dict(mut dict) = json::parse(line).unwrap() else { panic!("a line holds an object") };
    assert_eq!(dict.iter().last().map(|(key, _)| key), Some("tacho"));
    let tacho = dict.remove("tacho").unwrap();
    assert_eq!(tacho.get("version"), Some(&Value::Int(1)));
    Value::Dict(dict)
}

#[test]
fn runs_give_vllms_file_and_report() {
    let golden = golden("metrics/results.json");
    let cases = list(&golden, "cases");
    assert!(!cases.is_empty());
    for case in cases {
        let name = text(case, "name");
        let flags = Flags::of(case);
        let record = record(case, &flags);
        // The recorded report starts after the list of failures.
        let ours = vllm_report(&record);
        let start = ours.find("tip: ").or_else(|| ours.find("====")).unwrap();
        assert_eq!(&ours[start..], text(case, "report"), "{name}");

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        let detail = if flags.has("--save-detailed") { Detail::PerRequest } else { Detail::Brief };
        let mode = if flags.has("--append-result") { SaveMode::Append } else { SaveMode::Overwrite };
        let expected = list(case, "result_file");
        for _ in expected {
            save(&record, &path, detail, mode).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = written.split('\n').collect();
        assert_eq!(lines.len(), expected.len(), "{name}");
        for (line, expected) in lines.iter().zip(expected) {
            assert_same(&json::parse(line).unwrap(), expected, 1e-15, name);
        }
        save(&relaxed(record), &path, detail, SaveMode::Overwrite).unwrap();
        let line = std::fs::read_to_string(&path).unwrap();
        assert_same(&without_own_part(&line), &expected[0], 1e-15, name);
    }
}

#[test]
fn own_part_holds_what_vllm_leaves_out() {
    let golden = golden("metrics/results.json");
    let case = list(&golden, "cases").iter().find(|case| text(case, "name") == "failures, label, metadata").unwrap();
    let mut record = relaxed(record(case, &Flags::of(case)));
    let server = ServerFacts { version: Some("9.8.7".into()), ..ServerFacts::default() };
    record.provenance =
        Provenance { command: Some("tacho serve".into()), seed: Some(7), server, ..Provenance::default() };
    record.setup.metrics.goodput = Some(GoodputLimits { ttft_ms: Some(200.0), ..GoodputLimits::default() });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.json");
    save(&record, &path, Detail::PerRequest, SaveMode::Overwrite).unwrap();
    let file = json::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let tacho = file.get("tacho").unwrap();
    let outcomes: Dict =
        [("complete", 5u64), ("malformed", 1)].map(|(k, n)| (k.to_owned(), n.into())).into_iter().collect();
    assert_eq!(tacho.get("outcomes"), Some(&Value::Dict(outcomes)));
    assert_eq!(tacho.get("start").and_then(Value::as_str), Some("2026-01-02T03:04:05Z"));
    assert_eq!(list(tacho, "outcome")[2], Value::from("malformed"));
    assert_eq!(list(tacho, "sent"), list(&file, "start_times"));
    let kinds: Vec<&str> = list(tacho, "caveats").iter().map(|caveat| text(caveat, "kind")).collect();
    assert_eq!(kinds, ["requests_failed", "few_samples", "one_burst"]);

    let again = restored(file.as_dict().unwrap(), |_| ()).unwrap().unwrap().record;
    assert_eq!((&again.provenance, again.setup.metrics.goodput), (&record.provenance, record.setup.metrics.goodput));
    assert_eq!(tacho.get("provenance").and_then(|tacho| tacho.get("tokenizer")), file.get("tokenizer_id"));

    save(&record, &path, Detail::Brief, SaveMode::Overwrite).unwrap();
    let brief = json::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(brief.get("tacho").unwrap().get("scheduled").is_none());
    assert!(brief.get("latencies").is_some() && brief.get("ttfts").is_none());
}
