//! All parts of a run that can fail to be made. They are made before the server is told anything, so that a mistake
//! costs nobody a warmed-up server or a profile.

use std::io;
use std::sync::Arc;

use tacho_client::{Client, ClientPlan, PayloadSpec, Source};
use tacho_core::{Counters, Request, SystemClock};
use tacho_loadgen::{StopSignal, Timeline};
use tacho_workload::Shelf;

use super::prepare::Prepared;
use super::probe::Probe;
use super::profiler::Waiting;
use super::scrape::Watch;
use super::sessions::Dialogue;
use crate::Error;
use crate::plan::ServePlan;
use crate::telemetry::Telemetries;

/// Connections opened ahead when it is not known how many will be needed.
const AHEAD: usize = 16;

/// What a run is made of.
pub(super) struct Parts {
    pub(super) clock: SystemClock,
    pub(super) counters: Arc<Counters>,
    pub(super) payload: PayloadSpec,
    pub(super) client: Client,
    pub(super) probe: Option<Probe>,
    pub(super) watch: Option<Watch>,
    pub(super) telemetry: Option<Telemetries>,
    pub(super) profiler: Option<Waiting>,
}

impl Parts {
    /// Makes them. Nothing is sent.
    pub(super) fn make(plan: &ServePlan, prepared: &Prepared, stop: &StopSignal) -> Result<Self, Error> {
        Self::on_clock(plan, prepared, SystemClock::start(), stop)
    }

    /// The same on a clock that runs already.
    pub(super) fn on_clock(
        plan: &ServePlan,
        prepared: &Prepared,
        clock: SystemClock,
        stop: &StopSignal,
    ) -> Result<Self, Error> {
        let (traffic, endpoint, requests) = (&plan.traffic, &plan.endpoint, &prepared.requests);
        let payload = PayloadSpec {
            model: prepared.model_name.clone(),
            logprobs: traffic.logprobs,
            ignore_eos: traffic.ignore_eos,
            chat_temperature: traffic.chat_temperature,
            extra_body: traffic.extra_body.clone(),
        };
        let connections = match &prepared.dialogue {
            None => connections(traffic.max_concurrency, &prepared.timeline),
            Some(dialogue) => dialogue.connections(traffic.max_concurrency, AHEAD),
        };
        let first = prepared.dialogue.as_ref().map_or(0, Dialogue::first);
        let wants_probe = traffic.probe_rate > 0.0;
        Ok(Parts {
            clock,
            counters: Arc::default(),
            client: Client::new(endpoint.clone(), &payload, requests.kept(), connections, clock)?
                .followed_by(Arc::new(Later(requests.shelf().clone())))?,
            probe: wants_probe
                .then(|| Probe::new(endpoint, &payload, &requests.kept()[first], traffic.probe_rate))
                .transpose()?,
            watch: Watch::new(plan, clock, stop)?,
            telemetry: traffic.telemetry.as_ref().map(|plan| Telemetries::find(plan, clock)).transpose()?,
            profiler: Waiting::new(plan, stop)?,
            payload,
        })
    }
}

/// The requests that are not in memory.
#[derive(Debug)]
struct Later(Arc<Shelf>);

impl Source for Later {
    fn find(&self, place: usize) -> Option<usize> {
        self.0.find(place)
    }

    fn part(&self, part: usize) -> Option<(usize, usize)> {
        self.0.part(part)
    }

    fn read(&self, part: usize) -> io::Result<Vec<Request>> {
        self.0.read(part)
    }
}

/// How many connections to open, as far as the timeline tells.
fn connections(max_concurrency: Option<usize>, timeline: &Timeline) -> ClientPlan {
    let count = timeline.len();
    let most = max_concurrency.map(|limit| limit.min(count)).or(timeline.is_at_once().then_some(count));
    match most {
        Some(most) => ClientPlan { preconnect: most, spare: false, at_most: Some(most) },
        None => ClientPlan { preconnect: AHEAD.min(count), spare: true, at_most: None },
    }
}
