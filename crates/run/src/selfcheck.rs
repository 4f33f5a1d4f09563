//! `tacho selfcheck`: how far this machine's client can be trusted, found out by measuring a server that tells the
//! truth. The server is not ours to start (it is the simulator's); only its address and its answers come in here.

use std::net::SocketAddr;
use std::time::Duration;

use tacho_client::{BackendKind, Client, ClientPlan, EndpointSpec, PayloadSpec, StampSource, Url};
use tacho_core::{Counters, Kept, Observation, Request, Stamp, SystemClock};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, drive};
use tacho_pyrand::RandomState;

use crate::Error;

/// One load to check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckLoad {
    /// Streams at once.
    pub streams: usize,
    /// Tokens per second of each.
    pub tokens_per_second: f64,
    /// How long each stream lasts.
    pub seconds: f64,
}

impl CheckLoad {
    /// Tokens of each stream.
    pub fn tokens(&self) -> usize {
        ((self.tokens_per_second * self.seconds).round() as usize).max(2)
    }

    /// Time between two tokens of a stream.
    pub fn gap(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.tokens_per_second)
    }
}

/// What the client made of one load.
#[derive(Debug, Clone)]
pub struct CheckPoint {
    /// The load.
    pub load: CheckLoad,
    /// Distance of each reported arrival from the truth, in seconds, ascending.
    errors: Vec<f64>,
    /// Distance of each reported gap between tokens from the true one, ascending.
    gap_errors: Vec<f64>,
    /// Distance of each reported time to first token from the true one, ascending.
    first_errors: Vec<f64>,
    /// Busy share of the busiest worker.
    pub busiest: f64,
    /// Share of events whose own arrival is not known.
    pub blurred_share: f64,
    /// Requests that failed.
    pub failed: usize,
    /// Requests in all.
    pub requests: usize,
}

/// A percentile of sorted values; zero of none.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    if sorted.is_empty() { 0.0 } else { sorted[((sorted.len() - 1) as f64 * percent / 100.0).round() as usize] }
}

impl CheckPoint {
    /// A percentile of the arrival error, ms.
    pub fn error_ms(&self, percent: f64) -> f64 {
        percentile(&self.errors, percent) * 1e3
    }

    /// A percentile of the error of gaps between tokens, ms.
    pub fn gap_error_ms(&self, percent: f64) -> f64 {
        percentile(&self.gap_errors, percent) * 1e3
    }

    /// A percentile of the error of the time to first token, ms.
    pub fn first_error_ms(&self, percent: f64) -> f64 {
        percentile(&self.first_errors, percent) * 1e3
    }
}

/// Drives the real client against a server that tells when it sent each token, and compares.
pub fn check(
    load: CheckLoad,
    server: SocketAddr,
    truth: &dyn Fn(&[u8]) -> Vec<Stamp>,
    workers: usize,
    stamps: StampSource,
    clock: SystemClock,
) -> Result<CheckPoint, Error> {
    let requests = vec![Request::text("p", 1, load.tokens() as i64); load.streams];
    let plan = ClientPlan { preconnect: load.streams, spare: false, at_most: Some(load.streams) };
    let payload = PayloadSpec { model: "metronome".into(), ..PayloadSpec::default() };
    let client = Client::new(endpoint(server, stamps)?, &payload, &requests, plan, clock)?;
    // Streams begin evenly spread over a tenth of the time, so that not all tokens fall together.
    let starts = (0..load.streams).map(|at| at as f64 / load.streams as f64 * load.seconds * 0.1).collect();
    let timeline = ScheduleSpec::Replay(starts).plan(load.streams, &mut RandomState::new(0))?;
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let drive_plan = Drive { workers, ..Drive::of(&timeline, &clock, &stop, &counters) };
    let mut kept = Kept::default();
    let driven = drive(&client, &drive_plan, &mut kept)?;
    let rows = kept.into_rows();
    let mut point = CheckPoint {
        load,
        errors: Vec::new(),
        gap_errors: Vec::new(),
        first_errors: Vec::new(),
        busiest: driven.workers.iter().map(|w| w.busy_ns as f64 / w.total_ns.max(1) as f64).fold(0.0, f64::max),
        blurred_share: {
            let events: u64 = driven.workers.iter().map(|worker| worker.events).sum();
            let blurred: u64 = driven.workers.iter().map(|worker| worker.late_coalesced).sum();
            blurred as f64 / events.max(1) as f64
        },
        failed: rows.iter().filter(|row| !row.outcome.is_complete()).count(),
        requests: rows.len(),
    };
    for row in &rows {
        point.compare(row, &truth(&row.text));
    }
    for errors in [&mut point.errors, &mut point.gap_errors, &mut point.first_errors] {
        errors.sort_unstable_by(f64::total_cmp);
    }
    Ok(point)
}

impl CheckPoint {
    fn compare(&mut self, row: &Observation, sent: &[Stamp]) {
        let error = |ours: &Stamp, theirs: &Stamp| ours.secs_since(*theirs).abs();
        self.errors.extend(row.chunks.iter().zip(sent).map(|(ours, theirs)| error(ours, theirs)));
        let gaps = row.chunks.windows(2).zip(sent.windows(2));
        self.gap_errors
            .extend(gaps.map(|(ours, theirs)| (ours[1].secs_since(ours[0]) - theirs[1].secs_since(theirs[0])).abs()));
        self.first_errors.extend(row.chunks.first().zip(sent.first()).map(|(ours, theirs)| error(ours, theirs)));
    }
}

fn endpoint(server: SocketAddr, stamps: StampSource) -> Result<EndpointSpec, Error> {
    let url = Url::parse(&format!("http://{server}/v1/completions"))?;
    let timeout = Duration::from_secs(120);
    Ok(EndpointSpec { connect_timeout: timeout, timeout, stamps, ..EndpointSpec::new(url, BackendKind::OpenAi) })
}
