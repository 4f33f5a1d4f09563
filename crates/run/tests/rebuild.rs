//! A logged record is the same when it is read back; a damaged log is an error or yields its intact part.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use tacho_core::{FailureKind, Observation, Outcome, Timestamp, Usage, json::Value};
use tacho_metrics::sessions::{SessionStep, Steps};
use tacho_metrics::{Caveat, GoodputLimits, MetricKind, Sample, Setup, WorkerUse};
use tacho_record::{Measured, Provenance, RunRecord, logged};
use tacho_rowlog::{Log, Manifest, Origin, RequestInfo};
use tacho_run::Error;
use tacho_run::rebuild::{Changes, Rebuilt, Window, merge, rebuild, rebuild_within};
use tacho_testkit::{Counted, fuzz_files, peak};
use tacho_workload::hub::Hub;

const ORIGIN: Origin = Origin { timestamp: Timestamp(3_000_000), unix_ns: 1_800_000_000_000_000_000 };

fn setup() -> Setup {
    Setup {
        date: "20270115-080010".into(),
        started: "2027-01-15T08:00:00.000000+00:00".into(),
        model_id: "m".into(),
        tokenizer_id: Some("gpt2".into()),
        num_prompts: 20,
        request_rate: 10.0,
        max_concurrency: Some(4),
        metric_percentiles: vec![50.0, 99.0],
        ..Setup::example()
    }
}

fn row(index: usize) -> Observation {
    let scheduled = Timestamp(ORIGIN.timestamp.0 + index as u64 * 100_000_000);
    let at = |nanos: u64| Timestamp(scheduled.0 + nanos);
    let failed = index == 3;
    Observation {
        sent: at(12_345),
        first_content: Some(at(50_000_123)),
        chunks: (0..5).map(|event| at(50_000_123 + event * 10_000_789)).collect(),
        done: at(120_000_000),
        outcome: if failed { Outcome::failed(FailureKind::Http(503), "busy") } else { Outcome::Complete },
        usage: Usage { prompt_tokens: Some(9), completion_tokens: Some(5), ..Usage::default() },
        ..Observation::dispatched(index, scheduled, at(1_000))
    }
}

fn record(rows: &[Observation], setup: Setup) -> RunRecord {
    let request = RequestInfo { prompt_len: 8, input_sequences: 1, ..RequestInfo::default() };
    let sample = |row: &Observation| Sample::from_observation(row.clone(), &request, &setup, None);
    let mut samples = rows.iter().map(sample).collect();
    steps().name(&mut samples);
    let end = rows.iter().map(|row| row.done).max().unwrap();
    let workers = vec![WorkerUse { busy: 0.25, wake_lags: vec![1e-6], events: 100, ..WorkerUse::default() }];
    let duration = end.secs_since(ORIGIN.timestamp);
    let origin = ORIGIN.timestamp.secs();
    let measured = Measured { samples, duration, origin, workers, ..Measured::default() };
    let mut record = RunRecord::compute(setup, measured);
    record.add_caveat(Caveat::TokenizerMismatch { prompts: 3, ours: 8, theirs: 9 });
    record.sessions = Some(steps().summary(&record.measured.samples, None));
    record
}

/// Additional contents of the manifest: the plan, and sessions of two requests each.
fn more(setup: &Setup) -> tacho_core::json::Dict {
    let mut more = logged::plan(setup, &Provenance::default());
    logged::plan_sessions(&mut more, &steps());
    more
}

fn steps() -> Steps {
    let parents = |place: usize| if place % 2 == 1 { vec![(place - 1, 0.05)] } else { Vec::new() };
    let step = |place| SessionStep {
        session: place / 2,
        turn: place % 2,
        parents: parents(place),
        sends: true,
        ..SessionStep::default()
    };
    Steps { steps: (0..20).map(step).collect(), indices: (0..20).collect(), ..Steps::default() }
}

/// Writes a log of `rows`; closed if there is a summary.
fn log(directory: &Path, origin: Origin, rows: &[Observation], setup: &Setup, closing: Option<Value>) {
    log_in_batches(directory, origin, rows, more(setup), closing, 7);
}

fn log_in_batches(
    directory: &Path,
    origin: Origin,
    rows: &[Observation],
    more: tacho_core::json::Dict,
    closing: Option<Value>,
    together: usize,
) {
    let manifest = Manifest {
        tacho: "0".into(),
        command: Vec::new(),
        seed: Some(0),
        workload: None,
        requests: Some(20),
        host: tacho_core::Host::default(),
        clock: String::new(),
        more: more.into(),
    };
    let mut log = Log::create(directory, &manifest).unwrap();
    log.begin(origin).unwrap();
    let request = RequestInfo { prompt_len: 8, input_sequences: 1, ..RequestInfo::default() };
    rows.chunks(together).for_each(|batch| log.append(batch.iter().map(|row| (&request, row))).unwrap());
    if let Some(closing) = closing {
        log.finish(&closing).unwrap();
    }
}

fn rebuilt(directory: &Path, changes: &Changes) -> Rebuilt {
    rebuild(directory, changes, &Hub::from_variables(|_| None), &()).unwrap()
}

#[test]
fn a_finished_run_is_the_same_in_every_part() {
    let directory = tempfile::tempdir().unwrap();
    let rows: Vec<Observation> = (0..20).map(row).collect();
    let mut record = record(&rows, setup());
    log(directory.path(), ORIGIN, &rows, &setup(), Some(logged::closing(&record).into()));
    let back = rebuilt(directory.path(), &Changes::default());
    // The manifest holds the seed and the host of every run.
    (record.provenance.seed, record.provenance.host) = (Some(0), back.record.provenance.host.clone());
    assert!(record.provenance.host.is_some());
    assert_eq!(back.record, record);
    assert!(back.closed);
}

#[test]
fn other_metrics_come_from_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let rows: Vec<Observation> = (0..20).map(row).collect();
    let record = record(&rows, setup());
    log(directory.path(), ORIGIN, &rows, &setup(), Some(logged::closing(&record).into()));
    let changes = Changes {
        percentile_metrics: Some(vec![MetricKind::E2el]),
        metric_percentiles: Some(vec![90.0]),
        goodput: Some(GoodputLimits { ttft_ms: Some(1.0), ..GoodputLimits::default() }),
        window: Some(Window::Span(0.5, 1.0)),
        tokenizer: None,
    };
    let back = rebuilt(directory.path(), &changes).record;
    // Requests end 120 ms after their scheduled times, which are 100 ms apart: the fourth to the eighth are in the
    // window.
    let indices: Vec<usize> = back.measured.samples.iter().map(|sample| sample.index).collect();
    assert_eq!((indices.as_slice(), back.measured.duration), ([4, 5, 6, 7, 8].as_slice(), 0.5));
    assert_eq!(back.summary.request_throughput, 10.0);
    assert_eq!(back.summary.generation().unwrap().request_goodput, Some(0.0));
    assert_eq!(back.summary.e2el.percentiles_ms.len(), 1);
    let none = Changes { window: Some(Window::Span(50.0, 60.0)), ..Changes::default() };
    assert!(rebuild(directory.path(), &none, &Hub::from_variables(|_| None), &()).is_err());
    let steady = Changes { window: Some(Window::Steady), ..Changes::default() };
    let short = rebuild(directory.path(), &steady, &Hub::from_variables(|_| None), &());
    assert!(matches!(short, Err(Error::NeverSteady)), "twenty requests are too few");
}

#[test]
fn the_steady_state_can_be_reported_alone() {
    let directory = tempfile::tempdir().unwrap();
    // The first requests take longer, as on a cold server.
    let slow = |index: usize| {
        let mut row = Observation { outcome: Outcome::Complete, ..row(index) };
        let extra = if index < 10 { 400_000_000 } else { (index as u64 * 7919) % 1000 };
        row.chunks.iter_mut().chain([&mut row.done]).for_each(|timestamp| timestamp.0 += extra);
        row
    };
    let rows: Vec<Observation> = (0..200).map(slow).collect();
    log(directory.path(), ORIGIN, &rows, &setup(), None);
    let whole = rebuilt(directory.path(), &Changes::default()).record;
    let part = rebuilt(directory.path(), &Changes { window: Some(Window::Steady), ..Changes::default() }).record;
    let steady = whole.steady.unwrap();
    assert!(steady.reached && steady.start >= 0.9, "{steady:?}");
    assert!((part.measured.duration - (steady.end - steady.start)).abs() < 1e-9);
    assert!(part.measured.samples.len() < 195, "{}", part.measured.samples.len());
    assert!(part.summary.e2el.mean_ms < whole.summary.e2el.mean_ms, "{:?}", part.summary.e2el);
}

#[test]
fn a_killed_run_gives_the_rows_it_had() {
    let directory = tempfile::tempdir().unwrap();
    let rows: Vec<Observation> = (0..10).map(row).collect();
    log(directory.path(), ORIGIN, &rows, &setup(), None);
    let back = rebuilt(directory.path(), &Changes::default());
    assert!(!back.closed && back.record.setup.interrupted);
    assert_eq!((back.record.measured.samples.len(), back.record.summary.failed), (10, 1));
    assert_eq!(back.record.measured.duration, 1.02);
    assert!(matches!(back.record.caveats[0], Caveat::Interrupted { finished: 10, .. }));
}

#[test]
fn logs_of_several_machines_are_one_run() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rows: Vec<Observation> = (0..20).map(row).collect();
    let closing: Value = logged::closing(&record(&rows, setup())).into();
    log(one.path(), ORIGIN, &rows, &setup(), Some(closing.clone()));
    let later = Origin { unix_ns: ORIGIN.unix_ns + 500_000_000, ..ORIGIN };
    log(two.path(), later, &rows, &setup(), Some(closing));
    let runs = [&two, &one].map(|directory| rebuilt(directory.path(), &Changes::default()));
    let merged = merge(runs.into());
    assert_eq!((merged.summary.completed, merged.summary.failed, merged.setup.num_prompts), (38, 2, 40));
    assert_eq!((merged.setup.request_rate, merged.setup.max_concurrency), (20.0, Some(8)));
    assert!((merged.measured.duration - 2.52).abs() < 1e-9, "{}", merged.measured.duration);
    let samples: Vec<_> = merged.measured.samples.iter().collect();
    assert!((samples[20].scheduled - 0.5).abs() < 1e-9);
    assert_eq!(samples[39].index, 39);
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// Peak memory of the result of this many requests, with one megabyte for those that stay in memory.
fn memory_of(requests: usize) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let at = |index: usize| {
        let mut row = row(0);
        row.move_clock(ORIGIN.timestamp, Timestamp(ORIGIN.timestamp.0 + index as u64 * 1_000_000));
        Observation { index, ..row }
    };
    let rows: Vec<Observation> = (0..requests).map(at).collect();
    log_in_batches(directory.path(), ORIGIN, &rows, logged::plan(&setup(), &Provenance::default()), None, 5000);
    drop(rows);
    let hub = Hub::from_variables(|_| None);
    let (run, max) = peak(|| rebuild_within(1 << 20, directory.path(), &Changes::default(), &hub, &()).unwrap());
    assert_eq!(run.record.summary.completed, requests as u64);
    max
}

#[test]
#[ignore = "slow: writes and reads a long run"]
fn slow_group_the_result_of_a_long_run_takes_little_more_memory_than_that_of_a_short_one() {
    let (short, long) = (memory_of(20_000), memory_of(80_000));
    let grown = (long as f64 - short as f64) / 60_000.0;
    println!("{grown:.1} bytes a request: {short} and {long}");
    assert!(grown < 32.0, "{grown:.1} bytes a request: {short} and {long}");
}

#[test]
fn fuzz_logs() {
    for name in ["rows-0.arrows", "manifest.json", "summary.json"] {
        let prepare = |directory: &Path| {
            let rows: Vec<Observation> = (0..3).map(row).collect();
            log(directory, ORIGIN, &rows, &setup(), Some(logged::closing(&record(&rows, setup())).into()));
        };
        let whole = tempfile::tempdir().unwrap();
        prepare(whole.path());
        let hub = Hub::from_variables(|_| None);
        assert!(rebuild(whole.path(), &Changes::default(), &hub, &()).is_ok(), "the seed is a log");
        let good = std::fs::read(whole.path().join(name)).unwrap();
        fuzz_files(&format!("logs ({name})"), &[good], 400, prepare, |directory, bytes| {
            std::fs::write(directory.join(name), bytes).unwrap();
            if let Ok(run) = rebuild(directory, &Changes::default(), &hub, &()) {
                let _ = merge(vec![run]);
            }
        });
    }
}
