//! The workload that `tacho serve` is asked for.

use std::path::PathBuf;

use tacho_run::WorkloadPlan;

use super::sessions;
use crate::args::serve::ServeArgs;
use crate::commands::dataset::{Source, hash_seed};
use crate::commands::sim::hub;

/// The workload that the arguments ask for.
pub(super) fn workload(args: &ServeArgs) -> anyhow::Result<WorkloadPlan> {
    if let Some(plan) = sessions::plan(args)? {
        return Ok(WorkloadPlan::Sessions(Box::new(plan)));
    }
    let dataset = &args.dataset;
    if let Some(path) = &args.own.workload {
        return Ok(WorkloadPlan::File { path: PathBuf::from(path), time_scale: dataset.time_scale });
    }
    let groups = || args.values.int("--gsp-num-groups").saturating_mul(args.values.int("--gsp-prompts-per-group"));
    let num_prompts = if dataset.kind.name == "generated-shared-prefix" { groups() } else { args.load.num_prompts };
    Ok(WorkloadPlan::Sample {
        spec: Box::new(source(args).spec(dataset.kind.name)?),
        num_prompts,
        align: dataset.kind.aligns_with_server,
        self_timed: args.self_timed(),
    })
}

/// What its dataset is made from.
pub(in crate::commands) fn source(args: &ServeArgs) -> Source<'_> {
    Source {
        values: &args.values,
        path: args.dataset.path.clone().unwrap_or_default(),
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        request_id_prefix: args.content.request_id_prefix.clone(),
        lengths: [args.dataset.input_len(), args.dataset.output_len(), args.values.int("--random-prefix-len")],
        batch_size: args.dataset.random_batch_size,
        output_len: args.dataset.output_len,
        multimodal_chat: args.values.switch("--enable-multimodal-chat"),
        carrier: args.target.carrier(),
        self_timed: args.self_timed(),
        cache: hub().cache,
        hash_seed: hash_seed(),
    }
}
