//! A prepared workload. It hides the difference between single requests and sessions from the phases of a run.

use tacho_client::{ClientPlan, PayloadSpec, Rules, control::Caller};
use tacho_core::{Request, RowSink};
use tacho_loadgen::{Drive, Driven, Error as DriveError, Target, Timeline, drive, drive_sessions};
use tacho_metrics::sessions::Steps;
use tacho_record::Provenance;
use tacho_text::Tokenizer;
use tacho_workload::Requests;

use crate::serve::{drive::supply::is_endless, request_table::RequestTable, sessions::SessionWorkload};
use crate::{Error, plan::ServePlan};

/// Connections to open in advance if the required number is unknown.
const PRECONNECT: usize = 16;

pub struct Prepared {
    /// The model id, which selects the tokenizer and is part of the file name.
    pub model_id: String,
    pub model_name: String,
    /// The tokenizer's name, if there is a tokenizer.
    pub tokenizer_id: Option<String>,
    pub tokenizer: Option<Tokenizer>,
    pub requests: Requests,
    pub timeline: Timeline,
    pub sessions: Option<SessionWorkload>,
    /// SHA-256 of the rows that were read, if the source states it.
    pub dataset_sha256: Option<String>,
    /// Makes control calls around the run; to the first replica, if there are several.
    pub caller: Caller,
    /// Makes control calls to the other replicas.
    pub other_callers: Vec<Caller>,
}

impl Prepared {
    /// What is known of the run's provenance before the run, if the plan asks for it.
    pub(crate) fn provenance(&self, plan: &ServePlan) -> Option<Provenance> {
        let known = plan.report.provenance.clone()?;
        Some(Provenance { dataset_sha256: self.dataset_sha256.clone(), ..known })
    }

    pub fn payload(&self, plan: &ServePlan) -> PayloadSpec {
        let payload = &plan.traffic.payload;
        let has_logprobs = payload.logprobs.is_some() || payload.extra_body.get("logprobs").is_some();
        PayloadSpec {
            model: self.model_name.clone(),
            keeps_logprobs: plan.check.is_some() && has_logprobs,
            keeps_nulls: plan.endpoint.rules == Rules::Vllm,
            ..payload.clone()
        }
    }

    /// Keeps only the requests with these indices, in order, and their times relative to the first.
    pub(crate) fn keep(&mut self, positions: &[usize]) -> Result<(), Error> {
        let mut wanted = positions.iter().copied().peekable();
        self.requests.alter(|start, part| {
            let mut at = start;
            part.retain(|_| {
                at += 1;
                wanted.next_if_eq(&(at - 1)).is_some()
            });
        })?;
        self.timeline = self.timeline.part(positions);
        Ok(())
    }

    /// Keeps only the requests with these indices, at their original times.
    pub(crate) fn share(&mut self, positions: &[usize]) -> Result<(), Error> {
        let timeline = self.timeline.some(positions);
        self.keep(positions)?;
        self.timeline = timeline;
        Ok(())
    }

    pub(crate) fn callers(&self) -> impl Iterator<Item = &Caller> {
        std::iter::once(&self.caller).chain(&self.other_callers)
    }

    pub(crate) fn first_request(&self) -> &Request {
        &self.requests.kept()[self.sessions.as_ref().map_or(0, SessionWorkload::first)]
    }

    /// The request of the ready check and the warm-ups.
    pub(crate) fn test_request(&self) -> Request {
        Request { id: None, lora: None, session: None, cancel_after: None, ..self.first_request().clone() }
    }

    /// Sends the requests, or runs the sessions.
    pub(crate) fn drive<T: Target>(
        &self,
        target: &T,
        load: &Drive<'_>,
        rows: &mut dyn RowSink,
    ) -> Result<Driven, DriveError> {
        match &self.sessions {
            None => drive(target, load, rows),
            Some(sessions) => drive_sessions(target, load, &sessions.plan(), rows),
        }
    }

    /// Number of requests of all ranks, without warm-up sessions; 0 if only the run's duration limits it.
    pub(crate) fn measured_requests(&self, plan: &ServePlan, table: &RequestTable) -> u64 {
        let count = match &self.sessions {
            _ if is_endless(plan, self) => 0,
            Some(sessions) => (0..self.requests.len()).filter(|&index| sessions.is_measured(index)).count(),
            None if plan.ranks.is_some() => table.len(),
            None => self.requests.len(),
        };
        count as u64
    }

    pub(crate) fn session_steps(&self) -> Option<Steps> {
        self.sessions.as_ref().map(SessionWorkload::steps)
    }

    pub(crate) fn connections(&self, max_concurrency: Option<usize>) -> ClientPlan {
        if let Some(sessions) = &self.sessions {
            return sessions.connections(max_concurrency, PRECONNECT);
        }
        let count = self.timeline.len();
        let max = max_concurrency.map(|limit| limit.min(count)).or(self.timeline.is_at_once().then_some(count));
        match max {
            Some(max) => ClientPlan { preconnect: max, spare: false, at_most: Some(max) },
            None => ClientPlan { preconnect: PRECONNECT.min(count), spare: true, at_most: None },
        }
    }
}
