//! `tacho prefix-caching`: prompts that come several times, through the engine or a server.

use tacho_core::json::{Dict, Value, float_repr};
use tacho_core::{EventSink, Request, RunEvent};
use tacho_report::style::{title, value_line};
use tacho_run::offline::{Sampling, Slot};
use tacho_run::scenarios::batch;
use tacho_workload::WorkloadSpec;

use super::passes::{Pass, expected};
use super::{Online, answered, bars, engine, print, save_json, save_workload, watched};
use crate::args::scenario::prefix_caching::PrefixCachingArgs;
use crate::args::scenario::{Way, as_serve};
use crate::commands::offline::simulated::limit;
use crate::commands::offline::source;
use crate::commands::serve::dry_run;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Runs the benchmark that the arguments ask for.
pub(crate) fn run(args: &PrefixCachingArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let source = args.spec.dataset.as_ref().map_or_else(|| "random".to_owned(), |path| path.display().to_string());
    print(&[format!("Start to sample {} prompts from {source}", args.spec.num_prompts)])?;
    match args.way {
        Way::Engine => offline(args, &interrupt),
        _ => online(args, &interrupt),
    }
}

/// What upstream prints of the prompts before they are repeated.
pub(super) fn sampled(requests: &[Request], repeats: usize) -> Vec<String> {
    let mut lens: Vec<u64> = requests.iter().map(|request| request.prompt_len).collect();
    lens.sort_unstable();
    // Every prompt is there as often as the others.
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

fn offline(args: &PrefixCachingArgs, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let sink = bars(args.worker.quiet)?;
    let spec = WorkloadSpec::PrefixCaching(args.spec.clone());
    let requests = source(&args.engine, false)?.open(&sink)?.sample(&spec)?;
    print(&sampled(&requests, args.spec.repeat_count))?;
    if let Some(path) = args.values.maybe_text("--save-workload") {
        save_workload(&path, &requests)?;
    }
    if args.values.switch("--dry-run") {
        return Ok(Exit::Done);
    }
    print(&["------start generating------".to_owned()])?;
    interrupt.measuring();
    let mut engine = engine(&args.engine, &args.worker, interrupt)?;
    let sampling = Sampling { n: 1, temperature: 0.0, ignore_eos: false, detokenize: args.detokenize, beam: false };
    let done = batch::run(vec![(Slot::Measured, requests)], sampling, !args.worker.quiet, &mut engine)?;
    print(&[format!("cost time {}", float_repr(done[0].seconds))])?;
    Ok(Exit::Done)
}

fn online(args: &PrefixCachingArgs, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let serve = as_serve(&args.values, &super::fixed(args.way))?;
    let dry = args.values.switch("--dry-run");
    let screen = watched(&serve, dry)?;
    let count = args.spec.num_prompts * args.spec.repeat_count;
    let mut online = Online::open(
        &serve,
        WorkloadSpec::PrefixCaching(args.spec.clone()),
        count,
        false,
        &|spec| limit(&args.engine, spec),
        &screen,
    )?;
    let prepared = online.prepare(dry)?;
    screen.print(&sampled(&prepared.requests.all()?, args.spec.repeat_count))?;
    if let Some(path) = args.values.maybe_text("--save-workload") {
        save_workload(&path, &prepared.requests.all()?)?;
    }
    if dry {
        return dry_run::print(&prepared);
    }
    screen.print(&["------start generating------".to_owned()])?;
    let (cold, warm) = expected(&prepared.requests.all()?, prepared.tokenizer.as_ref());
    interrupt.measuring();
    let record = online.run(prepared, &interrupt.stop)?;
    answered(&record)?;
    let first = Pass::of("first", &record, cold);
    screen.print(&[format!("cost time {}", float_repr(first.seconds()))])?;
    if interrupt.stop.draining() {
        screen.print(&first.lines())?;
        return Ok(Exit::Interrupted);
    }
    online.plan.traffic.reset_caches = false;
    let record = online.run(online.prepare(false)?, &interrupt.stop)?;
    answered(&record)?;
    let second = Pass::of("second", &record, warm);
    let mut lines = first.lines();
    lines.extend(second.lines());
    lines.push(title("", '-'));
    lines.push(value_line("First over second:", format!("{:.2}", first.times(&second))));
    lines.push(title("", '='));
    screen.print(&lines)?;
    if let Some(doubt) = first.doubt() {
        screen.event(RunEvent::warning(doubt));
    }
    if let Some(path) = args.values.maybe_text("--output-json") {
        let mut file = Dict::new();
        file.set("passes", vec![first.to_dict(), second.to_dict()]);
        file.set("speed_up", Value::Float(first.times(&second)));
        save_json(path.as_ref(), file)?;
    }
    Ok(interrupt.or(Exit::Done))
}
