//! `tacho throughput`: sample, load, warm up, and run the whole batch, once or several times.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tacho_client::control::Caller;
use tacho_core::{EventSink, Request, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::TaskSummary;
use tacho_metrics::offline::{EngineNote, OfflineKind, OfflineRecord, Throughput};
use tacho_pyrand::Random;
use tacho_record::RunRecord;

use crate::offline::{
    Batch, Batches, Measured, OfflineEngine, OfflineWorkload, Sampling, Slot, Source, Step, check_lengths,
};
use crate::plan::ServePlan;
use crate::serve::{Contact, prepare as prepare_serve, run as run_serve, save_requests};
use crate::{Error, LoraAssignment};

/// Timeout of a prefix-cache reset.
const RESET: Duration = Duration::from_secs(30);

/// A run of `tacho throughput` on an engine.
#[derive(Debug, Clone)]
pub struct ThroughputPlan {
    pub engine: EngineNote,
    /// The tokenizer of the prompts.
    pub source: Source,
    pub workload: OfflineWorkload,
    pub sampling: Sampling,
    pub lora: Option<OfflineLora>,
    /// This process's index among several, and their number.
    pub share: Option<(usize, usize)>,
    pub profile: bool,
    /// Whether all requests are queued before the engine starts.
    pub prequeue: bool,
    /// Whether the engine draws its own progress bar.
    pub progress: bool,
    /// Whether token counts include media.
    pub counts_media: bool,
    /// Number of runs of the batch.
    pub runs: u64,
}

/// A run of `tacho throughput` on a running server.
#[derive(Debug, Clone)]
pub struct ServedPlan {
    /// The plan of the run, with all requests at once.
    pub serve: ServePlan,
    pub runs: u64,
    pub engine: EngineNote,
    /// File to write the requests to, if any.
    pub save_workload: Option<PathBuf>,
}

/// Assignment of LoRA adapters to requests.
#[derive(Debug, Clone)]
pub struct OfflineLora {
    pub path: String,
    pub count: u64,
    pub assignment: LoraAssignment,
}

pub fn prepare(plan: &ThroughputPlan, sink: &dyn EventSink) -> Result<Batches, Error> {
    let mut sampler = plan.source.open(sink)?;
    let mut drawn = |part| {
        let requests = sampler.draw(&plan.workload, part)?;
        Ok::<_, Error>(batch(plan, requests, &mut sampler.globals.py))
    };
    // In this order: adapters of the warm-up are drawn before the measured requests.
    let (warmup, measured) = (drawn(Slot::Warmup)?, drawn(Slot::Measured)?);
    if measured.requests.is_empty() { Err(Error::EmptyWorkload) } else { Ok(Batches { warmup, measured }) }
}

/// Runs the batch the planned number of times, and computes its record. Finished runs are kept if a later one fails
/// or is stopped: the record states why it has fewer.
pub fn run(
    plan: &ThroughputPlan,
    batches: &Batches,
    engine: &mut dyn OfflineEngine,
    sink: &dyn EventSink,
) -> Result<Measured, Error> {
    let Batches { warmup, measured } = batches;
    let loaded = engine.load()?;
    for batch in [warmup, measured] {
        check_lengths(&batch.requests, &loaded)?;
    }
    if !warmup.requests.is_empty() {
        sink.event(RunEvent::status(format!("Warming up with {} requests...", warmup.requests.len())));
        engine.queue(Slot::Warmup, warmup)?;
        engine.generate(&Step { prequeue: plan.prequeue, progress: plan.progress, ..Step::of(Slot::Warmup) })?;
    }
    engine.queue(Slot::Measured, measured)?;
    let step =
        Step { profile: plan.profile, prequeue: plan.prequeue, progress: plan.progress, ..Step::of(Slot::Measured) };
    let first = engine.generate(&step)?;
    let mut times = vec![first.seconds];
    let mut ended = None;
    while ended.is_none() && (times.len() as u64) < plan.runs {
        match engine.generate(&Step { fresh: true, ..step }) {
            Ok(generated) => times.push(generated.seconds),
            Err(error) => ended = Some(error.into()),
        }
    }
    let has_media = measured.requests.iter().any(|request| request.media.is_some());
    let count = measured.requests.len() as u64;
    let engine = EngineNote {
        versions: loaded.versions,
        profile_dir: loaded.profile_dir.filter(|_| plan.profile),
        ..plan.engine.clone()
    };
    let throughput = Throughput {
        times,
        profile_seconds: first.profile_seconds,
        num_requests: count,
        failed: count.saturating_sub(first.finished),
        prompt_tokens: first.prompt_tokens,
        output_tokens: first.output_tokens,
        media_uncounted: has_media && !plan.counts_media,
    };
    let model_id = plan.source.model_id.clone();
    Ok(Measured { record: OfflineRecord { model_id, engine, measured: OfflineKind::Throughput(throughput) }, ended })
}

/// The requests with their adapters; each of several processes keeps its part.
fn batch(plan: &ThroughputPlan, requests: Vec<Request>, random: &mut Random) -> Batch {
    let adapters = plan.lora.as_ref().map_or_else(Vec::new, |lora| adapters(lora, requests.len(), random));
    let mine = |at: usize| plan.share.is_none_or(|(rank, of)| at % of == rank);
    let adapters = adapters.into_iter().enumerate().filter(|(at, _)| mine(*at)).map(|(_, id)| id).collect();
    let requests = requests.into_iter().enumerate().filter(|(at, _)| mine(*at)).map(|(_, one)| one).collect();
    Batch { requests, adapters, lora_path: plan.lora.as_ref().map(|lora| lora.path.clone()), sampling: plan.sampling }
}

fn adapters(lora: &OfflineLora, count: usize, random: &mut Random) -> Vec<u64> {
    let most = lora.count.max(1);
    match lora.assignment {
        LoraAssignment::RoundRobin => (0..count as u64).map(|at| at % most + 1).collect(),
        LoraAssignment::Random => (0..count).map(|_| random.randint(1, most as i64).unsigned_abs()).collect(),
    }
}

/// Sends the batch to a running server, all requests at once, the planned number of times, and computes the same
/// record.
pub fn run_served(plan: &ServedPlan, stop: &StopSignal, sink: &dyn EventSink) -> Result<Measured, Error> {
    let ServedPlan { serve, runs, save_workload, .. } = plan;
    if serve.traffic.warmups > 0 {
        sink.event(RunEvent::status(format!("Warming up with {} requests...", serve.traffic.warmups)));
    }
    let caller = Caller::new(&serve.endpoint, &serve.base_path, RESET)?.with_stop(stop);
    let mut first: Option<(String, Throughput)> = None;
    let finished = |first: Option<(String, Throughput)>, ended| {
        let (model_id, throughput) = first.ok_or(Error::EmptyWorkload)?;
        let measured = OfflineKind::Throughput(throughput);
        Ok(Measured { record: OfflineRecord { model_id, engine: plan.engine.clone(), measured }, ended })
    };
    for run in 0..(*runs).max(1) {
        if run > 0 && !reset(&caller) {
            let text = "the server's prefix cache could not be reset: later runs may find their prompts in it";
            sink.event(RunEvent::warning(text));
        }
        let save = save_workload.as_deref().filter(|_| run == 0);
        let one = serve_once(&numbered(plan, run), save, stop, sink);
        match (one, &mut first) {
            (Ok(one), None) => first = Some(one),
            // An interrupted run is not comparable.
            (Ok((_, next)), Some((_, first))) if !stop.draining() => first.times.extend(next.times),
            (Err(error), Some(_)) => return finished(first, Some(error)),
            (Err(error), None) => return Err(error),
            (Ok(_), Some(_)) => {}
        }
        if stop.draining() {
            return finished(first, Some(Error::Stopped));
        }
    }
    finished(first, None)
}

/// The plan of one of several runs, each with its own log.
fn numbered(plan: &ServedPlan, run: u64) -> ServedPlan {
    let mut plan = plan.clone();
    if let Some(log) = plan.serve.log.as_mut().filter(|_| run > 0) {
        let mut name = log.directory.as_os_str().to_owned();
        name.push(format!("-{}", run + 1));
        log.directory = name.into();
    }
    plan
}

fn serve_once(
    plan: &ServedPlan,
    save: Option<&Path>,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<(String, Throughput), Error> {
    let prepared = prepare_serve(&plan.serve, Contact::Server, &())?;
    if let Some(path) = save {
        save_requests(&prepared.requests.all()?, path)?;
    }
    let has_media = prepared.requests.kept().iter().any(|request| request.media.is_some());
    let model_id = prepared.model_id.clone();
    let record = run_serve(&plan.serve, prepared, stop, &Bars(sink))?;
    match served(&record, has_media) {
        // Stopped before the first response: the interrupt is the cause.
        Err(Error::AllFailed { .. }) if stop.draining() => Err(Error::Stopped),
        served => Ok((model_id, served?)),
    }
}

/// Returns whether the server reports that its prefix cache was reset.
fn reset(caller: &Caller) -> bool {
    caller
        .post("/reset_prefix_cache", caller.user_headers(), b"")
        .is_ok_and(|answer| (200..300).contains(&answer.status))
}

/// Passes only progress bars and warnings on: the status lines of a serving run do not belong to this command.
struct Bars<'a>(&'a dyn EventSink);

impl EventSink for Bars<'_> {
    fn event(&self, event: RunEvent) {
        if !matches!(event, RunEvent::Status(_)) {
            self.0.event(event);
        }
    }
}

fn served(record: &RunRecord, has_media: bool) -> Result<Throughput, Error> {
    let (samples, summary) = (&record.measured.samples, &record.summary);
    if let (0, Some(first)) = (summary.completed, samples.iter().next()) {
        return Err(Error::AllFailed { count: samples.len(), reason: first.error.clone() });
    }
    let output_tokens = match &summary.task {
        TaskSummary::Generation(generation) => generation.total_output,
        TaskSummary::Pooling(_) | TaskSummary::Media(_) => 0,
    };
    Ok(Throughput {
        times: vec![record.measured.duration],
        profile_seconds: 0.0,
        num_requests: samples.len() as u64,
        failed: samples.len() as u64 - summary.completed,
        prompt_tokens: summary.total_input,
        output_tokens,
        media_uncounted: has_media,
    })
}
