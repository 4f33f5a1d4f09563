//! Background tasks of the main run, a thread each: probes, scrapes, telemetry, profiler, request generation.

use std::sync::atomic::AtomicBool;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use tacho_core::{EventSink, RunEvent, json::float_repr};
use tacho_loadgen::{Driven, Error as DriveError, Supply};
use tacho_metrics::{ProbeStatistics, ServerMetrics, Telemetry};

use crate::Error;
use crate::serve::drive::profiler::{self, ProfilerResult};
use crate::serve::drive::supply::{self, Supplier};
use crate::serve::drive::{DriveOutput, RunContext, announce};

type Task<'s, T> = Option<ScopedJoinHandle<'s, T>>;

/// The tasks that the plan of a run requests.
pub(crate) struct Tasks<'s> {
    probes: Task<'s, Result<ProbeStatistics, Error>>,
    scrapes: Task<'s, ServerMetrics>,
    telemetry: Task<'s, Telemetry>,
    profiler: Task<'s, Vec<ProfilerResult>>,
    supplier: Task<'s, Option<Error>>,
}

fn spawn<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &'static str,
    task: Option<impl FnOnce() -> T + Send + 's>,
) -> Result<Task<'s, T>, Error> {
    let start = |task| Builder::new().name(name.to_owned()).spawn_scoped(scope, task);
    task.map(start).transpose().map_err(|source| Error::Thread { name, source })
}

fn join<T>(task: Task<'_, T>) -> Option<T> {
    task.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

impl<'s> Tasks<'s> {
    /// Starts them; each ends soon after `over` is set.
    pub(crate) fn spawn(
        scope: &'s Scope<'s, '_>,
        run: &'s RunContext<'_>,
        supply: Option<&'s Supply>,
        over: &'s AtomicBool,
    ) -> Result<Self, Error> {
        let RunContext { rank_plan: plan, prepared, components, identity, shard, .. } = *run;
        let requests = &identity.requests;
        let board = &components.counters.live;
        announce::on_board(plan, prepared, board);
        if let Some(probe) = &components.probe {
            run.sink.event(RunEvent::status(format!("Probe request rate: {} req/s", float_repr(probe.rate()))));
        }
        let supplier = supply.map(|supply| Supplier { plan, prepared, components, requests, supply, shard });
        // Short runs need no writer: all their requests are already encoded.
        let writes = supply.is_some() || !prepared.requests.spill().is_empty();
        spawn(scope, "encode", writes.then_some(|| components.client.write_ahead(over)))?;
        let scraper = components.scraper.as_ref().filter(|_| run.scrapes);
        Ok(Tasks {
            probes: spawn(scope, "probe", components.probe.as_ref().map(|probe| || probe.run(over)))?,
            scrapes: spawn(scope, "scrape", scraper.map(|scraper| || scraper.run(over, board)))?,
            telemetry: spawn(scope, "telemetry", components.telemetry.as_ref().map(|task| || task.run(over)))?,
            profiler: spawn(scope, "profiler", components.profiler.as_ref().map(|task| || task.run(over)))?,
            supplier: spawn(scope, "supply", supplier.map(|supplier| move || supplier.run(over)))?,
        })
    }

    /// Waits for the tasks and adds their results to those of the load generator.
    pub(crate) fn join(self, driven: Result<Driven, DriveError>, sink: &dyn EventSink) -> Result<DriveOutput, Error> {
        supply::report(join(self.supplier).flatten(), sink);
        join(self.profiler).into_iter().flatten().for_each(|result| profiler::report(result, sink));
        let (probes, server) = (join(self.probes), join(self.scrapes));
        let telemetry = join(self.telemetry).unwrap_or_default();
        Ok(DriveOutput { driven: driven?, probes: probes.transpose()?, server, telemetry })
    }
}
