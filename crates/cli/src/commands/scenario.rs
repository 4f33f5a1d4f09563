//! The scenario commands, on an engine or a server: `long-doc-qa`, `prefix-caching` and `prioritization`.

pub(crate) mod structured;
#[cfg(test)]
mod tests;

use std::{io::Write, path::Path};

use tacho_core::json::{Dict, Value, dumps_indented, float_repr};
use tacho_core::{EventSink, Request, RunEvent};
use tacho_engine::{EngineSpec, Policy};
use tacho_loadgen::StopSignal;
use tacho_report::Progress;
use tacho_report::scenario::{self, Pass, documents, sampled, two_passes};
use tacho_run::ServePlan;
use tacho_run::offline::{Generated, PythonEngine, Sampling, Slot};
use tacho_run::scenarios::{Online, run_batches};
use tacho_run::serve::{Contact, Prepared};
use tacho_sim::Server;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::{LongDocumentSpec, priority_of};

use super::screen::{Lines, Screen};
use super::serve::{dry_run, plan, simulator};
use super::{offline, offline::simulated::limit};
use crate::args::scenario::{BatchArgs, Execution, as_serve};
use crate::exit::{self, Exit};
use crate::{
    args::scenario::long_document::LongDocumentArgs, args::scenario::prefix_caching::PrefixCachingArgs,
    args::scenario::prioritization::PrioritizationArgs, args::serve::ServeArgs, args::shared::live::LiveArgs,
    interrupt::Interrupt,
};

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
    plan.traffic.payload.ignore_eos = args.content.ignore_eos;
    plan.report.keep_texts = true;
    let mut online = Online { plan, sink: screen, stop };
    online.set_workload(workload.0, workload.1, workload.2);
    Ok((simulator, online))
}

fn contact(dry_run: bool) -> Contact {
    if dry_run { Contact::Minimal } else { Contact::Server }
}

fn watched(args: &ServeArgs, dry_run: bool) -> anyhow::Result<Screen> {
    shown(&args.live.unless(dry_run), args.tacho.quiet || args.report.disable_tqdm)
}

/// Shows progress bars and warnings only, without the notices of `tacho serve`.
fn shown(live: &LiveArgs, hidden: bool) -> anyhow::Result<Screen> {
    let progress = if hidden { Progress::Hidden } else { Progress::Shown };
    Ok(Screen::open(live, false, progress)?.with(Lines::Unwanted))
}

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
        (execution, fixed): (Execution, &[(&str, &str)]),
        (spec, count): (WorkloadSpec, usize),
        policy: Option<Policy>,
        adjust: &dyn Fn(&mut ServePlan),
        measure: impl FnOnce(&Screen, Online<'_>, Prepared) -> anyhow::Result<Option<Dict>>,
    ) -> anyhow::Result<Exit> {
        let mut flags = vec![("--backend", "openai"), ("--temperature", "0.0")];
        flags.extend((execution == Execution::Simulator).then_some(("--sim", "")));
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

    fn save_workload(&self, requests: &[Request]) -> anyhow::Result<()> {
        if let Some(path) = &self.batch.save_workload {
            tacho_run::serve::save_requests(requests, Path::new(path))?;
            exit::saved(path);
        }
        Ok(())
    }

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

const WARM_UP: &str = "------warm up------";
const START: &str = "------start generating------";

pub(crate) fn long_document(args: &LongDocumentArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    print(&[format!("Repeat mode:  {}", args.mode)])?;
    let warm_up = WorkloadSpec::LongDocument(LongDocumentSpec { warm_up: true, ..args.spec.clone() });
    let measured = WorkloadSpec::LongDocument(args.spec.clone());
    let scenario = Scenario { batch: &args.batch, interrupt: &interrupt, headline: &|_| Vec::new() };
    let executed = |seconds: f64| format!("Time to execute all requests: {seconds:.4} secs");
    if args.execution == Execution::Engine {
        let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: true, beam: false };
        if let Some((_, done)) = scenario.on_engine(&[&warm_up, &measured], sampling)? {
            print(&[WARM_UP.to_owned(), executed(done[0].seconds), START.to_owned(), executed(done[1].seconds)])?;
        }
        return Ok(Exit::Done);
    }
    let workload = (measured, args.spec.documents * args.spec.repeat_count);
    scenario.on_server((args.execution, &[]), workload, None, &|_| {}, |screen, mut online, prepared| {
        // A closed pipe must not end the run.
        let warmed = |seconds| drop(screen.print(&[WARM_UP.to_owned(), executed(seconds), START.to_owned()]));
        let reset = args.batch.reset_prefix_cache;
        let done = online.documents(prepared, (warm_up, args.spec.documents), reset, &warmed)?;
        let pass = Pass { name: "measured", record: &done.pass.record, limit: done.pass.limit };
        screen.print(&[executed(pass.record.measured.duration)])?;
        let (lines, file) = documents(&pass, done.warm_up, &done.fresh);
        screen.print(&lines)?;
        pass.warning().into_iter().for_each(|warning| screen.event(RunEvent::warning(warning)));
        Ok(Some(file))
    })
}

pub(crate) fn prefix_caching(args: &PrefixCachingArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let source = args.spec.dataset.as_ref().map_or_else(|| "random".to_owned(), |path| path.display().to_string());
    print(&[format!("Start to sample {} prompts from {source}", args.spec.num_prompts)])?;
    let starts = (!args.batch.dry_run).then(|| START.to_owned());
    let headline =
        |requests: &[Request]| [sampled(requests, args.spec.repeat_count), starts.iter().cloned().collect()].concat();
    let scenario = Scenario { batch: &args.batch, interrupt: &interrupt, headline: &headline };
    let cost = |seconds: f64| format!("cost time {}", float_repr(seconds));
    let spec = WorkloadSpec::PrefixCaching(args.spec.clone());
    if args.execution == Execution::Engine {
        let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: args.detokenize, beam: false };
        if let Some((_, done)) = scenario.on_engine(&[&spec], sampling)? {
            print(&[cost(done[0].seconds)])?;
        }
        return Ok(Exit::Done);
    }
    let workload = (spec, args.spec.num_prompts * args.spec.repeat_count);
    scenario.on_server((args.execution, &[]), workload, None, &|_| {}, |screen, mut online, prepared| {
        // A closed pipe must not end the run.
        let (first, second) = online.twice(prepared, &|first| drop(screen.print(&[cost(first.measured.duration)])))?;
        let first = Pass { name: "first", record: &first.record, limit: first.limit };
        let Some(second) = second else {
            screen.print(&first.lines())?;
            return Ok(None);
        };
        let second = Pass { name: "second", record: &second.record, limit: second.limit };
        let (lines, file) = two_passes(&first, &second);
        screen.print(&lines)?;
        first.warning().into_iter().for_each(|warning| screen.event(RunEvent::warning(warning)));
        Ok(Some(file))
    })
}

pub(crate) fn prioritization(args: &PrioritizationArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let scenario = Scenario { batch: &args.batch, interrupt: &interrupt, headline: &|_| Vec::new() };
    let spec = WorkloadSpec::Prioritization(args.spec.clone());
    if args.execution == Execution::Engine {
        let (n, detokenize) = (args.n, args.detokenize);
        let sampling = Sampling { n, temperature: 1.0, ignore_eos: true, detokenize, beam: false };
        if let Some((requests, done)) = scenario.on_engine(&[&spec], sampling)? {
            let (line, file) = scenario::throughput(&requests, done[0].seconds);
            print(&[line])?;
            scenario.save_json(file)?;
        }
        return Ok(Exit::Done);
    }
    let fixed = [("--temperature", "1.0"), ("--top-p", "1.0")];
    let workload = (spec, args.spec.num_prompts);
    let adjust = |plan: &mut ServePlan| {
        plan.traffic.payload.ignore_eos = true;
        if args.n > 1 {
            plan.traffic.payload.extra_body.set("n", args.n);
        }
    };
    let policy = Some(Policy::Priority);
    scenario.on_server((args.execution, &fixed), workload, policy, &adjust, |screen, online, prepared| {
        if let Some(policy) = online.policy().filter(|policy| policy != "priority") {
            screen.event(RunEvent::warning(format!(
                "the server schedules by {policy}, which ignores priorities: start it with --scheduling-policy priority"
            )));
        }
        let requests = prepared.requests.all()?.into_owned();
        let record = online.run(prepared)?;
        let done = requests.iter().zip(&record.measured.samples).filter(|(_, sample)| sample.success());
        let (line, mut file) = scenario::throughput(done.map(|(request, _)| request), record.measured.duration);
        screen.print(&[line])?;
        let priorities: Vec<i64> = requests.iter().map(|request| priority_of(request).unwrap_or(0)).collect();
        screen.print(&scenario::priorities(&priorities, &record, &mut file))?;
        Ok(Some(file))
    })
}
