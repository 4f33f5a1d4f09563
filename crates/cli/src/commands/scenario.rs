//! Shared code of the scenario commands: server, engine, and outputs.

pub(crate) mod long_document;
pub(crate) mod prefix_caching;
pub(crate) mod prioritization;
pub(crate) mod structured;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::Path;

use tacho_core::Request;
use tacho_core::json::{Dict, Value, dumps_indented};
use tacho_engine::{EngineSpec, Policy};
use tacho_loadgen::StopSignal;
use tacho_report::Progress;
use tacho_run::ServePlan;
use tacho_run::offline::{Generated, PythonEngine, Sampling, Slot};
use tacho_run::scenarios::{Online, run_batches};
use tacho_run::serve::{Contact, Prepared};
use tacho_sim::Server;
use tacho_workload::WorkloadSpec;

use super::offline;
use super::offline::simulated::limit;
use super::screen::{Lines, Screen};
use super::serve::{dry_run, plan, simulator};
use crate::args::scenario::{BatchArgs, Way, as_serve};
use crate::args::serve::ServeArgs;
use crate::args::shared::live::LiveArgs;
use crate::exit::{self, Exit};
use crate::interrupt::Interrupt;

/// Starts the simulator if requested, which runs until it is dropped, and plans the runs.
fn open<'s>(
    args: &ServeArgs,
    workload: (WorkloadSpec, usize, bool),
    limit: &dyn Fn(&mut EngineSpec) -> anyhow::Result<()>,
    screen: &'s Screen,
    stop: &'s StopSignal,
) -> anyhow::Result<(Option<Server>, Online<'s>)> {
    let simulator = simulator::start_with(args, limit)?;
    let mut plan = plan::of(args, simulator.as_ref())?;
    plan.traffic.ignore_eos = args.content.ignore_eos;
    plan.report.keep_texts = true;
    let mut online = Online { plan, sink: screen, stop };
    online.set_workload(workload.0, workload.1, workload.2);
    Ok((simulator, online))
}

fn contact(dry_run: bool) -> Contact {
    if dry_run { Contact::Minimal } else { Contact::Server }
}

fn watched(args: &ServeArgs, dry_run: bool) -> anyhow::Result<Screen> {
    shown(&args.live.unless(dry_run), args.own.quiet || args.report.disable_tqdm)
}

/// Shows progress bars and warnings only, without the notices of `tacho serve`.
fn shown(live: &LiveArgs, hidden: bool) -> anyhow::Result<Screen> {
    let progress = if hidden { Progress::Hidden } else { Progress::Shown };
    Ok(Screen::open(live, false, progress)?.with(Lines::Unwanted))
}

/// Settings of a scenario command, online or offline.
pub(crate) struct Scenario<'a> {
    pub(crate) batch: &'a BatchArgs,
    pub(crate) interrupt: &'a Interrupt,
    /// Lines about the measured requests, printed before the run as in vLLM's script.
    pub(crate) headline: &'a dyn Fn(&[Request]) -> Vec<String>,
}

impl Scenario<'_> {
    /// Runs the batches on the engine in its worker, the measured batch last. Returns its requests and the outcome of
    /// each batch, or `None` for a dry run.
    pub(crate) fn on_engine(
        &self,
        specs: &[&WorkloadSpec],
        sampling: Sampling,
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
        if self.batch.dry_run {
            return Ok(None);
        }
        self.interrupt.measuring();
        let stop = &self.interrupt.stop;
        let spec = offline::python("vllm", &self.batch.engine, &self.batch.worker, Dict::new(), stop)?;
        let done = run_batches(batches, sampling, !self.batch.worker.quiet, &mut PythonEngine::new(spec))?;
        Ok(Some((requests, done)))
    }

    /// Opens a server, simulated with this policy or running; prepares, prints, and saves its requests; measures them
    /// and writes the metrics. `fixed` are flags of `tacho serve` next to those that all scenarios fix.
    pub(crate) fn on_server(
        &self,
        (way, fixed): (Way, &[(&str, &str)]),
        (spec, count): (WorkloadSpec, usize),
        policy: Option<Policy>,
        adjust: &dyn Fn(&mut ServePlan),
        measure: impl FnOnce(&Screen, Online<'_>, Prepared) -> anyhow::Result<Option<Dict>>,
    ) -> anyhow::Result<Exit> {
        let mut flags = vec![("--backend", "openai"), ("--temperature", "0.0")];
        flags.extend((way == Way::Simulator).then_some(("--sim", "")));
        flags.extend(fixed);
        let serve = as_serve(&self.batch.values, &flags)?;
        let screen = watched(&serve, self.batch.dry_run)?;
        let limit = |spec: &mut EngineSpec| {
            spec.policy = policy.unwrap_or(spec.policy);
            limit(&self.batch.engine, spec)
        };
        let workload = (spec, count, false);
        let (_simulator, mut online) = open(&serve, workload, &limit, &screen, &self.interrupt.stop)?;
        adjust(&mut online.plan);
        let prepared = online.prepare(contact(self.batch.dry_run))?;
        screen.print(&(self.headline)(&prepared.requests.all()?))?;
        self.save_workload(&prepared.requests.all()?)?;
        if self.batch.dry_run {
            return dry_run::print(&online.plan, &prepared);
        }
        self.interrupt.measuring();
        if let Some(file) = measure(&screen, online, prepared)? {
            self.save_json(file)?;
        }
        Ok(self.interrupt.or(Exit::Done))
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
