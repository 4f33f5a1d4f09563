//! `tacho startup`: start-up time of an engine.

use tacho_core::json::Dict;
use tacho_metrics::offline::{OfflineKind, Phase};
use tacho_report::Progress;
use tacho_run::offline::{Notebook, OfflineEngine, PythonEngine, PythonSpec};
use tacho_run::startup::{EngineMaker, StartupPlan, run as run_startup};

use super::SimulatedEngine;
use crate::args::offline::namespace;
use crate::args::offline::startup::StartupArgs;
use crate::commands::serve::log::required;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &StartupArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let sink = super::sink(&args.common.live, &args.common.worker, Progress::Shown)?;
    super::notices(&args.common.engine, args.sim, &sink);
    let output = super::output(args.output_json.as_deref())?;
    let plan = StartupPlan {
        model_id: args.common.engine.model.clone(),
        engine: super::note(if args.sim { "sim" } else { "vllm" }, args.sim, &args.common.worker)?,
        cold: u64::try_from(args.num_iters_cold)?,
        warmups: u64::try_from(args.num_iters_warmup)?,
        warm: u64::try_from(args.num_iters_warm)?,
    };
    let log = args.log.as_deref().map(|directory| required(directory, &args.common.values));
    let about = super::about("startup", &plan.model_id, &plan.engine, plan.cold + plan.warm);
    let mut notebook = Notebook::open(log.as_ref(), about, &sink)?;
    interrupt.measuring();
    let measured = if args.sim {
        // Created once here to report invalid limits before anything starts.
        SimulatedEngine::new(&args.common.engine, &args.common.worker, true, Phase::Cold)?;
        run_startup(&plan, &SimulatedMaker { args }, &mut notebook, &interrupt.stop, &sink)?
    } else {
        let spec = super::python("vllm", &args.common.engine, &args.common.worker, Dict::new(), &interrupt.stop)?;
        run_startup(&plan, &PythonMaker { spec }, &mut notebook, &interrupt.stop, &sink)?
    };
    sink.close();
    super::save(&measured.record, output.as_deref(), || {
        let OfflineKind::Startup(startup) = &measured.record.measured else { return Dict::new() };
        namespace(&args.common.values, "startup", super::model_dict(&startup.arguments))
    })?;
    notebook.finish(super::closing(&measured.record));
    super::conclude(measured, &[output.as_deref()])
}

struct PythonMaker {
    spec: PythonSpec,
}

impl EngineMaker for PythonMaker {
    fn make(&self, _phase: Phase, environment: Vec<(String, String)>) -> Box<dyn OfflineEngine> {
        Box::new(PythonEngine::new(PythonSpec { environment, ..self.spec.clone() }))
    }
}

struct SimulatedMaker<'a> {
    args: &'a StartupArgs,
}

impl EngineMaker for SimulatedMaker<'_> {
    fn make(&self, phase: Phase, _environment: Vec<(String, String)>) -> Box<dyn OfflineEngine> {
        let engine = SimulatedEngine::new(&self.args.common.engine, &self.args.common.worker, true, phase);
        Box::new(engine.expect("the same settings made an engine before"))
    }
}
