//! Requests generated during the run: a duration-limited run under a concurrency limit needs as many as the server
//! completes. They use subsequent seeds and are generated on a separate thread, well before they are needed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{sync::Arc, time::Duration};

use tacho_core::{Counters, EventSink, Request, RunEvent, Shard};
use tacho_loadgen::Supply;
use tacho_pyrand::Globals;
use tacho_workload::{WorkloadSpec, sample};

use crate::Error;
use crate::plan::{ServePlan, WorkloadPlan};
use crate::serve::drive::components::Components;
use crate::serve::prepare::cancel::Cancellations;
use crate::serve::prepare::{Prepared, lora};
use crate::serve::request_table::RequestTable;

/// Interval between two checks of the remaining requests.
const POLL: Duration = Duration::from_millis(20);
/// Most requests that are generated ahead because of a high concurrency limit.
const MAX_AHEAD: usize = 1 << 20;

/// Returns whether requests are generated during the run: only its duration ends it, and requests wait for a slot
/// instead of a scheduled time.
pub(crate) fn is_endless(plan: &ServePlan, prepared: &Prepared) -> bool {
    let sampled = matches!(plan.workload, WorkloadPlan::Sample { self_timed: false, .. });
    plan.traffic.stops.endless && sampled && plan.traffic.max_concurrency.is_some() && prepared.timeline.is_at_once()
}

pub(crate) struct Supplier<'a> {
    pub(crate) plan: &'a ServePlan,
    pub(crate) prepared: &'a Prepared,
    pub(crate) components: &'a Components,
    pub(crate) requests: &'a RequestTable,
    pub(crate) supply: &'a Supply,
    pub(crate) shard: &'a Shard,
}

impl Supplier<'_> {
    /// Generates more requests whenever half of the last batch is left, until `over` is set. Returns the error if it
    /// stopped earlier.
    pub(crate) fn run(&self, over: &AtomicBool) -> Option<Error> {
        let WorkloadPlan::Sample { spec, .. } = &self.plan.workload else { return None };
        let ahead = self.plan.traffic.max_concurrency.unwrap_or(1).saturating_mul(4).min(MAX_AHEAD);
        let min = (self.prepared.requests.len() / 2).max(ahead);
        let mut fault = None;
        while fault.is_none() && !over.load(Ordering::Relaxed) {
            if self.supply.left() > min {
                std::thread::sleep(POLL);
                continue;
            }
            fault = self.add(spec, self.requests.rounds()).err();
        }
        self.supply.close();
        fault
    }

    fn add(&self, spec: &WorkloadSpec, round: u32) -> Result<(), Error> {
        let before = self.requests.len();
        let requests = generate(self.plan, self.prepared, spec, round, before)?;
        self.requests.extend(self.plan.endpoint.backend, &requests)?;
        let own = requests.into_iter().enumerate().filter(|(at, _)| self.shard.has(before + at));
        let own: Vec<Request> = own.map(|(_, request)| request).collect();
        let all = &self.prepared.requests;
        self.components.client.check(all.len(), &own)?;
        all.spill().extend(own);
        self.supply.publish(all.len());
        Ok(())
    }
}

/// The requests of a round, after `before` others: the same on all ranks.
fn generate(
    plan: &ServePlan,
    prepared: &Prepared,
    spec: &WorkloadSpec,
    round: u32,
    before: usize,
) -> Result<Vec<Request>, Error> {
    let mut globals = Globals::seeded(plan.seed.wrapping_add(round));
    let spec = spec.for_model(&prepared.model_id).reseeded(i64::from(round));
    let tokenizer = prepared.tokenizer.as_ref();
    let mut requests = sample(&spec, tokenizer, &mut globals, &Arc::new(Counters::default()))?.requests;
    if let Some(plan) = &plan.lora {
        lora::assign(plan, 0, &mut requests, &mut globals.py);
    }
    requests.iter_mut().enumerate().for_each(|(at, request)| rename(request, at, before));
    if let Some(cancellation) = plan.traffic.cancellation {
        Cancellations::new(cancellation, plan.seed.wrapping_add(round)).mark(&mut requests);
    }
    if requests.is_empty() { Err(Error::EmptyWorkload) } else { Ok(requests) }
}

/// Extends the table to `count` requests: another rank may have generated more than this one.
pub(crate) fn extend_table(
    plan: &ServePlan,
    prepared: &Prepared,
    table: &RequestTable,
    count: usize,
) -> Result<(), Error> {
    let WorkloadPlan::Sample { spec, .. } = &plan.workload else { return Ok(()) };
    while table.len() < count {
        let requests = generate(plan, prepared, spec, table.rounds(), table.len())?;
        table.extend(plan.endpoint.backend, &requests)?;
    }
    Ok(())
}

/// Keeps ids unique within a run: an id that ends with the request's index gets its index in the whole run.
fn rename(request: &mut Request, at: usize, before: usize) {
    if let Some(id) = &mut request.id {
        let prefix = id.strip_suffix(&at.to_string());
        *id = prefix.map_or_else(|| format!("{id}-{}", before + at), |prefix| format!("{prefix}{}", before + at));
    }
}

/// Warns that requests could no longer be generated before the end of the run.
pub(crate) fn report(fault: Option<Error>, sink: &dyn EventSink) {
    if let Some(error) = fault {
        sink.event(RunEvent::warning(format!("the run had time for more requests than could be made: {error}")));
    }
}
