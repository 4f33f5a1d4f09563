//! `tacho long-doc-qa`: repeated long documents, on an engine or a server.

use tacho_core::{EventSink, RunEvent};
use tacho_report::scenario::{Pass, documents};
use tacho_run::offline::Sampling;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::LongDocumentSpec;

use super::{Scenario, print};
use crate::args::scenario::Way;
use crate::args::scenario::long_document::LongDocumentArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

const WARM_UP: &str = "------warm up------";
const START: &str = "------start generating------";

pub(crate) fn run(args: &LongDocumentArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    print(&[format!("Repeat mode:  {}", args.mode)])?;
    let warm_up = WorkloadSpec::LongDocument(LongDocumentSpec { warm_up: true, ..args.spec.clone() });
    let measured = WorkloadSpec::LongDocument(args.spec.clone());
    let scenario = Scenario { batch: &args.batch, interrupt: &interrupt, headline: &|_| Vec::new() };
    if args.way != Way::Engine {
        return on_server(args, &scenario, warm_up, measured);
    }
    let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: true, beam: false };
    if let Some((_, done)) = scenario.on_engine(&[&warm_up, &measured], sampling)? {
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
) -> anyhow::Result<Exit> {
    let workload = (measured, args.spec.documents * args.spec.repeat_count);
    scenario.on_server((args.way, &[]), workload, None, &|_| {}, |screen, mut online, prepared| {
        // A closed pipe must not end the run.
        let warmed = |seconds| drop(screen.print(&[WARM_UP.to_owned(), took(seconds), START.to_owned()]));
        let reset = args.batch.reset_prefix_cache;
        let done = online.documents(prepared, (warm_up, args.spec.documents), reset, &warmed)?;
        let pass = Pass { name: "measured", record: &done.pass.record, limit: done.pass.limit };
        screen.print(&[took(pass.record.measured.duration)])?;
        let (lines, file) = documents(&pass, done.warm_up, &done.fresh);
        screen.print(&lines)?;
        pass.warning().into_iter().for_each(|warning| screen.event(RunEvent::warning(warning)));
        Ok(Some(file))
    })
}
