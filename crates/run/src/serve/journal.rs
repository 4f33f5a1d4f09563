//! What a run writes down before it begins, and what it finds written down by an earlier one.

use tacho_core::event::ServeNote;
use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, RunEvent};
use tacho_metrics::{Setup, logged};
use tacho_rowlog::{Host, Manifest};
use tacho_workload::sessions::TraceError;

use super::asked::Asks;
use super::log::{LogPlan, LogStart, RowLog};
use super::prepare::Prepared;
use super::resume::{Earlier, take_up};
use crate::Error;
use crate::plan::{ServePlan, TokenizerPlan};

/// The log of a run, and what it goes on with.
#[derive(Default)]
pub(super) struct Journal<'a> {
    pub(super) log: Option<RowLog<'a>>,
    pub(super) earlier: Option<Earlier>,
    /// The places of the requests that are left, where an earlier run sent some.
    pub(super) places: Option<Vec<usize>>,
}

impl<'a> Journal<'a> {
    /// Opens the log that the plan asks for. Where a run is resumed, `prepared` keeps only what is left of it.
    pub(super) fn open(
        plan: &'a ServePlan,
        prepared: &mut Prepared,
        (setup, workload): (&Setup, &str),
        asked: &'a Asks,
        sink: &'a dyn EventSink,
    ) -> Result<Self, Error> {
        let Some(log_plan) = &plan.log else { return Ok(Journal::default()) };
        let manifest = manifest(plan, log_plan, prepared, (setup, workload));
        if log_plan.start != LogStart::Resumed {
            return Ok(Journal { log: Some(RowLog::open(log_plan, manifest, asked, sink)?), ..Journal::default() });
        }
        if prepared.dialogue.is_some() {
            let problem =
                "a run of sessions cannot be taken up again: what is left of a session needs its answers".into();
            return Err(TraceError::Setting { flag: "--resume", problem }.into());
        }
        let (log, earlier) = take_up(&log_plan.folder, workload, prepared.requests.len())?;
        let places = earlier.left();
        prepared.keep(&places)?;
        let left = places.len();
        sink.event(RunEvent::status(ServeNote::Resumed { answered: earlier.answered, left }));
        let log = RowLog::reopened(log_plan, log, manifest, asked, sink);
        Ok(Journal { log: Some(log), earlier: Some(earlier), places: Some(places) })
    }
}

fn manifest(plan: &ServePlan, log: &LogPlan, prepared: &Prepared, (setup, workload): (&Setup, &str)) -> Manifest {
    Manifest {
        tacho: log.tacho.clone(),
        command: log.command.clone(),
        seed: Some(i64::from(plan.seed)),
        workload: Some(workload.to_owned()),
        requests: Some(prepared.requests.len() as u64),
        host: Host::here(),
        clock: "monotonic".to_owned(),
        more: Value::Dict(more(plan, prepared, setup)),
    }
}

/// The set-up, the sessions, and the tokenizer that may have to count when the log is read.
fn more(plan: &ServePlan, prepared: &Prepared, setup: &Setup) -> Dict {
    let mut more = logged::plan(setup);
    if let Some(dialogue) = &prepared.dialogue {
        logged::plan_sessions(&mut more, &dialogue.steps());
    }
    if let TokenizerPlan::Named(named) = &plan.tokenizer {
        let mut tokenizer = Dict::new();
        tokenizer.set("name", named.name.as_deref().or(setup.tokenizer_id.as_deref()));
        tokenizer.set("revision", named.revision.as_deref());
        tokenizer.set("mode", named.mode.name());
        more.set("tokenizer", tokenizer);
    }
    if let Some(place) = &plan.ranks {
        let mut rank = Dict::new();
        rank.set("rank", place.rank);
        rank.set("ranks", place.ranks);
        more.set("rank", rank);
    }
    more
}
