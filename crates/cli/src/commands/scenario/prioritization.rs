//! `tacho prioritization`: requests with different priorities, on an engine or a server.

use tacho_core::json::Dict;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_engine::Policy;
use tacho_report::scenario;
use tacho_run::ServePlan;
use tacho_run::offline::Sampling;
use tacho_workload::WorkloadSpec;
use tacho_workload::scenarios::priority_of;

use super::{Scenario, print};
use crate::args::scenario::Way;
use crate::args::scenario::prioritization::PrioritizationArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &PrioritizationArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let scenario = Scenario { batch: &args.batch, interrupt: &interrupt, headline: &|_| Vec::new() };
    if args.way != Way::Engine {
        return on_server(args, &scenario);
    }
    let sampling = Sampling { n: args.n, temperature: 1.0, ignore_eos: true, detokenize: args.detokenize, beam: false };
    let spec = WorkloadSpec::Prioritization(args.spec.clone());
    if let Some((requests, done)) = scenario.on_engine(&[&spec], sampling)? {
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

fn on_server(args: &PrioritizationArgs, scenario: &Scenario<'_>) -> anyhow::Result<Exit> {
    let fixed = [("--temperature", "1.0"), ("--top-p", "1.0")];
    let workload = (WorkloadSpec::Prioritization(args.spec.clone()), args.spec.num_prompts);
    let adjust = |plan: &mut ServePlan| {
        plan.traffic.ignore_eos = true;
        if args.n > 1 {
            plan.traffic.extra_body.set("n", args.n);
        }
    };
    let policy = Some(Policy::Priority);
    scenario.on_server((args.way, &fixed), workload, policy, &adjust, |screen, online, prepared| {
        if let Some(policy) = online.policy().filter(|policy| policy != "priority") {
            screen.event(RunEvent::warning(format!(
                "the server schedules by {policy}, which ignores priorities: start it with --scheduling-policy priority"
            )));
        }
        let requests = prepared.requests.all()?.into_owned();
        let record = online.run(prepared)?;
        let done = requests.iter().zip(&record.measured.samples).filter(|(_, sample)| sample.success());
        let done: Vec<Request> = done.map(|(request, _)| request.clone()).collect();
        let (line, mut file) = throughput(&done, record.measured.duration);
        screen.print(&[line])?;
        let priorities: Vec<i64> = requests.iter().map(|request| priority_of(request).unwrap_or(0)).collect();
        screen.print(&scenario::priorities(&priorities, &record, &mut file))?;
        Ok(Some(file))
    })
}
