//! Probes: a tiny request now and then beside the load, on a connection of their own, to feel the server's pulse.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_client::{Client, ClientPlan, EndpointSpec, PayloadSpec};
use tacho_core::{Clock, Observation, Request, SystemClock};
use tacho_loadgen::{Target, Worker};
use tacho_metrics::ProbeStatistics;

use crate::Error;

/// The probe for a workload: its first request cut down to one token in and out.
pub(super) fn probe_request(first: &Request) -> Request {
    Request { overrides: first.overrides.clone(), ..Request::text("Hi", 1, 1) }
}

/// Sends probes at `rate` per second until `over` is set; a probe that takes longer delays the next.
pub(super) fn run(
    endpoint: &EndpointSpec,
    payload: &PayloadSpec,
    request: Request,
    rate: f64,
    over: &AtomicBool,
) -> Result<ProbeStatistics, Error> {
    let clock = SystemClock::start();
    let plan = ClientPlan { preconnect: 1, ..ClientPlan::default() };
    let client = Client::new(endpoint.clone(), payload, &[request], plan, clock)?;
    let mut worker = client.worker(0, 1);
    let mut rows = Vec::new();
    let mut next = clock.now();
    while !over.load(Ordering::Relaxed) {
        let now = clock.now();
        if now < next {
            std::thread::sleep(next.since(now).min(Duration::from_millis(5)));
            continue;
        }
        next = now + Duration::from_secs_f64(1.0 / rate);
        worker.issue(Observation::released(0, now, now));
        let before = rows.len();
        while rows.len() == before && !over.load(Ordering::Relaxed) {
            worker.turn(clock.now() + Duration::from_millis(20), &mut rows);
        }
    }
    let failed = rows.iter().filter(|row| !row.outcome.is_complete()).count() as u64;
    let latency = |row: &Observation| row.chunks.last().unwrap_or(&row.done).secs_since(row.sent);
    Ok(ProbeStatistics::of(rows.iter().filter(|row| row.outcome.is_complete()).map(latency).collect(), failed))
}
