//! From rows to the record of a run.

use jiff::{Zoned, tz::TimeZone};
use tacho_client::Rules;
use tacho_core::{Clock, SystemClock, Timestamp};
use tacho_loadgen::{Driven, WorkerStats};
use tacho_metrics::{
    DiffusionStatistics, ProbeStatistics, RampUp, RankUse, RateChange, Samples, ServerMetrics, Setup,
    SpeculativeStatistics, Telemetry, WorkerUse,
};
use tacho_record::{Measured, RunRecord};

use crate::plan::{ServePlan, WorkloadPlan};
use crate::{serve::drive::scrape::Scrape, serve::prepare::Prepared};

/// Format of a run's start time in results.
const STARTED: &str = "%Y-%m-%dT%H:%M:%S%.6f%:z";

/// Relates the run's clock to wall-clock time.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    wall: jiff::Timestamp,
    timestamp: Timestamp,
}

impl WallClock {
    pub(crate) fn now(clock: SystemClock) -> Self {
        WallClock { wall: jiff::Timestamp::now(), timestamp: clock.now() }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn unix_ns(&self, timestamp: Timestamp) -> i64 {
        let nanos = self.wall.as_nanosecond() + i128::from(timestamp.0) - i128::from(self.timestamp.0);
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }

    pub(crate) fn local(&self, timestamp: Timestamp) -> Zoned {
        let nanos = i128::from(timestamp.0) - i128::from(self.timestamp.0);
        let wall = jiff::Timestamp::from_nanosecond(self.wall.as_nanosecond() + nanos).unwrap_or(self.wall);
        wall.to_zoned(TimeZone::system())
    }
}

/// A time in this machine's time zone, as results write it.
pub(crate) fn local_text(unix_ns: i64) -> String {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    timestamp.to_zoned(TimeZone::system()).strftime(STARTED).to_string()
}

pub(crate) struct Observed {
    pub(crate) before: Scrape,
    pub(crate) after: Scrape,
    pub(crate) server: ServerMetrics,
    pub(crate) telemetry: Telemetry,
    pub(crate) probes: Option<ProbeStatistics>,
    pub(crate) ranks: Vec<RankUse>,
    /// Rows that the user's command did not get; `None` without one.
    pub(crate) missed_rows: Option<u64>,
}

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
    let (duration, origin) = (driven.end.secs_since(driven.origin), driven.origin.secs());
    let workers = driven.workers.iter().map(worker_use).collect();
    let Observed { before, after, server, telemetry, probes, ranks, missed_rows } = seen;
    let speculative = before.speculative.zip(after.speculative);
    let speculative = speculative.and_then(|(before, after)| SpeculativeStatistics::between(&before, &after));
    let diffusion = before.diffusion.zip(after.diffusion);
    let diffusion = diffusion.and_then(|(before, after)| DiffusionStatistics::between(before, after, duration));
    let measured = Measured {
        samples,
        duration,
        origin,
        speculative,
        diffusion,
        server,
        telemetry,
        probe: probes,
        workers,
        ranks,
        missed_rows,
    };
    // A duration-limited run has as many requests as it sent. Zero means all rows of a dataset, and is stored as in vLLM.
    let sent = measured.samples.len() as i64;
    let num_prompts = if setup.num_prompts > 0 { setup.num_prompts.max(sent) } else { setup.num_prompts };
    let mut record = RunRecord::compute(Setup { num_prompts, ..setup }, measured);
    let block = record.measured.server.block_size();
    record.sessions = sessions.map(|steps| steps.summary(&record.measured.samples, block));
    record
}

/// Wake-up lags kept per worker: enough for percentiles, and small compared with the rows of a log.
const MAX_LAGS: usize = 4096;

pub(crate) fn worker_use(stats: &WorkerStats) -> WorkerUse {
    let sample = |nanos: &[u64]| {
        nanos.iter().step_by(nanos.len().div_ceil(MAX_LAGS).max(1)).map(|&nanos| nanos as f64 / 1e9).collect()
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

/// The settings of a run that are known in advance; `requests` is the size of the whole workload.
pub(crate) fn setup(plan: &ServePlan, prepared: &Prepared, requests: usize) -> Setup {
    // The requested arrivals, which vLLM reports even if the dataset sets the times.
    let arrivals = plan.traffic.schedule.arrivals();
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
        request_rate: arrivals.rate,
        burstiness: arrivals.burstiness,
        max_concurrency: plan.traffic.max_concurrency.map(|limit| limit as u64),
        ramp_up: pace.ramp.map(|ramp| RampUp {
            strategy: ramp.strategy.name().to_owned(),
            start_rps: i64::from(ramp.start_rps),
            end_rps: i64::from(ramp.end_rps),
        }),
        rps_change_events: Vec::new(),
        stages: prepared.timeline.stages().to_vec(),
        self_timed: pace.replayed && !prepared.timeline.is_at_once(),
        task: plan.endpoint.backend.task(),
        percentile_metrics: plan.report.percentile_metrics.clone(),
        metric_percentiles: plan.report.metric_percentiles.clone(),
        metrics: plan.report.metrics.clone(),
        strict_parity: plan.endpoint.rules == Rules::Vllm,
        interrupted: false,
        workload: None,
    }
}

pub(crate) fn completed(setup: Setup, driven: &Driven, changes: Vec<RateChange>, wall: &WallClock) -> Setup {
    Setup {
        date: wall.local(driven.end).strftime("%Y%m%d-%H%M%S").to_string(),
        started: wall.local(driven.origin).strftime(STARTED).to_string(),
        rps_change_events: changes,
        interrupted: driven.is_interrupted(),
        ..setup
    }
}
