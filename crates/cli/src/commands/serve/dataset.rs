//! The dataset that `tacho serve` is asked for.

use crate::args::serve::ServeArgs;
use crate::commands::dataset::{Source, hash_seed};
use crate::commands::sim::hub;

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
