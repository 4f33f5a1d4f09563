//! `tacho startup`: how long an engine takes to start.

use tacho_core::json::Dict;
use tacho_metrics::offline::Phase;
use tacho_report::{Progress, names, offline as report};
use tacho_run::offline::{Measured, Notebook, OfflineEngine, PythonEngine, PythonSpec};
use tacho_run::startup::{EngineMaker, StartupPlan, run as run_startup};

use super::offline::{self, SimulatedEngine};
use super::serve::log::asked;
use crate::args::offline::namespace;
use crate::args::offline::startup::StartupArgs;
use crate::exit::{Exit, saved};
use crate::interrupt::Interrupt;

/// Runs the benchmark that the arguments ask for.
pub(crate) fn run(args: &StartupArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let sink = offline::sink(&args.live, &args.worker, Progress::Shown)?;
    offline::notices(&args.engine, args.sim, &sink);
    let output = offline::output(args.output_json.as_deref())?;
    let plan = StartupPlan {
        model_id: args.engine.model.clone(),
        engine: offline::note(if args.sim { "sim" } else { "vllm" }, args.sim, &args.worker)?,
        cold: u64::try_from(args.num_iters_cold)?,
        warmups: u64::try_from(args.num_iters_warmup)?,
        warm: u64::try_from(args.num_iters_warm)?,
    };
    let log = args.log.as_deref().map(asked);
    let about = offline::about("startup", &plan.model_id, &plan.engine, plan.cold + plan.warm);
    let mut notebook = Notebook::open(log.as_ref(), about, &sink)?;
    interrupt.measuring();
    let Measured { record, ended } = if args.sim {
        // Made once here, so that wrong limits are told before anything is started.
        SimulatedEngine::new(&args.engine, &args.worker, true, Phase::Cold)?;
        run_startup(&plan, &SimulatedMaker { args }, &mut notebook, &interrupt.stop, &sink)?
    } else {
        let spec = offline::python("vllm", &args.engine, &args.worker, Dict::new(), &interrupt.stop)?;
        run_startup(&plan, &PythonMaker { spec }, &mut notebook, &interrupt.stop, &sink)?
    };
    sink.close();
    if let Some(path) = output.as_deref() {
        report::save(path, &report::startup_json(&record), 4)?;
        if offline::wants_records() {
            let namespace = namespace(&args.values, "startup", offline::model_dict(&record.arguments));
            for (ending, records) in report::startup_records(&record, &namespace, path) {
                report::save_records(&names::side_path(path, &ending), records)?;
            }
        }
    }
    let text = report::startup_text(&record);
    notebook.finish(offline::closing(&text, report::startup_json(&record)));
    offline::print(&text)?;
    output.iter().for_each(saved);
    offline::conclude(ended)
}

/// Starts Python processes.
struct PythonMaker {
    spec: PythonSpec,
}

impl EngineMaker for PythonMaker {
    fn make(&self, _phase: Phase, environment: Vec<(String, String)>) -> Box<dyn OfflineEngine> {
        Box::new(PythonEngine::new(PythonSpec { environment, ..self.spec.clone() }))
    }
}

/// Starts simulated engines.
struct SimulatedMaker<'a> {
    args: &'a StartupArgs,
}

impl EngineMaker for SimulatedMaker<'_> {
    fn make(&self, phase: Phase, _environment: Vec<(String, String)>) -> Box<dyn OfflineEngine> {
        let engine = SimulatedEngine::new(&self.args.engine, &self.args.worker, true, phase);
        Box::new(engine.expect("the same settings made an engine before"))
    }
}
