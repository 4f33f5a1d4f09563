//! All components of a run that can fail to start. They are created before anything is sent, so that an error does
//! not cost a warm-up or a profile.

use std::sync::Arc;

use tacho_client::{Client, PayloadSpec};
use tacho_core::{Counters, SystemClock};
use tacho_loadgen::StopSignal;

use crate::{
    Error, plan::ServePlan, serve::drive::probe::Probe, serve::drive::profiler::BusyProfiler,
    serve::drive::scrape::Scraper, serve::prepare::Prepared, telemetry::Telemetries,
};

/// The client and the background tasks of a run, ready to start.
pub(crate) struct Components {
    pub(crate) clock: SystemClock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) payload: PayloadSpec,
    pub(crate) client: Client,
    pub(crate) probe: Option<Probe>,
    pub(crate) scraper: Option<Scraper>,
    pub(crate) telemetry: Option<Telemetries>,
    pub(crate) profiler: Option<BusyProfiler>,
}

impl Components {
    /// Creates them without sending anything.
    pub(crate) fn new(plan: &ServePlan, prepared: &Prepared, stop: &StopSignal) -> Result<Self, Error> {
        Self::on_clock(plan, prepared, SystemClock::start(), stop)
    }

    /// Creates them on a clock that already runs.
    pub(crate) fn on_clock(
        plan: &ServePlan,
        prepared: &Prepared,
        clock: SystemClock,
        stop: &StopSignal,
    ) -> Result<Self, Error> {
        let (traffic, endpoint, requests) = (&plan.traffic, &plan.endpoint, &prepared.requests);
        let payload = prepared.payload(plan);
        let connections = prepared.connections(traffic.max_concurrency);
        let wants_probe = traffic.probe_rate > 0.0;
        Ok(Components {
            clock,
            counters: Arc::default(),
            client: Client::new(endpoint.clone(), &payload, requests.kept(), connections, clock)?
                .followed_by(requests.spill().clone())?,
            probe: wants_probe
                .then(|| Probe::new(&endpoint.each("")[0].0, &payload, prepared.first_request(), traffic.probe_rate))
                .transpose()?,
            scraper: Scraper::new(plan, clock, stop)?,
            telemetry: traffic.telemetry.as_ref().map(|plan| Telemetries::find(plan, clock)).transpose()?,
            profiler: BusyProfiler::new(plan, stop)?,
            payload,
        })
    }
}
