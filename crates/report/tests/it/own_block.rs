//! Output beyond vLLM's part, for synthetic runs.

use tacho_core::FailureKind;
use tacho_core::json::{self, Value};
use tacho_metrics::{MetricKind, ProbeStatistics, Sample, Setup, Task};
use tacho_record::{Measured, RunRecord};
use tacho_report::console::{BlockStyle, vllm_report};
use tacho_report::json::{Detail, ResultFile};

use crate::given::plain_setup;

/// Requests scheduled every quarter of a second and sent an eighth late, with a role event before the content.
fn samples(count: usize) -> Vec<Sample> {
    let sample = |at: usize| {
        let scheduled = at as f64 * 0.25;
        Sample {
            scheduled,
            dispatched: scheduled,
            sent: scheduled + 0.125,
            done: scheduled + 1.0,
            ttft: 0.25,
            itl: vec![0.25, 0.25].into(),
            latency: 0.75,
            first_content: Some(0.5),
            output_tokens: Some(6),
            output_len: 6,
            ..Sample::default()
        }
    };
    (0..count).map(sample).collect()
}

fn record(setup: Setup, samples: Vec<Sample>) -> RunRecord {
    RunRecord::compute(setup, Measured { samples: samples.into(), duration: 26.0, ..Measured::default() })
}

/// The block with every metric.
fn summary_report(record: &RunRecord) -> String {
    tacho_report::console::summary_report(record, BlockStyle { verbose: true, ..BlockStyle::PLAIN })
}

#[test]
fn paced_run_is_timed_from_the_schedule() {
    let setup = Setup { request_rate: 4.0, ..plain_setup() };
    let block = summary_report(&record(setup, samples(100)));
    let row = |start: &str| {
        let line = block.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} in {block}"));
        line[start.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("TTFT p50 ms"), ["250", "250", "–", "250", "375"]);
    assert_eq!(row("E2EL p50 ms").last().map(String::as_str), Some("875"));
    assert_eq!(row("Scheduled rate (req/s):"), ["4.00"]);
    assert_eq!(row("Max requests in flight:"), ["4"]);
    assert_eq!(row("p99_ttft_ms:"), ["250.00", "…", "250.00"]);
}

#[test]
fn failures_are_shown_without_a_servers_escapes() {
    let mut samples = samples(100);
    samples[1].failure = Some(FailureKind::Http(500));
    samples[1].error = "Server Error\x1b[2J\nsecond line".into();
    samples[1].first_content = None;
    let mut record = record(plain_setup(), samples);
    record.measured.probe = Some(ProbeStatistics { failed: 2, ..ProbeStatistics::default() });
    let block = summary_report(&record);
    assert!(block.contains("failed         1 HTTP 500: Server Error\\x1b[2J"), "{block}");
    assert!(block.contains("warning[requests_failed]: ") && block.contains("2 probes"), "{block}");
    assert!(block.contains("warning[few_samples]: "), "{block}");
    assert!(vllm_report(&record).contains("Error 0: Server Error\\x1b[2J\nsecond line\n"));
}

#[test]
fn token_times_are_shown_without_a_tokenizer() {
    let setup = Setup { tokenizer_id: None, strict_parity: false, ..plain_setup() };
    let record = record(setup, samples(100));
    assert!(!vllm_report(&record).contains("TTFT"));
    let block = summary_report(&record);
    assert!(block.contains("TPOT, mean (ms):                         100.00"), "{block}");
    let file = ResultFile::new(&record, Detail::Brief).to_dict();
    let tpot = file.get("tacho").unwrap().get("mean_tpot_ms").and_then(Value::as_f64).unwrap();
    assert!((tpot - 100.0).abs() < 1e-9, "{tpot}");
    assert!(file.get("mean_tpot_ms").is_none());
}

#[test]
fn pooling_has_no_token_lines() {
    let setup = Setup { task: Task::Pooling, request_rate: 4.0, ..plain_setup() };
    let samples = samples(100).into_iter().map(|sample| Sample { first_content: None, ..sample }).collect();
    let block = summary_report(&record(setup, samples));
    assert!(block.contains("E2EL p50 ms") && !block.contains("TTFT") && !block.contains("tokens in"), "{block}");
}

/// Scripts search the whole output for a label and take what they find.
#[test]
fn labels_of_vllms_report_occur_once() {
    let limited = Setup { request_rate: 4.0, max_concurrency: Some(8), ..plain_setup() };
    let bare = Setup { tokenizer_id: None, ..limited.clone() };
    for setup in [plain_setup(), limited, bare] {
        let record = record(Setup { percentile_metrics: MetricKind::ALL.to_vec(), ..setup }, samples(100));
        let (theirs, ours) = (vllm_report(&record), summary_report(&record));
        for label in
            theirs.lines().filter_map(|line| Some(line.split_once(" (")?.0).filter(|label| !label.contains('-')))
        {
            assert!(!ours.contains(label), "{label} in {ours}");
        }
    }
}

#[test]
fn tip_is_printed_only_where_vllms_defects_are_kept() {
    let tip = "tip: install termplotlib and gnuplot to plot the metrics\n";
    let printed = |strict_parity| vllm_report(&record(Setup { strict_parity, ..plain_setup() }, samples(1)));
    assert!(printed(true).starts_with(tip));
    assert_eq!(printed(true).strip_prefix(tip), Some(printed(false).as_str()));
}

#[test]
fn lone_surrogates_of_a_text_are_written_as_escapes() {
    let mut samples = samples(1);
    samples[0].text = vec![b'x', 0xed, 0xa0, 0xbd, 0xc3, 0xa9];
    let record = record(plain_setup(), samples);
    let mut out = Vec::new();
    ResultFile::new(&record, Detail::PerRequest).write_to(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r#""generated_texts": ["x\ud83d\u00e9"]"#), "{text}");
}

#[test]
fn burstiness_stays_an_infinity_and_only_the_rate_becomes_a_text() {
    let record = record(Setup { burstiness: f64::INFINITY, ..plain_setup() }, samples(1));
    let mut out = Vec::new();
    ResultFile::vllm(&record, Detail::Brief).write_to(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r#""request_rate": "inf", "burstiness": Infinity, "max_concurrency": null"#), "{text}");
    assert!(json::parse(&text).is_ok());
}
