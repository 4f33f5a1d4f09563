//! What a run writes down before it begins, and what it finds written down by an earlier one.

use std::io::{self, Write};

use sha2::{Digest, Sha256};
use tacho_core::event::ServeNote;
use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, Request, RunEvent};
use tacho_metrics::{Setup, logged};
use tacho_rowlog::{Host, Manifest};
use tacho_workload::sessions::TraceError;
use tacho_workload::write_jsonl;

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
        setup: &Setup,
        asked: &'a Asks,
        sink: &'a dyn EventSink,
    ) -> Result<Self, Error> {
        let Some(log_plan) = &plan.log else { return Ok(Journal::default()) };
        let manifest = manifest(plan, log_plan, prepared, setup)?;
        if log_plan.start != LogStart::Resumed {
            return Ok(Journal { log: Some(RowLog::open(log_plan, manifest, asked, sink)?), ..Journal::default() });
        }
        if prepared.dialogue.is_some() {
            let problem =
                "a run of sessions cannot be taken up again: what is left of a session needs its answers".into();
            return Err(TraceError::Setting { flag: "--resume", problem }.into());
        }
        let workload = manifest.workload.clone().unwrap_or_default();
        let (log, earlier) = take_up(&log_plan.folder, &workload, prepared.requests.len())?;
        let places = earlier.left();
        prepared.keep(&places)?;
        let left = places.len();
        sink.event(RunEvent::status(ServeNote::Resumed { answered: earlier.answered, left }));
        let log = RowLog::reopened(log_plan, log, manifest, asked, sink);
        Ok(Journal { log: Some(log), earlier: Some(earlier), places: Some(places) })
    }
}

fn manifest(plan: &ServePlan, log: &LogPlan, prepared: &Prepared, setup: &Setup) -> Result<Manifest, Error> {
    Ok(Manifest {
        tacho: log.tacho.clone(),
        command: log.command.clone(),
        seed: Some(i64::from(plan.seed)),
        workload: Some(workload_hash(prepared)?),
        requests: Some(prepared.requests.len() as u64),
        host: Host::here(),
        clock: "monotonic".to_owned(),
        more: Value::Dict(more(plan, prepared, setup)),
    })
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

/// A hash of the requests and their due times, as they would be saved but for their ids, which are drawn anew each time.
pub(super) fn workload_hash(prepared: &Prepared) -> Result<String, Error> {
    let mut hash = Hash(Sha256::new());
    let due = prepared.timeline.due();
    prepared.requests.each(|place, request| {
        let unnamed = Request { id: None, ..request.clone() };
        Ok::<_, Error>(write_jsonl(&mut hash, 0, &[unnamed], &due[place..=place])?)
    })?;
    Ok(hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
