//! Samples requests from a dataset.

use std::{path::Path, sync::Arc};

use tacho_core::{Counters, EventSink, Request, RunEvent, Work};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;
use tacho_workload::{MixOrder, Requests, Sampled, WorkloadSpec, sample_in_parts};

use crate::plan::{ServePlan, WorkloadPlan};
use crate::{Error, serve::prepare::Contact};

/// Scheduled times from the dataset; `None` if the schedule sets them.
pub(crate) fn trace_times(plan: &ServePlan, requests: &Requests) -> Result<Option<Vec<f64>>, Error> {
    if !matches!(plan.workload, WorkloadPlan::Sample { self_timed: true, .. }) {
        return Ok(None);
    }
    let mut times = Vec::with_capacity(requests.len());
    requests.each(|_, request| {
        times.push(request.timestamp.unwrap_or(0.0));
        Ok::<_, Error>(())
    })?;
    Ok(Some(times))
}

/// Drops requests that exceed the model's context length.
pub(crate) fn drop_long(plan: &ServePlan, requests: &mut Requests, sink: &dyn EventSink) -> Result<(), Error> {
    let Some(max) = plan.max_model_len else { return Ok(()) };
    let before = requests.len();
    let fits = |request: &Request| request.prompt_len.saturating_add(request.output_len.max(0).unsigned_abs()) <= max;
    requests.alter(|_, part| part.retain(fits))?;
    let left_out = before - requests.len();
    if left_out > 0 && requests.is_empty() {
        return Err(Error::AllTooLong { max });
    }
    let is_staged = matches!(&plan.workload, WorkloadPlan::Sample { spec, .. }
        if matches!(&**spec, WorkloadSpec::Mix(mix) if mix.order != MixOrder::Drawn));
    if left_out > 0 && is_staged {
        return Err(Error::TooLongForStages { left_out, max });
    }
    if left_out > 0 {
        sink.event(RunEvent::warning(format!(
            "{left_out} requests were left out: prompt and answer have more than --max-model-len {max} tokens"
        )));
    }
    Ok(())
}

/// Samples the dataset and reports its notices. Also returns the digests of its sources.
pub(crate) fn sample(
    plan: &ServePlan,
    contact: Contact,
    (model, tokenizer): (&str, Option<&Tokenizer>),
    globals: &mut Globals,
    sink: &dyn EventSink,
) -> Result<(Requests, Vec<String>), Error> {
    let WorkloadPlan::Sample { spec, num_prompts, .. } = &plan.workload else { return Ok(<_>::default()) };
    plan.hub.fetch(spec, sink)?;
    if let WorkloadSpec::TimedTrace(trace) = &**spec {
        sink.event(RunEvent::status(trace.headline()));
    }
    let counters = Arc::new(Counters::default());
    let total = u64::try_from(*num_prompts).unwrap_or(0);
    sink.event(RunEvent::Started { work: Work::Sampling, total, counters: counters.clone() });
    let mut requests = store(plan, contact);
    let sampled = sample_in_parts(&spec.for_model(model), tokenizer, globals, &counters, |part| requests.add(part));
    sink.event(RunEvent::Finished);
    let Sampled { notices, digests, .. } = sampled?;
    for notice in notices {
        sink.event(RunEvent::warning(notice));
    }
    Ok((requests, digests))
}

/// Requests stay in memory unless the run is logged: then they may be spilled to its disk. Without a run, to the
/// directory for temporary files.
pub(super) fn store(plan: &ServePlan, contact: Contact) -> Requests {
    if contact == Contact::Minimal {
        return Requests::with_directory(&std::env::temp_dir(), 4 * Requests::MEMORY);
    }
    let log = plan.log.as_ref();
    let parent_of = |directory: &Path| match directory.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new(".").to_owned(),
        Some(parent) => parent.to_owned(),
        None => directory.to_owned(),
    };
    log.map_or_else(Requests::default, |log| Requests::with_directory(&parent_of(&log.directory), log.memory))
}
