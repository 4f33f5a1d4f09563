//! `tacho prefix-caching`: repeated prompts, on an engine or a server.

use tacho_core::json::float_repr;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_report::scenario::{Pass, sampled, two_passes};
use tacho_run::offline::Sampling;
use tacho_workload::WorkloadSpec;

use super::{Scenario, print};
use crate::args::scenario::Way;
use crate::args::scenario::prefix_caching::PrefixCachingArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

const START: &str = "------start generating------";

pub(crate) fn run(args: &PrefixCachingArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let source = args.spec.dataset.as_ref().map_or_else(|| "random".to_owned(), |path| path.display().to_string());
    print(&[format!("Start to sample {} prompts from {source}", args.spec.num_prompts)])?;
    let starts = (!args.batch.dry_run).then(|| START.to_owned());
    let headline =
        |requests: &[Request]| [sampled(requests, args.spec.repeat_count), starts.iter().cloned().collect()].concat();
    let scenario = Scenario { batch: &args.batch, interrupt: &interrupt, headline: &headline };
    if args.way != Way::Engine {
        return on_server(args, &scenario);
    }
    let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: args.detokenize, beam: false };
    let spec = WorkloadSpec::PrefixCaching(args.spec.clone());
    if let Some((_, done)) = scenario.on_engine(&[&spec], sampling)? {
        print(&[took(done[0].seconds)])?;
    }
    Ok(Exit::Done)
}

fn took(seconds: f64) -> String {
    format!("cost time {}", float_repr(seconds))
}

fn on_server(args: &PrefixCachingArgs, scenario: &Scenario<'_>) -> anyhow::Result<Exit> {
    let workload = (WorkloadSpec::PrefixCaching(args.spec.clone()), args.spec.num_prompts * args.spec.repeat_count);
    scenario.on_server((args.way, &[]), workload, None, &|_| {}, |screen, mut online, prepared| {
        // A closed pipe must not end the run.
        let (first, second) = online.twice(prepared, &|first| drop(screen.print(&[took(first.measured.duration)])))?;
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
