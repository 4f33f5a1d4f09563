//! The run itself: rehearse, scrape, send, scrape, compute. Reads like the order of events because it is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tacho_client::control::{ProfilerCall, profile, reset_caches};
use tacho_client::{BackendKind, Client, ClientPlan, PayloadSpec};
use tacho_core::{Counters, EventSink, Request, RunEvent, SystemClock};
use tacho_loadgen::{Drive, Driven, ScheduleSpec, StopSignal, drive};
use tacho_metrics::{ProbeStatistics, RunRecord, ServerMetrics};

use super::prepare::Prepared;
use super::ready::Rehearsal;
use super::record::{self, Moments, Seen};
use super::scrape::{self, Scrape, Watch};
use super::{probe, spot_check, workers::default_workers};
use crate::Error;
use crate::plan::{ServePlan, TrafficPlan, WorkloadPlan};

/// Connections opened ahead when it is not known how many will be needed.
const AHEAD: usize = 16;

/// Sends a prepared workload and computes its record. A stop is no error once requests have been sent.
pub fn run(plan: &ServePlan, prepared: Prepared, stop: &StopSignal, sink: &dyn EventSink) -> Result<RunRecord, Error> {
    let traffic = &plan.traffic;
    let say = |line: String| sink.event(RunEvent::Status(line));
    let payload = PayloadSpec {
        model: prepared.model_name.clone(),
        logprobs: traffic.logprobs,
        ignore_eos: traffic.ignore_eos,
        extra_body: traffic.extra_body.clone(),
    };
    rehearse(plan, &prepared, &payload, stop, sink)?;
    say("Starting main benchmark run...".into());
    let profiling = traffic.profile && {
        say("Starting profiler...".into());
        call_profiler(plan, &prepared, ProfilerCall::Start, "Profiler started", sink)
    };
    announce(plan, sink);
    let clock = SystemClock::start();
    let before = Scrape::take(&prepared.caller, clock);
    let watch = Watch::new(plan, &before, clock)?;
    let client_plan = connections(traffic, prepared.requests.len(), &plan.workload);
    let client = Client::new(plan.endpoint.clone(), &payload, &prepared.requests, client_plan, clock)?;
    let audio_seconds = audio_seconds(plan.endpoint.backend, &prepared.requests)?;
    let moments = Moments::now(clock);
    let probe_request = (traffic.probe_rate > 0.0).then(|| probe::probe_request(&prepared.requests[0]));
    let beside = Beside { payload: &payload, probe: probe_request, watch };
    let (driven, probes, during) = drive_with_others(plan, &prepared, &client, clock, beside, stop, sink)?;
    let after = Scrape::take(&prepared.caller, clock);
    let server = scrape::series(&before, during, &after, driven.origin.secs());
    let mut record =
        record::compute(plan, &prepared, driven, &moments, Seen { before, after, server, probes, audio_seconds });
    if profiling || traffic.profile {
        say("Stopping profiler...".into());
        call_profiler(plan, &prepared, ProfilerCall::Stop, "Profiler stopped", sink);
    }
    if let Some(caveat) = spot_check::tokenizers(plan, &prepared, &record) {
        record.doubt(caveat);
    }
    Ok(record)
}

/// How long the sound of each request plays; nothing for protocols that send none.
fn audio_seconds(backend: BackendKind, requests: &[Request]) -> Result<Vec<f64>, Error> {
    if backend != BackendKind::OpenAiAudio {
        return Ok(Vec::new());
    }
    let seconds = |(index, request)| {
        let unfit = |reason| tacho_client::Error::Unfit { index, backend: backend.name(), reason };
        backend.audio_seconds(request).map_err(|reason| unfit(reason).into())
    };
    requests.iter().enumerate().map(seconds).collect()
}

/// The ready check and the warm-ups, in vLLM's words, and a cold start where it is asked for.
fn rehearse(
    plan: &ServePlan,
    prepared: &Prepared,
    payload: &PayloadSpec,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(), Error> {
    let traffic = &plan.traffic;
    let say = |line: &str| sink.event(RunEvent::Status(line.to_owned()));
    if !traffic.temperature_given {
        say("WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The default \
             will be determined on the server side and can be model/API specific. For the old behavior, include \
             --temperature=0.");
    }
    say("Starting initial single prompt test run...");
    let test = Request { id: None, lora: None, ..prepared.requests[0].clone() };
    let max_concurrency = traffic.max_concurrency;
    let rehearsal = Rehearsal { endpoint: &plan.endpoint, payload, request: test, max_concurrency, stop, sink };
    if traffic.ready_timeout.is_zero() {
        say("Skipping endpoint ready check.");
    } else {
        rehearsal.wait_until_ready(traffic.ready_timeout)?;
        say("Initial test run completed.");
    }
    if traffic.warmups > 0 {
        say(&format!("Warming up with {} requests...", traffic.warmups));
        let (failed, first) = rehearsal.warm_up(traffic.warmups)?;
        if let Some(reason) = first {
            let text = format!("{failed} of {} warm-up requests failed; the first: {reason}", traffic.warmups);
            sink.event(RunEvent::Warning(text));
        }
        say("Warmup run completed.");
    }
    if traffic.reset_caches {
        reset_caches(&prepared.caller, plan.endpoint.backend)?;
        say("Server caches reset.");
    }
    if stop.draining() { Err(Error::Stopped) } else { Ok(()) }
}

/// True when the server did it. Upstream is silent when it did not; that costs people their profile. Writing one out may
/// take many minutes, so that it has all the time that a request has.
fn call_profiler(plan: &ServePlan, prepared: &Prepared, call: ProfilerCall, done: &str, sink: &dyn EventSink) -> bool {
    let worked = profile(&prepared.caller.with_timeout(plan.endpoint.timeout), call);
    match &worked {
        Ok(true) => sink.event(RunEvent::Status(done.to_owned())),
        Ok(false) => sink.event(RunEvent::Warning("the server has no profiler to control".into())),
        Err(error) => sink.event(RunEvent::Warning(format!("the profiler could not be reached: {error}"))),
    }
    worked.unwrap_or(false)
}

/// The traffic lines.
fn announce(plan: &ServePlan, sink: &dyn EventSink) {
    let say = |line: String| sink.event(RunEvent::Status(line));
    if matches!(plan.workload, WorkloadPlan::File { .. } | WorkloadPlan::Sample { self_timed: true, .. }) {
        say("Self timing is set, using the timestamps from the trace file.".into());
        return;
    }
    let burstiness = match &plan.traffic.schedule {
        ScheduleSpec::Replay(_) => {
            say("Self timing is set, using the timestamps from the trace file.".into());
            return;
        }
        ScheduleSpec::Rate { rate, burstiness } => {
            say(format!("Traffic request rate: {}", tacho_core::json::float_repr(*rate)));
            *burstiness
        }
        ScheduleSpec::RampUp { ramp, burstiness } => {
            say(format!("Traffic ramp-up strategy: {}.", ramp.strategy.name()));
            let (start, end) = (ramp.start_rps, ramp.end_rps);
            say(format!("Will increase RPS from {start} to {end} RPS over the duration of the benchmark."));
            *burstiness
        }
    };
    let process = if burstiness == 1.0 { "Poisson process" } else { "Gamma distribution" };
    say(format!("Burstiness factor: {} ({process})", tacho_core::json::float_repr(burstiness)));
    let limit = plan.traffic.max_concurrency.map_or_else(|| "None".to_owned(), |limit| limit.to_string());
    say(format!("Maximum request concurrency: {limit}"));
}

/// How many connections to open, as far as the schedule tells.
fn connections(traffic: &TrafficPlan, count: usize, workload: &WorkloadPlan) -> ClientPlan {
    let at_once = matches!(traffic.schedule, ScheduleSpec::Rate { rate, .. } if rate.is_infinite())
        && matches!(workload, WorkloadPlan::Sample { self_timed: false, .. });
    match traffic.max_concurrency {
        Some(limit) => {
            let most = limit.min(count);
            ClientPlan { preconnect: most, spare: false, at_most: Some(most) }
        }
        None if at_once => ClientPlan { preconnect: count, spare: false, at_most: Some(count) },
        None => ClientPlan { preconnect: AHEAD.min(count), spare: true, at_most: None },
    }
}

/// What goes on beside the main run.
struct Beside<'a> {
    payload: &'a PayloadSpec,
    probe: Option<Request>,
    watch: Option<Watch>,
}

type Together = (Driven, Option<ProbeStatistics>, Option<ServerMetrics>);

/// The main run, with probes and looks at the server's metrics beside it where they are asked for.
fn drive_with_others(
    plan: &ServePlan,
    prepared: &Prepared,
    client: &Client,
    clock: SystemClock,
    beside: Beside<'_>,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Together, Error> {
    let counters = Arc::new(Counters::default());
    let total = prepared.requests.len() as u64;
    let drive_plan = Drive {
        timeline: &prepared.timeline,
        max_concurrency: plan.traffic.max_concurrency,
        workers: plan.traffic.workers.unwrap_or_else(default_workers),
        grace: plan.traffic.grace,
        clock: &clock,
        stop,
        counters: &counters,
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let watch = beside.watch.as_ref().map(|watch| scope.spawn(move || watch.run(over)));
        let probes = beside.probe.map(|request| {
            let rate = plan.traffic.probe_rate;
            let line = format!("Probe request rate: {} req/s", tacho_core::json::float_repr(rate));
            sink.event(RunEvent::Status(line));
            let payload = beside.payload;
            scope.spawn(move || probe::run(&plan.endpoint, payload, request, rate, over))
        });
        sink.event(RunEvent::Started { what: "benchmark", total, counters: counters.clone() });
        let driven = drive(client, &drive_plan);
        over.store(true, Ordering::Relaxed);
        sink.event(RunEvent::Finished);
        let probes = match probes {
            Some(thread) => Some(thread.join().expect("the probe thread does not panic")?),
            None => None,
        };
        let watched = watch.map(|thread| thread.join().expect("the metrics thread does not panic"));
        Ok((driven, probes, watched))
    })
}
