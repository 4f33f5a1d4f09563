//! Starting and stopping the server's profiler.

use super::Caller;
use crate::Error;

/// What to ask of the profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfilerCall {
    /// Begin.
    Start,
    /// End.
    Stop,
}

/// Asks it; true when the server says it was done.
pub fn profile(caller: &Caller, call: ProfilerCall) -> Result<bool, Error> {
    let path = match call {
        ProfilerCall::Start => "/start_profile",
        ProfilerCall::Stop => "/stop_profile",
    };
    Ok(caller.post(path, caller.user_headers(), b"")?.status == 200)
}
