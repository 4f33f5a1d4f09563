//! Starting and stopping the server's profiler.

use std::time::Duration;

use super::Caller;
use super::call::Limits;
use crate::Error;

/// Beginning is quick. Writing a profile out is not: minutes for a large model, but not hours.
const START: Limits = Limits { time: Duration::from_secs(60), body: 1 << 20 };
const STOP: Limits = Limits { time: Duration::from_secs(1800), body: 1 << 20 };

/// What to ask of the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerCall {
    /// Begin.
    Start,
    /// End.
    Stop,
}

impl ProfilerCall {
    /// Where it is asked.
    pub fn path(self) -> &'static str {
        match self {
            ProfilerCall::Start => "/start_profile",
            ProfilerCall::Stop => "/stop_profile",
        }
    }
}

/// What the server says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerAnswer {
    /// It was done.
    Done,
    /// There is no profiler.
    Missing,
    /// There is one, and it answered with this status.
    Refused(u16),
}

/// Asks it.
pub fn profile(caller: &Caller, call: ProfilerCall) -> Result<ProfilerAnswer, Error> {
    let limits = if call == ProfilerCall::Start { START } else { STOP };
    Ok(match caller.within(limits).post(call.path(), caller.user_headers(), b"")?.status {
        200 => ProfilerAnswer::Done,
        404 | 405 => ProfilerAnswer::Missing,
        status => ProfilerAnswer::Refused(status),
    })
}
