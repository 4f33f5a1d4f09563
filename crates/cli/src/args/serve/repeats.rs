//! Flags for repeated runs and the steady-state window, named as in vLLM's Rust client.

use tacho_args::flag::{Group, Kind, Preset, group, own, switch};
use tacho_args::flags;
use tacho_metrics::WindowRule;

use super::ServeArgs;
use crate::args::error::Refusal;

use Kind::{Float, Int, Seconds};
use Preset::Unset;

pub(super) static REPEATS: Group =
    group("repetition options", "tacho options", "Repeated runs, and the full-concurrency window.");

/// The flags of the window.
pub(crate) const WINDOW: [&str; 2] = ["--steady-state-threshold", "--steady-state-min-window"];

flags! {
    /// Repetitions and the steady-state window.
    RepeatArgs {
        FLAGS [
            runs: usize = own(&["--num-runs"], Int, "N", Preset::Int(1), &REPEATS,
                "Repeat the benchmark N times and summarize the runs. Each has its own result (NAME-run1.json), the summary is \
                 NAME.runs.json; --reset-caches empties the caches before each.").between(1.0, 1000.0);
            vary_seed: bool = switch(&["--vary-seed"], &REPEATS,
                "Use another --seed for each run: SEED, SEED+1, … Otherwise a prefix cache knows the requests of the run before.");
            steady_state_threshold: f64 = own(&["--steady-state-threshold"], Float, "FRACTION", Preset::Float(0.95), &REPEATS,
                "Report the window in which at least this fraction of --max-concurrency was in flight. Above 0, at most 1; not with \
                 --request-rate. The metrics of the whole run are unaffected.").between(f64::MIN_POSITIVE, 1.0);
            steady_state_min_window: Option<f64> = own(&["--steady-state-min-window"], Seconds, "SEC", Unset, &REPEATS,
                "Warn if that window is shorter (default: a tenth of the run, and 10 seconds).");
            no_steady_state: bool = switch(&["--no-steady-state"], &REPEATS, "Disable detection of the full-concurrency window.");
        ]
    }
}

impl RepeatArgs {
    /// The rule of the steady-state window, if it is detected.
    pub(crate) fn window(&self) -> Option<WindowRule> {
        let rule = WindowRule { threshold: self.steady_state_threshold, least: self.steady_state_min_window };
        (!self.no_steady_state).then_some(rule)
    }

    pub(super) fn check(&self, args: &ServeArgs) -> Result<(), Refusal> {
        let ServeArgs { load, own, ranks, points, .. } = args;
        if let Some(flag) = args.values.given_of(WINDOW).next() {
            if self.no_steady_state {
                return Err(Refusal::Together { flag, other: "--no-steady-state" });
            }
            if load.max_concurrency.is_none() && points.flag != Some("--sweep-max-concurrency") {
                return Err(Refusal::Alone { flag, other: "--max-concurrency" });
            }
            // A schedule does not fill a concurrency limit.
            if load.request_rate.is_finite() || load.ramp_up_strategy.is_some() {
                return Err(Refusal::Together { flag, other: "--request-rate" });
            }
        }
        if self.runs < 2 {
            return if self.vary_seed {
                Err(Refusal::Alone { flag: "--vary-seed", other: "--num-runs" })
            } else {
                Ok(())
            };
        }
        match (&own.resume, ranks.rank.or(ranks.ranks)) {
            (Some(_), _) => Err(Refusal::Together { flag: "--num-runs", other: "--resume" }),
            (_, Some(_)) => Err(Refusal::Together { flag: "--num-runs", other: "--rank or --ranks" }),
            _ => Ok(()),
        }
    }
}
