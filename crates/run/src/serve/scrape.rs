//! The server's metrics page: before and after the run for its counters, and now and then during it for the series.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_client::control::{Caller, metrics_page};
use tacho_core::board::Board;
use tacho_core::event::ServeNote;
use tacho_core::{Clock, EventSink, RunEvent, SystemClock};
use tacho_loadgen::StopSignal;
use tacho_metrics::{DiffusionCounters, ServerMetrics, SpeculativeCounters};

use crate::Error;
use crate::plan::ServePlan;

/// How long a look during the run may take; a late page is worth nothing.
const LOOK: Duration = Duration::from_secs(5);
/// How soon the end of the run is noticed.
const NAP: Duration = Duration::from_millis(20);

/// What the server's counters said at one moment.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    pub(super) speculative: Option<SpeculativeCounters>,
    pub(super) diffusion: Option<DiffusionCounters>,
    /// When, in seconds of the run's clock, and the page itself.
    page: Option<(f64, String)>,
}

impl Scrape {
    /// Two calls, as upstream makes them, so that a server sees the same traffic. One that fails is said to, and not
    /// made again.
    pub(super) fn take(caller: &Caller, clock: SystemClock, sink: &dyn EventSink) -> Self {
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

    /// Whether the server has such a page.
    pub(super) fn is_there(&self) -> bool {
        self.page.is_some()
    }
}

/// Looks at the page during the run, on connections of its own.
pub(super) struct Watch {
    caller: Caller,
    interval: Duration,
    clock: SystemClock,
}

impl Watch {
    /// None when it is not wanted.
    pub(super) fn new(plan: &ServePlan, clock: SystemClock, stop: &StopSignal) -> Result<Option<Self>, Error> {
        let interval = plan.traffic.metrics_interval;
        if interval.is_zero() {
            return Ok(None);
        }
        let caller = Caller::new(&plan.endpoint, &plan.base_path, LOOK)?.with_stop(stop);
        Ok(Some(Watch { caller, interval, clock }))
    }

    /// Looks every interval until `over` is set, and leaves what it saw last on the board.
    pub(super) fn run(&self, over: &AtomicBool, board: &Board) -> ServerMetrics {
        let mut metrics = ServerMetrics::default();
        let mut next = self.clock.now() + self.interval;
        while !over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now < next {
                std::thread::sleep(next.since(now).min(NAP));
                continue;
            }
            next = now + self.interval;
            if let Ok(Some(text)) = metrics_page(&self.caller) {
                metrics.add(now.secs(), &text);
                board.look().server = metrics.now();
            }
        }
        metrics
    }
}

/// All pages of a run in order of time, counted from `origin`: before, during, after.
pub(super) fn series(before: &Scrape, during: Option<ServerMetrics>, after: &Scrape, origin: f64) -> ServerMetrics {
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
