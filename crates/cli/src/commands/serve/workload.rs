//! The workload of `tacho serve`.

use std::path::PathBuf;

use tacho_run::WorkloadPlan;

use super::{dataset, sessions};
use crate::args::serve::ServeArgs;

/// Maps the arguments to a workload.
pub(super) fn workload(args: &ServeArgs) -> anyhow::Result<WorkloadPlan> {
    if let Some(plan) = sessions::plan(args)? {
        return Ok(WorkloadPlan::Sessions(Box::new(plan)));
    }
    let given = &args.dataset;
    if let Some(path) = &args.own.workload {
        return Ok(WorkloadPlan::File { path: PathBuf::from(path), time_scale: given.flags.time_scale() });
    }
    let groups = || given.flags.gsp_num_groups.saturating_mul(given.flags.gsp_prompts_per_group);
    let num_prompts = if given.kind.name == "generated-shared-prefix" { groups() } else { args.load.num_prompts };
    Ok(WorkloadPlan::Sample {
        spec: Box::new(dataset::source(args).spec(given.kind.name)?),
        num_prompts,
        align: given.kind.aligns_with_server,
        self_timed: args.self_timed(),
    })
}
