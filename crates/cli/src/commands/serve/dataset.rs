//! The dataset of `tacho serve`.

use tacho_workload::LengthPlan;

use crate::args::serve::ServeArgs;
use crate::commands::dataset::{Source, hash_seed};
use crate::commands::sim::hub;

/// Dataset inputs of `tacho serve`.
pub(in crate::commands) fn source(args: &ServeArgs) -> Source<'_> {
    let flags = &args.dataset.flags;
    Source {
        flags,
        path: args.dataset.path.clone().unwrap_or_default(),
        seed: args.load.seed,
        num_prompts: args.load.num_prompts,
        length_plan: LengthPlan::default(),
        request_id_prefix: args.content.request_id_prefix.clone(),
        lengths: [args.dataset.input_len(), args.dataset.output_len(), flags.random_prefix_len.value],
        given: [flags.input_len, flags.output_len, None],
        batch_size: flags.random_batch_size,
        output_len: flags.output_len,
        multimodal_chat: flags.enable_multimodal_chat,
        carrier: args.target.carrier(),
        self_timed: args.self_timed(),
        cache: hub().cache,
        hash_seed: hash_seed(),
    }
}
