//! Preparation of a run: model, tokenizer, workload, adapters, scheduled times.

mod align;
pub(crate) mod cancel;
pub(crate) mod identity;
pub(crate) mod lora;
mod prepared;
mod sampling;
mod save;
mod tokenizer;

use std::time::{Duration, Instant};

use tacho_client::control::{Caller, TokenizeServer, first_model};
use tacho_client::{Balance, Rules};
use tacho_core::{EventSink, Labels, RunEvent, stage::STAGE};
use tacho_loadgen::{ScheduleSpec, Timeline};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;
use tacho_workload::{Requests, each_saved, file_digest, sessions::Trace};

use crate::plan::{ServePlan, WorkloadPlan};
use crate::serve::sessions::{self, SessionWorkload, SessionsPlan};
use crate::{Error, serve::prepare::cancel::Cancellations};

pub use identity::workload_digest;
pub use prepared::Prepared;
pub use save::{SAVED_VERSION, save_requests, save_workload};
pub(crate) use tokenizer::{BUILTIN, load_tokenizer};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How much the preparation may ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// Prompts may be aligned with the server's tokenizer.
    Server,
    Minimal,
}

/// The source of a workload, before the server is contacted.
enum Source {
    Saved { requests: Requests, due: Vec<f64>, digest: String },
    Sessions(Option<Trace>),
    Sampled,
}

#[derive(Default)]
struct Loaded {
    requests: Requests,
    /// Scheduled times, if the source sets them.
    due: Option<Vec<f64>>,
    sessions: Option<SessionWorkload>,
    /// SHA-256 of the rows of each source that states it.
    digests: Vec<String>,
}

impl Source {
    fn read(plan: &ServePlan, contact: Contact) -> Result<Self, Error> {
        Ok(match &plan.workload {
            WorkloadPlan::File { path, time_scale } => {
                let (mut requests, mut due) = (sampling::store(plan, contact), Vec::new());
                let settings = each_saved(path, |request, seconds| {
                    requests.add(vec![request]);
                    due.push(seconds * time_scale);
                })?;
                if settings.is_some() && !path.is_file() {
                    return Err(Error::PipedWorkload { path: path.clone() });
                }
                Source::Saved { requests, due, digest: file_digest(path)? }
            }
            WorkloadPlan::Sessions(sessions) => Source::Sessions(sessions::read(sessions)?),
            WorkloadPlan::Sample { spec, .. } => {
                spec.check_files()?;
                Source::Sampled
            }
        })
    }

    fn load(
        self,
        plan: &ServePlan,
        contact: Contact,
        (model, tokenizer): (&str, Option<&Tokenizer>),
        globals: &mut Globals,
        sink: &dyn EventSink,
    ) -> Result<Loaded, Error> {
        match (self, &plan.workload) {
            (Source::Saved { requests, due, digest }, _) => {
                Ok(Loaded { requests, due: Some(due), digests: vec![digest], ..Loaded::default() })
            }
            (Source::Sessions(trace), WorkloadPlan::Sessions(sessions)) => {
                let sessions = load_sessions(plan, sessions, trace, tokenizer, globals, sink)?;
                let (requests, due) = (sessions.requests().into(), Some(sessions.due()));
                Ok(Loaded { requests, due, sessions: Some(sessions), ..Loaded::default() })
            }
            _ => {
                let (mut requests, digests) = sampling::sample(plan, contact, (model, tokenizer), globals, sink)?;
                sampling::drop_long(plan, &mut requests, sink)?;
                let due = sampling::trace_times(plan, &requests)?;
                Ok(Loaded { requests, due, digests, ..Loaded::default() })
            }
        }
    }
}

pub fn prepare(plan: &ServePlan, contact: Contact, sink: &dyn EventSink) -> Result<Prepared, Error> {
    plan.endpoint.check()?;
    // Steps without a server come first, so that errors in them show at once.
    let source = Source::read(plan, contact)?;
    let callers = plan.endpoint.each(&plan.base_path).into_iter();
    let callers = callers.map(|(endpoint, base_path)| Caller::new(&endpoint, base_path, CALL_TIMEOUT));
    let mut callers: Vec<Caller> = callers.collect::<Result<_, _>>()?;
    let caller = callers.remove(0);
    if let (Some(sign_in), Contact::Server) = (&plan.endpoint.sign_in, contact) {
        sign_in.start()?;
    }
    let (model_id, model_name) = find_model(plan, &caller, sink)?;
    let (tokenizer, tokenizer_id) = load_tokenizer(&plan.tokenizer, &model_id, &plan.hub, sink)
        .map_err(|error| tokenizer::explain(error, plan, &caller, &model_name))?;
    let mut globals = Globals::seeded(plan.seed);
    let Loaded { mut requests, due, sessions, digests } =
        source.load(plan, contact, (&model_id, tokenizer.as_ref()), &mut globals, sink)?;
    if requests.is_empty() {
        return Err(Error::EmptyWorkload);
    }
    check_balance(plan, &requests)?;
    if let (WorkloadPlan::Sample { align: true, .. }, Contact::Server) = (&plan.workload, contact) {
        let direct = caller.without_proxy();
        let server = match plan.endpoint.rules {
            Rules::Standard => TokenizeServer { caller: &direct, model: &model_name, signed: true },
            Rules::Vllm => TokenizeServer { caller: &direct, model: &model_id, signed: false },
        };
        align::with_server(&server, &mut requests, sink)?;
    }
    if let (Some(lora), WorkloadPlan::Sample { .. }) = (&plan.lora, &plan.workload) {
        requests.alter(|start, part| lora::assign(lora, start, part, &mut globals.py))?;
    }
    if let (None, Some(cancellation)) = (&sessions, plan.traffic.cancellation) {
        let mut cancellations = Cancellations::new(cancellation, plan.seed);
        requests.alter(|_, part| cancellations.mark(part))?;
    }
    let schedule = due.map_or_else(|| plan.traffic.schedule.clone(), ScheduleSpec::Replay);
    let timeline = schedule.plan(requests.len(), &mut globals.np)?;
    label_stages(&timeline, &mut requests)?;
    Ok(Prepared {
        model_id,
        model_name,
        tokenizer_id,
        tokenizer,
        requests,
        timeline,
        sessions,
        dataset_sha256: Some(digests.join(" ")).filter(|digests| !digests.is_empty()),
        caller,
        other_callers: callers,
    })
}

/// Rejects a distribution by session of requests without any.
fn check_balance(plan: &ServePlan, requests: &Requests) -> Result<(), Error> {
    let replicas = &plan.endpoint.replicas;
    let by_session = replicas.balance == Balance::Session && !replicas.list.is_empty();
    let has_session = |requests: &Requests| requests.kept().iter().any(|request| request.session.is_some());
    if by_session && !has_session(requests) { Err(Error::NoSessions) } else { Ok(()) }
}

/// Labels each request with the stage that it is scheduled in.
fn label_stages(timeline: &Timeline, requests: &mut Requests) -> Result<(), Error> {
    if timeline.stage_of(0).is_none() {
        return Ok(());
    }
    let labels: Vec<Labels> = timeline.stages().iter().map(|stage| Labels::NONE.with(STAGE, &stage.name)).collect();
    requests.alter(|start, part| {
        for (at, request) in part.iter_mut().enumerate() {
            if let Some(index) = timeline.stage_of(start + at) {
                request.labels = request.labels.merged(&labels[index]);
            }
        }
    })?;
    Ok(())
}

fn load_sessions(
    plan: &ServePlan,
    sessions: &SessionsPlan,
    trace: Option<Trace>,
    tokenizer: Option<&Tokenizer>,
    globals: &mut Globals,
    sink: &dyn EventSink,
) -> Result<SessionWorkload, Error> {
    let trace = sessions::ready(sessions, trace, plan.seed, tokenizer)?;
    let backend = plan.endpoint.backend;
    let mut sessions = SessionWorkload::new(sessions, trace, backend, plan.seed, tokenizer, &mut globals.np)?;
    if let Some(lora) = &plan.lora {
        sessions.adapt(lora, &mut globals.py);
    }
    if let Some(cancellation) = plan.traffic.cancellation {
        Cancellations::new(cancellation, plan.seed).mark(sessions.requests_mut());
    }
    sink.event(RunEvent::status(sessions.headline()));
    for notice in &sessions.trace.notices {
        sink.event(RunEvent::warning(notice.clone()));
    }
    Ok(sessions)
}

/// The model's id and the name in requests.
fn find_model(plan: &ServePlan, caller: &Caller, sink: &dyn EventSink) -> Result<(String, String), Error> {
    if let Some(id) = &plan.model.model {
        let name = plan.model.served_name.clone().filter(|name| !name.is_empty());
        return Ok((id.clone(), name.unwrap_or_else(|| id.clone())));
    }
    plan.preamble(sink, "Model not specified, fetching first model from server...");
    // A server that is starting has no models yet.
    let deadline = Instant::now() + plan.traffic.ready_timeout;
    let model = loop {
        match first_model(caller) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(RETRY_PAUSE),
            found => break found?,
        }
    };
    plan.preamble(sink, &format!("First model name: {}, first model id: {}", model.name, model.root));
    Ok((model.root, model.name))
}
