//! `tacho long-doc-qa`: repeated long documents, on an engine or a server.

use std::collections::HashSet;

use tacho_core::{EventSink, RunEvent};
use tacho_report::scenario::{Pass, documents};
use tacho_run::offline::Sampling;
use tacho_run::scenarios::reusable;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::LongDocumentSpec;

use super::{Scenario, fixed, print, watched};
use crate::args::scenario::long_document::LongDocumentArgs;
use crate::args::scenario::{Way, as_serve};
use crate::commands::serve::dry_run;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

const WARM_UP: &str = "------warm up------";
const START: &str = "------start generating------";

pub(crate) fn run(args: &LongDocumentArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    print(&[format!("Repeat mode:  {}", args.mode)])?;
    let warm_up = WorkloadSpec::LongDocument(LongDocumentSpec { warm_up: true, ..args.spec.clone() });
    let measured = WorkloadSpec::LongDocument(args.spec.clone());
    let scenario = Scenario { batch: &args.batch, headline: &|_| Vec::new() };
    if args.way != Way::Engine {
        return on_server(args, &scenario, warm_up, measured, &interrupt);
    }
    let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: true, beam: false };
    if let Some((_, done)) = scenario.on_engine(&[&warm_up, &measured], sampling, &interrupt)? {
        print(&[WARM_UP.to_owned(), took(done[0].seconds), START.to_owned(), took(done[1].seconds)])?;
    }
    Ok(Exit::Done)
}

fn took(seconds: f64) -> String {
    format!("Time to execute all requests: {seconds:.4} secs")
}

fn on_server(
    args: &LongDocumentArgs,
    scenario: &Scenario<'_>,
    warm_up: WorkloadSpec,
    measured: WorkloadSpec,
    interrupt: &Interrupt,
) -> anyhow::Result<Exit> {
    let serve = as_serve(&args.batch.values, &fixed(args.way))?;
    let screen = watched(&serve, scenario.is_dry_run())?;
    let count = args.spec.documents * args.spec.repeat_count;
    let (mut online, prepared) = scenario.on_server(&serve, (measured, count), None, &|_| {}, &screen)?;
    if scenario.is_dry_run() {
        return dry_run::print(&prepared);
    }
    let (limit, _) = reusable(&prepared.requests.all()?, prepared.tokenizer.as_ref());
    interrupt.measuring();
    let workload = online.plan.workload.clone();
    online.replace(warm_up, args.spec.documents)?;
    let warmup = online.run(online.prepare(false)?, &interrupt.stop)?.measured.duration;
    screen.print(&[WARM_UP.to_owned(), took(warmup), START.to_owned()])?;
    online.plan.workload = workload;
    online.plan.traffic.reset_caches = args.batch.reset_prefix_cache;
    let mut seen = HashSet::new();
    let contents = prepared.requests.all()?;
    let fresh: Vec<bool> = contents.iter().map(|request| seen.insert(format!("{:?}", request.content))).collect();
    drop(contents);
    let record = online.run(prepared, &interrupt.stop)?;
    let pass = Pass::of("measured", &record, limit);
    screen.print(&[took(record.measured.duration)])?;
    let (lines, file) = documents(&pass, warmup, &record, &fresh);
    screen.print(&lines)?;
    if let Some(warning) = pass.warning() {
        screen.event(RunEvent::warning(warning));
    }
    scenario.save_json(file)?;
    Ok(interrupt.or(Exit::Done))
}
