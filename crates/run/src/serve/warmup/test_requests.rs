//! Requests before the run: the test request until the server responds, and warm-ups.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tacho_client::{Client, ClientPlan, EndpointSpec, PayloadSpec, control::Caller};
use tacho_core::{Counters, EventSink, Failure, FailureKind, Kept, Observation, Request, RunEvent, SystemClock, Work};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, drive};
use tacho_pyrand::RandomState;

use crate::Error;

/// Pause between two attempts of the test request.
const PAUSE: Duration = Duration::from_secs(5);

/// Sends copies of one request outside the measured run.
pub(crate) struct TestRequests<'a> {
    pub(crate) endpoints: Vec<EndpointSpec>,
    pub(crate) payload: &'a PayloadSpec,
    pub(crate) request: Request,
    pub(crate) max_concurrency: Option<usize>,
    pub(crate) stop: &'a StopSignal,
    pub(crate) sink: &'a dyn EventSink,
}

impl TestRequests<'_> {
    /// Sends the request to every replica until it succeeds or `timeout` has passed; before it, the ready check of the
    /// backend's file, if there is one.
    pub(crate) fn wait_until_ready(&self, callers: &[&Caller], timeout: Duration) -> Result<(), Error> {
        let seconds = timeout.as_secs();
        self.sink.event(RunEvent::status(format!("Waiting for endpoint to become up in {seconds} seconds")));
        self.sink.event(RunEvent::Waiting { work: Work::WaitingForServer, seconds });
        let deadline = Instant::now() + timeout;
        let path = self.endpoints.first().and_then(|endpoint| endpoint.backend.ready_path());
        let mut checks = callers.iter().zip(path.into_iter().cycle());
        let is_ready =
            |(caller, path): (&&Caller, &str)| self.try_until(deadline, &|left| Ok(unready(caller, path, left)));
        let mut result = checks.try_for_each(is_ready);
        if result.is_ok() {
            let mut endpoints = self.endpoints.iter();
            result = endpoints.try_for_each(|endpoint| self.try_until(deadline, &|left| self.failure(endpoint, left)));
        }
        self.sink.event(RunEvent::Finished);
        result
    }

    /// The error of one request; `None` if it succeeds.
    fn failure(&self, endpoint: &EndpointSpec, left: Duration) -> Result<Option<Failure>, Error> {
        let rows = self.send(endpoint, 1, left, Arc::default())?;
        Ok(rows.first().and_then(|row| row.outcome.failure()).cloned())
    }

    /// Tries until there is no error.
    fn try_until(
        &self,
        deadline: Instant,
        attempt: &dyn Fn(Duration) -> Result<Option<Failure>, Error>,
    ) -> Result<(), Error> {
        let (mut reason, mut kind) = ("no time to try".to_owned(), None);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.stop.draining() {
                return Err(Error::Stopped);
            }
            if left.is_zero() {
                return Err(Error::NotReady { reason, kind });
            }
            match attempt(left)? {
                None => return Ok(()),
                Some(failure) => (reason, kind) = (failure.message, Some(failure.kind)),
            }
            self.sink.event(RunEvent::warning(format!("Endpoint is not ready. Error='{reason}'")));
            let pause = PAUSE.min(deadline.saturating_duration_since(Instant::now()));
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.stop.draining() {
                std::thread::sleep(Duration::from_millis(20).min(until.saturating_duration_since(Instant::now())));
            }
        }
    }

    /// Sends `count` copies at once to each replica in turn; returns the number of failures, and the first error.
    pub(crate) fn send_warmups(&self, count: usize) -> Result<(usize, Option<Failure>), Error> {
        let counters = Arc::new(Counters::default());
        let total = (count * self.endpoints.len()) as u64;
        self.sink.event(RunEvent::Started { work: Work::WarmUp, total, counters: counters.clone() });
        let sent = self.endpoints.iter().map(|endpoint| self.send(endpoint, count, endpoint.timeout, counters.clone()));
        let rows = sent.collect::<Result<Vec<_>, _>>();
        self.sink.event(RunEvent::Finished);
        let rows = rows?.concat();
        let failures: Vec<_> = rows.iter().filter_map(|row| row.outcome.failure()).collect();
        Ok((failures.len(), failures.first().map(|failure| (*failure).clone())))
    }

    fn send(
        &self,
        endpoint: &EndpointSpec,
        count: usize,
        timeout: Duration,
        counters: Arc<Counters>,
    ) -> Result<Vec<Observation>, Error> {
        let endpoint = EndpointSpec { timeout: timeout.min(endpoint.timeout), ..endpoint.clone() };
        let requests = vec![self.request.clone(); count];
        send_all(endpoint, self.payload, &requests, self.max_concurrency, self.stop, &counters)
    }
}

/// Sends requests outside the measured run, all at once or as many as the limit allows.
pub(crate) fn send_all(
    endpoint: EndpointSpec,
    payload: &PayloadSpec,
    requests: &[Request],
    max_concurrency: Option<usize>,
    stop: &StopSignal,
    counters: &Counters,
) -> Result<Vec<Observation>, Error> {
    let clock = SystemClock::start();
    let client = Client::new(endpoint, payload, requests, ClientPlan::default(), clock)?;
    let at_once = ScheduleSpec::default();
    let timeline = at_once.plan(requests.len(), &mut RandomState::new(0))?;
    let plan = Drive { max_concurrency, ..Drive::of(&timeline, &clock, stop, counters) };
    let mut kept = Kept::default();
    drive(&client, &plan, &mut kept)?;
    Ok(kept.into_rows())
}

/// Why a server is not ready, by the path of its ready check.
fn unready(caller: &Caller, path: &str, left: Duration) -> Option<Failure> {
    let failure = |kind: FailureKind, message: String| Some(Failure { kind, message });
    match caller.with_timeout(left).get(path, caller.user_headers()) {
        Ok(response) if (200..300).contains(&response.status) => None,
        Ok(response) => {
            let message = format!("GET {} answered {}", caller.url(path), response.status);
            failure(FailureKind::Http(response.status), message)
        }
        Err(error) => failure(FailureKind::Connect, error.to_string()),
    }
}
