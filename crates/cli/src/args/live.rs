//! Flags about what is shown while a run goes on.

use tacho_core::json::Value;

use super::error::Refusal;
use super::grammar::Values;

/// What the flags ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveArgs {
    /// `--live`.
    pub(crate) screen: bool,
    /// The port of `--live-http`; 0 is any that is free.
    pub(crate) http: Option<u16>,
}

impl LiveArgs {
    /// Reads the flags.
    pub(crate) fn read(v: &Values) -> Result<Self, Refusal> {
        let http = match v.get("--live-http") {
            Value::Bool(true) => Some(0),
            Value::Str(port) => Some(port.parse().map_err(|_| Refusal::OutOfRange {
                flag: "--live-http",
                value: port.clone(),
                allowed: "a port from 0 to 65535, or nothing for any that is free",
            })?),
            _ => None,
        };
        Ok(LiveArgs { screen: v.switch("--live"), http })
    }
}
