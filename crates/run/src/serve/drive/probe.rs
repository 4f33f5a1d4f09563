//! Probes: tiny requests at a low rate during the load, on a separate connection, that show the server's response time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_client::{Client, ClientPlan, EndpointSpec, PayloadSpec};
use tacho_core::{Clock, Observation, Request, SystemClock};
use tacho_loadgen::{Error as DriveError, Target, Worker};
use tacho_metrics::ProbeStatistics;

use crate::Error;

pub(crate) struct Probe {
    client: Client,
    clock: SystemClock,
    rate: f64,
}

impl Probe {
    /// Probes for a workload, at `rate` per second: its first request, reduced to one input and one output token.
    pub(crate) fn new(
        endpoint: &EndpointSpec,
        payload: &PayloadSpec,
        first: &Request,
        rate: f64,
    ) -> Result<Self, Error> {
        let request = Request { overrides: first.overrides.clone(), ..Request::text("Hi", 1, 1) };
        let clock = SystemClock::start();
        let plan = ClientPlan { preconnect: 1, ..ClientPlan::default() };
        Ok(Probe { client: Client::new(endpoint.clone(), payload, &[request], plan, clock)?, clock, rate })
    }

    /// Probes per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// Sends probes until `over` is set; a probe that takes longer than the interval delays the next.
    pub(crate) fn run(&self, over: &AtomicBool) -> Result<ProbeStatistics, Error> {
        let gap = Duration::try_from_secs_f64(1.0 / self.rate).unwrap_or(Duration::MAX);
        let worker = self.client.worker(0, 1);
        let mut worker = worker.map_err(|source| DriveError::Worker { id: 0, of: 1, source })?;
        let mut rows = Vec::new();
        let mut next = self.clock.now();
        while !over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now < next {
                std::thread::sleep(next.since(now).min(Duration::from_millis(5)));
                continue;
            }
            next = now + gap;
            worker.issue(Observation::dispatched(0, now, now));
            let before = rows.len();
            while rows.len() == before && !over.load(Ordering::Relaxed) {
                worker.poll(self.clock.now() + Duration::from_millis(20), &mut rows);
            }
        }
        Ok(statistics(&rows))
    }
}

fn statistics(rows: &[Observation]) -> ProbeStatistics {
    let failed = rows.iter().filter(|row| !row.outcome.is_complete()).count() as u64;
    let latency = |row: &Observation| row.chunks.last().unwrap_or(&row.done).secs_since(row.sent);
    ProbeStatistics::of(rows.iter().filter(|row| row.outcome.is_complete()).map(latency).collect(), failed)
}
