//! `tacho latency`: latency of one repeated batch.

use tacho_report::Progress;
use tacho_run::offline::{LatencyPlan, PlanKind, Sampling};

use super::{Bench, Session};
use crate::args::offline::Backend;
use crate::args::offline::latency::LatencyArgs;
use crate::exit::Exit;

pub(crate) fn run(args: &LatencyArgs) -> anyhow::Result<Exit> {
    let session = Session::open(&args.common, args.common.backend(Backend::Vllm), Progress::Shown)?;
    let mut bench = Bench::new(
        "latency",
        &args.common,
        PlanKind::Latency(LatencyPlan {
            input_len: args.input_len,
            output_len: args.output_len,
            batch_size: args.batch_size,
            warmups: args.num_iters_warmup,
            iterations: args.num_iters,
        }),
    );
    bench.sampling = Sampling { beam: args.use_beam_search, ..bench.sampling };
    // Repeated prompts would hit the prefix cache.
    bench.prefix_caching = Some(false);
    session.run(bench)
}
