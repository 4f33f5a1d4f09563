//! Computes the record of a run from its log: the reported metrics, or others from the same rows.

mod ranks;

use std::collections::HashMap;
use std::path::Path;

use jiff::tz::TimeZone;
use tacho_core::{EventSink, LabelPool, SpillFile, Timestamp, json::Value};
use tacho_metrics::{Caveat, Gather, GoodputLimits, MetricKind, Sample, Samples, Setup, Steady, Task, WorkerUse};
use tacho_record::{Measured, Provenance, RunRecord, logged};
use tacho_rowlog::{Joined, Manifest, Row, Stored};
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::hub::Hub;

use crate::serve::{LogPlan, load_tokenizer, sample};
use crate::{Error, NamedTokenizer, TokenizerPlan, serve::log::rows::check_read_back};

pub use ranks::{are_ranks, rebuild_ranks};

#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub percentile_metrics: Option<Vec<MetricKind>>,
    pub metric_percentiles: Option<Vec<f64>>,
    pub goodput: Option<GoodputLimits>,
    /// Restricts the result to requests that ended in this part of the run.
    pub window: Option<Window>,
    /// The tokenizer for counting, if it is not found under its old name.
    pub tokenizer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Window {
    /// From one time to another, in seconds since the origin.
    Span(f64, f64),
    Steady,
}

impl Window {
    /// Start and end of the window, if the run has it.
    fn span(self, setup: &Setup, samples: &Samples, origin: f64) -> Result<(f64, f64), Error> {
        match self {
            Window::Span(start, end) => Ok((start, end)),
            Window::Steady => {
                let steady = Steady::of(setup, samples).filter(|steady| steady.reached).ok_or(Error::NeverSteady)?;
                let sent = samples.iter().filter(|sample| sample.success()).map(|sample| sample.sent);
                let first = sent.fold(f64::INFINITY, f64::min) - origin;
                Ok((first + steady.start, first + steady.end))
            }
        }
    }
}

#[derive(Debug)]
pub struct Rebuilt {
    pub record: RunRecord,
    /// Its merged log, without the rows.
    pub log: Joined,
    /// Whether the log was closed at the end of the run.
    pub closed: bool,
    /// Number of planned requests, if the log has it.
    pub requests: Option<u64>,
    /// The redacted command line; empty if the log does not have it.
    pub command: Vec<String>,
}

/// Reads the log in `directory` and computes its record.
pub fn rebuild(directory: &Path, changes: &Changes, hub: &Hub, sink: &dyn EventSink) -> Result<Rebuilt, Error> {
    rebuild_within(LogPlan::MEMORY, directory, changes, hub, sink)
}

/// Reads a log with at most this many bytes of samples in memory; the rest spills to a file next to it.
pub fn rebuild_within(
    memory: usize,
    directory: &Path,
    changes: &Changes,
    hub: &Hub,
    sink: &dyn EventSink,
) -> Result<Rebuilt, Error> {
    let stored = Stored::open(directory)?;
    ranks::refuse_one(&stored)?;
    let read = Read {
        directory,
        memory,
        manifest: stored.manifest(),
        closing: stored.closing(),
        workers: Vec::new(),
        hub,
        sink,
    };
    read.compute(changes, |take| Ok(stored.each(take)?))
}

struct Read<'a> {
    directory: &'a Path,
    /// Bytes of samples that stay in memory.
    memory: usize,
    manifest: &'a Manifest,
    /// The summary at its end, if it was closed.
    closing: Option<&'a Value>,
    /// Utilization of workers, if the summary does not have it.
    workers: Vec<WorkerUse>,
    hub: &'a Hub,
    sink: &'a dyn EventSink,
}

impl Read<'_> {
    /// Computes the record of the rows from `each`, one at a time.
    fn compute(
        mut self,
        changes: &Changes,
        each: impl FnOnce(&mut dyn FnMut(Row)) -> Result<Joined, Error>,
    ) -> Result<Rebuilt, Error> {
        let (mut setup, mut measured, caveats) = self.stored()?;
        let mut reading = Reading {
            samples: Gather::beyond(self.memory, SpillFile::in_directory(self.directory)),
            rows: 0,
            setup: &setup,
            // Requests that the end of the run aborted are not part of its result.
            leaves_cut_off: caveats.iter().any(Caveat::is_end),
            tokenizer: Counting::new(|| tokenizer(&setup, changes, &self.manifest.more, self.hub, self.sink)),
            labels: LabelPool::default(),
            scores: self.closing.map(logged::scores).unwrap_or_default(),
        };
        let log = each(&mut |row| reading.take(row))?;
        if reading.rows == 0 {
            return Err(Error::EmptyLog { path: self.directory.to_owned() });
        }
        measured.samples = reading.finish()?;
        let requests = self.manifest.requests;
        if self.closing.is_none() {
            (measured.duration, measured.workers) = (span(&log), std::mem::take(&mut self.workers));
            setup = unclosed(setup, &log, measured.samples.len(), requests);
        }
        let origin = log.segments.first().map_or(Timestamp::ZERO, |segment| segment.start);
        measured.origin = origin.secs();
        changes.apply(&mut setup);
        // The fingerprint applies to the whole workload only.
        setup.workload = setup.workload.filter(|_| changes.window.is_none());
        let steps = logged::session_steps(&self.manifest.more)?;
        if let Some(steps) = &steps {
            steps.name(&mut measured.samples);
        }
        if let Some(window) = changes.window {
            let window = window.span(&setup, &measured.samples, origin.secs())?;
            self.cut(&mut measured, origin, window);
            // Stages may lie outside of the window.
            setup.stages.clear();
            if measured.samples.is_empty() {
                return Err(Error::EmptyWindow { start: window.0, end: window.1 });
            }
        }
        let mut record = RunRecord::compute(setup, measured);
        record.provenance = self.provenance();
        check_read_back(Some(self.directory), &record.measured.samples)?;
        // Session metrics need the whole run.
        record.sessions = steps.filter(|_| changes.window.is_none()).map(|steps| {
            let block = record.measured.server.block_size();
            steps.summary(&record.measured.samples, block)
        });
        caveats.into_iter().rev().for_each(|caveat| record.add_caveat(caveat));
        let command = self.manifest.command.clone();
        Ok(Rebuilt { record, closed: self.closing.is_some(), requests, log, command })
    }

    /// The provenance in the log; that of a run without an end is in the manifest.
    fn provenance(&self) -> Provenance {
        let stated = logged::provenance(self.closing.unwrap_or(&self.manifest.more));
        let Manifest { seed, host, .. } = self.manifest;
        Provenance { seed: stated.seed.or(*seed), host: stated.host.or_else(|| Some(host.clone())), ..stated }
    }

    /// The contents of the log other than rows.
    fn stored(&self) -> Result<(Setup, Measured, Vec<Caveat>), Error> {
        Ok(match self.closing {
            Some(closing) => (logged::setup(closing)?, logged::measured(closing)?, logged::caveats(closing)?),
            None => (logged::setup(&self.manifest.more)?, Measured::default(), Vec::new()),
        })
    }

    /// Keeps the requests that ended in the window, whose length becomes the duration.
    fn cut(&self, measured: &mut Measured, origin: Timestamp, (start, end): (f64, f64)) {
        let (origin, end) = (origin.secs(), end.min(measured.duration));
        let inside = measured.samples.iter().filter(|sample| (start..=end).contains(&(sample.done - origin)));
        let mut kept = Gather::beyond(self.memory, SpillFile::in_directory(self.directory));
        inside.for_each(|sample| kept.push(sample.into_owned()));
        measured.samples = kept.finish().0;
        measured.duration = end - start;
        // Counters cover the whole run, not a part of it.
        measured.speculative = None;
        measured.diffusion = None;
    }
}

/// Conversion of rows to samples.
struct Reading<'a, F> {
    samples: Gather,
    rows: usize,
    setup: &'a Setup,
    leaves_cut_off: bool,
    tokenizer: Counting<F>,
    labels: LabelPool,
    /// Scores of requests that they got after the run.
    scores: HashMap<usize, Value>,
}

impl<F: Fn() -> Result<Option<Tokenizer>, Error>> Reading<'_, F> {
    fn take(&mut self, mut row: Row) {
        if let Some(scores) = self.scores.remove(&row.observation.index) {
            row.observation.judged.get_or_insert_default().scores = Some(scores);
        }
        self.rows += 1;
        if self.leaves_cut_off && row.observation.is_aborted() {
            return;
        }
        let counts = self.setup.task == Task::Generation && logged::needs_count(&row.observation);
        let tokenizer = if counts { self.tokenizer.get() } else { None };
        self.samples.push(sample(row.observation, &row.request, self.setup, tokenizer, &mut self.labels));
    }

    fn finish(self) -> Result<Samples, Error> {
        self.tokenizer.error.map_or(Ok(()), Err)?;
        Ok(self.samples.finish().0)
    }
}

/// The run's tokenizer, loaded when the first row needs counting.
struct Counting<F> {
    load: F,
    loaded: Option<Option<Tokenizer>>,
    error: Option<Error>,
}

impl<F: Fn() -> Result<Option<Tokenizer>, Error>> Counting<F> {
    fn new(load: F) -> Self {
        Counting { load, loaded: None, error: None }
    }

    fn get(&mut self) -> Option<&Tokenizer> {
        let Counting { load, loaded, error } = self;
        let failed = |problem| {
            *error = Some(problem);
            None
        };
        loaded.get_or_insert_with(|| load().unwrap_or_else(failed)).as_ref()
    }
}

impl Changes {
    pub fn apply(&self, setup: &mut Setup) {
        if let Some(metrics) = &self.percentile_metrics {
            setup.percentile_metrics.clone_from(metrics);
        }
        if let Some(percentiles) = &self.metric_percentiles {
            setup.metric_percentiles.clone_from(percentiles);
        }
        setup.metrics.goodput = self.goodput.or(setup.metrics.goodput);
    }
}

/// Seconds from the origin to the end of the last request.
fn span(log: &Joined) -> f64 {
    match (log.segments.first(), log.segments.last()) {
        (Some(first), Some(last)) => last.end.secs_since(first.start),
        _ => 0.0,
    }
}

/// The setup of a run without an end, as if it had been stopped at its last row.
fn unclosed(setup: Setup, log: &Joined, rows: usize, requests: Option<u64>) -> Setup {
    let local = |unix_ns: i64, format: &str| {
        let timestamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(TimeZone::system()).strftime(format).to_string()
    };
    let started = log.segments.first().map_or(0, |first| first.origin.unix_ns);
    let ended = log
        .segments
        .last()
        .map_or(0, |last| last.origin.unix_ns.saturating_add(last.end.since(last.start).as_nanos() as i64));
    Setup {
        started: local(started, "%Y-%m-%dT%H:%M:%S%.6f%:z"),
        date: local(ended, "%Y%m%d-%H%M%S"),
        interrupted: requests.is_none_or(|requests| requests > rows as u64),
        num_prompts: if requests.is_none() { rows as i64 } else { setup.num_prompts },
        ..setup
    }
}

fn tokenizer(
    setup: &Setup,
    changes: &Changes,
    more: &Value,
    hub: &Hub,
    sink: &dyn EventSink,
) -> Result<Option<Tokenizer>, Error> {
    let Some(known) = setup.tokenizer_id.clone() else { return Ok(None) };
    let text = |key: &str| more.get("tokenizer")?.text(key).map(str::to_owned);
    let name = changes.tokenizer.clone().or_else(|| text("name")).unwrap_or(known);
    let plan = match name.as_str() {
        crate::serve::BUILTIN if changes.tokenizer.is_none() && text("name").is_none() => TokenizerPlan::Builtin,
        _ => TokenizerPlan::Named(NamedTokenizer {
            name: Some(name.clone()),
            revision: text("revision"),
            mode: text("mode").and_then(|mode| TokenizerMode::parse(&mode)).unwrap_or_default(),
        }),
    };
    Ok(load_tokenizer(&plan, &name, hub, sink)?.0)
}

/// Merges several runs: requests that several machines sent at the same time. Times are aligned by the wall clocks of
/// the machines and are as accurate as these agree.
pub fn merge(mut runs: Vec<Rebuilt>) -> RunRecord {
    if runs.len() == 1 {
        return runs.remove(0).record;
    }
    let started = |run: &Rebuilt| run.log.segments.first().map_or(0, |first| first.origin.unix_ns);
    runs.sort_by_key(started);
    let first = runs.first().map_or(0, started);
    let mut setup = runs[0].record.setup.clone();
    let provenance = runs[0].record.provenance.clone();
    (setup.num_prompts, setup.request_rate, setup.interrupted, setup.workload) = (0, 0.0, false, None);
    setup.max_concurrency = runs.iter().map(|run| run.record.setup.max_concurrency).sum();
    let mut merged = Measured::default();
    for run in runs {
        let origin = run.log.segments.first().map_or(Timestamp::ZERO, |first| first.start).secs();
        let shift = (started(&run) - first) as f64 / 1e9 - origin;
        let RunRecord { setup: own, measured, .. } = run.record;
        merged.duration = merged.duration.max(shift + origin + measured.duration);
        let base = setup.num_prompts.max(0) as usize;
        merged.samples.extend(measured.samples.iter().map(|sample| moved(sample.into_owned(), base, shift)));
        merged.workers.extend(measured.workers);
        setup.num_prompts += own.num_prompts.max(measured.samples.len() as i64);
        setup.request_rate += own.request_rate;
        setup.interrupted |= own.interrupted;
        setup.date = setup.date.max(own.date);
    }
    let mut record = RunRecord::compute(setup, merged);
    record.provenance = provenance;
    record
}

fn moved(mut sample: Sample, base: usize, shift: f64) -> Sample {
    sample.index += base;
    for time in [&mut sample.scheduled, &mut sample.dispatched, &mut sample.sent, &mut sample.done] {
        *time += shift;
    }
    sample
}
