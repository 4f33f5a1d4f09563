//! The main run: the load generator and the background tasks that run while it sends.

pub(crate) mod announce;
pub(crate) mod components;
pub(crate) mod measure;
mod probe;
mod profiler;
pub(crate) mod row_command;
pub(crate) mod scrape;
pub(crate) mod server;
pub(crate) mod supply;
mod tasks;
pub(crate) mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tacho_core::{EventSink, RowSink, RunEvent, Shard, Timestamp, Work};
use tacho_loadgen::{Drive, Driven, StopSignal, Supply};
use tacho_metrics::{ProbeStatistics, ServerMetrics, Telemetry};

use crate::{
    Error, plan::ServePlan, serve::drive::components::Components, serve::drive::supply::is_endless,
    serve::drive::tasks::Tasks, serve::drive::workers::default_workers, serve::outputs::Judge,
    serve::prepare::Prepared, serve::prepare::identity::RunIdentity,
};

/// A warmed-up run.
pub(crate) struct RunContext<'a> {
    pub(crate) plan: &'a ServePlan,
    /// The plan with this rank's part of the limits.
    pub(crate) rank_plan: &'a ServePlan,
    pub(crate) prepared: &'a Prepared,
    /// The run and all its requests, including those generated during the run.
    pub(crate) identity: &'a RunIdentity,
    pub(crate) components: &'a Components,
    pub(crate) shard: &'a Shard,
    /// Number of requests of all ranks, for the progress display.
    pub(crate) total: u64,
    /// Whether the server has a metrics endpoint to scrape.
    pub(crate) scrapes: bool,
    pub(crate) interrupt: &'a StopSignal,
    /// Ends this run, for any reason.
    pub(crate) stop: &'a StopSignal,
    pub(crate) judge: Arc<Judge>,
    pub(crate) sink: &'a dyn EventSink,
}

/// Sets the start time if several ranks start together.
pub(crate) type Start<'a> = Option<&'a (dyn Fn() -> Timestamp + Sync)>;

/// Results of the main run and its background tasks.
pub(crate) struct DriveOutput {
    pub(crate) driven: Driven,
    pub(crate) probes: Option<ProbeStatistics>,
    pub(crate) server: Option<ServerMetrics>,
    pub(crate) telemetry: Telemetry,
}

pub(crate) trait RowReceiver: RowSink {
    /// Called after the last row of this process, while other ranks may still send.
    fn wait_for_ranks(&mut self);
}

/// Ends the background tasks when dropped, also by a panic.
struct EndTasks<'a>(&'a AtomicBool);

impl Drop for EndTasks<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl RunContext<'_> {
    /// Sends the requests, with the background tasks of the plan. Fails when a worker or a task cannot start. Other
    /// ranks are not waited for then: they would wait for this one.
    pub(crate) fn drive(&self, rows: &mut dyn RowReceiver, start: Start<'_>) -> Result<DriveOutput, Error> {
        let supply = is_endless(self.rank_plan, self.prepared).then(|| Supply::new(self.prepared.requests.len()));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = EndTasks(&over);
            let tasks = Tasks::spawn(scope, self, supply.as_ref(), &over)?;
            let (work, counters) = (Work::Benchmark, self.components.counters.clone());
            self.sink.event(RunEvent::Started { work, total: self.total, counters });
            let limits = self.limits();
            let driven =
                self.prepared.drive(&self.components.client, &self.load(supply.as_ref(), &limits, start), rows);
            if driven.is_ok() {
                rows.wait_for_ranks();
            }
            drop(end);
            self.sink.event(RunEvent::Finished);
            tasks.join(driven, self.sink)
        })
    }

    /// This rank's part of the concurrency limits that change.
    fn limits(&self) -> Vec<(f64, usize)> {
        let of_rank = |limit| self.rank_plan.ranks.as_ref().map_or(limit, |member| member.limit(limit));
        let stages = self.prepared.timeline.limits().into_iter().map(|(start, limit)| (start, of_rank(limit)));
        stages.chain(self.rank_plan.traffic.ramp()).collect()
    }

    fn load<'s>(&'s self, supply: Option<&'s Supply>, limits: &'s [(f64, usize)], start: Start<'s>) -> Drive<'s> {
        let traffic = &self.rank_plan.traffic;
        Drive {
            max_concurrency: traffic.max_concurrency,
            limits,
            max_prefills: traffic.max_prefills,
            workers: traffic.workers.unwrap_or_else(default_workers),
            supply,
            duration: traffic.stops.duration,
            grace: traffic.grace,
            drain_timeout: traffic.stops.drain,
            overload_drain_timeout: traffic.stops.overload_grace,
            start,
            ..Drive::of(&self.prepared.timeline, &self.components.clock, self.stop, &self.components.counters)
        }
    }
}
