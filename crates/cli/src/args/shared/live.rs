//! Flags of the live view.

use tacho_args::declare::*;
use tacho_core::json::{Value, python_float};

use crate::args::shared::tags;

pub(crate) static LIVE: Group =
    group("live view options", "live options", "Terminal or browser view of a running benchmark.");

pub(crate) const SCREEN: Flag = switch(
    &["--live"],
    &LIVE,
    "Show a full-screen live view: progress, rates, percentiles, failures, server metrics. Keys: 1-4 or tab pages, m metric, w \
     window, space freezes, ? help, q ends the run gracefully. Without a terminal it prints plain lines.",
)
.tagged(tags::SCREEN)
.excludes(&["--show-stdout"]);
pub(crate) const HTTP: Flag = tacho(
    &["--live-http"],
    Kind::OptionalStr,
    "PORT",
    DefaultValue::Unset,
    &LIVE,
    "Serve a live view for a browser on 127.0.0.1, at PORT or any free port. The address with its token is printed; \
     /metrics is OpenMetrics. From another machine: ssh -L PORT:127.0.0.1:PORT.",
)
.between(0.0, 65535.0)
.tagged(tags::SCREEN);

flags! {
    #[derive(Default)]
    LiveArgs {
        FLAGS [
            screen: bool = SCREEN;
            /// The port; 0 selects any free one.
            http: Option<u16> = HTTP => port;
        ]
    }
}

fn port(setting: Setting<'_>) -> Option<u16> {
    match setting.value {
        Value::Bool(true) => Some(0),
        Value::Str(port) => python_float(port).map(|port| port as u16),
        _ => None,
    }
}

impl LiveArgs {
    pub(crate) fn is_on(&self) -> bool {
        self.screen || self.http.is_some()
    }

    /// The views of a run; none for a dry run.
    pub(crate) fn unless(&self, dry_run: bool) -> Self {
        LiveArgs { screen: self.screen && !dry_run, http: self.http.filter(|_| !dry_run) }
    }
}
