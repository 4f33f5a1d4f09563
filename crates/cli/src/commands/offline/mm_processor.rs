//! `tacho mm-processor`: latency of the multimodal input processor, by stage.

use tacho_core::{EventSink, RunEvent};
use tacho_report::Progress;
use tacho_run::offline::{MmProcessorPlan, PlanKind, Sampling};

use super::{Bench, Session, multimodal};
use crate::args::offline::Backend;
use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::exit::Exit;

pub(crate) fn run(args: &MmProcessorArgs) -> anyhow::Result<Exit> {
    let progress = if args.disable_tqdm { Progress::Hidden } else { Progress::Shown };
    let session = Session::open(&args.common, args.common.backend(Backend::VllmChat), progress)?;
    session.screen.event(RunEvent::status("Starting multimodal processor benchmark..."));
    let mut bench = Bench::new(
        "mm-processor",
        &args.common,
        PlanKind::MmProcessor(MmProcessorPlan {
            workload: multimodal(args)?,
            num_prompts: args.num_prompts,
            input_len: args.common.datasets.random_input_len.value,
            output_len: args.common.datasets.random_output_len.value,
            percentiles: args.percentiles()?,
        }),
    );
    bench.sampling = Sampling { temperature: 0.0, ignore_eos: args.ignore_eos, ..bench.sampling };
    bench.progress &= !args.disable_tqdm;
    session.run(bench)
}
