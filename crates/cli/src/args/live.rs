//! Flags of the live view and of telemetry.

use tacho_args::flag::{Flag, Group, Kind, Preset, group, own, switch};
use tacho_args::grammar::Values;
use tacho_args::number::python_float;
use tacho_client::Url;
use tacho_core::json::Value;
use tacho_core::secret::redact_url;

use super::error::Refusal;

/// Seconds between telemetry samples by default.
const INTERVAL: f64 = 0.5;

pub(crate) static LIVE: Group =
    group("live view options", "live options", "Terminal or browser view of a running benchmark.");

pub(crate) const SCREEN: Flag = switch(
    &["--live"],
    &LIVE,
    "Show a full-screen live view: progress, rates, percentiles, failures, server metrics. Keys: 1-4 or tab pages, m metric, w \
     window, space freezes, ? help, q ends the run gracefully. Without a terminal it prints plain lines.",
);
pub(crate) const HTTP: Flag = own(
    &["--live-http"],
    Kind::OptionalStr,
    "PORT",
    Preset::Unset,
    &LIVE,
    "Serve a live view for a browser on 127.0.0.1, at PORT or any free port. The address with its token is printed; \
     /metrics is OpenMetrics. From another machine: ssh -L PORT:127.0.0.1:PORT.",
)
.between(0.0, 65535.0);

/// The flags of [`LiveArgs`].
pub(crate) const FLAGS: &[Flag] = &[SCREEN, HTTP];

/// The live views that are wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveArgs {
    /// `--live`.
    pub(crate) screen: bool,
    /// The port of `--live-http`; 0 is any free one.
    pub(crate) http: Option<u16>,
}

impl From<&Values> for LiveArgs {
    fn from(v: &Values) -> Self {
        let http = match v.get("--live-http") {
            Value::Bool(true) => Some(0),
            Value::Str(port) => python_float(port).map(|port| port as u16),
            _ => None,
        };
        LiveArgs { screen: v.switch("--live"), http }
    }
}

impl LiveArgs {
    /// The same of a command that runs others, whose output can be shown too.
    pub(crate) fn with_output(v: &Values) -> Result<Self, Refusal> {
        let live = Self::from(v);
        match live.screen && v.switch("--show-stdout") {
            true => Err(Refusal::Together { flag: "--live", other: "--show-stdout" }),
            false => Ok(live),
        }
    }

    /// What is shown of a run; a dry run has nothing to show.
    pub(crate) fn unless(&self, dry_run: bool) -> Self {
        if dry_run { LiveArgs::default() } else { self.clone() }
    }
}

/// Telemetry that is wanted in addition to the server's own metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct TelemetryArgs {
    /// Seconds between samples, if there are any.
    pub(crate) interval: Option<f64>,
    /// Endpoints of other exporters.
    pub(crate) urls: Vec<String>,
    /// The collector that gets the run's series at its end.
    pub(crate) otlp: Option<String>,
    /// Whether it gets each request as a span too.
    pub(crate) spans: bool,
}

impl TelemetryArgs {
    /// Reads the flags.
    pub(crate) fn read(v: &Values) -> Result<Self, Refusal> {
        let urls = v.list("--telemetry-url").unwrap_or_default();
        let interval = match v.get("--telemetry") {
            Value::Str(seconds) => python_float(seconds),
            Value::Bool(true) => Some(INTERVAL),
            // An exporter that is named is to be sampled.
            _ => (!urls.is_empty()).then_some(INTERVAL),
        };
        let (otlp, spans) = (v.maybe_text("--otlp"), v.switch("--otlp-spans"));
        let address = |flag: &'static str, url: &String| {
            let allowed = "an address that begins with http:// or https://";
            Url::parse(url).map(drop).map_err(|_| Refusal::OutOfRange { flag, value: redact_url(url), allowed })
        };
        urls.iter().try_for_each(|url| address("--telemetry-url", url))?;
        otlp.iter().try_for_each(|url| address("--otlp", url))?;
        if spans && otlp.is_none() {
            return Err(Refusal::Alone { flag: "--otlp-spans", other: "--otlp" });
        }
        Ok(TelemetryArgs { interval, urls, otlp, spans })
    }
}
