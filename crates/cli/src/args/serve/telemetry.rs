//! Flags of `tacho serve` for telemetry.

use tacho_args::flag::{Kind, Preset, own, switch};
use tacho_args::number::python_float;
use tacho_args::{Values, flags};
use tacho_client::Url;
use tacho_core::secret::redact_url;

use super::groups::TELEMETRY;
use crate::args::error::Refusal;

use Kind::{OptionalStr, Repeated, Str};
use Preset::Unset;

/// Default interval between samples in seconds.
const INTERVAL: f64 = 0.5;

flags! {
    /// Telemetry in addition to the server's own metrics.
    TelemetryFlags {
        SAMPLING [
            telemetry: Option<Option<String>> = own(&["--telemetry"], OptionalStr, "SEC", Unset, &TELEMETRY,
                "Sample this machine's NVIDIA GPUs, CPU, memory and network. Every 0.5 s, or SEC; reports energy, power and joules per \
                 token, and stores all series.").between(0.02, 3600.0);
            telemetry_url: Vec<String> = own(&["--telemetry-url"], Repeated, "URL", Unset, &TELEMETRY,
                "Sample Prometheus endpoints too: /metrics of other replicas, or a DCGM exporter, whose GPUs replace this machine's. \
                 Each is stored under its address.");
            otlp: Option<String> = own(&["--otlp"], Str, "URL", Unset, &TELEMETRY,
                "Export the run's metrics to an OpenTelemetry collector (OTLP/HTTP, JSON). /v1/metrics is appended to the address.");
            otlp_spans: bool = switch(&["--otlp-spans"], &TELEMETRY, "Export a span for each request too, to /v1/traces.");
        ]
    }
}

/// Telemetry in addition to the server's own metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct TelemetryArgs {
    /// Interval between samples in seconds, if sampling is enabled.
    pub(crate) interval: Option<f64>,
    /// Endpoints of other exporters.
    pub(crate) urls: Vec<String>,
    /// The collector that receives the run's metrics at its end.
    pub(crate) otlp: Option<String>,
    /// Whether each request is exported as a span.
    pub(crate) spans: bool,
}

impl TelemetryArgs {
    /// Parses and checks the values.
    pub(super) fn read(v: &Values) -> Result<Self, Refusal> {
        let TelemetryFlags { telemetry, telemetry_url: urls, otlp, otlp_spans: spans } = v.into();
        let interval = match telemetry {
            Some(Some(seconds)) => python_float(&seconds),
            Some(None) => Some(INTERVAL),
            // An exporter URL enables sampling.
            None => (!urls.is_empty()).then_some(INTERVAL),
        };
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
