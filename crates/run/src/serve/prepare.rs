//! Everything up to the first request: model, tokenizer, workload, adapters, due times.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tacho_client::Rules;
use tacho_client::control::{Caller, TokenizeServer, first_model};
use tacho_core::event::ServeNote;
use tacho_core::{Counters, EventSink, Request, RunEvent, Work};
use tacho_loadgen::{ScheduleSpec, Timeline};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;
use tacho_workload::hub::Hub;
use tacho_workload::sessions::Format;
use tacho_workload::{Requests, WorkloadSpec, read_jsonl, sample_in_parts, write_jsonl};

use super::sessions::{self, Dialogue};
use super::{align, cancel, lora};
use crate::Error;
use crate::plan::{ServePlan, TokenizerPlan, WorkloadPlan};

/// How long a control call may take.
const CALL: Duration = Duration::from_secs(30);
/// The tokenizer's name when it is the built-in one.
pub(crate) const BUILTIN: &str = "gpt2";

/// A run that is ready to begin.
pub struct Prepared {
    /// What the tokenizer and the file name go by.
    pub model_id: String,
    /// What requests name.
    pub model_name: String,
    /// The tokenizer's name; none when there is none.
    pub tokenizer_id: Option<String>,
    /// The tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// The requests.
    pub requests: Requests,
    /// Their due times.
    pub timeline: Timeline,
    /// The sessions that the requests belong to, if they do.
    pub dialogue: Option<Dialogue>,
    /// Makes calls around the run.
    pub caller: Caller,
}

impl Prepared {
    /// Keeps only the requests in these places, in order, and their times; the first of them is due at once.
    pub(super) fn keep(&mut self, places: &[usize]) -> Result<(), Error> {
        let mut wanted = places.iter().copied().peekable();
        self.requests.alter(|start, part| {
            let mut at = start;
            part.retain(|_| {
                at += 1;
                wanted.next_if_eq(&(at - 1)).is_some()
            });
        })?;
        self.timeline = self.timeline.part(places);
        Ok(())
    }

    /// The same, but at their own times.
    pub(super) fn share(&mut self, places: &[usize]) -> Result<(), Error> {
        let timeline = self.timeline.some(places);
        self.keep(places)?;
        self.timeline = timeline;
        Ok(())
    }
}

/// Whether to ask the server anything that is not needed to know the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// Prompts are aligned with its tokenizer.
    Server,
    /// Only what cannot be done without.
    Minimal,
}

/// Prepares a run.
pub fn prepare(plan: &ServePlan, contact: Contact, sink: &dyn EventSink) -> Result<Prepared, Error> {
    plan.endpoint.check()?;
    // What needs no server comes first: a mistake in it should not cost a wait.
    let recorded = match &plan.workload {
        WorkloadPlan::File { path, time_scale } => {
            let (requests, due) = read_jsonl(path)?;
            Some((requests, due.into_iter().map(|seconds| seconds * time_scale).collect()))
        }
        WorkloadPlan::Sample { .. } | WorkloadPlan::Sessions(_) => None,
    };
    let trace = match &plan.workload {
        WorkloadPlan::Sessions(sessions) => sessions::read(sessions)?,
        _ => None,
    };
    let caller = Caller::new(&plan.endpoint, &plan.base_path, CALL)?;
    let (model_id, model_name) = find_model(plan, &caller, sink)?;
    let (tokenizer, tokenizer_id) = load_tokenizer(&plan.tokenizer, &model_id, &plan.hub, sink)?;
    let mut globals = Globals::seeded(plan.seed);
    let mut dialogue = match &plan.workload {
        WorkloadPlan::Sessions(sessions) => {
            let trace = sessions::ready(sessions, trace, plan.seed, tokenizer.as_ref())?;
            let backend = plan.endpoint.backend;
            Some(Dialogue::new(sessions, trace, backend, plan.seed, tokenizer.as_ref(), &mut globals.np)?)
        }
        _ => None,
    };
    if let Some(dialogue) = &mut dialogue {
        if let Some(lora) = &plan.lora {
            dialogue.adapt(lora, &mut globals.py);
        }
        if let Some(cancellation) = plan.traffic.cancellation {
            cancel::CalledOff::new(cancellation, plan.seed).mark(dialogue.requests_mut());
        }
        sink.event(RunEvent::status(dialogue.headline()));
        for notice in &dialogue.trace.notices {
            sink.event(RunEvent::warning(notice.clone()));
        }
    }
    let (mut requests, recorded) = match recorded {
        Some((requests, due)) => (Requests::from(requests), Some(due)),
        None if dialogue.is_some() => {
            let requests = dialogue.as_ref().map(Dialogue::requests).unwrap_or_default();
            (requests.into(), dialogue.as_ref().map(Dialogue::due))
        }
        None => {
            let mut requests = sampled(plan, contact, tokenizer.as_ref(), &mut globals, sink)?;
            leave_out_long(plan, &mut requests, sink)?;
            let due = trace_times(plan, &requests)?;
            (requests, due)
        }
    };
    if requests.is_empty() {
        return Err(Error::EmptyWorkload);
    }
    let aligns = matches!(plan.workload, WorkloadPlan::Sample { align: true, .. });
    if aligns && contact == Contact::Server {
        let server = match plan.endpoint.rules {
            Rules::Standard => TokenizeServer { caller: &caller, model: &model_name, signed: true },
            Rules::Vllm => TokenizeServer { caller: &caller, model: &model_id, signed: false },
        };
        align::with_server(&server, &mut requests, sink)?;
    }
    if let (Some(lora), WorkloadPlan::Sample { .. }) = (&plan.lora, &plan.workload) {
        requests.alter(|start, part| lora::assign(lora, start, part, &mut globals.py))?;
    }
    if let (None, Some(cancellation)) = (&dialogue, plan.traffic.cancellation) {
        let mut called_off = cancel::CalledOff::new(cancellation, plan.seed);
        requests.alter(|_, part| called_off.mark(part))?;
    }
    let schedule = recorded.map_or_else(|| plan.traffic.schedule.clone(), ScheduleSpec::Replay);
    let timeline = schedule.plan(requests.len(), &mut globals.np)?;
    Ok(Prepared { model_id, model_name, tokenizer_id, tokenizer, requests, timeline, dialogue, caller })
}

/// The model's id and the name to send.
fn find_model(plan: &ServePlan, caller: &Caller, sink: &dyn EventSink) -> Result<(String, String), Error> {
    if let Some(id) = &plan.model.model {
        let name = plan.model.served_name.clone().filter(|name| !name.is_empty());
        return Ok((id.clone(), name.unwrap_or_else(|| id.clone())));
    }
    sink.event(RunEvent::status(ServeNote::ModelUnknown));
    let model = first_model(caller)?;
    let found = ServeNote::ModelFound { name: model.name.clone(), id: model.root.clone() };
    sink.event(RunEvent::status(found));
    Ok((model.root, model.name))
}

/// The tokenizer that a plan names, and its name.
pub(crate) fn load_tokenizer(
    plan: &TokenizerPlan,
    model_id: &str,
    hub: &Hub,
    sink: &dyn EventSink,
) -> Result<(Option<Tokenizer>, Option<String>), Error> {
    match plan {
        TokenizerPlan::Skipped => Ok((None, None)),
        TokenizerPlan::Builtin => Ok((Some(Tokenizer::builtin()), Some(BUILTIN.to_owned()))),
        TokenizerPlan::Named(named) => {
            let name = named.name.as_deref().unwrap_or(model_id);
            if hub.is_builtin(name) {
                return Ok((Some(Tokenizer::builtin().named(name)), Some(name.to_owned())));
            }
            let folder = hub.tokenizer(name, named.revision.as_deref(), sink)?;
            let tokenizer = Tokenizer::load_as(&folder, named.mode)?.named(name);
            Ok((Some(tokenizer), Some(name.to_owned())))
        }
    }
}

/// When the data itself says each request is due; none when the schedule does.
fn trace_times(plan: &ServePlan, requests: &Requests) -> Result<Option<Vec<f64>>, Error> {
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

/// Leaves out requests that would not fit the model's context.
fn leave_out_long(plan: &ServePlan, requests: &mut Requests, sink: &dyn EventSink) -> Result<(), Error> {
    let Some(most) = plan.max_model_len else { return Ok(()) };
    let before = requests.len();
    let fits = |request: &Request| request.prompt_len.saturating_add(request.output_len.max(0).unsigned_abs()) <= most;
    requests.alter(|_, part| part.retain(fits))?;
    let left_out = before - requests.len();
    if left_out > 0 && requests.is_empty() {
        return Err(Error::AllTooLong { most });
    }
    if left_out > 0 {
        sink.event(RunEvent::warning(ServeNote::LeftOut { left_out, most }));
    }
    Ok(())
}

/// Samples the data set, and tells what it has to say.
fn sampled(
    plan: &ServePlan,
    contact: Contact,
    tokenizer: Option<&Tokenizer>,
    globals: &mut Globals,
    sink: &dyn EventSink,
) -> Result<Requests, Error> {
    let WorkloadPlan::Sample { spec, num_prompts, .. } = &plan.workload else { return Ok(Requests::default()) };
    plan.hub.fetch(spec, sink)?;
    if let WorkloadSpec::TimedTrace(trace) = &**spec {
        sink.event(RunEvent::status(trace.headline()));
    }
    let counters = Arc::new(Counters::default());
    let total = u64::try_from(*num_prompts).unwrap_or(0);
    sink.event(RunEvent::Started { work: Work::Sampling, total, counters: counters.clone() });
    let mut requests = store(plan, contact);
    let notices = sample_in_parts(spec, tokenizer, globals, &counters, |part| requests.add(part));
    sink.event(RunEvent::Finished);
    for notice in notices? {
        sink.event(RunEvent::warning(notice));
    }
    Ok(requests)
}

/// Where the requests are kept: all in memory, unless the run is logged. Then there is a disk to put many of them on.
fn store(plan: &ServePlan, contact: Contact) -> Requests {
    let log = plan.log.as_ref().filter(|_| contact == Contact::Server);
    let beside = |folder: &Path| match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new(".").to_owned(),
        Some(parent) => parent.to_owned(),
        None => folder.to_owned(),
    };
    log.map_or_else(Requests::default, |log| Requests::with_folder(&beside(&log.folder), log.room))
}

/// Writes the requests and their due times, whole or not at all.
pub fn save_workload(prepared: &Prepared, path: &Path) -> Result<(), Error> {
    if let Some(dialogue) = &prepared.dialogue {
        let failed = |source| Error::SaveWorkload { path: path.to_owned(), source };
        let partial = path.with_extension("partial");
        std::fs::write(&partial, dialogue.saved().written_as(Format::Model)?).map_err(failed)?;
        return std::fs::rename(&partial, path).map_err(failed);
    }
    let due = prepared.timeline.due();
    save(path, |out| {
        prepared.requests.each(|place, request| {
            let due = due.get(place..).unwrap_or_default();
            Ok(write_jsonl(out, place, std::slice::from_ref(request), due)?)
        })
    })
}

/// The same of requests without a timeline.
pub fn save_requests(requests: &[Request], path: &Path) -> Result<(), Error> {
    save(path, |out| Ok(write_jsonl(out, 0, requests, &[])?))
}

fn save(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>) -> Result<(), Error> {
    let failed = |source| Error::SaveWorkload { path: path.to_owned(), source };
    let partial = path.with_extension("partial");
    let mut out = BufWriter::new(File::create(&partial).map_err(failed)?);
    write(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    std::fs::rename(&partial, path).map_err(failed)
}
