//! `tacho mm-processor`: latency of the multimodal input processor, by stage.

use tacho_core::json::Dict;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::Phase;
use tacho_report::Progress;
use tacho_run::mm_processor::{MmProcessorPlan, draw, run as run_mm};
use tacho_run::offline::{Measured, OfflineEngine, PythonEngine};

use super::{SimulatedEngine, multimodal};
use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &MmProcessorArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let progress = if args.disable_tqdm { Progress::Hidden } else { Progress::Shown };
    let sink = super::sink(&args.common.live, &args.common.worker, progress)?;
    super::notices(&args.common.engine, args.sim, &sink);
    let output = super::output(args.output_json.as_deref())?;
    sink.event(RunEvent::status("Starting multimodal processor benchmark..."));
    let plan = plan(args)?;
    let mut engine = engine(args, &interrupt.stop)?;
    engine.parse().map_err(tacho_run::Error::from)?;
    let drawn = draw(&plan, &sink)?;
    // From here on, an interrupt shuts the engine down in order.
    interrupt.measuring();
    let record = run_mm(&plan, &drawn, &mut *engine, &sink)?;
    sink.close();
    engine.close().map_err(tacho_run::Error::from)?;
    super::save(&record, output.as_deref(), Dict::new)?;
    let exit = super::conclude(Measured { record, ended: None }, &[])?;
    if let Some(path) = &args.output_json {
        super::print(&format!("\nResults saved to {path}"))?;
    }
    Ok(exit)
}

fn engine(args: &MmProcessorArgs, stop: &StopSignal) -> anyhow::Result<Box<dyn OfflineEngine>> {
    if args.sim {
        return Ok(Box::new(SimulatedEngine::new(&args.common.engine, &args.common.worker, true, Phase::Warm)?));
    }
    let mut spec = super::python("vllm-chat", &args.common.engine, &args.common.worker, Dict::new(), stop)?;
    spec.mm_stats = true;
    Ok(Box::new(PythonEngine::new(spec)))
}

fn plan(args: &MmProcessorArgs) -> anyhow::Result<MmProcessorPlan> {
    Ok(MmProcessorPlan {
        engine: super::note(if args.sim { "sim" } else { "vllm-chat" }, args.sim, &args.common.worker)?,
        source: super::source(&args.common.engine, args.sim)?,
        workload: multimodal(args)?,
        num_prompts: args.num_prompts,
        input_len: args.dataset.random_input_len.value,
        output_len: args.dataset.random_output_len.value,
        ignore_eos: args.ignore_eos,
        percentiles: args.percentiles()?,
        progress: !args.disable_tqdm && !args.common.worker.quiet,
        save_workload: args.source.save_workload.as_ref().map(Into::into),
    })
}
