//! Flags of `tacho serve` for telemetry.

use tacho_args::declare::*;
use tacho_client::Url;
use tacho_core::json::{Value, python_float};
use tacho_core::secret::redact_url;

use super::groups::TELEMETRY;
use crate::args::error::{ArgError, ArgumentError};
use crate::args::shared::tags::ONE_RUN;

/// Default interval between samples in seconds.
const INTERVAL: f64 = 0.5;

flags! {
    /// Telemetry in addition to the server's own metrics.
    TelemetryArgs? {
        SAMPLING [
            /// Seconds between samples, if requested.
            interval: Option<f64> = tacho(&["--telemetry"], OptionalStr, "SEC", Unset, &TELEMETRY,
                "Sample this machine's NVIDIA GPUs, CPU, memory and network. Every 0.5 s, or SEC; reports energy, power and joules per \
                 token, and stores all series.").between(0.02, 3600.0) => interval;
            urls: Vec<String> = tacho(&["--telemetry-url"], Repeated, "URL", Unset, &TELEMETRY,
                "Sample Prometheus endpoints too: /metrics of other replicas, or a DCGM exporter, whose GPUs replace this machine's. \
                 Each is stored under its address.") => addresses;
            otlp: Option<String> = tacho(&["--otlp"], Str, "URL", Unset, &TELEMETRY,
                "Export the run's metrics to an OpenTelemetry collector (OTLP/HTTP, JSON). /v1/metrics is appended to the address.").tagged(ONE_RUN) => address;
            spans: bool = switch(&["--otlp-spans"], &TELEMETRY, "Export a span for each request too, to /v1/traces.").needs(&["--otlp"]);
        ]
    }
}

impl TelemetryArgs {
    pub(super) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut args = Self::parse(v)?;
        // An exporter enables sampling.
        args.interval = args.interval.or((!args.urls.is_empty()).then_some(INTERVAL));
        Ok(args)
    }
}

fn interval(setting: Setting<'_>) -> Result<Option<f64>, ArgumentError> {
    let given = Option::<Option<String>>::from_flag(setting);
    Ok(given.and_then(|seconds| seconds.map_or(Some(INTERVAL), |seconds| python_float(&seconds))))
}

fn addresses(setting: Setting<'_>) -> Result<Vec<String>, ArgumentError> {
    let urls = Vec::<String>::from_flag(setting);
    let allowed = "an address that begins with http:// or https://";
    match urls.iter().find(|url| Url::parse(url).is_err()) {
        Some(url) => Err(ArgumentError::range(setting.flag, redact_url(url), allowed)),
        None => Ok(urls),
    }
}

fn address(setting: Setting<'_>) -> Result<Option<String>, ArgumentError> {
    let list = Value::List(setting.value.as_str().map(Value::from).into_iter().collect());
    Ok(addresses(Setting { value: &list, ..setting })?.pop())
}
