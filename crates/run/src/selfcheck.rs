//! `tacho selfcheck`: the client's own timing error and capacity, measured against a reference server that timestamps its
//! tokens. The server is started elsewhere (it is the simulator's); only its address and its responses are used here.

use std::{net::SocketAddr, time::Duration};

use tacho_client::{BackendKind, Client, ClientPlan, EndpointSpec, PayloadSpec, TimestampSource, Url};
use tacho_core::{Counters, Kept, Observation, Request, RequestInfo, SystemClock, Timestamp};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, WorkerStats, drive};
use tacho_metrics::{Sample, Samples, Setup, Summary, WorkerUse, percentile::percentile, trust::bounds::bounds};
use tacho_pyrand::RandomState;

use crate::{Error, serve::worker_use};

/// Seconds that responses may take beyond their plan.
const MAX_WAIT: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckLoad {
    pub streams: usize,
    pub tokens_per_second: f64,
    pub seconds: f64,
}

impl CheckLoad {
    pub fn tokens(&self) -> usize {
        ((self.tokens_per_second * self.seconds).round() as usize).max(2)
    }

    /// Time between two tokens of a stream.
    pub fn gap(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.tokens_per_second)
    }
}

#[derive(Debug, Clone)]
pub struct CheckPoint {
    pub load: CheckLoad,
    /// Error of each reported arrival time in seconds, ascending.
    errors: Vec<f64>,
    /// Error of each reported inter-token time, ascending.
    gap_errors: Vec<f64>,
    /// Reported and true inter-token times, each ascending.
    gaps: [Vec<f64>; 2],
    /// Error of each reported TTFT, ascending.
    first_errors: Vec<f64>,
    /// Delay of the server's own sends, ascending.
    server_delays: Vec<f64>,
    /// The client's bound on the error of the printed p99 ITL, ms; `None` if unknown.
    pub itl_bound_ms: Option<f64>,
    /// Busy fraction of the busiest worker.
    pub busiest: f64,
    /// Fraction of events with an unknown arrival time.
    pub late_coalesced_fraction: f64,
    /// Requests that failed or did not end in time.
    pub failed: usize,
    pub requests: usize,
}

/// The side that failed under a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The client's times are off by more than the limit.
    Client,
    /// The reference server sent later than planned, by its own timestamps.
    Server,
    /// Requests failed or did not end.
    Requests,
}

impl CheckPoint {
    /// A percentile of the arrival error, ms.
    pub fn error_ms(&self, percent: f64) -> f64 {
        percentile(&self.errors, percent) * 1e3
    }

    /// A percentile of the inter-token error, ms.
    pub fn gap_error_ms(&self, percent: f64) -> f64 {
        percentile(&self.gap_errors, percent) * 1e3
    }

    /// A percentile of the inter-token times, reported and true, ms.
    pub fn gap_ms(&self, percent: f64) -> [f64; 2] {
        self.gaps.each_ref().map(|gaps| percentile(gaps, percent) * 1e3)
    }

    /// A percentile of the server's own delay, ms.
    pub fn server_delay_ms(&self, percent: f64) -> f64 {
        percentile(&self.server_delays, percent) * 1e3
    }

    /// The side that failed, if the error is to stay below `limit_ms`. A late server says nothing about its client.
    pub fn broken(&self, limit_ms: f64) -> Option<Broken> {
        match self {
            _ if self.server_delay_ms(99.0) >= limit_ms => Some(Broken::Server),
            _ if self.error_ms(99.0) >= limit_ms => Some(Broken::Client),
            _ if self.failed > 0 => Some(Broken::Requests),
            _ => None,
        }
    }

    /// A percentile of the error of the time to first token, ms.
    pub fn first_error_ms(&self, percent: f64) -> f64 {
        percentile(&self.first_errors, percent) * 1e3
    }
}

/// Drives the real client against a server that reports the send time of each token, and compares.
pub fn check(
    load: CheckLoad,
    server: SocketAddr,
    truth: &dyn Fn(&[u8]) -> Vec<Timestamp>,
    workers: usize,
    timestamps: TimestampSource,
    clock: SystemClock,
    counters: &Counters,
) -> Result<CheckPoint, Error> {
    let requests = vec![Request::text("p", 1, load.tokens() as i64); load.streams];
    let plan = ClientPlan { preconnect: load.streams, spare: false, at_most: Some(load.streams) };
    let payload = PayloadSpec { model: "reference".into(), ..PayloadSpec::default() };
    let client = Client::new(endpoint(server, timestamps)?, &payload, &requests, plan, clock)?;
    // Stream starts are spread evenly over a tenth of the time, so that not all tokens arrive together.
    let starts = (0..load.streams).map(|at| at as f64 / load.streams as f64 * load.seconds * 0.1).collect();
    let timeline = ScheduleSpec::Replay(starts).plan(load.streams, &mut RandomState::new(0))?;
    let stop = StopSignal::default();
    // A bound on the wait for a server that cannot keep up.
    let drain_timeout = Duration::from_secs_f64(load.seconds + MAX_WAIT);
    let duration = Some(Duration::from_secs_f64(0.1 * load.seconds + MAX_WAIT));
    let drive_plan = Drive { workers, duration, drain_timeout, ..Drive::of(&timeline, &clock, &stop, counters) };
    let mut kept = Kept::default();
    let driven = drive(&client, &drive_plan, &mut kept)?;
    let rows = kept.into_rows();
    let mut point = CheckPoint {
        load,
        errors: Vec::new(),
        gap_errors: Vec::new(),
        gaps: Default::default(),
        first_errors: Vec::new(),
        server_delays: Vec::new(),
        itl_bound_ms: itl_bound_ms(&rows, &driven.workers),
        busiest: driven.workers.iter().map(|w| w.busy_ns as f64 / w.total_ns.max(1) as f64).fold(0.0, f64::max),
        late_coalesced_fraction: {
            let events: u64 = driven.workers.iter().map(|worker| worker.events).sum();
            let blurred: u64 = driven.workers.iter().map(|worker| worker.late_coalesced).sum();
            blurred as f64 / events.max(1) as f64
        },
        failed: load.streams - rows.iter().filter(|row| row.outcome.is_complete()).count(),
        requests: load.streams,
    };
    for row in &rows {
        point.compare(row, &truth(&row.text));
    }
    let all = [&mut point.errors, &mut point.gap_errors, &mut point.first_errors];
    for errors in all.into_iter().chain([&mut point.server_delays]).chain(&mut point.gaps) {
        errors.sort_unstable_by(f64::total_cmp);
    }
    Ok(point)
}

impl CheckPoint {
    fn compare(&mut self, row: &Observation, sent: &[Timestamp]) {
        let error = |ours: &Timestamp, theirs: &Timestamp| ours.secs_since(*theirs).abs();
        let gap = self.load.gap().as_secs_f64();
        if let Some(first) = sent.first() {
            let planned = sent.iter().enumerate().map(|(at, sent)| sent.secs_since(*first) - gap * at as f64);
            self.server_delays.extend(planned.map(|delay| delay.max(0.0)));
        }
        self.errors.extend(row.chunks.iter().zip(sent).map(|(ours, theirs)| error(ours, theirs)));
        let gap = |pair: &[Timestamp]| pair[1].secs_since(pair[0]);
        self.gaps[0].extend(row.chunks.windows(2).map(gap));
        self.gaps[1].extend(sent.windows(2).map(gap));
        let gaps = row.chunks.windows(2).zip(sent.windows(2));
        self.gap_errors.extend(gaps.map(|(ours, theirs)| (gap(ours) - gap(theirs)).abs()));
        self.first_errors.extend(row.chunks.first().zip(sent.first()).map(|(ours, theirs)| error(ours, theirs)));
    }
}

/// The bound that a report gives on its p99 ITL.
fn itl_bound_ms(rows: &[Observation], workers: &[WorkerStats]) -> Option<f64> {
    let (request, setup) = (RequestInfo::default(), Setup::example());
    let sample = |row: &Observation| Sample::from_observation(row.clone(), &request, &setup, None);
    let samples: Samples = rows.iter().map(sample).collect();
    let workers: Vec<WorkerUse> = workers.iter().map(worker_use).collect();
    let all = bounds(&Summary::of(&setup, &samples, 1.0), &samples, &workers)?;
    all.iter().find(|bound| bound.key() == "p99_itl_ms").map(|bound| bound.off_ms())
}

fn endpoint(server: SocketAddr, timestamps: TimestampSource) -> Result<EndpointSpec, Error> {
    let url = Url::parse(&format!("http://{server}/v1/completions"))?;
    let timeout = Duration::from_secs(120);
    Ok(EndpointSpec { connect_timeout: timeout, timeout, timestamps, ..EndpointSpec::new(url, BackendKind::OpenAi) })
}
