//! `tacho long-doc-qa`: long documents that come several times, through the engine or a server.

use std::collections::HashSet;

use tacho_core::json::Dict;
use tacho_core::{EventSink, RunEvent};
use tacho_metrics::Statistics;
use tacho_report::style::{title, two, value_line};
use tacho_run::offline::{Sampling, Slot};
use tacho_run::scenarios::batch;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::LongDocumentSpec;

use super::passes::{Pass, expected};
use super::{Online, answered, bars, engine, print, save_json, save_workload, watched};
use crate::args::scenario::long_document::LongDocumentArgs;
use crate::args::scenario::{Way, as_serve};
use crate::commands::offline::simulated::limit;
use crate::commands::offline::source;
use crate::commands::serve::dry_run;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

const WARM_UP: &str = "------warm up------";
const START: &str = "------start generating------";

/// Runs the benchmark that the arguments ask for.
pub(crate) fn run(args: &LongDocumentArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    print(&[format!("Repeat mode:  {}", args.mode)])?;
    let warm_up = WorkloadSpec::LongDocument(LongDocumentSpec { warm_up: true, ..args.spec.clone() });
    let measured = WorkloadSpec::LongDocument(args.spec.clone());
    match args.way {
        Way::Engine => offline(args, &warm_up, &measured, &interrupt),
        _ => online(args, warm_up, measured, &interrupt),
    }
}

fn took(seconds: f64) -> String {
    format!("Time to execute all requests: {seconds:.4} secs")
}

fn offline(
    args: &LongDocumentArgs,
    warm_up: &WorkloadSpec,
    measured: &WorkloadSpec,
    interrupt: &Interrupt,
) -> anyhow::Result<Exit> {
    let sink = bars(args.worker.quiet)?;
    let source = source(&args.engine, false)?;
    let mut sampler = source.open(&sink)?;
    let (warm_up, requests) = (sampler.sample(warm_up)?, sampler.sample(measured)?);
    if let Some(path) = args.values.maybe_text("--save-workload") {
        save_workload(&path, &requests)?;
    }
    if args.values.switch("--dry-run") {
        return Ok(Exit::Done);
    }
    interrupt.measuring();
    let mut engine = engine(&args.engine, &args.worker, interrupt)?;
    let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: true, beam: false };
    let batches = vec![(Slot::Warmup, warm_up), (Slot::Measured, requests)];
    let done = batch::run(batches, sampling, !args.worker.quiet, &mut engine)?;
    print(&[WARM_UP.to_owned(), took(done[0].seconds), START.to_owned(), took(done[1].seconds)])?;
    Ok(Exit::Done)
}

fn online(
    args: &LongDocumentArgs,
    warm_up: WorkloadSpec,
    measured: WorkloadSpec,
    interrupt: &Interrupt,
) -> anyhow::Result<Exit> {
    let serve = as_serve(&args.values, &super::fixed(args.way))?;
    let dry = args.values.switch("--dry-run");
    let screen = watched(&serve, dry)?;
    let count = args.spec.documents * args.spec.repeat_count;
    let mut online = Online::open(&serve, measured, count, false, &|spec| limit(&args.engine, spec), &screen)?;
    let prepared = online.prepare(dry)?;
    if let Some(path) = args.values.maybe_text("--save-workload") {
        save_workload(&path, &prepared.requests.all()?)?;
    }
    if dry {
        return dry_run::print(&prepared);
    }
    let (limit, _) = expected(&prepared.requests.all()?, prepared.tokenizer.as_ref());
    interrupt.measuring();
    let plan = online.plan.workload.clone();
    online.replace(warm_up, args.spec.documents)?;
    let rehearsed = online.run(online.prepare(false)?, &interrupt.stop)?;
    answered(&rehearsed)?;
    screen.print(&[WARM_UP.to_owned(), took(rehearsed.measured.duration), START.to_owned()])?;
    online.plan.workload = plan;
    online.plan.traffic.reset_caches = args.values.switch("--reset-prefix-cache");
    let contents: Vec<_> = prepared.requests.all()?.iter().map(|request| request.content.clone()).collect();
    let record = online.run(prepared, &interrupt.stop)?;
    answered(&record)?;
    let pass = Pass::of("measured", &record, limit);
    screen.print(&[took(record.measured.duration)])?;
    let mut lines = pass.lines();
    let mut seen = HashSet::new();
    let first: Vec<bool> = contents.iter().map(|content| seen.insert(format!("{content:?}"))).collect();
    for (name, wanted) in [("First sight of a document, mean (ms):", true), ("Seen before, mean (ms):", false)] {
        let samples = record.measured.samples.iter().zip(&first);
        let times =
            samples.filter(|(sample, first)| sample.success() && **first == wanted).map(|(sample, _)| sample.ttft);
        let times = Statistics::of(times.collect(), &[]);
        let shown = if times.count == 0 { "none".to_owned() } else { two(times.mean_ms) };
        lines.push(value_line(name, shown));
    }
    lines.push(title("", '='));
    screen.print(&lines)?;
    if let Some(doubt) = pass.doubt() {
        screen.event(RunEvent::warning(doubt));
    }
    if let Some(path) = args.values.maybe_text("--output-json") {
        let mut file = Dict::new();
        file.set("warm_up_time", rehearsed.measured.duration);
        file.set("passes", vec![pass.to_dict()]);
        save_json(path.as_ref(), file)?;
    }
    Ok(interrupt.or(Exit::Done))
}
