//! Opens the log of a run: a new one, or that of the run to resume.

use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, RunEvent, dict};
use tacho_metrics::Setup;
use tacho_record::logged;
use tacho_rowlog::{Manifest, this_host};
use tacho_workload::sessions::TraceError;

use crate::plan::{ServePlan, TokenizerPlan};
use crate::serve::log::resume::{Earlier, reopen};
use crate::serve::log::{LogPlan, LogStart, RowLog};
use crate::{Error, serve::drive::supply::is_endless, serve::prepare::Prepared, serve::prepare::identity::RunIdentity};

/// The log of a run, and the run that it resumes.
#[derive(Default)]
pub(crate) struct OpenedLog<'a> {
    pub(crate) log: Option<RowLog<'a>>,
    pub(crate) earlier: Option<Earlier>,
    /// Indices of the remaining requests, if an earlier run sent some.
    pub(crate) positions: Option<Vec<usize>>,
}

impl<'a> OpenedLog<'a> {
    /// Opens the log that the plan requests. For a resumed run, `prepared` keeps only the remaining requests.
    pub(crate) fn open(
        plan: &'a ServePlan,
        prepared: &mut Prepared,
        identity: &'a RunIdentity,
        sink: &'a dyn EventSink,
    ) -> Result<Self, Error> {
        let Some(log_plan) = &plan.log else { return Ok(OpenedLog::default()) };
        let RunIdentity { requests, workload, .. } = identity;
        let manifest = manifest(plan, log_plan, prepared, identity);
        if log_plan.start != LogStart::Resumed {
            return Ok(OpenedLog {
                log: Some(RowLog::open(log_plan, manifest, requests, sink)?),
                ..OpenedLog::default()
            });
        }
        if prepared.sessions.is_some() {
            let problem =
                "a run of sessions cannot be taken up again: what is left of a session needs its answers".into();
            return Err(TraceError::Setting { flag: "--resume", problem }.into());
        }
        let (log, earlier) = reopen(&log_plan.directory, workload, prepared.requests.len())?;
        let positions = earlier.left();
        prepared.keep(&positions)?;
        let left = positions.len();
        let answered = earlier.answered;
        let text = format!("Resuming: {answered} requests have been answered before, {left} are left.");
        sink.event(RunEvent::status(text));
        let log = RowLog::reopened(log_plan, log, manifest, requests, sink);
        Ok(OpenedLog { log: Some(log), earlier: Some(earlier), positions: Some(positions) })
    }
}

fn manifest(plan: &ServePlan, log: &LogPlan, prepared: &Prepared, identity: &RunIdentity) -> Manifest {
    Manifest {
        tacho: log.tacho.clone(),
        command: log.command.clone(),
        seed: Some(i64::from(plan.seed)),
        workload: Some(identity.workload.clone()),
        requests: (!is_endless(plan, prepared)).then_some(prepared.requests.len() as u64),
        host: this_host(),
        clock: "monotonic".to_owned(),
        more: Value::Dict(more(plan, prepared, &identity.setup)),
    }
}

/// The setup, the sessions, and the tokenizer that may be needed to count tokens when the log is read.
fn more(plan: &ServePlan, prepared: &Prepared, setup: &Setup) -> Dict {
    let mut more = logged::plan(setup, &prepared.provenance(plan).unwrap_or_default());
    if let Some(steps) = prepared.session_steps() {
        logged::plan_sessions(&mut more, &steps);
    }
    let tokenizer = match &plan.tokenizer {
        TokenizerPlan::Named(named) => Some(dict! {
            "name": named.name.as_deref().or(setup.tokenizer_id.as_deref()),
            "revision": named.revision.as_deref(),
            "mode": named.mode.name(),
        }),
        _ => None,
    };
    let rank = plan.ranks.as_ref().map(|own| dict! { "rank": own.rank, "ranks": own.ranks });
    dict! { ..more, "tokenizer"?: tokenizer, "rank"?: rank }
}
