//! The ends of a run: after its last request, by its duration, by a rule, or by an interrupt.

use std::time::{Duration, Instant};

use tacho_loadgen::{ScheduleSpec, StopSignal};
use tacho_metrics::Caveat;
use tacho_run::{FailureLimit, Precision};

use crate::bench::{Manners, ask_after, measure, plan, record, server};

fn constant(rate: f64) -> ScheduleSpec {
    ScheduleSpec::Rate { rate, burstiness: f64::INFINITY }
}

#[test]
fn a_duration_ends_a_run_and_requests_in_flight_finish() {
    let server = server(Manners { wait: Duration::from_millis(300), ..Manners::default() });
    let mut plan = plan(&server, 500);
    plan.traffic.schedule = constant(50.0);
    plan.traffic.stops.duration = Some(Duration::from_secs(1));
    let (record, notes) = record(&plan);
    assert_eq!(notes.total(), Some(500), "the schedule limits it too");
    let samples = &record.measured.samples;
    assert!((20..=52).contains(&samples.len()), "{}", samples.len());
    assert!(samples.iter().all(|sample| sample.success()) && !record.setup.interrupted);
    assert!(!record.caveats.iter().any(|caveat| caveat.is_end() || matches!(caveat, Caveat::Interrupted { .. })));
}

#[test]
fn requests_beyond_the_grace_period_are_reported_and_not_counted() {
    let server = server(Manners { wait: Duration::from_secs(90), ..Manners::default() });
    let mut plan = plan(&server, 10);
    plan.traffic.stops.duration = Some(Duration::from_secs(1));
    plan.traffic.stops.drain = Duration::from_millis(200);
    let began = Instant::now();
    let (record, _) = record(&plan);
    assert!(began.elapsed() < Duration::from_secs(60), "the server would take longer");
    assert!(record.measured.samples.is_empty());
    let cut_off = |caveat: &Caveat| matches!(caveat, Caveat::EndedByDuration { cut_off: 1..=10 });
    assert!(record.caveats.iter().any(cut_off), "{:?}", record.caveats);
}

#[test]
fn failures_end_a_run_that_would_only_fail_on() {
    let server = server(Manners { fail_from: Some(10), ..Manners::default() });
    let mut plan = plan(&server, 2000);
    plan.traffic.schedule = constant(100.0);
    plan.traffic.stops.failures = Some(FailureLimit::Share(0.2));
    let (record, _) = record(&plan);
    let ended = |caveat: &Caveat| matches!(caveat, Caveat::EndedByFailures { .. });
    assert!(record.caveats.iter().any(ended), "{:?}", record.caveats);
    assert!((20..1900).contains(&record.measured.samples.len()), "{}", record.measured.samples.len());
}

#[test]
fn a_few_failures_do_not() {
    let server = server(Manners { fail_from: Some(95), ..Manners::default() });
    let mut plan = plan(&server, 100);
    plan.traffic.stops.failures = Some(FailureLimit::Share(0.2));
    let (record, _) = record(&plan);
    assert_eq!((record.measured.samples.len(), record.summary.completed), (100, 95));
}

#[test]
fn one_interrupt_finishes_requests_in_flight() {
    let server = server(Manners { wait: Duration::from_millis(200), ..Manners::default() });
    let mut plan = plan(&server, 1000);
    plan.traffic.schedule = constant(50.0);
    plan.traffic.grace = Duration::from_secs(60);
    let stop = StopSignal::default();
    ask_after(&server, 20, &stop, 1);
    let (record, _) = measure(&plan, &stop);
    let record = record.unwrap();
    assert!(record.setup.interrupted);
    assert!(record.measured.samples.iter().all(|sample| sample.success()));
    assert!((20..1000).contains(&record.measured.samples.len()), "{}", record.measured.samples.len());
}

#[test]
fn two_interrupts_abort_requests_and_keep_measurements() {
    let server = server(Manners { wait: Duration::from_secs(90), ..Manners::default() });
    let plan = plan(&server, 5);
    let stop = StopSignal::default();
    ask_after(&server, 5, &stop, 2);
    let began = Instant::now();
    let (record, _) = measure(&plan, &stop);
    assert!(began.elapsed() < Duration::from_secs(60), "the server would take longer");
    assert!(record.unwrap().setup.interrupted);
}

#[test]
fn a_duration_limited_closed_loop_generates_new_requests() {
    let server = server(Manners { wait: Duration::from_millis(5), ..Manners::default() });
    let mut plan = plan(&server, 20);
    plan.traffic.max_concurrency = Some(4);
    plan.traffic.stops.duration = Some(Duration::from_millis(1500));
    plan.traffic.stops.endless = true;
    let (record, notes) = record(&plan);
    assert_eq!(notes.total(), Some(0), "more than 20 of 20 requests would finish");
    let asked: Vec<_> = server.calls().into_iter().filter(|seen| seen.path() == "/v1/completions").collect();
    assert!(asked.len() > 60, "{}", asked.len());
    assert_eq!(record.measured.samples.len(), asked.len());
    assert!(record.measured.duration >= 1.45, "{}", record.measured.duration);
    assert!(record.open_loop.peak_concurrency <= 4);
    let distinct = |values: Vec<String>| values.iter().collect::<std::collections::HashSet<_>>().len();
    let ids = asked.iter().map(|seen| seen.header("x-request-id").unwrap().to_owned()).collect();
    assert_eq!(distinct(ids), asked.len(), "each has an id of its own");
    let prompts = asked.iter().map(|seen| seen.json()["prompt"].to_string()).collect();
    assert!(distinct(prompts) > asked.len() * 9 / 10, "they are not the same prompts again");
}

/// Responses take long compared with the delays of a busy machine.
#[test]
fn a_sufficiently_precise_metric_ends_the_run() {
    let server = server(Manners { wait: Duration::from_millis(150), ..Manners::default() });
    let mut plan = plan(&server, 50);
    plan.traffic.max_concurrency = Some(16);
    plan.traffic.stops.duration = Some(Duration::from_secs(60));
    plan.traffic.stops.endless = true;
    plan.traffic.stops.precision = Some(Precision { metric: "mean_ttft_ms".into(), share: 0.5 });
    let (record, _) = record(&plan);
    let ended = |caveat: &Caveat| matches!(caveat, Caveat::EndedByPrecision { .. });
    assert!(record.caveats.iter().any(ended), "{:?}", record.caveats);
    assert!(record.measured.duration < 50.0, "{}", record.measured.duration);
}
