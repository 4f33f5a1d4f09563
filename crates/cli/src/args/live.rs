//! Flags about what is shown while a run goes on, and about what is looked at beside it.

use tacho_client::Url;
use tacho_core::json::Value;
use tacho_core::secret::redact_url;

use super::error::Refusal;
use super::flag::{Flag, Group, Kind, Preset, own};
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
}

/// `--live`, of whatever runs.
pub(crate) const fn screen(group: &'static Group) -> Flag {
    own(
        &["--live"],
        Kind::Switch,
        "",
        Preset::Off,
        group,
        "Show the run on the whole screen: progress, rates with their history, running percentiles, failures by kind, \
         what the server says. q ends it gracefully, space freezes the view. Without a terminal there are plain lines \
         instead.",
    )
}

/// `--live-http`, of whatever runs.
pub(crate) const fn http(group: &'static Group) -> Flag {
    own(
        &["--live-http"],
        Kind::OptionalStr,
        "PORT",
        Preset::Unset,
        group,
        "Show the run in a browser. A page on 127.0.0.1, at the port or any that is free, whose address with its token is \
         printed; /metrics there is OpenMetrics. For another machine's browser: ssh -L PORT:127.0.0.1:PORT.",
    )
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

    /// The same of a command that runs others, whose output can be shown too.
    pub(crate) fn read_beside_others(v: &Values) -> Result<Self, Refusal> {
        let live = Self::read(v)?;
        match live.screen && v.switch("--show-stdout") {
            true => Err(Refusal::Together { flag: "--live", other: "--show-stdout" }),
            false => Ok(live),
        }
    }

    /// What is shown of a run; where nothing is run there is nothing to show.
    pub(crate) fn unless(&self, dry_run: bool) -> Self {
        if dry_run { LiveArgs::default() } else { self.clone() }
    }
}

/// What `--telemetry` and its companions ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct TelemetryArgs {
    /// Seconds between looks; nothing where there are none.
    pub(crate) interval: Option<f64>,
    /// Pages of other exporters.
    pub(crate) urls: Vec<String>,
    /// Where the series of the run are sent at its end.
    pub(crate) otlp: Option<String>,
    /// Whether each request is sent there as a span.
    pub(crate) spans: bool,
}

impl TelemetryArgs {
    /// Reads the flags.
    pub(crate) fn read(v: &Values) -> Result<Self, Refusal> {
        let urls = v.list("--telemetry-url").unwrap_or_default();
        let interval = match v.get("--telemetry") {
            Value::Str(seconds) => Some(interval(seconds)?),
            Value::Bool(true) => Some(INTERVAL),
            // Whoever names an exporter wants it looked at.
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

fn interval(text: &str) -> Result<f64, Refusal> {
    let wrong = || Refusal::OutOfRange {
        flag: "--telemetry",
        value: text.to_owned(),
        allowed: "seconds between looks, from 0.02 to 3600",
    };
    python_float(text).filter(|seconds| (0.02..=3600.0).contains(seconds)).ok_or_else(wrong)
}
