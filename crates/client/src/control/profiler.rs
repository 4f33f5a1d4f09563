//! Starting and stopping the server's profiler.

use std::time::Duration;

use super::Caller;
use super::call::Limits;
use crate::Error;

/// Starting is fast. Writing a profile is not: minutes for a large model, but not hours.
const START: Limits = Limits { time: Duration::from_secs(60), body: 1 << 20 };
const STOP: Limits = Limits { time: Duration::from_secs(1800), body: 1 << 20 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerCall {
    Start,
    Stop,
}

impl ProfilerCall {
    pub fn path(self) -> &'static str {
        match self {
            ProfilerCall::Start => "/start_profile",
            ProfilerCall::Stop => "/stop_profile",
        }
    }
}

/// The server's response to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerResponse {
    Done,
    Missing,
    /// The server has a profiler, but responded with this status.
    Refused(u16),
}

pub fn profile(caller: &Caller, call: ProfilerCall) -> Result<ProfilerResponse, Error> {
    let limits = if call == ProfilerCall::Start { START } else { STOP };
    Ok(match caller.within(limits).post(call.path(), caller.user_headers(), b"")?.status {
        200 => ProfilerResponse::Done,
        404 | 405 => ProfilerResponse::Missing,
        status => ProfilerResponse::Refused(status),
    })
}
