//! A prepared workload. What differs between single requests and sessions is decided here, so that the phases of a run
//! need not ask.

use tacho_client::ClientPlan;
use tacho_client::control::Caller;
use tacho_core::{Request, RowSink};
use tacho_loadgen::{Drive, Driven, Error as DriveError, Target, Timeline, drive, drive_sessions};
use tacho_metrics::sessions::Steps;
use tacho_text::Tokenizer;
use tacho_workload::Requests;

use crate::Error;
use crate::plan::ServePlan;
use crate::serve::request_table::RequestTable;
use crate::serve::sessions::SessionWorkload;

/// Connections opened ahead when it is not known how many will be needed.
const PRECONNECT: usize = 16;

/// A run that is ready to start.
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
    /// Their scheduled times.
    pub timeline: Timeline,
    /// The sessions that the requests belong to, if they do.
    pub sessions: Option<SessionWorkload>,
    /// Makes calls around the run.
    pub caller: Caller,
}

impl Prepared {
    /// Keeps only the requests in these places, in order, and their times; the first of them is due at once.
    pub(crate) fn keep(&mut self, places: &[usize]) -> Result<(), Error> {
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
    pub(crate) fn share(&mut self, places: &[usize]) -> Result<(), Error> {
        let timeline = self.timeline.some(places);
        self.keep(places)?;
        self.timeline = timeline;
        Ok(())
    }

    /// The first request that is sent.
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

    /// How many requests all ranks send, warm-up sessions excluded.
    pub(crate) fn measured_requests(&self, plan: &ServePlan, table: &RequestTable) -> u64 {
        let count = match &self.sessions {
            Some(sessions) => (0..self.requests.len()).filter(|&index| sessions.is_measured(index)).count(),
            None if plan.ranks.is_some() => table.len(),
            None => self.requests.len(),
        };
        count as u64
    }

    /// The steps of the measured sessions.
    pub(crate) fn session_steps(&self) -> Option<Steps> {
        self.sessions.as_ref().map(SessionWorkload::steps)
    }

    /// How many connections to open beforehand.
    pub(crate) fn connections(&self, max_concurrency: Option<usize>) -> ClientPlan {
        if let Some(sessions) = &self.sessions {
            return sessions.connections(max_concurrency, PRECONNECT);
        }
        let count = self.timeline.len();
        let most = max_concurrency.map(|limit| limit.min(count)).or(self.timeline.is_at_once().then_some(count));
        match most {
            Some(most) => ClientPlan { preconnect: most, spare: false, at_most: Some(most) },
            None => ClientPlan { preconnect: PRECONNECT.min(count), spare: true, at_most: None },
        }
    }
}
