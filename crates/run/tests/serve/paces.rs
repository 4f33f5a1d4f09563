//! Arrival processes: what is announced, how many connections are opened, and the client's verdict.

use std::time::Duration;

use tacho_core::json::Dict;
use tacho_loadgen::{RampUp, RampUpStrategy, ScheduleSpec};
use tacho_run::WorkloadPlan;
use tacho_run::serve::{Contact, prepare, save_workload};

use crate::bench::{Manners, plan, record, server};

#[test]
fn a_burst_is_not_judged_by_its_schedule() {
    let server = server(Manners::default());
    let (record, notes) = record(&plan(&server, 12));
    assert_eq!(record.summary.completed, 12);
    assert_eq!(server.count("/v1/completions"), 12);
    assert!(notes.has("Traffic request rate: inf") && notes.has("Maximum request concurrency: None"));
    let trust = record.trust.unwrap();
    assert!(trust.lateness.is_none() && record.open_loop.rates.is_none());
    assert!(trust.connections >= 12, "each has a connection from the start");
}

#[test]
fn a_rate_is_announced_and_judged() {
    let server = server(Manners::default());
    let mut plan = plan(&server, 20);
    plan.traffic.schedule = ScheduleSpec::Rate { rate: 100.0, burstiness: 1.0 };
    let (record, notes) = record(&plan);
    assert!(notes.has("Traffic request rate: 100.0") && notes.has("Burstiness factor: 1.0 (Poisson process)"));
    assert!(!record.setup.self_timed && record.setup.request_rate == 100.0);
    assert!(record.trust.unwrap().lateness.is_some());
    assert!((record.open_loop.rates.unwrap().planned - 100.0).abs() < 15.0);
}

#[test]
fn a_ramp_is_announced_and_its_steps_are_noted() {
    let server = server(Manners::default());
    let mut plan = plan(&server, 30);
    let ramp = RampUp { strategy: RampUpStrategy::Linear, start_rps: 50, end_rps: 60 };
    plan.traffic.schedule = ScheduleSpec::RampUp { ramp, burstiness: f64::INFINITY };
    let (record, notes) = record(&plan);
    assert!(notes.has(
        "Traffic ramp-up strategy: linear.\nWill increase RPS from 50 to 60 RPS over the duration of the benchmark."
    ));
    assert_eq!(record.setup.ramp_up.unwrap().end_rps, 60);
    assert_eq!(
        record.setup.rps_change_events.iter().map(|change| change.rps).collect::<Vec<_>>(),
        (50..=60).collect::<Vec<_>>()
    );
    assert!(record.trust.unwrap().lateness.is_some());
}

#[test]
fn a_replayed_workload_is_judged_like_a_rate() {
    let server = server(Manners::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.jsonl");
    let mut first = plan(&server, 10);
    first.traffic.schedule = ScheduleSpec::Rate { rate: 50.0, burstiness: f64::INFINITY };
    save_workload(&first, &prepare(&first, Contact::Server, &()).unwrap(), Dict::new(), &path).unwrap();
    let mut again = plan(&server, 10);
    again.workload = WorkloadPlan::File { path, time_scale: 1.0 };
    let (record, notes) = record(&again);
    assert!(notes.has("Self timing is set, using the timestamps from the trace file.") && record.setup.self_timed);
    assert!(record.trust.unwrap().lateness.is_some(), "its lateness is known");
    assert!((record.open_loop.rates.unwrap().planned - 50.0).abs() < 5.0);
}

#[test]
fn a_trace_that_brings_its_times_is_judged_like_a_rate() {
    let server = server(Manners::default());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.jsonl");
    let rows: String = (0..10)
        .map(|at| {
            format!("{{\"prompt\": \"word {at}\", \"timestamp\": {}, \"output_tokens\": 2}}\n", f64::from(at) * 0.02)
        })
        .collect();
    std::fs::write(&path, rows).unwrap();
    let mut plan = plan(&server, 10);
    plan.workload = crate::workloads::timed(&path, 10);
    let (record, notes) = record(&plan);
    assert!(notes.has("Self timing is set, using the timestamps from the trace file.") && record.setup.self_timed);
    assert!(record.trust.unwrap().lateness.is_some() && record.open_loop.rates.is_some());
}

#[test]
fn a_saved_workload_without_gaps_is_at_once() {
    let server = server(Manners { wait: Duration::from_millis(50), ..Manners::default() });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.jsonl");
    let first = plan(&server, 20);
    save_workload(&first, &prepare(&first, Contact::Server, &()).unwrap(), Dict::new(), &path).unwrap();
    let mut again = plan(&server, 20);
    again.workload = WorkloadPlan::File { path, time_scale: 1.0 };
    let (record, _) = record(&again);
    let trust = record.trust.unwrap();
    assert!(trust.lateness.is_none() && !record.setup.self_timed);
    assert_eq!(trust.connections, 20, "all of them are opened beforehand");
}

#[test]
fn a_limit_is_kept() {
    let server = server(Manners { wait: Duration::from_millis(20), ..Manners::default() });
    let mut plan = plan(&server, 12);
    plan.traffic.max_concurrency = Some(3);
    let (record, notes) = record(&plan);
    assert!(notes.has("Maximum request concurrency: 3"));
    assert!(record.open_loop.peak_concurrency <= 3, "{}", record.open_loop.peak_concurrency);
    assert_eq!(record.summary.completed, 12);
}
