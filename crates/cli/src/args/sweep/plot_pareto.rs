//! Flags of `tacho sweep plot_pareto`: vLLM's, and additional formats.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_report::plots::pareto::ParetoSpec;

use super::plot::{Commas, only_directory};
use crate::args::error::ArgError;

static OPTIONS: Group = group("plot options", "options", "Axes and labels.");
static FORMATS: Group = group("tacho options", "tacho options", "Additions to vLLM's command.");

pub(crate) static TABLE: Table = Table {
    command: "tacho sweep plot_pareto",
    about: "Plot the Pareto frontier of throughput per user against throughput per GPU.",
    examples: &[("tacho sweep plot_pareto results/exp", "in results/exp/pareto/PARETO.png")],
    groups: &[&OPTIONS, &FORMATS],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    ParetoFlags {
        FLAGS [
            directories: Vec<PathBuf> = vllm(&["EXPERIMENT_DIR"], Rest(1), "EXPERIMENT_DIR", Unset, &OPTIONS, "Directory of the sweep; all summary.json files below it are read.");
            user_count_var: FlagValue<String> = vllm(&["--user-count-var"], Str, "KEY", DefaultValue::Str("max_concurrency"), &OPTIONS,
                "Key with the number of users (max_concurrent_requests if it is missing): tok/s/user is the output throughput divided by it. If unset, 1000 / mean TPOT.");
            gpu_count_var: Option<String> = vllm(&["--gpu-count-var"], Str, "KEY", Unset, &OPTIONS,
                "Key with the number of GPUs (default: num_gpus, gpu_count, or the product of the parallel sizes).");
            label_by: FlagValue<Commas> = vllm(&["--label-by"], Str, "KEYS", DefaultValue::Str("max_concurrency,gpu_count"), &OPTIONS,
                "Keys to write at the points of the frontier, separated by commas. If unset, what was swept.");
            dry_run: bool = vllm(&["--dry-run"], Switch, "", Off, &OPTIONS, "Print the path of the figure without drawing it.");
            svg: bool = tacho(&["--svg"], Switch, "", Off, &FORMATS, "Also write the figure as SVG.");
            html: bool = tacho(&["--html"], Switch, "", Off, &FORMATS, "Write an interactive page with the figure.");
            strict_parity: bool = tacho(&["--strict-parity"], Switch, "", Off, &FORMATS,
                "As vLLM: every run is a point, equal points stay, and users are counted by --user-count-var. Otherwise the runs of a setting are averaged.");
        ]
    }
}

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
        let flags = ParetoFlags::from(v);
        Ok(ParetoArgs {
            directory: only_directory(flags.directories, &TABLE)?,
            spec: ParetoSpec {
                user_count: flags.user_count_var.is_set.then_some(flags.user_count_var.value),
                gpu_count: flags.gpu_count_var,
                label_by: (flags.strict_parity || flags.label_by.is_set).then_some(flags.label_by.value.0),
                strict: flags.strict_parity,
            },
            dry_run: flags.dry_run,
            svg: flags.svg,
            html: flags.html,
        })
    }
}
