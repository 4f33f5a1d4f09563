//! Scenarios: several runs of a workload on a server under the same plan, or batches on an engine.

use std::{collections::HashSet, time::Duration};

use tacho_client::control::Caller;
use tacho_core::{EventSink, Request, RunEvent, event::Note};
use tacho_loadgen::StopSignal;
use tacho_record::RunRecord;
use tacho_text::Tokenizer;
use tacho_workload::{PrefixSharing, WorkloadSpec};

use crate::offline::{Batch, Generated, OfflineEngine, Sampling, Slot, Step, check_lengths};
use crate::serve::{Contact, Prepared, prepare, run};
use crate::{Error, ServePlan, WorkloadPlan};

pub struct Online<'a> {
    /// The plan; runs may change it.
    pub plan: ServePlan,
    pub sink: &'a dyn EventSink,
    pub stop: &'a StopSignal,
}

/// A run, and the hit rate of an unbounded prefix cache.
pub struct Pass {
    pub record: RunRecord,
    pub limit: f64,
}

/// Documents that were read once to fill the cache, and then measured.
pub struct Documents {
    pub warm_up: f64,
    pub pass: Pass,
    /// Whether a request is the first one of its document.
    pub fresh: Vec<bool>,
}

impl Online<'_> {
    pub fn set_workload(&mut self, spec: WorkloadSpec, num_prompts: usize, self_timed: bool) {
        let (spec, num_prompts) = (Box::new(spec), i64::try_from(num_prompts).unwrap_or(i64::MAX));
        self.plan.workload = WorkloadPlan::Sample { spec, num_prompts, align: false, self_timed };
    }

    pub fn prepare(&self, contact: Contact) -> Result<Prepared, Error> {
        prepare(&self.plan, contact, self.sink)
    }

    /// Sends the requests. A run without a successful request is an error, not a result.
    pub fn run(&self, prepared: Prepared) -> Result<RunRecord, Error> {
        let record = run(&self.plan, prepared, self.stop, self.sink)?;
        let samples = &record.measured.samples;
        match samples.iter().find(|sample| !sample.success()) {
            Some(first) if record.summary.completed == 0 && !record.setup.interrupted => {
                Err(Error::AllFailed { count: samples.len(), reason: first.error.clone() })
            }
            _ => Ok(record),
        }
    }

    /// Like `run`, but failed requests are a result; calls `tested` when the warm-up requests are complete.
    pub fn run_tested(&self, prepared: Prepared, tested: &(dyn Fn() + Sync)) -> Result<RunRecord, Error> {
        let sink = |event| {
            if matches!(event, RunEvent::Status(Note::WarmupDone)) {
                tested();
            }
            self.sink.event(event);
        };
        run(&self.plan, prepared, self.stop, &sink)
    }

    /// Sends the requests twice, first with a cold cache. `completed` is called after the first pass. Without the
    /// second one if the run is stopped.
    pub fn twice(&mut self, prepared: Prepared, completed: &dyn Fn(&RunRecord)) -> Result<(Pass, Option<Pass>), Error> {
        let (cold, warm) = reusable(&prepared.requests.all()?, prepared.tokenizer.as_ref());
        let first = Pass { record: self.run(prepared)?, limit: cold };
        completed(&first.record);
        if self.stop.draining() {
            return Ok((first, None));
        }
        self.plan.traffic.reset_caches = false;
        let record = self.run(self.prepare(Contact::Server)?)?;
        Ok((first, Some(Pass { record, limit: warm })))
    }

    /// Sends each document once, then the requests. `warmed` is called between them.
    pub fn documents(
        &mut self,
        prepared: Prepared,
        (warm_up, documents): (WorkloadSpec, usize),
        reset_caches: bool,
        warmed: &dyn Fn(f64),
    ) -> Result<Documents, Error> {
        let (limit, _) = reusable(&prepared.requests.all()?, prepared.tokenizer.as_ref());
        let workload = self.plan.workload.clone();
        self.set_workload(warm_up, documents, false);
        let warm_up = self.run(self.prepare(Contact::Server)?)?.measured.duration;
        warmed(warm_up);
        self.plan.workload = workload;
        self.plan.traffic.reset_caches = reset_caches;
        let mut seen = HashSet::new();
        let requests = prepared.requests.all()?;
        let fresh = requests.iter().map(|request| seen.insert(format!("{:?}", request.content))).collect();
        drop(requests);
        Ok(Documents { warm_up, pass: Pass { record: self.run(prepared)?, limit }, fresh })
    }

    /// The scheduling policy reported by the server, or `None` if it does not report one: vLLM does in development
    /// mode only.
    pub fn policy(&self) -> Option<String> {
        let caller = Caller::new(&self.plan.endpoint, &self.plan.base_path, Duration::from_secs(5)).ok()?;
        let response = caller.get("/server_info?config_format=json", caller.user_headers()).ok()?;
        let info = response.json().ok().filter(|_| response.status == 200)?;
        let config = info.get("vllm_config")?.get("scheduler_config")?;
        config.text("policy").map(str::to_owned)
    }
}

/// Runs the batches in order on an engine that is started for them.
pub fn run_batches(
    batches: Vec<(Slot, Vec<Request>)>,
    sampling: Sampling,
    progress: bool,
    engine: &mut dyn OfflineEngine,
) -> Result<Vec<Generated>, Error> {
    engine.parse()?;
    let loaded = engine.load()?;
    let mut done = Vec::new();
    for (slot, requests) in batches {
        check_lengths(&requests, &loaded)?;
        engine.queue(slot, &Batch { requests, adapters: Vec::new(), lora_path: None, sampling })?;
        done.push(engine.generate(&Step { progress, ..Step::of(slot) })?);
    }
    engine.close()?;
    Ok(done)
}

/// Hit rates of an unbounded cache: for the list sent for the first time, and sent again.
fn reusable(requests: &[Request], tokenizer: Option<&Tokenizer>) -> (f64, f64) {
    let Some(tokenizer) = tokenizer else { return (0.0, 0.0) };
    let sharing = PrefixSharing::new(requests, tokenizer);
    (sharing.cached_share(), sharing.cached_again as f64 / sharing.tokens.max(1) as f64)
}
