//! Flags about what is shown while a run goes on.

use tacho_core::json::Value;

use super::error::Refusal;
use super::grammar::Values;
use super::number::python_float;

/// Seconds between looks, where the user does not say.
const INTERVAL: f64 = 0.5;

/// What the flags ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveArgs {
    /// `--live`.
    pub(crate) screen: bool,
    /// The port of `--live-http`; 0 is any that is free.
    pub(crate) http: Option<u16>,
    /// Seconds between the looks of `--telemetry`.
    pub(crate) telemetry: Option<f64>,
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
        let telemetry = match v.get("--telemetry") {
            Value::Bool(true) => Some(INTERVAL),
            Value::Str(seconds) => Some(interval(seconds)?),
            _ => None,
        };
        Ok(LiveArgs { screen: v.switch("--live"), http, telemetry })
    }
}

fn interval(text: &str) -> Result<f64, Refusal> {
    let wrong = || Refusal::OutOfRange {
        flag: "--telemetry",
        value: text.to_owned(),
        allowed: "seconds between looks, from 0.02 to 3600",
    };
    python_float(text).filter(|seconds| (0.02..=3600.0).contains(seconds)).ok_or_else(wrong)
}
