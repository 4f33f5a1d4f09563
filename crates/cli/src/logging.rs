//! Logs go to stderr; `RUST_LOG` or vLLM's `VLLM_LOGGING_LEVEL` says how much, warnings by default.

use std::io::IsTerminal;

use tacho_report::live::Aside;
use tracing_subscriber::EnvFilter;

/// Sets up logging for the process.
pub(crate) fn init() {
    let level = || std::env::var("VLLM_LOGGING_LEVEL").map(|level| level.to_lowercase());
    let filter = EnvFilter::try_from_default_env()
        .or_else(|_| EnvFilter::try_new(level().unwrap_or_else(|_| "warn".to_owned())))
        .unwrap_or_else(|_| EnvFilter::new("warn"));
    // Colours are for people: a log that is kept has none.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Aside::default)
        .with_ansi(colours)
        .with_target(false)
        .without_time()
        .init();
}
