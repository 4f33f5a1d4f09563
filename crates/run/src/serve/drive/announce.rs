//! Announces the traffic before the first request.

use std::sync::Arc;

use tacho_core::live::{LiveBoard, LoadTitle};
use tacho_core::{EventSink, RunEvent, json::float_repr};
use tacho_loadgen::Timeline;

use crate::{plan::ServePlan, serve::prepare::Prepared};

/// Notes on the request rate and the concurrency limit.
pub(crate) fn traffic(plan: &ServePlan, timeline: &Timeline, sink: &dyn EventSink) {
    let pace = timeline.arrivals();
    let say = |text: String| sink.event(RunEvent::status(text));
    if let Some(last) = timeline.stages().last() {
        let stages = match timeline.stages().len() {
            1 => "1 stage".to_owned(),
            count => format!("{count} stages"),
        };
        // Zero if responses determine it.
        let requests: usize = timeline.stages().iter().map(|stage| stage.requests).sum();
        let requests = if requests == 0 { String::new() } else { format!(", {requests} requests") };
        return say(format!("Traffic: {stages} in {:.0} s{requests}.", last.end));
    }
    if pace.processes > 1 {
        let (classes, requests, rate) = (pace.processes, timeline.len(), pace.rate);
        return say(format!(
            "Traffic: {classes} classes with their own arrivals, {requests} requests, {rate:.3} req/s in total."
        ));
    }
    if pace.replayed {
        return plan.preamble(sink, "Self timing is set, using the timestamps from the trace file.");
    }
    let rate = match pace.ramp {
        None => format!("Traffic request rate: {}", float_repr(pace.rate)),
        Some(ramp) => format!(
            "Traffic ramp-up strategy: {}.\nWill increase RPS from {} to {} RPS over the duration of the benchmark.",
            ramp.strategy.name(),
            ramp.start_rps,
            ramp.end_rps
        ),
    };
    plan.preamble(sink, &rate);
    let process = if pace.burstiness == 1.0 { "Poisson process" } else { "Gamma distribution" };
    plan.preamble(sink, &format!("Burstiness factor: {} ({process})", float_repr(pace.burstiness)));
    let limit = plan.traffic.max_concurrency.map_or_else(|| "None".to_owned(), |limit| limit.to_string());
    plan.preamble(sink, &format!("Maximum request concurrency: {limit}"));
}

pub(crate) fn start(plan: &ServePlan, prepared: &Prepared, requests: u64, sink: &dyn EventSink) {
    let LoadTitle { model, server, load } = title(plan, prepared);
    let requests = if requests == 0 { String::new() } else { format!(", {requests} requests") };
    plan.announce(sink, "Starting main benchmark run...", format!("{model} at {server}: {load}{requests}"));
}

fn title(plan: &ServePlan, prepared: &Prepared) -> LoadTitle {
    LoadTitle {
        model: prepared.model_id.clone(),
        server: match plan.endpoint.replicas.list.len() {
            0 => plan.endpoint.url.origin(),
            count => format!("{count} replicas"),
        },
        load: load(prepared, plan.traffic.max_concurrency),
    }
}

/// Writes the title and the schedule of a run on its live board.
pub(crate) fn on_board(plan: &ServePlan, prepared: &Prepared, board: &LiveBoard) {
    let limit = plan.traffic.max_concurrency;
    let mut metrics = board.lock();
    metrics.title = Arc::new(title(plan, prepared));
    metrics.output = plan.endpoint.backend.output();
    metrics.stages = prepared.timeline.stages().into();
    if prepared.sessions.is_none() {
        metrics.scheduled = prepared.timeline.shared_schedule();
        metrics.is_limited = limit.is_some() && !is_burst(&prepared.timeline);
    }
}

/// Whether all requests are due at once: with a concurrency limit a closed loop, in which none of them queues.
fn is_burst(timeline: &Timeline) -> bool {
    let process = timeline.arrivals();
    !process.rate.is_finite() && process.ramp.is_none() && !process.replayed
}

/// Short description of arrivals and concurrency limit.
fn load(prepared: &Prepared, limit: Option<usize>) -> String {
    let process = prepared.timeline.arrivals();
    let arrivals = match process.ramp {
        _ if prepared.sessions.is_some() => "sessions".to_owned(),
        Some(ramp) => format!("{} to {} req/s", ramp.start_rps, ramp.end_rps),
        None if process.replayed => "recorded times".to_owned(),
        None if process.rate.is_finite() => format!("{} req/s", process.rate),
        None => "burst".to_owned(),
    };
    match limit {
        Some(limit) if is_burst(&prepared.timeline) => format!("concurrency {limit}"),
        Some(limit) => format!("{arrivals}, concurrency {limit}"),
        None => arrivals,
    }
}
