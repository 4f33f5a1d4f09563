//! The log of a run, and resuming from one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tacho_core::{Note, ServerTimes};
use tacho_loadgen::{ScheduleSpec, StopSignal};
use tacho_metrics::Caveat;
use tacho_record::Provenance;
use tacho_rowlog::{Stored, Tail};
use tacho_run::Error;
use tacho_run::rebuild::{Changes, rebuild, rebuild_within};
use tacho_run::serve::{LogPlan, LogStart};
use tacho_testkit::scripted::Scripted;
use tacho_workload::hub::Hub;

use crate::bench::{Manners, ask_after, measure, plan, record, server};

fn log(directory: PathBuf, start: LogStart, required: bool) -> Option<LogPlan> {
    let command = vec!["tacho".to_owned(), "serve".to_owned()];
    Some(LogPlan { directory, start, required, tacho: "tacho test".into(), command, memory: LogPlan::MEMORY })
}

/// The indices of all rows of a log, segment by segment.
fn rows(directory: &Path) -> Vec<Vec<usize>> {
    let stored = Stored::open(directory).unwrap();
    let of = |segment: &tacho_rowlog::Segment| {
        let rows = segment.batches().unwrap().flat_map(|batch| batch.unwrap());
        let mut indices: Vec<usize> = rows.map(|row| row.observation.index).collect();
        indices.sort_unstable();
        indices
    };
    stored.segments().iter().map(of).collect()
}

#[test]
fn every_row_is_logged() {
    let server = server(Manners::default());
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run.rows");
    let mut plan = plan(&server, 30);
    plan.log = log(place.clone(), LogStart::AtOnce, true);
    let (record, _) = record(&plan);
    assert_eq!(record.summary.completed, 30);
    assert_eq!(rows(&place), [(0..30).collect::<Vec<_>>()]);
    let stored = Stored::open(&place).unwrap();
    assert!(stored.closing().is_some() && stored.manifest().requests == Some(30));
    assert_eq!(stored.segments()[0].tail().unwrap(), Tail::Closed);
}

#[test]
fn a_result_states_its_origin_and_the_log_states_the_same() {
    let page = "vllm:cache_config_info{block_size=\"16\"} 1.0\n".to_owned();
    let server = server(Manners { metrics: Some(page), ..Manners::default() });
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run.rows");
    let mut plan = plan(&server, 3);
    plan.log = log(place.clone(), LogStart::AtOnce, true);
    plan.seed = 7;
    plan.report.provenance = Some(Provenance { command: Some("tacho serve".into()), ..Provenance::default() });
    let (record, _) = record(&plan);
    let origin = &record.provenance;
    assert_eq!((origin.command.as_deref(), origin.seed), (Some("tacho serve"), Some(7)));
    assert_eq!(origin.server.name().as_deref(), Some("vLLM 9.8.7"));
    assert_eq!(origin.server.settings, [("block_size".to_owned(), "16".to_owned())]);
    assert!(origin.host.as_ref().is_some_and(|host| !host.name.is_empty()));
    let again = rebuild(&place, &Changes::default(), &Hub::from_variables(|_| None), &()).unwrap().record;
    assert_eq!(&again.provenance, origin);
    assert_eq!(Stored::open(&place).unwrap().manifest().workload, record.setup.workload, "one digest");
}

#[test]
fn strict_parity_sends_no_version_request() {
    let server = server(Manners::default());
    record(&plan(&server, 3));
    assert!(!server.paths().iter().any(|path| path == "/version"), "{:?}", server.paths());
}

#[test]
fn rows_that_only_the_log_has_give_the_same_result() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run.rows");
    let server = server(Manners {
        last: r#", "timings": {"draft_n": 9, "draft_n_accepted": 4, "predicted_ms": 1.5}"#,
        ..Manners::default()
    });
    let mut plan = plan(&server, 40);
    plan.log = log(place.clone(), LogStart::AtOnce, true).map(|log| LogPlan { memory: 0, ..log });
    plan.traffic.schedule = ScheduleSpec::Rate { rate: 40.0, burstiness: f64::INFINITY };
    let (mut record, _) = record(&plan);
    // The manifest holds the seed and the host of every run.
    (record.provenance.seed, record.provenance.host) = (Some(i64::from(plan.seed)), Some(tacho_rowlog::this_host()));
    assert_eq!((record.summary.completed, record.measured.samples.len()), (40, 40));
    assert!(record.measured.samples.iter().all(|sample| sample.times.decode == ServerTimes::micros(1500.0)));
    assert!(record.measured.samples.iter().enumerate().all(|(at, sample)| sample.index == at));
    let (changes, hub) = (Changes::default(), Hub::from_variables(|_| None));
    assert_eq!(rebuild(&place, &changes, &hub, &()).unwrap().record, record);
    assert_eq!(rebuild_within(0, &place, &changes, &hub, &()).unwrap().record, record);
    let names = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with('.')).count(), 0, "spilled samples leave no file behind");
}

/// The bodies of all completions that a server saw, unordered.
fn bodies(server: &Scripted) -> Vec<Vec<u8>> {
    let calls = server.calls().into_iter().filter(|call| call.path() == "/v1/completions");
    let mut bodies: Vec<Vec<u8>> = calls.map(|call| call.body).collect();
    bodies.sort();
    bodies
}

#[test]
fn spilled_requests_are_sent_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let sent = |memory: Option<usize>, limit: Option<usize>| {
        let server = server(Manners::default());
        let mut plan = plan(&server, 500);
        plan.traffic.max_concurrency = limit;
        let place = directory.path().join(format!("{memory:?}-{limit:?}.rows"));
        plan.log = memory.and_then(|memory| log(place, LogStart::AtOnce, true).map(|log| LogPlan { memory, ..log }));
        if limit.is_none() {
            plan.traffic.schedule = ScheduleSpec::Rate { rate: 1000.0, burstiness: 1.0 };
        }
        let (record, _) = record(&plan);
        assert_eq!(record.summary.completed, 500);
        bodies(&server)
    };
    let expected = sent(None, Some(4));
    assert_eq!(expected.len(), 500);
    // All but the first are spilled; some are; each worker takes every n-th of them.
    assert!(sent(Some(0), Some(4)) == expected);
    assert!(sent(Some(100_000), Some(4)) == expected);
    assert!(sent(Some(0), None) == expected);
}

#[test]
fn a_required_log_that_cannot_be_created_is_an_error_before_the_run() {
    let server = server(Manners::default());
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    let mut plan = plan(&server, 3);
    plan.log = log(directory.path().join("file"), LogStart::AtOnce, true);
    let (result, _) = measure(&plan, &StopSignal::default());
    assert!(matches!(result, Err(Error::Log(_))), "{result:?}");
    assert!(server.calls().is_empty());
    plan.log = log(directory.path().join("file"), LogStart::AtOnce, false);
    let (record, notes) = record(&plan);
    assert_eq!(record.summary.completed, 3, "without being asked for it is only missed");
    assert!(
        notes.notes().iter().any(|note| matches!(note, Note::Text(text) if text.contains("goes on without its log")))
    );
    assert!(record.caveats.iter().any(|caveat| matches!(caveat, Caveat::LogIncomplete { .. })), "{:?}", record.caveats);
}

#[test]
fn a_short_run_writes_no_log_by_default() {
    let server = server(Manners::default());
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run.rows");
    let mut plan = plan(&server, 3);
    plan.log = log(place.clone(), LogStart::AfterAMinute, false);
    record(&plan);
    assert!(!place.exists());
}

#[test]
fn a_stopped_run_is_resumed_and_no_request_is_sent_twice() {
    let slow = server(Manners { wait: Duration::from_millis(50), ..Manners::default() });
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run.rows");
    let mut plan = plan(&slow, 60);
    plan.traffic.schedule = ScheduleSpec::Rate { rate: 60.0, burstiness: f64::INFINITY };
    plan.log = log(place.clone(), LogStart::AtOnce, true);
    let stop = StopSignal::default();
    plan.traffic.grace = Duration::from_secs(60);
    ask_after(&slow, 15, &stop, 1);
    let (first, _) = measure(&plan, &stop);
    let before = first.unwrap().measured.samples.len();
    assert!((1..60).contains(&before), "{before}");
    plan.log = log(place.clone(), LogStart::Resumed, true);
    let (whole, notes) = record(&plan);
    assert!(notes.has(format!("Resuming: {before} requests have been answered before, {} are left.", 60 - before)));
    assert_eq!((whole.measured.samples.len(), whole.summary.completed), (60, 60));
    assert_eq!(slow.count("/v1/completions"), 60, "each request is sent once");
    let resumed = |caveat: &Caveat| matches!(caveat, Caveat::Resumed { segments: 2, resent: 0, .. });
    assert!(whole.caveats.iter().any(resumed) && !whole.setup.interrupted, "{:?}", whole.caveats);
    let rebuilt = rebuild(&place, &Changes::default(), &Hub::from_variables(|_| None), &()).unwrap().record;
    assert_eq!(rebuilt.measured.samples, whole.measured.samples);
    assert_eq!((rebuilt.measured.duration, &rebuilt.summary), (whole.measured.duration, &whole.summary));
    let segments = rows(&place);
    assert_eq!(segments.concat().len(), 60);
    assert_eq!(segments[0].len(), before);
    // About a second of sending in total, as scheduled: the break between the two does not count.
    assert!((0.8..30.0).contains(&whole.measured.duration), "{}", whole.measured.duration);
    let (again, _) = measure(&plan, &StopSignal::default());
    assert!(matches!(again, Err(Error::NothingLeft { .. })), "{again:?}");
}

#[test]
fn a_log_of_other_requests_is_refused() {
    let server = server(Manners::default());
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run.rows");
    let mut plan = plan(&server, 5);
    plan.log = log(place.clone(), LogStart::AtOnce, true);
    record(&plan);
    plan.workload = crate::bench::random(6);
    plan.log = log(place, LogStart::Resumed, true);
    let (result, _) = measure(&plan, &StopSignal::default());
    assert!(matches!(result, Err(Error::OtherWorkload { .. })), "{result:?}");
}
