//! Flags for repeated runs and the steady-state window, named as in vLLM's Rust client.

use tacho_args::declare::*;
use tacho_metrics::WindowRule;

use crate::args::shared::tags::{NEEDS_SERVER, ONE_RUN, WINDOW};

pub(super) static REPEATS: Group =
    group("repetition options", "tacho options", "Repeated runs, and the full-concurrency window.");

flags! {
    RepeatArgs {
        FLAGS [
            runs: usize = tacho(&["--num-runs"], Int, "N", DefaultValue::Int(1), &REPEATS,
                "Repeat the benchmark N times and summarize the runs. Each has its own result (NAME-run1.json), the summary is \
                 NAME.runs.json; --reset-caches empties the caches before each.").between(1.0, 1000.0).tagged(NEEDS_SERVER | ONE_RUN);
            vary_seed: bool = switch(&["--vary-seed"], &REPEATS,
                "Use another --seed for each run: SEED, SEED+1, … Without it, later runs hit the prefix cache.").tagged(NEEDS_SERVER).needs(&["--num-runs"]);
            steady_state_threshold: f64 = tacho(&["--steady-state-threshold"], Float, "FRACTION", DefaultValue::Float(0.95), &REPEATS,
                "Report the window in which at least this fraction of --max-concurrency was in flight. Above 0, at most 1; not with \
                 --request-rate. The metrics of the whole run are unaffected.").above(0.0, 1.0).tagged(WINDOW);
            steady_state_min_window: Option<f64> = tacho(&["--steady-state-min-window"], Seconds, "SEC", Unset, &REPEATS,
                "Warn if that window is shorter (default: a tenth of the run, and 10 seconds).").tagged(WINDOW);
            no_steady_state: bool = switch(&["--no-steady-state"], &REPEATS, "Disable detection of the full-concurrency window.").excludes(&["--steady-state-threshold", "--steady-state-min-window"]);
        ]
    }
}

impl RepeatArgs {
    /// The rule of the steady-state window, if it is detected.
    pub(crate) fn window(&self) -> Option<WindowRule> {
        let rule = WindowRule { threshold: self.steady_state_threshold, min: self.steady_state_min_window };
        (!self.no_steady_state).then_some(rule)
    }
}
