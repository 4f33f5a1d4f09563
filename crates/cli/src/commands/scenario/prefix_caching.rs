//! `tacho prefix-caching`: repeated prompts, on an engine or a server.

use tacho_core::json::float_repr;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_report::scenario::{Pass, two_passes};
use tacho_run::offline::Sampling;
use tacho_run::scenarios::reusable;
use tacho_workload::WorkloadSpec;

use super::{Scenario, fixed, print, watched};
use crate::args::scenario::prefix_caching::PrefixCachingArgs;
use crate::args::scenario::{Way, as_serve};
use crate::commands::serve::dry_run;
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
    let scenario = Scenario { batch: &args.batch, headline: &headline };
    match args.way {
        Way::Engine => on_engine(args, &scenario, &interrupt),
        _ => on_server(args, &scenario, &interrupt),
    }
}

/// The lines that vLLM's script prints about the prompts before repeating them.
pub(super) fn sampled(requests: &[Request], repeats: usize) -> Vec<String> {
    let mut lens: Vec<u64> = requests.iter().map(|request| request.prompt_len).collect();
    lens.sort_unstable();
    // All prompts are repeated equally often.
    let distinct: Vec<u64> = lens.iter().copied().step_by(repeats.max(1)).collect();
    let mean = distinct.iter().sum::<u64>() as f64 / distinct.len().max(1) as f64;
    let at = |place: usize| distinct.get(place).copied().unwrap_or(0);
    vec![
        format!("Sampled {} requests.", distinct.len()),
        format!("Average input length: {}", float_repr(mean)),
        format!("P50 input length: {}", at(distinct.len() / 2)),
        format!("Min Prompt Length: {}", at(0)),
        format!("Max Prompt Length: {}", at(distinct.len().saturating_sub(1))),
        "Testing filtered requests".to_owned(),
    ]
}

fn on_engine(args: &PrefixCachingArgs, scenario: &Scenario<'_>, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: args.detokenize, beam: false };
    let spec = WorkloadSpec::PrefixCaching(args.spec.clone());
    if let Some((_, done)) = scenario.on_engine(&[&spec], sampling, interrupt)? {
        print(&[format!("cost time {}", float_repr(done[0].seconds))])?;
    }
    Ok(Exit::Done)
}

fn on_server(args: &PrefixCachingArgs, scenario: &Scenario<'_>, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let serve = as_serve(&args.batch.values, &fixed(args.way))?;
    let screen = watched(&serve, scenario.is_dry_run())?;
    let workload = (WorkloadSpec::PrefixCaching(args.spec.clone()), args.spec.num_prompts * args.spec.repeat_count);
    let (mut online, prepared) = scenario.on_server(&serve, workload, None, &|_| {}, &screen)?;
    if scenario.is_dry_run() {
        return dry_run::print(&prepared);
    }
    let (cold, warm) = reusable(&prepared.requests.all()?, prepared.tokenizer.as_ref());
    interrupt.measuring();
    let first = Pass::of("first", &online.run(prepared, &interrupt.stop)?, cold);
    screen.print(&[format!("cost time {}", float_repr(first.seconds()))])?;
    if interrupt.stop.draining() {
        screen.print(&first.lines())?;
        return Ok(Exit::Interrupted);
    }
    online.plan.traffic.reset_caches = false;
    let second = Pass::of("second", &online.run(online.prepare(false)?, &interrupt.stop)?, warm);
    let (lines, file) = two_passes(&first, &second);
    screen.print(&lines)?;
    if let Some(warning) = first.warning() {
        screen.event(RunEvent::warning(warning));
    }
    scenario.save_json(file)?;
    Ok(interrupt.or(Exit::Done))
}
