//! From rows to the record of a run.

use jiff::{Zoned, tz::TimeZone};
use tacho_client::{BackendKind, Rules};
use tacho_core::{Clock, SystemClock, Timestamp};
use tacho_loadgen::{Driven, WorkerStats};
use tacho_metrics::{
    DiffusionStatistics, ProbeStatistics, RampUp, RankUse, RateChange, Samples, ServerMetrics, Setup,
    SpeculativeStatistics, Task, Telemetry, WorkerUse,
};
use tacho_record::{Measured, RunRecord};
use tacho_rowlog::Asked;

use crate::plan::{ServePlan, WorkloadPlan};
use crate::serve::drive::scrape::Scrape;
use crate::serve::prepare::Prepared;

/// How results write down when a run began.
const STARTED: &str = "%Y-%m-%dT%H:%M:%S%.6f%:z";

/// Ties the run's clock to the calendar.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    wall: jiff::Timestamp,
    timestamp: Timestamp,
}

impl WallClock {
    pub(crate) fn now(clock: SystemClock) -> Self {
        WallClock { wall: jiff::Timestamp::now(), timestamp: clock.now() }
    }

    /// The same as nanoseconds since 1970.
    pub(crate) fn unix_ns(&self, timestamp: Timestamp) -> i64 {
        let nanos = self.wall.as_nanosecond() + i128::from(timestamp.0) - i128::from(self.timestamp.0);
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }

    /// The local time of a timestamp.
    pub(crate) fn local(&self, timestamp: Timestamp) -> Zoned {
        let nanos = i128::from(timestamp.0) - i128::from(self.timestamp.0);
        let wall = jiff::Timestamp::from_nanosecond(self.wall.as_nanosecond() + nanos).unwrap_or(self.wall);
        wall.to_zoned(TimeZone::system())
    }
}

/// A time in this machine's time zone, as results have it.
pub(crate) fn local_text(unix_ns: i64) -> String {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    moment.to_zoned(TimeZone::system()).strftime(STARTED).to_string()
}

/// What was observed in addition to the responses.
pub(crate) struct Observed {
    pub(crate) before: Scrape,
    pub(crate) after: Scrape,
    pub(crate) server: ServerMetrics,
    pub(crate) telemetry: Telemetry,
    pub(crate) probes: Option<ProbeStatistics>,
    /// How each rank did, where there were several.
    pub(crate) ranks: Vec<RankUse>,
}

/// What the metrics make of a backend's answers.
fn task(backend: BackendKind) -> Task {
    match backend.task() {
        tacho_client::Task::Generation => Task::Generation,
        tacho_client::Task::Pooling => Task::Pooling,
    }
}

/// Computes the record of a run that was set up like this.
pub(crate) fn compute(
    prepared: &Prepared,
    setup: Setup,
    driven: &Driven,
    mut samples: Samples,
    seen: Observed,
) -> RunRecord {
    let sessions = prepared.session_steps();
    if let Some(steps) = &sessions {
        steps.name(&mut samples);
    }
    let duration = driven.end.secs_since(driven.origin);
    let workers = driven.workers.iter().map(worker_use).collect();
    let Observed { before, after, server, telemetry, probes, ranks } = seen;
    let speculative = before.speculative.zip(after.speculative);
    let speculative = speculative.and_then(|(before, after)| SpeculativeStatistics::between(&before, &after));
    let diffusion = before.diffusion.zip(after.diffusion);
    let diffusion = diffusion.and_then(|(before, after)| DiffusionStatistics::between(before, after, duration));
    let measured =
        Measured { samples, duration, speculative, diffusion, server, telemetry, probe: probes, workers, ranks };
    // A run by time has as many requests as it took.
    let num_prompts = setup.num_prompts.max(measured.samples.len() as i64);
    let mut record = RunRecord::compute(Setup { num_prompts, ..setup }, measured);
    let block = record.measured.server.block_size();
    record.sessions = sessions.map(|steps| steps.summary(&record.measured.samples, block));
    record
}

pub(crate) fn of_log(asked: &Asked) -> tacho_metrics::Asked {
    tacho_metrics::Asked {
        prompt_len: asked.prompt_len,
        num_input_sequences: asked.input_sequences,
        input_audio_duration: asked.audio_seconds,
    }
}

/// Wake-up lags kept per worker: enough for their percentiles, and small next to the rows in a log.
const LAGS: usize = 4096;

/// What a worker says of itself.
pub(crate) fn worker_use(stats: &WorkerStats) -> WorkerUse {
    let sample = |nanos: &[u64]| {
        nanos.iter().step_by(nanos.len().div_ceil(LAGS).max(1)).map(|&nanos| nanos as f64 / 1e9).collect()
    };
    WorkerUse {
        busy: stats.busy_ns as f64 / stats.total_ns.max(1) as f64,
        wake_lags: sample(&stats.wake_lags_ns),
        late_spans: sample(&stats.late_spans_ns),
        events: stats.events,
        coalesced: stats.coalesced,
        late_coalesced: stats.late_coalesced,
        connections: stats.connections,
        connect_failures: stats.connect_failures,
        kernel_timestamps: stats.kernel_timestamps,
    }
}

/// The settings of a run as far as they are known before it; `requests` is how many the whole workload has.
pub(crate) fn setup(plan: &ServePlan, prepared: &Prepared, requests: usize) -> Setup {
    // What was asked for, which upstream reports even where the data brings times of its own.
    let asked = plan.traffic.schedule.arrivals();
    let pace = prepared.timeline.arrivals();
    Setup {
        date: String::new(),
        started: String::new(),
        backend: plan.endpoint.backend.name().to_owned(),
        label: plan.report.label.clone(),
        model_id: prepared.model_id.clone(),
        tokenizer_id: prepared.tokenizer_id.clone(),
        num_prompts: match &plan.workload {
            WorkloadPlan::Sample { num_prompts, .. } => *num_prompts,
            WorkloadPlan::Sessions(_) => match &prepared.sessions {
                Some(sessions) => (0..requests).filter(|&index| sessions.is_measured(index)).count() as i64,
                None => requests as i64,
            },
            WorkloadPlan::File { .. } => requests as i64,
        },
        metadata: plan.report.metadata.clone(),
        request_rate: asked.rate,
        burstiness: asked.burstiness,
        max_concurrency: plan.traffic.max_concurrency.map(|limit| limit as u64),
        ramp_up: pace.ramp.map(|ramp| RampUp {
            strategy: ramp.strategy.name().to_owned(),
            start_rps: i64::from(ramp.start_rps),
            end_rps: i64::from(ramp.end_rps),
        }),
        rps_change_events: Vec::new(),
        self_timed: pace.replayed && !prepared.timeline.is_at_once(),
        task: task(plan.endpoint.backend),
        percentile_metrics: plan.report.percentile_metrics.clone(),
        metric_percentiles: plan.report.metric_percentiles.clone(),
        goodput: plan.report.goodput,
        strict_parity: plan.endpoint.rules == Rules::Vllm,
        interrupted: false,
        workload: None,
    }
}

/// The same with what the run added.
pub(crate) fn completed(setup: Setup, driven: &Driven, changes: Vec<RateChange>, wall: &WallClock) -> Setup {
    Setup {
        date: wall.local(driven.end).strftime("%Y%m%d-%H%M%S").to_string(),
        started: wall.local(driven.origin).strftime(STARTED).to_string(),
        rps_change_events: changes,
        interrupted: driven.is_interrupted(),
        ..setup
    }
}
