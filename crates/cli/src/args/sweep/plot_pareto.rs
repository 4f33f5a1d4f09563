//! What was typed after `tacho sweep plot_pareto`: vLLM's flags, and formats of our own.

use std::path::PathBuf;

use tacho_args::flag::{Flag, Group, HELP, Kind, Preset, Table, group, own, vllm};
use tacho_args::grammar::Values;
use tacho_report::plots::pareto::ParetoSpec;

use super::plot::{only_directory, split};
use crate::args::error::ArgError;

use Kind::{Rest, Str, Switch};
use Preset::{Off, Unset};

static OPTIONS: Group = group("plot options", "options", "What is drawn.");
static FORMATS: Group = group("tacho options", "tacho options", "What vLLM's command does not have.");

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho sweep plot_pareto",
    about: "Draw speed per user against speed per GPU, with the settings that no other beats in both.",
    examples: &[("tacho sweep plot_pareto results/exp", "in results/exp/pareto/PARETO.png")],
    groups: &[&OPTIONS, &FORMATS],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    vllm(&["EXPERIMENT_DIR"], Rest(1), "EXPERIMENT_DIR", Unset, &OPTIONS, "The directory of the sweep; every summary.json below it counts."),
    vllm(&["--user-count-var"], Str, "KEY", Preset::Str("max_concurrency"), &OPTIONS,
        "Key with the number of users. max_concurrent_requests where it is missing."),
    vllm(&["--gpu-count-var"], Str, "KEY", Unset, &OPTIONS,
        "Key with the number of GPUs. Without it num_gpus, gpu_count or the product of the parallel sizes."),
    vllm(&["--label-by"], Str, "KEYS", Preset::Str("max_concurrency,gpu_count"), &OPTIONS,
        "Keys to write at the points of the frontier, with commas between. tacho writes what was swept, unless it is given."),
    vllm(&["--dry-run"], Switch, "", Off, &OPTIONS, "Say where the figure would be, and draw nothing."),
    own(&["--svg"], Switch, "", Off, &FORMATS, "Also write the figure as SVG."),
    own(&["--html"], Switch, "", Off, &FORMATS, "Write a page with the figure, to point at and zoom."),
    own(&["--strict-parity"], Switch, "", Off, &FORMATS,
        "Take every run as a point and keep equal points, as vLLM does. Otherwise the runs of a setting are averaged."),
];

/// All flags of `tacho sweep plot_pareto`.
#[derive(Debug, Clone)]
pub(crate) struct ParetoArgs {
    pub(crate) directory: PathBuf,
    pub(crate) spec: ParetoSpec,
    pub(crate) dry_run: bool,
    pub(crate) svg: bool,
    pub(crate) html: bool,
}

impl ParetoArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let strict = v.switch("--strict-parity");
        Ok(ParetoArgs {
            directory: only_directory(v, &TABLE)?,
            spec: ParetoSpec {
                user_count: v.text("--user-count-var"),
                gpu_count: v.maybe_text("--gpu-count-var"),
                label_by: (strict || v.is_given("--label-by")).then(|| split(&v.text("--label-by"))),
                strict,
            },
            dry_run: v.switch("--dry-run"),
            svg: v.switch("--svg"),
            html: v.switch("--html"),
        })
    }
}
