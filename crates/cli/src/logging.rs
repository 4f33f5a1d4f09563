//! Logging to stderr. `RUST_LOG` or vLLM's `VLLM_LOGGING_LEVEL` sets the level, warnings by default. Lines have the
//! program's format: `warning: text`.

use std::fmt;

use tacho_report::live::DeferredStderr;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::{EnvFilter, fmt::format::Writer, registry::LookupSpan};

pub(crate) fn init() {
    let level = || std::env::var("VLLM_LOGGING_LEVEL").map(|level| level.to_lowercase());
    let filter = EnvFilter::try_from_default_env()
        .or_else(|_| EnvFilter::try_new(level().unwrap_or_else(|_| "warn".to_owned())))
        .unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(DeferredStderr::default)
        .with_ansi(false)
        .event_format(Plain)
        .init();
}

/// Formats a line as its level in lower case and the message.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        out.write_str(match *event.metadata().level() {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            Level::INFO => "info: ",
            _ => "debug: ",
        })?;
        context.format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}
