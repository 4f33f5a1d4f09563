//! The server around the main run: its profiler, and its metrics before and after.

use std::time::Duration;

use tacho_client::Rules;
use tacho_client::control::{Caller, ServerInfo, server_info};
use tacho_core::EventSink;
use tacho_loadgen::StopSignal;
use tacho_metrics::server_metrics::{cache_settings, engine};
use tacho_record::{Provenance, ServerFacts};
use tacho_rowlog::this_host;

use crate::{
    plan::ServePlan, serve::drive::announce, serve::drive::components::Components, serve::drive::profiler::Profiling,
    serve::drive::scrape::Scrape, serve::prepare::Prepared,
};

/// Timeout of the last scrape after an interrupt.
const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(1);

/// The server during a run. The profiler, if it was started, stops when this is dropped.
pub(crate) struct Server<'a> {
    callers: Vec<Caller>,
    pub(crate) before: Scrape,
    pub(crate) profiling: Vec<Profiling<'a>>,
}

impl<'a> Server<'a> {
    /// Starts the profiler if the plan requests it for the whole run, and scrapes the metrics.
    pub(crate) fn begin(
        plan: &ServePlan,
        prepared: &Prepared,
        components: &Components,
        stop: &StopSignal,
        sink: &'a dyn EventSink,
    ) -> Self {
        let traffic = &plan.traffic;
        let callers: Vec<Caller> = prepared.callers().map(|caller| caller.with_stop(stop)).collect();
        // Writing out a profile may take minutes, longer than other calls.
        let profiles = traffic.profile && components.profiler.is_none();
        let start = |caller: &Caller| Profiling::start(caller.with_timeout(plan.endpoint.timeout), sink);
        let profiling = callers.iter().filter(|_| profiles).map(start).collect();
        announce::traffic(plan, &prepared.timeline, sink);
        Server { before: Scrape::take(&callers, components.clock, sink), callers, profiling }
    }

    /// Scrapes the metrics after the run. What failed before is not reported twice.
    pub(crate) fn scrape_after(&self, components: &Components, stop: &StopSignal, sink: &dyn EventSink) -> Scrape {
        let hurried = |caller: &Caller| caller.with_timeout(INTERRUPTED_TIMEOUT);
        let hurried: Option<Vec<Caller>> = stop.draining().then(|| self.callers.iter().map(hurried).collect());
        let sink = if self.before.failed { &() } else { sink };
        Scrape::take(hurried.as_ref().unwrap_or(&self.callers), components.clock, sink)
    }

    /// The provenance of the run, with facts from the server's API. The server is not queried after a stop, nor in
    /// strict parity, which sends only what vLLM sends.
    pub(crate) fn provenance(
        &self,
        plan: &ServePlan,
        prepared: &Prepared,
        after: &Scrape,
        stop: &StopSignal,
    ) -> Provenance {
        let Some(known) = prepared.provenance(plan) else { return Provenance::default() };
        let mut server = known.server.clone();
        let may_ask = !stop.draining() && plan.endpoint.rules != Rules::Vllm;
        if server.engine.is_none() && may_ask {
            let ServerInfo { version, engine: stated, model, revision, image, gpus, driver, cuda, settings } =
                server_info(&self.callers[0]);
            let engine = stated.or_else(|| engine(after.text()).map(str::to_owned));
            let command = server.command;
            server = ServerFacts { engine, version, command, model, revision, image, gpus, driver, cuda, settings };
        }
        server.settings.extend(cache_settings(after.text()));
        Provenance { seed: Some(i64::from(plan.seed)), host: Some(this_host()), server, ..known }
    }
}
