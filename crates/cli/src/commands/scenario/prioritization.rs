//! `tacho prioritization`: requests with different priorities, on an engine or a server.

use std::time::Duration;

use tacho_client::control::Caller;
use tacho_core::json::{self, Dict, Value};
use tacho_core::{EventSink, Request, RunEvent};
use tacho_engine::Policy;
use tacho_report::scenario;
use tacho_run::ServePlan;
use tacho_run::offline::Sampling;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::priority_of;

use super::{Scenario, fixed, print, watched};
use crate::args::scenario::prioritization::PrioritizationArgs;
use crate::args::scenario::{Way, as_serve};
use crate::commands::serve::dry_run;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &PrioritizationArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let scenario = Scenario { batch: &args.batch, headline: &|_| Vec::new() };
    if args.way != Way::Engine {
        return on_server(args, &scenario, &interrupt);
    }
    let sampling = Sampling { n: args.n, temperature: 1.0, ignore_eos: true, detokenize: args.detokenize, beam: false };
    let spec = WorkloadSpec::Prioritization(args.spec.clone());
    if let Some((requests, done)) = scenario.on_engine(&[&spec], sampling, &interrupt)? {
        let (line, file) = throughput(&requests, done[0].seconds);
        print(&[line])?;
        scenario.save_json(file)?;
    }
    Ok(Exit::Done)
}

/// The output line and result file of vLLM's script.
pub(super) fn throughput(requests: &[Request], seconds: f64) -> (String, Dict) {
    let tokens = requests.iter().map(|request| request.prompt_len.saturating_add_signed(request.output_len)).sum();
    scenario::throughput(requests.len(), tokens, seconds)
}

fn on_server(args: &PrioritizationArgs, scenario: &Scenario<'_>, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let mut fixed = fixed(args.way);
    fixed.extend([("--temperature", "1.0"), ("--top-p", "1.0")]);
    let serve = as_serve(&args.batch.values, &fixed)?;
    let screen = watched(&serve, scenario.is_dry_run())?;
    let workload = (WorkloadSpec::Prioritization(args.spec.clone()), args.spec.num_prompts);
    let adjust = |plan: &mut ServePlan| {
        plan.traffic.ignore_eos = true;
        if args.n > 1 {
            plan.traffic.extra_body.set("n", args.n);
        }
    };
    let (online, prepared) = scenario.on_server(&serve, workload, Some(Policy::Priority), &adjust, &screen)?;
    if scenario.is_dry_run() {
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
    let done = requests.iter().zip(&record.measured.samples).filter(|(_, sample)| sample.success());
    let done: Vec<Request> = done.map(|(request, _)| request.clone()).collect();
    let (line, mut file) = throughput(&done, record.measured.duration);
    screen.print(&[line])?;
    let priorities: Vec<i64> = requests.iter().map(|request| priority_of(request).unwrap_or(0)).collect();
    screen.print(&scenario::priorities(&priorities, &record, &mut file))?;
    scenario.save_json(file)?;
    Ok(interrupt.or(Exit::Done))
}

/// The scheduling policy reported by the server, or `None` if it does not report one: vLLM does in development mode
/// only.
fn policy(plan: &ServePlan) -> Option<String> {
    let caller = Caller::new(&plan.endpoint, &plan.base_path, Duration::from_secs(5)).ok()?;
    let answer = caller.get("/server_info?config_format=json", caller.user_headers()).ok()?;
    let info = json::parse(&String::from_utf8_lossy(&answer.body)).ok().filter(|_| answer.status == 200)?;
    let config = info.get("vllm_config")?.get("scheduler_config")?;
    config.get("policy").and_then(Value::as_str).map(str::to_owned)
}
