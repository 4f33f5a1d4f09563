//! The server's metrics endpoint: scraped before and after the run for counters, and during it for time series.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_client::control::{Caller, metrics_page};
use tacho_core::event::ServeNote;
use tacho_core::live::LiveBoard;
use tacho_core::{Clock, EventSink, RunEvent, SystemClock};
use tacho_loadgen::StopSignal;
use tacho_metrics::{DiffusionCounters, ServerMetrics, SpeculativeCounters};

use crate::Error;
use crate::plan::ServePlan;

/// Timeout of a scrape during the run.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest sleep, so that the end of the run is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// One scrape of the server's counters.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    pub(crate) speculative: Option<SpeculativeCounters>,
    pub(crate) diffusion: Option<DiffusionCounters>,
    /// Time in seconds of the run's clock, and the response body.
    page: Option<(f64, String)>,
}

impl Scrape {
    /// Two calls, as vLLM makes them, so that the server sees the same traffic. A failed one is reported and not
    /// retried.
    pub(crate) fn take(caller: &Caller, clock: SystemClock, sink: &dyn EventSink) -> Self {
        let first = match metrics_page(caller) {
            Ok(first) => first,
            Err(error) => {
                sink.event(RunEvent::warning(ServeNote::NoMetrics { reason: error.to_string() }));
                return Scrape::default();
            }
        };
        let page = first.map(|text| (clock.now().secs(), text));
        let speculative = page.as_ref().and_then(|(_, text)| SpeculativeCounters::parse(text));
        let again = metrics_page(caller).ok().flatten();
        let diffusion = again.and_then(|text| DiffusionCounters::parse(&text));
        Scrape { speculative, diffusion, page }
    }

    /// The response body; empty if there is none.
    pub(crate) fn text(&self) -> &str {
        self.page.as_ref().map_or("", |(_, text)| text)
    }

    /// Returns whether the server has a metrics endpoint.
    pub(crate) fn is_there(&self) -> bool {
        self.page.is_some()
    }
}

/// Scrapes the metrics endpoint during the run, on a separate connection.
pub(crate) struct Scraper {
    caller: Caller,
    interval: Duration,
    clock: SystemClock,
}

impl Scraper {
    /// `None` if the plan has no scrape interval.
    pub(crate) fn new(plan: &ServePlan, clock: SystemClock, stop: &StopSignal) -> Result<Option<Self>, Error> {
        let interval = plan.traffic.metrics_interval;
        if interval.is_zero() {
            return Ok(None);
        }
        let caller = Caller::new(&plan.endpoint, &plan.base_path, TIMEOUT)?.with_stop(stop);
        Ok(Some(Scraper { caller, interval, clock }))
    }

    /// Scrapes every interval until `over` is set, and puts the latest values on the board.
    pub(crate) fn run(&self, over: &AtomicBool, board: &LiveBoard) -> ServerMetrics {
        let mut metrics = ServerMetrics::default();
        let mut next = self.clock.now() + self.interval;
        while !over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now < next {
                std::thread::sleep(next.since(now).min(MAX_SLEEP));
                continue;
            }
            next = now + self.interval;
            if let Ok(Some(text)) = metrics_page(&self.caller) {
                metrics.add(now.secs(), &text);
                board.lock().server = metrics.now();
            }
        }
        metrics
    }
}

/// All scrapes of a run in order of time, relative to `origin`.
pub(crate) fn series(before: &Scrape, during: Option<ServerMetrics>, after: &Scrape, origin: f64) -> ServerMetrics {
    let Some(during) = during else { return ServerMetrics::default() };
    let mut metrics = ServerMetrics::default();
    if let Some((time, text)) = &before.page {
        metrics.add(*time, text);
    }
    metrics.append(during);
    if let Some((time, text)) = &after.page {
        metrics.add(*time, text);
    }
    metrics.shift(origin);
    metrics
}
