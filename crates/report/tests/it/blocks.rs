//! The terminal block in six situations, character for character. `UPDATE_SNAPSHOTS=1` rewrites the files.

use std::path::Path;

use tacho_core::{FailureKind, Labels};
use tacho_metrics::{Sample, Setup, WorkerUse};
use tacho_record::{Measured, RunRecord};
use tacho_report::console::{BlockStyle, summary_report};

use crate::given::plain_setup;

/// Pseudorandom numbers from 0 to 1, the same in every run.
fn noise(at: usize) -> f64 {
    (at as f64 * 0.754_877_666).fract()
}

fn sample(at: usize, scheduled: f64, sent: f64, ttft: f64) -> Sample {
    let latency = ttft + 0.2;
    Sample {
        index: at,
        scheduled,
        dispatched: scheduled,
        sent,
        done: sent + latency,
        ttft,
        itl: vec![0.02; 10].into(),
        latency,
        output_tokens: Some(11),
        output_len: 11,
        prompt_len: 100,
        ..Sample::default()
    }
}

fn record(setup: Setup, samples: Vec<Sample>, duration: f64) -> RunRecord {
    let setup = Setup { strict_parity: false, num_prompts: samples.len() as i64, ..setup };
    let workers = vec![WorkerUse { busy: 0.12, events: 4000, kernel_timestamps: true, ..WorkerUse::default() }];
    RunRecord::compute(setup, Measured { samples: samples.into(), duration, workers, ..Measured::default() })
}

fn paced(rate: f64) -> Setup {
    Setup { request_rate: rate, ..plain_setup() }
}

/// Requests at 10 per second to a server that responds at once.
fn healthy(late: f64) -> Vec<Sample> {
    let one = |at: usize| {
        let scheduled = at as f64 * 0.1;
        let sent = scheduled + late * noise(at);
        Sample { dispatched: sent, ..sample(at, scheduled, sent, 0.03 + 0.01 * noise(at * 7)) }
    };
    (0..400).map(one).collect()
}

fn check(name: &str, record: &RunRecord) -> String {
    let text = summary_report(record, BlockStyle::PLAIN);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/blocks").join(name).with_extension("txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name}: run with UPDATE_SNAPSHOTS=1 and read the difference");
    assert!(text.lines().count() <= 24, "{name} has more lines than a terminal");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{name} is wider than 80 columns");
    text
}

#[test]
fn burst_has_no_intervals_and_advises_repeats() {
    let samples = (0..50).map(|at| sample(at, 0.0, 0.0, 0.1 + at as f64 * 0.01)).collect();
    let text = check("burst", &record(plain_setup(), samples, 0.8));
    assert!(text.contains("--num-runs 4") && !text.contains("95% CI") && !text.contains("steady state"));
}

#[test]
fn healthy_rate_has_no_warnings() {
    let text = check("healthy", &record(paced(10.0), healthy(0.0), 40.2));
    assert!(text.lines().nth(1) == Some("✔ USABLE: no warnings") && !text.contains("from schedule"));
}

#[test]
fn overload_is_the_first_line() {
    let one = |at: usize| {
        let scheduled = at as f64 * 0.1;
        sample(at, scheduled, scheduled, (at as f64 * 0.25 - scheduled).max(0.0) + 0.05)
    };
    let text = check("overload", &record(paced(10.0), (0..200).map(one).collect(), 51.0));
    assert!(text.lines().nth(1).unwrap().starts_with("✗ NOT USABLE: warning["));
    assert!(text.contains("offered 10.0 req/s, served\n  4.") && text.contains("steady state   none"));
}

#[test]
fn overload_of_a_short_schedule_is_not_served_at_zero() {
    let one = |at: usize| sample(at, at as f64 * 0.005, at as f64 * 0.005, 1.0 + at as f64 * 0.01);
    let record = record(paced(200.0), (0..100).map(one).collect(), 2.7);
    let text = summary_report(&record, BlockStyle::PLAIN);
    assert!(
        text.contains("overloaded") && !text.contains("served 0.00") && !text.contains("--request-rate 0.00"),
        "{text}"
    );
}

#[test]
fn failing_server_shows_what_failed() {
    let fail = |sample: Sample| match sample.index % 5 {
        0 => {
            let mut failed = Sample { failure: Some(FailureKind::Http(503)), ..sample };
            failed.error = "Service Unavailable\x1b[2J".into();
            failed
        }
        _ => sample,
    };
    let samples = healthy(0.0).into_iter().map(fail).collect();
    let text = check("failing", &record(paced(10.0), samples, 40.2));
    assert!(
        text.contains("warning[requests_failed]") && text.contains("80 HTTP 503: Service") && !text.contains('\x1b')
    );
}

#[test]
fn a_client_without_a_response_has_no_error() {
    let fail = |sample: Sample| Sample { failure: Some(FailureKind::Connect), ..sample };
    let samples = healthy(0.0).into_iter().map(fail).collect();
    let text = summary_report(&record(paced(10.0), samples, 40.2), BlockStyle::PLAIN);
    assert!(text.contains("client unknown, no response could be timed") && !text.contains("within"), "{text}");
}

#[test]
fn untrusted_client_is_bad() {
    let text = check("late_client", &record(paced(10.0), healthy(0.05), 40.2));
    assert!(text.lines().nth(1).unwrap().starts_with("✗ NOT USABLE: warning["), "{text}");
    assert!(text.contains("client         LATE · late p99 "), "{text}");
}

#[test]
fn closed_loop_has_intervals_and_no_schedule() {
    let one = |at: usize| {
        let sent = (at / 8) as f64 * 0.25;
        let dispatched = sent - 0.1;
        Sample { scheduled: 0.0, dispatched: dispatched.max(0.0), ..sample(at, 0.0, sent, 0.03 + 0.01 * noise(at)) }
    };
    let setup = Setup { max_concurrency: Some(8), ..plain_setup() };
    let text = check("closed_loop", &record(setup, (0..400).map(one).collect(), 12.6));
    assert!(text.contains("95% CI") && !text.contains("from schedule") && text.contains("closed loop, 8 at a time"));
}

#[test]
fn colors_are_on_a_terminal_only() {
    let record = record(paced(10.0), healthy(0.0), 40.2);
    let color = summary_report(&record, BlockStyle { color: true, ..BlockStyle::PLAIN });
    assert!(color.contains("\x1b[32m✔ USABLE: no warnings\x1b[0m"), "{color}");
}

/// A block with classes, warnings and three percentiles is one screen, and says what it leaves to `--verbose`.
#[test]
fn a_full_block_is_one_screen() {
    let fail = |sample: Sample| {
        let class = ["chat", "code", "search", "batch", "agents"][sample.index % 5];
        let mut sample = sample.labeled(Labels::NONE.with("class", class));
        if sample.index.is_multiple_of(5) {
            sample.failure = Some(FailureKind::Http(503));
            sample.error = "no room ".repeat(80);
        }
        sample
    };
    let setup = Setup { metric_percentiles: vec![50.0, 90.0, 99.0], ..paced(10.0) };
    let full = record(setup, healthy(0.05).into_iter().map(fail).collect(), 40.2);
    let text = check("full", &full);
    assert!(text.contains("more with --verbose: ") && text.contains("NOT USABLE: warning[requests_failed]"), "{text}");
    let verbose = summary_report(&full, BlockStyle { verbose: true, ..BlockStyle::PLAIN });
    assert!(verbose.lines().count() > 24 && !verbose.contains("more with --verbose"), "{verbose}");
}
