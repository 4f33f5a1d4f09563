//! `tacho backend check`: one request by a backend file, and what its selectors found in the response.

use std::{sync::Arc, time::Duration};

use tacho_client::control::{Caller, first_model};
use tacho_client::{Client, ClientPlan, EndpointSpec, PayloadSpec, Task, backends::TraceEvent};
use tacho_core::{Counters, Kept, Observation, Request, SystemClock};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, drive};
use tacho_pyrand::RandomState;

use crate::Error;

/// Response headers that are shown.
const SHOWN: [&str; 8] = [
    "content-type",
    "content-length",
    "transfer-encoding",
    "content-encoding",
    "server",
    "date",
    "x-request-id",
    "retry-after",
];

#[derive(Debug)]
pub struct Checked {
    /// The request, with secrets redacted.
    pub request: String,
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    /// The selectors of the file: their fields and paths.
    pub selectors: Vec<(&'static str, String)>,
    pub events: Vec<TraceEvent>,
    /// The row that a run would have.
    pub row: Observation,
    /// Whether the file marks the end of a response.
    pub has_end_mark: bool,
    /// Events that end a response, byte for byte.
    pub end_events: &'static [String],
    task: Task,
}

/// What a result lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No text, or no data if the backend generates none.
    Content,
    End,
}

impl Checked {
    /// What was not found although every response must have it.
    pub fn missing(&self) -> Vec<Missing> {
        let is_found = |field: &str| {
            let is_field = |(number, _): &(usize, String)| self.selectors[*number].0 == field;
            self.events.iter().any(|event| event.found.iter().any(is_field))
        };
        let content = match self.task {
            Task::Pooling => is_found("data"),
            Task::Media => self.row.media.is_some(),
            Task::Generation => !self.row.text.is_empty(),
        };
        let end = !self.has_end_mark || self.events.iter().any(|event| event.is_end);
        let all = [(!content, Missing::Content), (!end, Missing::End)];
        all.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, missing)| missing).collect()
    }

    /// The number of events in which a selector found something.
    pub fn count(&self, selector: usize) -> usize {
        let has = |event: &&TraceEvent| event.found.iter().any(|(number, _)| *number == selector);
        self.events.iter().filter(has).count()
    }
}

/// Sends a request. Without a model, the first one of the file's model list is named. Fails if the server cannot be
/// found, the model is unknown, or the request cannot be rendered.
pub fn check(
    endpoint: EndpointSpec,
    base_path: &str,
    mut payload: PayloadSpec,
    request: Request,
) -> Result<Checked, Error> {
    let backend = endpoint.backend;
    let endpoint = EndpointSpec { response_headers: SHOWN.map(str::to_owned).into(), ..endpoint };
    if payload.model.is_empty() {
        let caller = Caller::new(&endpoint, base_path, Duration::from_secs(30))?;
        payload.model = first_model(&caller)?.name;
    }
    let clock = SystemClock::start();
    let client = Client::new(endpoint, &payload, &[request], ClientPlan::default(), clock)?;
    let shown = client.shown(0);
    if let Some(trace) = backend.trace() {
        trace.start();
    }
    let at_once = ScheduleSpec::default();
    let timeline = at_once.plan(1, &mut RandomState::new(0))?;
    let (stop, counters) = (StopSignal::default(), Arc::new(Counters::default()));
    let mut kept = Kept::default();
    drive(&client, &Drive::of(&timeline, &clock, &stop, &counters), &mut kept)?;
    let row = kept.into_rows().pop().ok_or(Error::EmptyWorkload)?;
    let label = |name: &str| row.labels.get(&format!("header:{name}")).map(str::to_owned);
    let headers = SHOWN.iter().filter_map(|name| Some(((*name).to_owned(), label(name)?))).collect();
    let trace = backend.trace();
    Ok(Checked {
        request: shown,
        status: trace.and_then(|trace| trace.status()),
        headers,
        selectors: backend.selectors(),
        events: trace.map(|trace| trace.events()).unwrap_or_default(),
        has_end_mark: backend.has_end_mark(),
        end_events: backend.end_events(),
        task: backend.task(),
        row,
    })
}
