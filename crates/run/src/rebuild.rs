//! The record of a run computed again from its log: the metrics that the run reported, or others of the same rows.

mod ranks;

use std::path::Path;

use jiff::tz::TimeZone;
use tacho_core::json::Value;
use tacho_core::{EventSink, SpillFile, Timestamp};
use tacho_metrics::{
    Asked, Caveat, Gather, GoodputLimits, MetricKind, Sample, Samples, Setup, Steady, Task, TokenCounter, WorkerUse,
};
use tacho_record::{Measured, Provenance, RunRecord, logged};
use tacho_rowlog::{Joined, Manifest, Row, Stored};
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::hub::Hub;

use crate::serve::log::rows::check_read_back;
use crate::serve::{LogPlan, load_tokenizer};
use crate::{Error, NamedTokenizer, TokenizerPlan};

pub use ranks::{are_ranks, rebuild_ranks};

/// What is to be reported otherwise than the run did.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Other latencies.
    pub percentile_metrics: Option<Vec<MetricKind>>,
    /// Other percentiles.
    pub metric_percentiles: Option<Vec<f64>>,
    /// Other limits of goodput.
    pub goodput: Option<GoodputLimits>,
    /// Only requests that ended in this part of the run.
    pub window: Option<Window>,
    /// The tokenizer to count with, where it is not found under its old name.
    pub tokenizer: Option<String>,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Window {
    /// From one time to another, in seconds from the origin.
    Span(f64, f64),
    /// What the run's own numbers call its steady part.
    Steady,
}

impl Window {
    /// The moments, where the run has such a part.
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

/// A run that was read back.
#[derive(Debug)]
pub struct Rebuilt {
    /// Its record.
    pub record: RunRecord,
    /// Its rows, as they were joined; without the rows themselves.
    pub log: Joined,
    /// Whether the run came to its end and said so.
    pub closed: bool,
    /// How many requests were planned, where the log has it.
    pub requests: Option<u64>,
    /// The command line without secrets; empty where the log does not have it.
    pub command: Vec<String>,
}

/// Reads the log in `directory` and computes its record.
pub fn rebuild(directory: &Path, changes: &Changes, hub: &Hub, sink: &dyn EventSink) -> Result<Rebuilt, Error> {
    rebuild_within(LogPlan::ROOM, directory, changes, hub, sink)
}

/// Reads a log with at most this many bytes of samples in memory; the rest spills to a file next to it.
pub fn rebuild_within(
    room: usize,
    directory: &Path,
    changes: &Changes,
    hub: &Hub,
    sink: &dyn EventSink,
) -> Result<Rebuilt, Error> {
    let stored = Stored::open(directory)?;
    let read = Read {
        directory,
        room,
        manifest: stored.manifest(),
        closing: stored.closing(),
        workers: Vec::new(),
        hub,
        sink,
    };
    read.compute(changes, |take| Ok(stored.each(take)?))
}

/// What is read of a run.
struct Read<'a> {
    directory: &'a Path,
    /// Bytes of samples that stay in memory.
    room: usize,
    manifest: &'a Manifest,
    /// What was known at its end, if it came to that.
    closing: Option<&'a Value>,
    /// How workers kept up, where the closing does not say.
    workers: Vec<WorkerUse>,
    hub: &'a Hub,
    sink: &'a dyn EventSink,
}

impl Read<'_> {
    /// Computes the record of the rows that `each` hands over, one at a time.
    fn compute(
        mut self,
        changes: &Changes,
        each: impl FnOnce(&mut dyn FnMut(Row)) -> Result<Joined, Error>,
    ) -> Result<Rebuilt, Error> {
        let (mut setup, mut measured, doubts) = self.stored()?;
        let mut reading = Reading {
            samples: Gather::beyond(self.room, SpillFile::in_directory(self.directory)),
            rows: 0,
            task: setup.task,
            // Requests that the end of the run cut off are not part of its result.
            leaves_cut_off: doubts.iter().any(|doubt| matches!(doubt, Caveat::Ended { .. })),
            tokenizer: Counting::new(|| tokenizer(&setup, changes, &self.manifest.more, self.hub, self.sink)),
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
        changes.apply(&mut setup);
        // A part of a run is not the workload that it had.
        setup.workload = setup.workload.filter(|_| changes.window.is_none());
        let steps = logged::session_steps(&self.manifest.more)?;
        if let Some(steps) = &steps {
            steps.name(&mut measured.samples);
        }
        if let Some(window) = changes.window {
            let window = window.span(&setup, &measured.samples, origin.secs())?;
            self.cut(&mut measured, origin, window);
            if measured.samples.is_empty() {
                return Err(Error::EmptyWindow { start: window.0, end: window.1 });
            }
        }
        let mut record = RunRecord::compute(setup, measured);
        record.provenance = self.provenance();
        check_read_back(Some(self.directory), &record.measured.samples)?;
        // A part of a run says nothing about whole sessions.
        record.sessions = steps.filter(|_| changes.window.is_none()).map(|steps| {
            let block = record.measured.server.block_size();
            steps.summary(&record.measured.samples, block)
        });
        doubts.into_iter().rev().for_each(|doubt| record.doubt(doubt));
        let command = self.manifest.command.clone();
        Ok(Rebuilt { record, closed: self.closing.is_some(), requests, log, command })
    }

    /// What the log states of the run's origin; logs of a run that did not end have it in their manifest.
    fn provenance(&self) -> Provenance {
        let stated = logged::provenance(self.closing.unwrap_or(&self.manifest.more));
        let Manifest { seed, host, .. } = self.manifest;
        Provenance { seed: stated.seed.or(*seed), host: stated.host.or_else(|| Some(host.clone())), ..stated }
    }

    /// What the log holds in addition to its rows.
    fn stored(&self) -> Result<(Setup, Measured, Vec<Caveat>), Error> {
        Ok(match self.closing {
            Some(closing) => (logged::setup(closing)?, logged::measured(closing)?, logged::doubts(closing)?),
            None => (logged::setup(&self.manifest.more)?, Measured::default(), Vec::new()),
        })
    }

    /// Keeps the requests that ended in the window, which is then the length of the run.
    fn cut(&self, measured: &mut Measured, origin: Timestamp, (start, end): (f64, f64)) {
        let (origin, end) = (origin.secs(), end.min(measured.duration));
        let inside = measured.samples.iter().filter(|sample| (start..=end).contains(&(sample.done - origin)));
        let mut kept = Gather::beyond(self.room, SpillFile::in_directory(self.directory));
        inside.for_each(|sample| kept.push(sample.into_owned()));
        measured.samples = kept.finish().0;
        measured.duration = end - start;
        // Counted over the whole run, they say nothing of a part of it.
        measured.speculative = None;
        measured.diffusion = None;
    }
}

/// Rows on their way to samples.
struct Reading<F> {
    samples: Gather,
    rows: usize,
    task: Task,
    leaves_cut_off: bool,
    tokenizer: Counting<F>,
}

impl<F: Fn() -> Result<Option<Tokenizer>, Error>> Reading<F> {
    fn take(&mut self, row: Row) {
        self.rows += 1;
        if self.leaves_cut_off && row.observation.is_aborted() {
            return;
        }
        let counts = self.task == Task::Generation && logged::needs_count(&row.observation);
        let tokenizer = if counts { self.tokenizer.get() } else { None };
        self.samples.push(sample(row, self.task, tokenizer));
    }

    fn finish(self) -> Result<Samples, Error> {
        self.tokenizer.error.map_or(Ok(()), Err)?;
        Ok(self.samples.finish().0)
    }
}

/// The run's tokenizer, which is looked for when the first row needs counting.
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
    /// Changes what is reported of a run.
    pub fn apply(&self, setup: &mut Setup) {
        if let Some(metrics) = &self.percentile_metrics {
            setup.percentile_metrics.clone_from(metrics);
        }
        if let Some(percentiles) = &self.metric_percentiles {
            setup.metric_percentiles.clone_from(percentiles);
        }
        setup.goodput = self.goodput.or(setup.goodput);
    }
}

/// From the origin to the end of the last request, in seconds.
fn span(log: &Joined) -> f64 {
    match (log.segments.first(), log.segments.last()) {
        (Some(first), Some(last)) => last.end.secs_since(first.start),
        _ => 0.0,
    }
}

/// The setup of a run that did not come to its end: what it would have said had it been stopped at its last row.
fn unclosed(setup: Setup, log: &Joined, rows: usize, requests: Option<u64>) -> Setup {
    let local = |unix_ns: i64, format: &str| {
        let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        moment.to_zoned(TimeZone::system()).strftime(format).to_string()
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
        ..setup
    }
}

fn sample(row: Row, task: Task, tokenizer: Option<&Tokenizer>) -> Sample {
    let counter =
        |text: &[u8]| tokenizer.map_or(1, |tokenizer| tokenizer.count(&String::from_utf8_lossy(text), false) as u64);
    let count: Option<TokenCounter<'_>> = tokenizer.is_some().then_some(&counter);
    let asked = Asked {
        prompt_len: row.asked.prompt_len,
        num_input_sequences: row.asked.input_sequences,
        input_audio_duration: row.asked.audio_seconds,
    };
    let mut sample = Sample::from_observation(row.observation, asked, task, count);
    if let Some(lora) = row.asked.lora {
        sample.lora = Some(lora.into_boxed_str());
    }
    sample
}

/// The run's tokenizer.
fn tokenizer(
    setup: &Setup,
    changes: &Changes,
    more: &Value,
    hub: &Hub,
    sink: &dyn EventSink,
) -> Result<Option<Tokenizer>, Error> {
    let Some(known) = setup.tokenizer_id.clone() else { return Ok(None) };
    let text = |key: &str| more.get("tokenizer")?.get(key)?.as_str().map(str::to_owned);
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

/// Several runs as one: requests that several machines sent at the same time. Moments are put on one clock by the
/// calendar of each machine, so that they are as good as these agree.
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
        setup.num_prompts += own.num_prompts;
        setup.request_rate += own.request_rate;
        setup.interrupted |= own.interrupted;
        setup.date = setup.date.max(own.date);
    }
    RunRecord { provenance, ..RunRecord::compute(setup, merged) }
}

fn moved(mut sample: Sample, base: usize, shift: f64) -> Sample {
    sample.index += base;
    for moment in [&mut sample.due, &mut sample.released, &mut sample.sent, &mut sample.done] {
        *moment += shift;
    }
    sample
}
