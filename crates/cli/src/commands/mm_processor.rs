//! `tacho mm-processor`: the multimodal input processor, stage by stage.

use tacho_core::json::Dict;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::Phase;
use tacho_report::{Progress, offline as report};
use tacho_run::mm_processor::{MmProcessorPlan, draw, run as run_mm};
use tacho_run::offline::{OfflineEngine, PythonEngine};

use super::offline::{self, SimulatedEngine, multimodal};
use super::sim::hub;
use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Runs the benchmark that the arguments ask for.
pub(crate) fn run(args: &MmProcessorArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let progress = if args.disable_tqdm { Progress::Hidden } else { Progress::Shown };
    let sink = offline::sink(&args.live, &args.worker, progress)?;
    offline::notices(&args.engine, args.sim, &sink);
    let output = offline::output(args.output_json.as_deref())?;
    sink.event(RunEvent::status("Starting multimodal processor benchmark..."));
    let plan = plan(args)?;
    let mut engine = engine(args, &interrupt.stop)?;
    engine.parse().map_err(tacho_run::Error::from)?;
    let drawn = draw(&plan, &sink)?;
    // From here on the engine is ended in an orderly way.
    interrupt.measuring();
    let record = run_mm(&plan, drawn, &mut *engine, &sink)?;
    sink.close();
    engine.close().map_err(tacho_run::Error::from)?;
    if let Some(path) = output.as_deref() {
        report::save(path, &report::mm_processor_json(&record), 2)?;
    }
    offline::print(&report::mm_processor_text(&record))?;
    if let Some(path) = &args.output_json {
        offline::print(&format!("\nResults saved to {path}"))?;
    }
    Ok(if record.completed == 0 { Exit::Failed } else { Exit::Done })
}

fn engine(args: &MmProcessorArgs, stop: &StopSignal) -> anyhow::Result<Box<dyn OfflineEngine>> {
    if args.sim {
        return Ok(Box::new(SimulatedEngine::new(&args.engine, &args.worker, true, Phase::Warm)?));
    }
    let mut spec = offline::python("vllm-chat", &args.engine, &args.worker, Dict::new(), stop)?;
    spec.mm_stats = true;
    Ok(Box::new(PythonEngine::new(spec)))
}

fn plan(args: &MmProcessorArgs) -> anyhow::Result<MmProcessorPlan> {
    Ok(MmProcessorPlan {
        model_id: args.engine.model.clone(),
        engine: offline::note(if args.sim { "sim" } else { "vllm-chat" }, args.sim, &args.worker)?,
        tokenizer: offline::tokenizer(&args.engine, args.sim),
        hub: hub(),
        workload: multimodal(args)?,
        seed: u32::try_from(args.engine.seed)?,
        num_prompts: args.num_prompts,
        input_len: args.random_input_len,
        output_len: args.random_output_len,
        ignore_eos: args.ignore_eos,
        percentiles: args.percentiles()?,
        progress: !args.disable_tqdm && !args.worker.quiet,
        save_workload: args.save_workload.as_ref().map(Into::into),
    })
}
