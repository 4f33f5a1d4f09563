//! `tacho structured-output`: times structured outputs and checks them against their constraints.

use std::{path::PathBuf, sync::Arc, sync::atomic::Ordering};

use anyhow::anyhow;
use tacho_core::{Counters, EventSink, RunEvent, Work};
use tacho_metrics::structured::{JudgedResponse, StructuredSummary};
use tacho_record::RunRecord;
use tacho_report::scenario::structured::{self as report, StructuredSetup};
use tacho_run::scenarios::{responses, save};
use tacho_run::serve::{Contact, Prepared};
use tacho_workload::{WorkloadSpec, scenarios::StructuredSpec};

use super::{contact, open, watched, write_json};
use crate::exit::{Exit, saved};
use crate::{
    args::scenario::structured::StructuredArgs, commands::screen::Screen, commands::serve::dry_run, commands::sim::hub,
    interrupt::Interrupt,
};

/// Runs the benchmark, or a sweep of benchmarks in order.
pub(crate) fn run(args: &StructuredArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let screen = watched(&args.serve, args.flags.dry_run)?;
    if args.sweep.is_empty() {
        return one(args, &interrupt, &screen);
    }
    let counters = Arc::new(Counters::default());
    screen.event(RunEvent::Started { work: Work::Sweep, total: args.sweep.len() as u64, counters: counters.clone() });
    for point in &args.sweep {
        match one(point, &interrupt, &screen)? {
            Exit::Done => counters.finished.fetch_add(1, Ordering::Relaxed),
            other => return Ok(other),
        };
    }
    screen.event(RunEvent::Finished);
    Ok(Exit::Done)
}

/// Backends whose requests cannot carry a constraint.
const UNCONSTRAINED: [&str; 3] = ["tgi", "tensorrt-llm", "deepspeed-mii"];

fn one(args: &StructuredArgs, interrupt: &Interrupt, screen: &Screen) -> anyhow::Result<Exit> {
    let spec = spec(args);
    let timed = spec.rate.is_finite();
    let workload = WorkloadSpec::Structured(spec.clone());
    let workload = (workload, args.flags.num_prompts, timed);
    let (_simulator, mut online) = open(&args.serve, workload, &|_| Ok(()), screen, &interrupt.stop)?;
    // The test request is request 0, sent unchanged.
    online.plan.traffic.warmups = 1;
    online.plan.traffic.warmups_must_pass = true;
    online.plan.traffic.payload.chat_temperature = Some(0.0);
    let mut prepared = online.prepare(contact(args.flags.dry_run))?;
    if UNCONSTRAINED.contains(&args.flags.backend.as_str()) {
        tracing::warn!(
            "--backend {} has no field for constraints: none is sent, as in vLLM's script",
            args.flags.backend
        );
        prepared.requests.alter(|_, part| part.iter_mut().for_each(|request| request.overrides = None))?;
    }
    if let Some(path) = &args.flags.save_workload {
        save(path.as_ref(), &prepared.requests.all()?)?;
        saved(path);
    }
    if args.flags.dry_run {
        return dry_run::print(&online.plan, &prepared);
    }
    // The run uses its own tokenizer; this one is for the evaluation afterwards.
    let tokenizer =
        online.prepare(Contact::Minimal)?.tokenizer.ok_or_else(|| anyhow!("structured-output needs a tokenizer"))?;
    let setup = setup(args, &prepared);
    let constraints = spec.constraints(&prepared.requests.all()?)?;
    let mut lines: Vec<String> = spec.headline(&tokenizer)?.into_iter().collect();
    lines.push("Starting initial single prompt test run...".to_owned());
    screen.print(&lines)?;
    interrupt.measuring();
    let lens: Vec<u64> = prepared.requests.all()?.iter().map(|request| request.prompt_len).collect();
    let mut tested = vec!["Initial test run completed. Starting main benchmark run...".to_owned()];
    tested.extend(setup.profiled.then(|| "Starting profiler...".to_owned()));
    tested.extend(setup.traffic());
    // A closed pipe must not end the run.
    let record = online.run_tested(prepared, &|| drop(screen.print(&tested)))?;
    let responses = responses(&record, &spec, &lens, constraints, &tokenizer);
    conclude(args, &setup, &record, &responses, screen)
}

fn conclude(
    args: &StructuredArgs,
    setup: &StructuredSetup,
    record: &RunRecord,
    responses: &[JudgedResponse],
    screen: &Screen,
) -> anyhow::Result<Exit> {
    let duration = record.measured.duration;
    let summary = StructuredSummary::of(responses, &record.setup, duration);
    let completed = summary.summary.completed;
    let path = args.flags.save_results.then(|| {
        let directory = args.serve.report.result_dir.as_ref().map_or_else(PathBuf::new, PathBuf::from);
        directory.join(args.serve.report.result_filename.clone().unwrap_or_else(|| setup.file_name()))
    });
    if let Some(path) = &path {
        let mut file = report::result(setup, &summary, responses, duration);
        file.set("tacho", report::tacho_part(&summary));
        write_json(path, file)?;
    }
    if completed == 0 {
        tracing::warn!("All requests failed. This is likely due to a misconfiguration on the benchmark arguments.");
    }
    screen.print(&report::console(setup, &summary, duration))?;
    screen.print(&report::judgment(&summary))?;
    path.iter().for_each(saved);
    match responses.iter().find(|response| !response.sample.success()) {
        _ if record.setup.interrupted => Ok(Exit::Interrupted),
        Some(first) if completed == 0 => {
            Err(anyhow!("all {} requests failed; the first one: {}", responses.len(), first.sample.error))
        }
        _ => Ok(Exit::Done),
    }
}

pub(super) fn spec(args: &StructuredArgs) -> StructuredSpec {
    StructuredSpec {
        dataset: args.flags.dataset,
        schema_path: args.flags.json_schema_path.as_ref().map(Into::into),
        field: args.field.clone(),
        seed: args.flags.seed,
        num_prompts: args.flags.num_prompts,
        output_len: args.flags.output_len,
        prefix_len: args.flags.random_prefix_len,
        ratio: args.flags.ratio().unwrap_or(0.0),
        rate: args.serve.load.request_rate,
        burstiness: args.serve.load.burstiness.value,
        unique_names: Vec::new(),
        cache: hub().cache,
    }
}

fn setup(args: &StructuredArgs, prepared: &Prepared) -> StructuredSetup {
    StructuredSetup {
        backend: args.flags.backend.clone(),
        model_id: prepared.model_id.clone(),
        tokenizer_id: prepared.tokenizer_id.clone().unwrap_or_else(|| prepared.model_id.clone()),
        dataset: args.flags.dataset.name(),
        num_prompts: args.flags.num_prompts as i64,
        output_len: args.flags.output_len,
        ratio: args.flags.ratio(),
        request_rate: args.serve.load.request_rate,
        burstiness: args.serve.load.burstiness.value,
        max_concurrency: args.serve.load.max_concurrency.map(|limit| limit as i64),
        profiled: args.serve.load.profile,
    }
}
