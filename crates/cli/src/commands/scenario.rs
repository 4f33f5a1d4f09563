//! Shared code of the scenario commands: server, engine, and outputs.

pub(crate) mod long_document;
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
use tacho_engine::{EngineSpec, Policy};
use tacho_loadgen::StopSignal;
use tacho_record::RunRecord;
use tacho_report::Progress;
use tacho_run::offline::{Generated, PythonEngine, Sampling, Slot};
use tacho_run::scenarios::batch;
use tacho_run::serve::{Contact, Prepared, prepare, run as run_serve};
use tacho_run::{ServePlan, WorkloadPlan};
use tacho_sim::Server;
use tacho_workload::WorkloadSpec;

use super::offline;
use super::offline::simulated::limit;
use super::screen::{Lines, Screen};
use super::serve::{plan, simulator};
use crate::args::live::LiveArgs;
use crate::args::scenario::{BatchArgs, Way};
use crate::args::serve::ServeArgs;
use crate::exit;
use crate::interrupt::Interrupt;

/// A server, running or simulated, and the plan of the run.
pub(crate) struct Online<'s> {
    pub(crate) plan: ServePlan,
    screen: &'s Screen,
    // Kept alive until the last response.
    _simulator: Option<Server>,
}

impl<'s> Online<'s> {
    /// Starts the simulator if requested and builds the plan.
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

    /// Replaces the workload.
    pub(crate) fn replace(&mut self, spec: WorkloadSpec, num_prompts: usize) -> anyhow::Result<()> {
        let (spec, num_prompts) = (Box::new(spec), i64::try_from(num_prompts)?);
        self.plan.workload = WorkloadPlan::Sample { spec, num_prompts, align: false, self_timed: false };
        Ok(())
    }

    /// Generates the requests.
    pub(crate) fn prepare(&self, dry_run: bool) -> anyhow::Result<Prepared> {
        let contact = if dry_run { Contact::Minimal } else { Contact::Server };
        Ok(prepare(&self.plan, contact, self.screen)?)
    }

    /// Sends the requests. A run without a successful request is an error, not a result.
    pub(crate) fn run(&self, prepared: Prepared, stop: &StopSignal) -> anyhow::Result<RunRecord> {
        let record = run_serve(&self.plan, prepared, stop, self.screen)?;
        let samples = &record.measured.samples;
        match samples.iter().find(|sample| !sample.success()) {
            Some(first) if record.summary.completed == 0 && !record.setup.interrupted => {
                bail!("all {} requests failed; the first one: {}", samples.len(), first.error)
            }
            _ => Ok(record),
        }
    }

    /// Like `run`; calls `tested` when the warm-up requests are complete.
    pub(crate) fn run_tested(
        &self,
        prepared: Prepared,
        stop: &StopSignal,
        tested: &(dyn Fn() + Sync),
    ) -> anyhow::Result<RunRecord> {
        Ok(run_serve(&self.plan, prepared, stop, &Tested { sink: self.screen, tested })?)
    }
}

/// Flags of `tacho serve` that these commands fix: greedy decoding, and `--sim` if the server is the simulator.
pub(crate) fn fixed(way: Way) -> Vec<(&'static str, &'static str)> {
    let mut fixed = vec![("--backend", "openai"), ("--temperature", "0.0")];
    if way == Way::Simulator {
        fixed.push(("--sim", ""));
    }
    fixed
}

/// The screen of a run against a server.
pub(crate) fn watched(args: &ServeArgs, dry_run: bool) -> anyhow::Result<Screen> {
    shown(&args.live.unless(dry_run), args.own.quiet || args.report.disable_tqdm)
}

/// Shows progress bars and warnings only, without the notices of `tacho serve`.
fn shown(live: &LiveArgs, hidden: bool) -> anyhow::Result<Screen> {
    let progress = if hidden { Progress::Hidden } else { Progress::Shown };
    Ok(Screen::open(live, false, progress)?.with(Lines::Unwanted))
}

/// Notifies when the warm-up requests are complete.
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

/// Settings of a scenario command, online or offline.
pub(crate) struct Scenario<'a> {
    pub(crate) batch: &'a BatchArgs,
    /// Lines about the measured requests, printed before the run as in vLLM's script.
    pub(crate) headline: &'a dyn Fn(&[Request]) -> Vec<String>,
}

impl Scenario<'_> {
    pub(crate) fn is_dry_run(&self) -> bool {
        self.batch.dry_run
    }

    /// Runs the batches on the engine in its worker, the measured batch last. Returns its requests and the outcome of
    /// each batch, or `None` for a dry run.
    pub(crate) fn on_engine(
        &self,
        specs: &[&WorkloadSpec],
        sampling: Sampling,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<(Vec<Request>, Vec<Generated>)>> {
        let sink = shown(&LiveArgs::default(), self.batch.worker.quiet)?;
        let source = offline::source(&self.batch.engine, false)?;
        let mut sampler = source.open(&sink)?;
        let mut batches: Vec<_> =
            specs.iter().map(|spec| Ok((Slot::Warmup, sampler.sample(spec)?))).collect::<anyhow::Result<_>>()?;
        let Some((slot, requests)) = batches.last_mut() else { return Ok(None) };
        *slot = Slot::Measured;
        let requests = requests.clone();
        print(&(self.headline)(&requests))?;
        self.save_workload(&requests)?;
        if self.is_dry_run() {
            return Ok(None);
        }
        interrupt.measuring();
        let spec = offline::python("vllm", &self.batch.engine, &self.batch.worker, Dict::new(), &interrupt.stop)?;
        let done = batch::run(batches, sampling, !self.batch.worker.quiet, &mut PythonEngine::new(spec))?;
        Ok(Some((requests, done)))
    }

    /// Opens a server, simulated with this policy or running, and prepares, prints, and saves its requests.
    pub(crate) fn on_server<'s>(
        &self,
        serve: &ServeArgs,
        (spec, count): (WorkloadSpec, usize),
        policy: Option<Policy>,
        adjust: &dyn Fn(&mut ServePlan),
        screen: &'s Screen,
    ) -> anyhow::Result<(Online<'s>, Prepared)> {
        let limit = |spec: &mut EngineSpec| {
            spec.policy = policy.unwrap_or(spec.policy);
            limit(&self.batch.engine, spec)
        };
        let mut online = Online::open(serve, spec, count, false, &limit, screen)?;
        adjust(&mut online.plan);
        let prepared = online.prepare(self.is_dry_run())?;
        screen.print(&(self.headline)(&prepared.requests.all()?))?;
        self.save_workload(&prepared.requests.all()?)?;
        Ok((online, prepared))
    }

    /// Writes the requests as JSON lines, if requested.
    fn save_workload(&self, requests: &[Request]) -> anyhow::Result<()> {
        if let Some(path) = &self.batch.save_workload {
            tacho_run::serve::save_requests(requests, Path::new(path))?;
            exit::saved(path);
        }
        Ok(())
    }

    /// Writes the metrics, if requested.
    pub(crate) fn save_json(&self, result: Dict) -> anyhow::Result<()> {
        if let Some(path) = &self.batch.output_json {
            write_json(path.as_ref(), result)?;
            exit::saved(path);
        }
        Ok(())
    }
}

/// Writes a result; the caller reports the path.
fn write_json(path: &Path, result: Dict) -> anyhow::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| *directory != Path::new("")) {
        std::fs::create_dir_all(directory)?;
    }
    Ok(std::fs::write(path, dumps_indented(&Value::Dict(result), 4))?)
}

pub(crate) fn print(lines: &[String]) -> anyhow::Result<()> {
    let mut out = tacho_report::out();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}
