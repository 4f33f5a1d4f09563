//! `tacho latency`: latency of one repeated batch.

use std::path::Path;

use tacho_core::json::Dict;
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::Phase;
use tacho_report::Progress;
use tacho_run::latency::{LatencyOutcome, LatencyPlan, run as run_latency};
use tacho_run::offline::{LoggedEngine, OfflineEngine, PythonEngine, Sampling};

use super::SimulatedEngine;
use crate::args::offline::latency::LatencyArgs;
use crate::args::offline::namespace;
use crate::commands::serve::log::required;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &LatencyArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let sink = super::sink(&args.common.live, &args.common.worker, Progress::Shown)?;
    super::notices(&args.common.engine, args.sim, &sink);
    let output = super::output(args.output_json.as_deref())?;
    // From here on, an interrupt shuts the engine down in order and keeps the measurements.
    interrupt.measuring();
    let plan = plan(args)?;
    let log = args.log.as_deref().map(|directory| required(directory, &args.common.values));
    let about = super::about("latency", &plan.model_id, &plan.engine, plan.iterations);
    let engine = engine(args, &interrupt.stop)?;
    let mut engine = LoggedEngine::open(engine, log.as_ref(), about, plan.warmups, &sink)?;
    let parsed = engine.parse().map_err(tacho_run::Error::from)?;
    let outcome = run_latency(&plan, &mut engine, &interrupt.stop, &sink)?;
    sink.close();
    let measured = match outcome {
        LatencyOutcome::Measured(measured) => *measured,
        LatencyOutcome::Profiled(directory) => {
            engine.close().map_err(tacho_run::Error::from)?;
            let place = args.nsys.as_ref().map(|report| format!("{report}.nsys-rep")).or(directory);
            let place = place.unwrap_or_else(|| "where --profiler-config says".to_owned());
            super::print(&format!("Profile: {place}"))?;
            return Ok(Exit::Done);
        }
    };
    if measured.ended.is_none() {
        engine.close().map_err(tacho_run::Error::from)?;
    }
    super::save(&measured.record, output.as_deref(), || {
        let mut namespace = namespace(&args.common.values, "latency", super::model_dict(&parsed));
        namespace.set("enable_prefix_caching", args.common.engine.enable_prefix_caching.unwrap_or(false));
        namespace
    })?;
    engine.finish(super::closing(&measured.record));
    super::conclude(measured, &[output.as_deref(), args.log.as_deref().map(Path::new)])
}

fn engine(args: &LatencyArgs, stop: &StopSignal) -> anyhow::Result<Box<dyn OfflineEngine>> {
    if args.sim {
        return Ok(Box::new(SimulatedEngine::new(&args.common.engine, &args.common.worker, false, Phase::Warm)?));
    }
    let mut defaults = Dict::new();
    // Repeated prompts would hit the prefix cache.
    defaults.set("enable_prefix_caching", false);
    let mut spec = super::python("vllm", &args.common.engine, &args.common.worker, defaults, stop)?;
    if let Some(report) = &args.nsys {
        super::under_nsys(&mut spec, report, &args.common.engine);
    }
    Ok(Box::new(PythonEngine::new(spec)))
}

fn plan(args: &LatencyArgs) -> anyhow::Result<LatencyPlan> {
    Ok(LatencyPlan {
        model_id: args.common.engine.model.clone(),
        engine: super::note(if args.sim { "sim" } else { "vllm" }, args.sim, &args.common.worker)?,
        input_len: u64::try_from(args.input_len)?,
        output_len: u64::try_from(args.output_len)?,
        batch_size: u64::try_from(args.batch_size)?,
        sampling: Sampling {
            n: u64::try_from(args.n)?,
            temperature: 1.0,
            ignore_eos: true,
            detokenize: !args.disable_detokenize,
            beam: args.use_beam_search,
        },
        warmups: u64::try_from(args.num_iters_warmup)?,
        iterations: u64::try_from(args.num_iters)?,
        profile: args.profile,
        seed: u32::try_from(args.common.engine.seed)?,
    })
}
