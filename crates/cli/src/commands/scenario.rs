//! What the scenario commands share: a server to ask, an engine to run, and where requests and numbers go.

pub(crate) mod long_document;
mod passes;
pub(crate) mod prefix_caching;
pub(crate) mod prioritization;
pub(crate) mod structured;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::Path;

use anyhow::bail;
use tacho_core::event::{Note, ServeNote};
use tacho_core::json::{Dict, Value, dumps_indented};
use tacho_core::{EventSink, Request, RunEvent};
use tacho_engine::EngineSpec;
use tacho_loadgen::StopSignal;
use tacho_metrics::Statistics;
use tacho_record::RunRecord;
use tacho_report::Progress;
use tacho_report::style::two;
use tacho_run::offline::PythonEngine;
use tacho_run::serve::{Contact, Prepared, prepare, run as run_serve};
use tacho_run::{ServePlan, WorkloadPlan};
use tacho_sim::Server;
use tacho_workload::WorkloadSpec;

use super::offline;
use super::screen::{Lines, Screen};
use super::serve::{plan, simulator};
use crate::args::live::LiveArgs;
use crate::args::offline::{EngineArgs, WorkerArgs};
use crate::args::scenario::Way;
use crate::args::serve::ServeArgs;
use crate::exit;
use crate::interrupt::Interrupt;

/// A server, running or simulated, and the plan of what it is asked.
pub(crate) struct Online<'s> {
    pub(crate) plan: ServePlan,
    screen: &'s Screen,
    // Kept until the last request is answered.
    _simulator: Option<Server>,
}

impl<'s> Online<'s> {
    /// Starts the simulator where it is asked for, and plans the rest.
    pub(crate) fn open(
        args: &ServeArgs,
        spec: WorkloadSpec,
        num_prompts: usize,
        self_timed: bool,
        limit: &dyn Fn(&mut EngineSpec) -> anyhow::Result<()>,
        screen: &'s Screen,
    ) -> anyhow::Result<Self> {
        let simulator = simulator::start_with(args, limit)?;
        let mut plan = plan::of(args, simulator.as_ref())?;
        let (spec, num_prompts) = (Box::new(spec), i64::try_from(num_prompts)?);
        plan.workload = WorkloadPlan::Sample { spec, num_prompts, align: false, self_timed };
        plan.traffic.ignore_eos = args.content.ignore_eos;
        plan.report.keep_texts = true;
        Ok(Online { plan, screen, _simulator: simulator })
    }

    /// Takes another workload in place of the one there is.
    pub(crate) fn replace(&mut self, spec: WorkloadSpec, num_prompts: usize) -> anyhow::Result<()> {
        let (spec, num_prompts) = (Box::new(spec), i64::try_from(num_prompts)?);
        self.plan.workload = WorkloadPlan::Sample { spec, num_prompts, align: false, self_timed: false };
        Ok(())
    }

    /// Makes the requests.
    pub(crate) fn prepare(&self, dry_run: bool) -> anyhow::Result<Prepared> {
        let contact = if dry_run { Contact::Minimal } else { Contact::Server };
        Ok(prepare(&self.plan, contact, self.screen)?)
    }

    /// Sends them.
    pub(crate) fn run(&self, prepared: Prepared, stop: &StopSignal) -> anyhow::Result<RunRecord> {
        Ok(run_serve(&self.plan, prepared, stop, self.screen)?)
    }

    /// The same; `tested` is called once the requests before them have been answered.
    pub(crate) fn run_tested(
        &self,
        prepared: Prepared,
        stop: &StopSignal,
        tested: &(dyn Fn() + Sync),
    ) -> anyhow::Result<RunRecord> {
        Ok(run_serve(&self.plan, prepared, stop, &Tested { sink: self.screen, tested })?)
    }
}

/// Flags of `tacho serve` that these commands set: greedy decoding, and the simulator where it is the server.
pub(crate) fn fixed(way: Way) -> Vec<(&'static str, &'static str)> {
    let mut fixed = vec![("--backend", "openai"), ("--temperature", "0.0")];
    if way == Way::Simulator {
        fixed.push(("--sim", ""));
    }
    fixed
}

/// What shows a server at work.
pub(crate) fn watched(args: &ServeArgs, dry_run: bool) -> anyhow::Result<Screen> {
    shown(&args.live.unless(dry_run), args.own.quiet || args.report.disable_tqdm)
}

/// The same of an engine.
pub(crate) fn bars(quiet: bool) -> anyhow::Result<Screen> {
    shown(&LiveArgs::default(), quiet)
}

/// Bars and warnings: the lines of `tacho serve` are not these commands'.
fn shown(live: &LiveArgs, hidden: bool) -> anyhow::Result<Screen> {
    let progress = if hidden { Progress::Hidden } else { Progress::Shown };
    Ok(Screen::open(live, false, progress)?.with(Lines::Unwanted))
}

/// Refuses to make numbers of nothing: a run in which no request was answered has failed.
pub(crate) fn answered(record: &RunRecord) -> anyhow::Result<()> {
    let samples = &record.measured.samples;
    match samples.iter().find(|sample| !sample.success()) {
        Some(first) if record.summary.completed == 0 && !record.setup.interrupted => {
            bail!("all {} requests failed; the first one: {}", samples.len(), first.error)
        }
        _ => Ok(()),
    }
}

/// A time in milliseconds; nothing was measured where there is none.
pub(crate) fn milliseconds(times: &Statistics, value: f64) -> String {
    if times.count == 0 { "none".to_owned() } else { two(value) }
}

/// Tells when the requests before a run have been answered.
struct Tested<'a> {
    sink: &'a dyn EventSink,
    tested: &'a (dyn Fn() + Sync),
}

impl EventSink for Tested<'_> {
    fn event(&self, event: RunEvent) {
        if matches!(event, RunEvent::Status(Note::Serve(ServeNote::WarmupDone))) {
            (self.tested)();
        }
        self.sink.event(event);
    }
}

/// The engine in its worker.
pub(crate) fn engine(engine: &EngineArgs, worker: &WorkerArgs, interrupt: &Interrupt) -> anyhow::Result<PythonEngine> {
    Ok(PythonEngine::new(offline::python("vllm", engine, worker, Dict::new(), &interrupt.stop)?))
}

/// Writes requests, one a line.
pub(crate) fn save_workload(path: &str, requests: &[Request]) -> anyhow::Result<()> {
    tacho_run::serve::save_requests(requests, Path::new(path))?;
    exit::saved(path);
    Ok(())
}

/// Writes a result.
pub(crate) fn save_json(path: &Path, result: Dict) -> anyhow::Result<()> {
    write_json(path, result)?;
    exit::saved(path);
    Ok(())
}

/// Writes a result; where it went is for the caller to say.
fn write_json(path: &Path, result: Dict) -> anyhow::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| *directory != Path::new("")) {
        std::fs::create_dir_all(directory)?;
    }
    Ok(std::fs::write(path, dumps_indented(&Value::Dict(result), 4))?)
}

/// Prints lines.
pub(crate) fn print(lines: &[String]) -> anyhow::Result<()> {
    let mut out = tacho_report::out();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}
