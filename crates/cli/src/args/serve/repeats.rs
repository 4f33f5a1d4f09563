//! Flags about runs that are repeated and about the time in which a run was full; the names are those of vLLM's Rust client.

use tacho_metrics::WindowRule;

use super::ServeArgs;
use crate::args::error::Refusal;
use crate::args::flag::{Flag, Group, Kind, Preset, own};
use crate::args::grammar::Values;

use Kind::{Float, Int, Seconds, Switch};
use Preset::{Off, Unset};

/// The section of the help.
pub(super) static REPEATS: Group = Group {
    title: "repetition options",
    vllm_title: "tacho options",
    about: "Several runs in one command, and the time in which a run was full.",
};

/// The flags of the window.
const WINDOW: [&str; 2] = ["--steady-state-threshold", "--steady-state-min-window"];

/// The rows of the table.
#[rustfmt::skip]
pub(super) const FLAGS: [Flag; 5] = [
    own(&["--num-runs"], Int, "N", Preset::Int(1), &REPEATS,
        "Run the benchmark so often and sum the runs up. Each has a result of its own (NAME-run1.json), the sum is \
         NAME.runs.json; --reset-caches empties the caches before each.").between(1.0, 1000.0),
    own(&["--vary-seed"], Switch, "", Off, &REPEATS,
        "Give each of several runs a --seed of its own: the first has the one given, each further one more. Requests that a \
         prefix cache knows from the run before would be faster."),
    own(&["--steady-state-threshold"], Float, "SHARE", Preset::Float(0.95), &REPEATS,
        "Report the time in which so large a share of --max-concurrency was under way, and what was measured in it. Above 0, \
         at most 1; without --request-rate only. The numbers of the whole run stay as they are."),
    own(&["--steady-state-min-window"], Seconds, "SEC", Unset, &REPEATS,
        "Warn where that time is shorter. Without it than a tenth of the run, and than 10 seconds."),
    own(&["--no-steady-state"], Switch, "", Off, &REPEATS, "Do not look for that time."),
];

/// Flags about repetition.
#[derive(Debug, Clone)]
pub(crate) struct RepeatArgs {
    pub(crate) runs: usize,
    pub(crate) vary_seed: bool,
    /// When a run counts as full; nothing where nobody wants to know.
    pub(crate) window: Option<WindowRule>,
    /// Whether that was asked for by a flag.
    pub(crate) asked: Option<&'static str>,
}

impl RepeatArgs {
    pub(super) fn read(values: &Values) -> Self {
        let rule = WindowRule {
            threshold: values.float("--steady-state-threshold"),
            least: values.maybe_float("--steady-state-min-window"),
        };
        RepeatArgs {
            runs: usize::try_from(values.int("--num-runs")).unwrap_or(1).max(1),
            vary_seed: values.switch("--vary-seed"),
            window: (!values.switch("--no-steady-state")).then_some(rule),
            asked: WINDOW.into_iter().find(|flag| values.is_given(flag)),
        }
    }

    /// Refuses what cannot be done.
    pub(super) fn check(&self, args: &ServeArgs) -> Result<(), Refusal> {
        let ServeArgs { load, own, ranks, points, .. } = args;
        let rule = self.window.unwrap_or_default();
        if !(rule.threshold > 0.0 && rule.threshold <= 1.0) {
            let (flag, value) = ("--steady-state-threshold", rule.threshold.to_string());
            return Err(Refusal::OutOfRange { flag, value, allowed: "a share above 0, at most 1" });
        }
        if let Some(flag) = self.asked {
            if self.window.is_none() {
                return Err(Refusal::Together { flag, other: "--no-steady-state" });
            }
            if load.max_concurrency.is_none() && points.flag != Some("--sweep-max-concurrency") {
                return Err(Refusal::Alone { flag, other: "--max-concurrency" });
            }
            // A schedule fills no limit.
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
