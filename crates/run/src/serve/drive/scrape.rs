//! The server's metrics endpoint: scraped before and after the run for counters, and during it for time series.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_client::EndpointSpec;
use tacho_client::control::{Caller, metrics_page};
use tacho_core::{Clock, EventSink, RunEvent, SystemClock, live::LiveBoard};
use tacho_loadgen::StopSignal;
use tacho_metrics::{DiffusionCounters, ServerMetrics, SpeculativeCounters};

use crate::{Error, plan::ServePlan, side_call::side_call};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest sleep, so that the end of the run is noticed.
const MAX_SLEEP: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Scrape {
    pub(crate) speculative: Option<SpeculativeCounters>,
    pub(crate) diffusion: Option<DiffusionCounters>,
    /// Time in seconds of the run's clock, and the response body.
    page: Option<(f64, String)>,
    pub(crate) failed: bool,
}

impl Scrape {
    /// Two calls, as vLLM makes them, so that the server sees the same traffic. A failed one is reported and not
    /// retried.
    pub(crate) fn take(callers: &[Caller], clock: SystemClock, sink: &dyn EventSink) -> Self {
        let first = match side_call("/metrics", sink, || joined_pages(callers)) {
            Ok(first) => first,
            Err(error) => {
                sink.event(RunEvent::warning(format!("the server's metrics are left out: {error}")));
                return Scrape { failed: true, ..Scrape::default() };
            }
        };
        let page = first.map(|text| (clock.now().secs(), text));
        let speculative = page.as_ref().and_then(|(_, text)| SpeculativeCounters::parse(text));
        let again = joined_pages(callers).ok().flatten();
        let diffusion = again.and_then(|text| DiffusionCounters::parse(&text));
        Scrape { speculative, diffusion, page, failed: false }
    }

    /// The response body; empty if there is none.
    pub(crate) fn text(&self) -> &str {
        self.page.as_ref().map_or("", |(_, text)| text)
    }

    pub(crate) fn is_there(&self) -> bool {
        self.page.is_some()
    }
}

/// The pages of all replicas as one: counters of several label sets are summed, fractions averaged. `None` if no
/// replica has one.
fn joined_pages(callers: &[Caller]) -> Result<Option<String>, tacho_client::Error> {
    let pages: Vec<String> =
        callers.iter().filter_map(|caller| metrics_page(caller).transpose()).collect::<Result<_, _>>()?;
    Ok((!pages.is_empty()).then(|| pages.join("\n")))
}

/// Scrapes the metrics endpoint of every replica during the run, on separate connections.
pub(crate) struct Scraper {
    callers: Vec<Caller>,
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
        let caller = |(endpoint, base_path): (EndpointSpec, &str)| Caller::new(&endpoint, base_path, TIMEOUT);
        let callers = plan.endpoint.each(&plan.base_path).into_iter().map(caller);
        let callers = callers.map(|caller| Ok(caller?.with_stop(stop))).collect::<Result<_, Error>>()?;
        Ok(Some(Scraper { callers, interval, clock }))
    }

    /// Scrapes every interval until `over` is set, and puts the latest values on the board.
    pub(crate) fn run(&self, over: &AtomicBool, board: &LiveBoard) -> ServerMetrics {
        let mut metrics = ServerMetrics::default();
        // A replica that does not respond keeps its last values, so that no sum drops.
        let mut pages = vec![String::new(); self.callers.len()];
        let mut next = self.clock.now() + self.interval;
        while !over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now < next {
                std::thread::sleep(next.since(now).min(MAX_SLEEP));
                continue;
            }
            next = now + self.interval;
            let mut is_new = false;
            for (page, caller) in pages.iter_mut().zip(&self.callers) {
                if let Ok(Some(text)) = metrics_page(caller) {
                    (*page, is_new) = (text, true);
                }
            }
            if is_new {
                metrics.add(now.secs(), &pages.join("\n"));
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
