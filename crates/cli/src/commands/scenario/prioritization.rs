//! `tacho prioritization`: requests of several priorities, through the engine or a server.

use std::borrow::Cow;
use std::time::Duration;

use tacho_client::control::Caller;
use tacho_core::json::{self, Dict, Value};
use tacho_core::{EventSink, Request, RunEvent};
use tacho_engine::Policy;
use tacho_metrics::{Sample, Samples, Statistics};
use tacho_record::RunRecord;
use tacho_report::style::{title, two, value_line};
use tacho_run::ServePlan;
use tacho_run::offline::{Sampling, Slot};
use tacho_run::scenarios::batch;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::priority_of;

use super::{Online, answered, bars, engine, milliseconds, print, save_json, save_workload, watched};
use crate::args::scenario::prioritization::PrioritizationArgs;
use crate::args::scenario::{Way, as_serve};
use crate::commands::offline::simulated::limit;
use crate::commands::offline::source;
use crate::commands::serve::dry_run;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Runs the benchmark that the arguments ask for.
pub(crate) fn run(args: &PrioritizationArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    match args.way {
        Way::Engine => offline(args, &interrupt),
        _ => online(args, &interrupt),
    }
}

/// Upstream's line, and its file.
pub(super) fn throughput(requests: &[Request], seconds: f64) -> (String, Dict) {
    let tokens: u64 = requests.iter().map(|request| request.prompt_len.saturating_add_signed(request.output_len)).sum();
    let (per_second, tokens_per_second) = (requests.len() as f64 / seconds, tokens as f64 / seconds);
    let mut file = Dict::new();
    file.set("elapsed_time", seconds);
    file.set("num_requests", requests.len());
    file.set("total_num_tokens", tokens);
    file.set("requests_per_second", per_second);
    file.set("tokens_per_second", tokens_per_second);
    (format!("Throughput: {per_second:.2} requests/s, {tokens_per_second:.2} tokens/s"), file)
}

fn offline(args: &PrioritizationArgs, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let sink = bars(args.worker.quiet)?;
    let spec = WorkloadSpec::Prioritization(args.spec.clone());
    let requests = source(&args.engine, false)?.open(&sink)?.sample(&spec)?;
    if let Some(path) = args.values.maybe_text("--save-workload") {
        save_workload(&path, &requests)?;
    }
    if args.values.switch("--dry-run") {
        return Ok(Exit::Done);
    }
    interrupt.measuring();
    let mut engine = engine(&args.engine, &args.worker, interrupt)?;
    let sampling = Sampling { n: args.n, temperature: 1.0, ignore_eos: true, detokenize: args.detokenize, beam: false };
    let done = batch::run(vec![(Slot::Measured, requests.clone())], sampling, !args.worker.quiet, &mut engine)?;
    let (line, file) = throughput(&requests, done[0].seconds);
    print(&[line])?;
    if let Some(path) = args.values.maybe_text("--output-json") {
        save_json(path.as_ref(), file)?;
    }
    Ok(Exit::Done)
}

fn online(args: &PrioritizationArgs, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let mut fixed = super::fixed(args.way);
    fixed.extend([("--temperature", "1.0"), ("--top-p", "1.0")]);
    let serve = as_serve(&args.values, &fixed)?;
    let dry = args.values.switch("--dry-run");
    let screen = watched(&serve, dry)?;
    let spec = WorkloadSpec::Prioritization(args.spec.clone());
    let mut online = Online::open(
        &serve,
        spec,
        args.spec.num_prompts,
        false,
        &|spec| {
            spec.policy = Policy::Priority;
            limit(&args.engine, spec)
        },
        &screen,
    )?;
    online.plan.traffic.ignore_eos = true;
    if args.n > 1 {
        online.plan.traffic.extra_body.set("n", args.n);
    }
    let prepared = online.prepare(dry)?;
    if let Some(path) = args.values.maybe_text("--save-workload") {
        save_workload(&path, &prepared.requests.all()?)?;
    }
    if dry {
        return dry_run::print(&prepared);
    }
    if let Some(policy) = policy(&online.plan).filter(|policy| policy != "priority") {
        screen.event(RunEvent::warning(format!(
            "the server schedules by {policy}, which ignores priorities: start it with --scheduling-policy priority"
        )));
    }
    interrupt.measuring();
    let requests = prepared.requests.all()?.into_owned();
    let record = online.run(prepared, &interrupt.stop)?;
    answered(&record)?;
    let done = requests.iter().zip(&record.measured.samples).filter(|(_, sample)| sample.success());
    let done: Vec<Request> = done.map(|(request, _)| request.clone()).collect();
    let (line, mut file) = throughput(&done, record.measured.duration);
    screen.print(&[line])?;
    let classes = classes(&requests, &record);
    let mut lines: Vec<String> = classes.iter().flat_map(Class::lines).collect();
    let inversions = inversions(&requests, &record.measured.samples);
    lines.push(title("", '-'));
    lines.push(value_line("Served before a more urgent one (%):", two(inversions * 100.0)));
    let preempted = record.measured.server.get("vllm:num_preemptions_total").and_then(|series| series.growth());
    lines.extend(preempted.map(|count| value_line("Preemptions:", count)));
    lines.push(title("", '='));
    screen.print(&lines)?;
    if let Some(path) = args.values.maybe_text("--output-json") {
        file.set("classes", classes.iter().map(Class::to_dict).collect::<Vec<Value>>());
        file.set("inversions", inversions);
        file.set("preemptions", preempted);
        save_json(path.as_ref(), file)?;
    }
    Ok(interrupt.or(Exit::Done))
}

/// How the server says that it schedules; `None` where it does not report it, as outside of vLLM's development mode.
fn policy(plan: &ServePlan) -> Option<String> {
    let caller = Caller::new(&plan.endpoint, &plan.base_path, Duration::from_secs(5)).ok()?;
    let answer = caller.get("/server_info?config_format=json", caller.user_headers()).ok()?;
    let info = json::parse(&String::from_utf8_lossy(&answer.body)).ok().filter(|_| answer.status == 200)?;
    let config = info.get("vllm_config")?.get("scheduler_config")?;
    config.get("policy").and_then(Value::as_str).map(str::to_owned)
}

/// What requests of one priority saw.
struct Class {
    priority: i64,
    count: usize,
    failed: usize,
    ttft: Statistics,
    e2el: Statistics,
}

impl Class {
    fn lines(&self) -> Vec<String> {
        vec![
            title(&format!(" Priority {} ", self.priority), '-'),
            value_line("Requests:", self.count),
            value_line("Requests without an answer:", self.failed),
            value_line("First token, mean (ms):", milliseconds(&self.ttft, self.ttft.mean_ms)),
            value_line("First token, median (ms):", milliseconds(&self.ttft, self.ttft.median_ms)),
            value_line("First token, P99 (ms):", milliseconds(&self.ttft, p99(&self.ttft))),
            value_line("Whole answer, mean (ms):", milliseconds(&self.e2el, self.e2el.mean_ms)),
            value_line("Whole answer, P99 (ms):", milliseconds(&self.e2el, p99(&self.e2el))),
        ]
    }

    fn to_dict(&self) -> Value {
        let mut dict = Dict::new();
        dict.set("priority", self.priority);
        dict.set("requests", self.count);
        dict.set("failed", self.failed);
        for (name, times) in [("ttft", &self.ttft), ("e2el", &self.e2el)] {
            let known = |value: f64| (times.count > 0).then_some(value);
            dict.set(format!("mean_{name}_ms"), known(times.mean_ms));
            dict.set(format!("median_{name}_ms"), known(times.median_ms));
            dict.set(format!("p99_{name}_ms"), times.percentile_ms(99.0));
        }
        Value::Dict(dict)
    }
}

fn p99(times: &Statistics) -> f64 {
    times.percentile_ms(99.0).unwrap_or(f64::NAN)
}

fn classes(requests: &[Request], record: &RunRecord) -> Vec<Class> {
    let mut priorities: Vec<i64> = requests.iter().map(|request| priority_of(request).unwrap_or(0)).collect();
    let all: Vec<(i64, Cow<'_, Sample>)> = priorities.iter().copied().zip(&record.measured.samples).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let class = |priority: i64| {
        let mine: Vec<&Sample> = all.iter().filter(|(own, _)| *own == priority).map(|(_, sample)| &**sample).collect();
        let done: Vec<&&Sample> = mine.iter().filter(|sample| sample.success()).collect();
        Class {
            priority,
            count: mine.len(),
            failed: mine.len() - done.len(),
            ttft: Statistics::of(done.iter().map(|sample| sample.ttft).collect(), &[99.0]),
            e2el: Statistics::of(done.iter().map(|sample| sample.latency).collect(), &[99.0]),
        }
    };
    priorities.into_iter().map(class).collect()
}

/// Share of the pairs in which a request got its first token before one that is more urgent and came no later.
fn inversions(requests: &[Request], samples: &Samples) -> f64 {
    let seen: Vec<(i64, f64, f64)> = requests
        .iter()
        .zip(samples)
        .filter(|(_, sample)| sample.success())
        .map(|(request, sample)| (priority_of(request).unwrap_or(0), sample.sent, sample.sent + sample.ttft))
        .collect();
    let (mut pairs, mut wrong) = (0_u64, 0_u64);
    for (urgent, came, served) in &seen {
        for (other, later, before) in &seen {
            if urgent < other && came <= later {
                pairs += 1;
                wrong += u64::from(before < served);
            }
        }
    }
    if pairs == 0 { 0.0 } else { wrong as f64 / pairs as f64 }
}
