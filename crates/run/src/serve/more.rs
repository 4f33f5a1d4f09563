//! Requests beyond the first ones: a run by time under a concurrency limit takes as many as the server answers. They are
//! made from the seeds that follow, on a thread of its own, well before they are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tacho_core::event::ServeNote;
use tacho_core::{Counters, EventSink, Request, RunEvent};
use tacho_loadgen::Supply;
use tacho_pyrand::Globals;
use tacho_workload::{WorkloadSpec, sample};

use super::asked::Asks;
use super::cancel::CalledOff;
use super::lora;
use super::parts::Parts;
use super::prepare::Prepared;
use super::ranks::Places;
use crate::Error;
use crate::plan::{ServePlan, WorkloadPlan};

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(20);

/// Whether a run goes on beyond its first requests: only its time ends it, and requests wait for a slot, not for a moment.
pub(super) fn is_endless(plan: &ServePlan, prepared: &Prepared) -> bool {
    let sampled = matches!(plan.workload, WorkloadPlan::Sample { self_timed: false, .. });
    plan.traffic.stops.endless && sampled && plan.traffic.max_concurrency.is_some() && prepared.timeline.is_at_once()
}

/// Makes requests as they are needed.
pub(super) struct Supplier<'a> {
    pub(super) plan: &'a ServePlan,
    pub(super) prepared: &'a Prepared,
    pub(super) parts: &'a Parts,
    pub(super) asked: &'a Asks,
    pub(super) supply: &'a Supply,
    /// Which of them are sent here.
    pub(super) places: &'a Places,
}

impl Supplier<'_> {
    /// Makes more whenever half of the last ones are left, until `over` is set. Why it stopped before that, if it did.
    pub(super) fn run(&self, over: &AtomicBool) -> Option<Error> {
        let WorkloadPlan::Sample { spec, .. } = &self.plan.workload else { return None };
        let least = (self.prepared.requests.len() / 2).max(4 * self.plan.traffic.max_concurrency.unwrap_or(1));
        let mut fault = None;
        while fault.is_none() && !over.load(Ordering::Relaxed) {
            if self.supply.left() > least {
                std::thread::sleep(LOOK);
                continue;
            }
            fault = self.add(spec, self.asked.rounds()).err();
        }
        self.supply.close();
        fault
    }

    fn add(&self, spec: &WorkloadSpec, round: u32) -> Result<(), Error> {
        let before = self.asked.len();
        let requests = made(self.plan, self.prepared, spec, round, before)?;
        self.asked.extend(self.plan.endpoint.backend, &requests)?;
        let own = requests.into_iter().enumerate().filter(|(at, _)| self.places.has(before + at));
        let own: Vec<Request> = own.map(|(_, request)| request).collect();
        let all = &self.prepared.requests;
        self.parts.client.check(all.len(), &own)?;
        all.shelf().add(own);
        self.supply.publish(all.len());
        Ok(())
    }
}

/// The requests of a round, behind `before` others: the same at all ranks.
fn made(
    plan: &ServePlan,
    prepared: &Prepared,
    spec: &WorkloadSpec,
    round: u32,
    before: usize,
) -> Result<Vec<Request>, Error> {
    let mut globals = Globals::seeded(plan.seed.wrapping_add(round));
    let spec = spec.reseeded(i64::from(round));
    let tokenizer = prepared.tokenizer.as_ref();
    let mut requests = sample(&spec, tokenizer, &mut globals, &Arc::new(Counters::default()))?.requests;
    if let Some(plan) = &plan.lora {
        lora::assign(plan, 0, &mut requests, &mut globals.py);
    }
    requests.iter_mut().enumerate().for_each(|(at, request)| rename(request, at, before));
    if let Some(cancellation) = plan.traffic.cancellation {
        CalledOff::new(cancellation, plan.seed.wrapping_add(round)).mark(&mut requests);
    }
    if requests.is_empty() { Err(Error::EmptyWorkload) } else { Ok(requests) }
}

/// Makes known what the first so many requests ask: another rank may have been ahead of this one.
pub(super) fn ask_up_to(plan: &ServePlan, prepared: &Prepared, asked: &Asks, count: usize) -> Result<(), Error> {
    let WorkloadPlan::Sample { spec, .. } = &plan.workload else { return Ok(()) };
    while asked.len() < count {
        let requests = made(plan, prepared, spec, asked.rounds(), asked.len())?;
        asked.extend(plan.endpoint.backend, &requests)?;
    }
    Ok(())
}

/// No two requests of a run have the same id: what ends with the request's number ends with that in the whole run.
fn rename(request: &mut Request, at: usize, before: usize) {
    if let Some(id) = &mut request.id {
        let prefix = id.strip_suffix(&at.to_string());
        *id = prefix.map_or_else(|| format!("{id}-{}", before + at), |prefix| format!("{prefix}{}", before + at));
    }
}

/// Says that there were no more requests although there was time.
pub(super) fn tell(fault: Option<Error>, sink: &dyn EventSink) {
    if let Some(error) = fault {
        sink.event(RunEvent::warning(ServeNote::NoMoreRequests { reason: error.to_string() }));
    }
}
