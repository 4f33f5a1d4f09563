//! One run in the order of its phases: prepare, warm up, drive, finish.

use std::sync::Arc;

use tacho_client::Client;
use tacho_core::{EventSink, Timestamp};
use tacho_loadgen::StopSignal;
use tacho_metrics::replicas::ReplicaHealth;
use tacho_record::RunRecord;

use crate::serve::drive::{RunContext, announce};
use crate::serve::finish::{Finished, finish};
use crate::serve::warmup::{warm_up, warm_up_sessions};
use crate::{
    Error, plan::ServePlan, serve::drive::components::Components, serve::drive::server::Server,
    serve::log::open::OpenedLog, serve::outputs::Judge, serve::prepare::Prepared,
    serve::prepare::identity::RunIdentity, serve::ranks,
};

/// Sends a prepared workload and computes its record. An interrupt is not an error once requests have been sent.
pub fn run(
    plan: &ServePlan,
    mut prepared: Prepared,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<RunRecord, Error> {
    prepared.caller = prepared.caller.with_stop(stop);
    let identity = RunIdentity::of(plan, &prepared)?;
    let OpenedLog { log, earlier, positions } = OpenedLog::open(plan, &mut prepared, &identity, sink)?;
    let schedule = prepared.timeline.clone();
    let shard = ranks::take_share(plan, &mut prepared, positions)?;
    let rank_plan = ranks::rank_part(plan, &shard);
    let components = Components::new(&rank_plan, &prepared, stop)?;
    let coordinator = ranks::coordinate(plan, &identity.workload, components.clock, stop, sink)?;
    let warmed = warm_up(plan, &prepared, &components.payload, stop, sink)
        .and_then(|checker| Ok((checker, warm_up_sessions(plan, &prepared, &components, stop, sink)?)));
    let (checker, ()) = warmed.inspect_err(|_| {
        coordinator.as_ref().map(|coordinator| coordinator.exchange_stop(false, stop.draining()));
    })?;
    let judge = Arc::new(Judge::of(plan, &prepared, checker)?);
    let total = prepared.measured_requests(plan, &identity.requests);
    announce::start(plan, &prepared, total, sink);
    let server = Server::begin(plan, &prepared, &components, stop, sink);
    let context = RunContext {
        plan,
        rank_plan: &rank_plan,
        prepared: &prepared,
        identity: &identity,
        components: &components,
        shard: &shard,
        total,
        scrapes: server.before.is_there(),
        interrupt: stop,
        stop: &stop.inner(),
        judge: judge.clone(),
        sink,
    };
    let output = context.run(&schedule, coordinator, log)?;
    let after = server.scrape_after(&components, stop, sink);
    let provenance = server.provenance(plan, &prepared, &after, stop);
    let replicas = replica_health(&components.client, output.output.driven.origin);
    // Frees the encoded requests and response buffers, which take as much memory as all that follows.
    drop(components);
    tacho_client::return_memory();
    let scores = judge.scores(&prepared, stop);
    finish(plan, &prepared, &identity, Finished { output, earlier, server, after, provenance, replicas, scores })
}

/// What the client knows about each replica; empty if there is one server.
fn replica_health(client: &Client, origin: Timestamp) -> Vec<ReplicaHealth> {
    let health = client.replica_health().into_iter();
    health
        .map(|one| ReplicaHealth {
            name: one.name,
            moved: one.moved,
            since: one.since.map(|since| since.secs_since(origin)),
            removed: one.removed,
        })
        .collect()
}
