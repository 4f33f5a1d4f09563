//! `--telemetry`: looks at GPUs and at this host while a run goes on, on a thread of its own.

mod host;
mod nvml;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_core::{Clock, SystemClock};
use tacho_metrics::Telemetry;

use self::host::Host;
use self::nvml::Gpus;

/// What is looked at.
pub(crate) struct Telemetries {
    interval: Duration,
    clock: SystemClock,
    gpus: Option<Gpus>,
}

impl Telemetries {
    /// Finds out what there is to look at. A machine without NVIDIA's library has no GPUs here.
    pub(crate) fn find(interval: Duration, clock: SystemClock) -> Self {
        Telemetries { interval, clock, gpus: Gpus::find() }
    }

    /// Looks until `over`, and once more after it, so that the looks reach over the whole run.
    pub(crate) fn run(&self, over: &AtomicBool) -> Telemetry {
        let mut telemetry =
            Telemetry { gpus: self.gpus.as_ref().map(Gpus::names).unwrap_or_default(), ..Telemetry::default() };
        let mut host = Host::default();
        loop {
            let last = over.load(Ordering::Relaxed);
            let time = self.clock.now().secs();
            let gpus = self.gpus.as_ref().map(Gpus::look).unwrap_or_default();
            telemetry.add(time, gpus.into_iter().chain(host.look(time)));
            if last {
                return telemetry;
            }
            self.wait(over);
        }
    }

    /// Waits for the next look, or for the end.
    fn wait(&self, over: &AtomicBool) {
        let until = self.clock.now() + self.interval;
        while self.clock.now() < until && !over.load(Ordering::Relaxed) {
            std::thread::sleep(until.since(self.clock.now()).min(Duration::from_millis(50)));
        }
    }
}

/// What a look finds: whose it is, what it is, its unit, its value.
type Found = (String, &'static str, &'static str, f64);
