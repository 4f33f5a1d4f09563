//! `--telemetry`: samples GPUs, this host and other exporters during a run, on a separate thread.

mod host;
mod nvml;
mod pages;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_client::Url;
use tacho_core::{Clock, SystemClock};
use tacho_metrics::Telemetry;

use self::pages::{Exporter, Pages};
use self::{host::Host, nvml::Gpus};
use crate::Error;

#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryPlan {
    pub interval: Duration,
    /// Exporters in addition to the server.
    pub exporters: Vec<Url>,
}

pub(crate) struct Telemetries {
    interval: Duration,
    clock: SystemClock,
    gpus: Option<Gpus>,
    exporters: Vec<Exporter>,
}

impl Telemetries {
    /// Detects telemetry sources. Without NVIDIA's library there are no local GPUs; an exporter with GPUs replaces this
    /// machine's.
    pub(crate) fn find(plan: &TelemetryPlan, clock: SystemClock) -> Result<Self, Error> {
        let exporters = plan.exporters.iter().map(Exporter::find).collect::<Result<Vec<_>, _>>()?;
        let gpus = if exporters.iter().any(|exporter| exporter.gpus) { None } else { Gpus::find() };
        Ok(Telemetries { interval: plan.interval, clock, gpus, exporters })
    }

    /// Samples until `over`, and once more after it, so that the samples span the whole run.
    pub(crate) fn run(&self, over: &AtomicBool) -> Telemetry {
        let own = self.gpus.as_ref().map(Gpus::names).unwrap_or_default();
        let others = self.exporters.iter().flat_map(|exporter| exporter.models.iter().cloned());
        let (driver, cuda) = self.gpus.as_ref().map(Gpus::versions).unwrap_or_default();
        let gpus = own.into_iter().chain(others).collect();
        let mut telemetry = Telemetry { gpus, driver, cuda, ..Telemetry::default() };
        let (mut host, mut pages) = (Host::default(), Pages::default());
        loop {
            let last = over.load(Ordering::Relaxed);
            let time = self.clock.now().secs();
            let gpus = self.gpus.as_ref().map(Gpus::sample).unwrap_or_default();
            let found = gpus.into_iter().chain(host.sample(time)).chain(pages.scrape(&self.exporters, time));
            telemetry.add(time, found.collect::<Vec<_>>());
            if last {
                pages.finish(&self.exporters, &mut telemetry);
                return telemetry;
            }
            self.wait(over);
        }
    }

    /// Waits for the next sample, or for the end.
    fn wait(&self, over: &AtomicBool) {
        let until = self.clock.now() + self.interval;
        while self.clock.now() < until && !over.load(Ordering::Relaxed) {
            std::thread::sleep(until.since(self.clock.now()).min(Duration::from_millis(50)));
        }
    }
}
