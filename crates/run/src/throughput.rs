//! `tacho throughput`: sample, load, warm up, run the whole batch, once or several times.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tacho_client::control::Caller;
use tacho_core::event::ServeNote;
use tacho_core::{Counters, EventSink, Request, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::TaskSummary;
use tacho_metrics::offline::{EngineNote, ThroughputRecord};
use tacho_pyrand::{Globals, Random};
use tacho_record::RunRecord;
use tacho_text::Tokenizer;
use tacho_workload::hub::Hub;
use tacho_workload::{WorkloadSpec, read_jsonl, sample};

use crate::offline::{Batch, Loaded, Measured, OfflineEngine, Sampling, Slot, Step};
use crate::plan::{ServePlan, TokenizerPlan};
use crate::serve::{Contact, load_tokenizer, prepare as prepare_serve, run as run_serve, save_requests, save_workload};
use crate::{Error, LoraAssignment};

/// How long a server may take to forget its prefixes.
const RESET: Duration = Duration::from_secs(30);

/// A run of `tacho throughput` on an engine.
#[derive(Debug, Clone)]
pub struct ThroughputPlan {
    /// The model's name.
    pub model_id: String,
    /// What runs it.
    pub engine: EngineNote,
    /// What makes the prompts.
    pub tokenizer: TokenizerPlan,
    /// Where tokenizers and datasets that are not local come from.
    pub hub: Hub,
    /// The prompts.
    pub workload: OfflineWorkload,
    /// Seeds Python's global generators.
    pub seed: u32,
    /// How tokens are drawn.
    pub sampling: Sampling,
    /// Adapters, if any.
    pub lora: Option<OfflineLora>,
    /// This process's place among its like, and how many there are.
    pub share: Option<(usize, usize)>,
    /// Whether the profiler runs.
    pub profile: bool,
    /// Whether everything is queued first.
    pub prequeue: bool,
    /// Whether the engine draws its own bar.
    pub progress: bool,
    /// Whether token counts include media.
    pub counts_media: bool,
    /// How often the batch is run.
    pub runs: u64,
}

/// A run of `tacho throughput` on a running server.
#[derive(Debug, Clone)]
pub struct ServedPlan {
    /// The server, the requests, and all of them at once.
    pub serve: ServePlan,
    /// How often.
    pub runs: u64,
    /// What the record says of the engine.
    pub engine: EngineNote,
    /// Where the requests are written, if anywhere.
    pub save_workload: Option<PathBuf>,
}

/// The prompts of an offline run.
#[derive(Debug, Clone)]
pub enum OfflineWorkload {
    /// Sampled: the measured requests, and the unmeasured ones under a seed of their own.
    Sample {
        /// The measured ones.
        measured: Box<WorkloadSpec>,
        /// Those before them.
        warmup: Option<Box<WorkloadSpec>>,
    },
    /// Read from a file that an earlier run saved; the first ones warm up.
    File {
        /// The file.
        path: PathBuf,
        /// How many of them are run before.
        warmups: usize,
    },
}

/// How requests get adapters.
#[derive(Debug, Clone)]
pub struct OfflineLora {
    /// Where they are.
    pub path: String,
    /// How many there are.
    pub count: u64,
    /// Who gets which.
    pub assignment: LoraAssignment,
}

/// The requests of a run, with their adapters.
#[derive(Debug, Clone)]
pub struct Batches {
    warmup: Batch,
    measured: Batch,
}

impl Batches {
    /// Writes the measured requests, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let named = |(at, request): (usize, &Request)| Request {
            lora: self.measured.adapters.get(at).map(u64::to_string),
            ..request.clone()
        };
        let requests: Vec<Request> = self.measured.requests.iter().enumerate().map(named).collect();
        save_requests(&requests, path)
    }
}

/// Makes the requests.
///
/// # Errors
/// When the workload cannot be made, or is empty.
pub fn prepare(plan: &ThroughputPlan, sink: &dyn EventSink) -> Result<Batches, Error> {
    let mut globals = Globals::seeded(plan.seed);
    let (tokenizer, _) = load_tokenizer(&plan.tokenizer, &plan.model_id, &plan.hub, sink)?;
    let mut drawn = |part| {
        let requests = plan.workload.draw(part, tokenizer.as_ref(), &plan.hub, &mut globals, sink)?;
        Ok::<_, Error>(batch(plan, requests, &mut globals.py))
    };
    // In this order: adapters of the warm-up are drawn before the measured requests are.
    let (warmup, measured) = (drawn(Slot::Warmup)?, drawn(Slot::Measured)?);
    if measured.requests.is_empty() { Err(Error::EmptyWorkload) } else { Ok(Batches { warmup, measured }) }
}

/// Runs the batch, as often as is planned, and computes its record. Runs that are done outlive one that fails or is
/// stopped: the record tells why it is short.
///
/// # Errors
/// When the engine fails before a run is done.
pub fn run(
    plan: &ThroughputPlan,
    batches: &Batches,
    engine: &mut dyn OfflineEngine,
    sink: &dyn EventSink,
) -> Result<Measured<ThroughputRecord>, Error> {
    let Batches { warmup, measured } = batches;
    let loaded = engine.load()?;
    for batch in [warmup, measured] {
        check_lengths(&batch.requests, &loaded)?;
    }
    if !warmup.requests.is_empty() {
        sink.event(RunEvent::status(ServeNote::WarmingUp { requests: warmup.requests.len() }));
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
    let record = ThroughputRecord {
        model_id: plan.model_id.clone(),
        engine: EngineNote {
            versions: loaded.versions,
            profile_dir: loaded.profile_dir.filter(|_| plan.profile),
            ..plan.engine.clone()
        },
        times,
        profile_seconds: first.profile_seconds,
        num_requests: count,
        failed: count.saturating_sub(first.finished),
        prompt_tokens: first.prompt_tokens,
        output_tokens: first.output_tokens,
        media_uncounted: has_media && !plan.counts_media,
    };
    Ok(Measured { record, ended })
}

impl OfflineWorkload {
    /// Makes the requests of one batch.
    pub(crate) fn draw(
        &self,
        slot: Slot,
        tokenizer: Option<&Tokenizer>,
        hub: &Hub,
        globals: &mut Globals,
        sink: &dyn EventSink,
    ) -> Result<Vec<Request>, Error> {
        let spec = match (self, slot) {
            (OfflineWorkload::File { path, .. }, Slot::Measured) => return Ok(read_jsonl(path)?.0),
            (OfflineWorkload::File { path, warmups }, Slot::Warmup) => {
                return Ok(read_jsonl(path)?.0.into_iter().take(*warmups).collect());
            }
            (OfflineWorkload::Sample { measured, .. }, Slot::Measured) => measured,
            (OfflineWorkload::Sample { warmup: Some(warmup), .. }, Slot::Warmup) => warmup,
            (OfflineWorkload::Sample { warmup: None, .. }, Slot::Warmup) => return Ok(Vec::new()),
        };
        hub.fetch(spec, sink)?;
        let sampled = sample(spec, tokenizer, globals, &Arc::new(Counters::default()))?;
        for notice in sampled.notices {
            sink.event(RunEvent::warning(notice));
        }
        Ok(sampled.requests)
    }
}

/// The requests with their adapters; of several processes each keeps its share.
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

/// Refuses requests that the engine would refuse later.
pub(crate) fn check_lengths(requests: &[Request], loaded: &Loaded) -> Result<(), Error> {
    let longest =
        requests.iter().map(|request| request.prompt_len.saturating_add_signed(request.output_len)).max().unwrap_or(0);
    match loaded.max_model_len {
        Some(limit) if longest > limit => Err(Error::TooLong {
            parts: "prompt_len and expected_output_len",
            whose: " for all requests",
            longest,
            limit,
        }),
        _ => Ok(()),
    }
}

/// Sends the batch to a running server, all at once, as often as asked, and computes the same record.
///
/// # Errors
/// When the server cannot be asked, or no request of the first run succeeds.
pub fn run_served(
    plan: &ServedPlan,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Measured<ThroughputRecord>, Error> {
    let ServedPlan { serve, runs, save_workload, .. } = plan;
    if serve.traffic.warmups > 0 {
        sink.event(RunEvent::status(ServeNote::WarmingUp { requests: serve.traffic.warmups }));
    }
    let caller = Caller::new(&serve.endpoint, &serve.base_path, RESET)?.with_stop(stop);
    let mut record = None;
    for run in 0..(*runs).max(1) {
        if run > 0 && !reset(&caller) {
            sink.event(RunEvent::warning(ServeNote::CachesKept));
        }
        let save = save_workload.as_deref().filter(|_| run == 0);
        let one = serve_once(&numbered(plan, run), save, stop, sink);
        match (one, &mut record) {
            (Ok(first), None) => record = Some(first),
            // A run that was cut short measures something else.
            (Ok(next), Some(record)) if !stop.draining() => record.times.extend(next.times),
            (Err(error), Some(_)) => return finished(record, Some(error)),
            (Err(error), None) => return Err(error),
            (Ok(_), Some(_)) => {}
        }
        if stop.draining() {
            return finished(record, Some(Error::Stopped));
        }
    }
    finished(record, None)
}

/// The plan of one of several runs, each with a separate log.
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
) -> Result<ThroughputRecord, Error> {
    let prepared = prepare_serve(&plan.serve, Contact::Server, &())?;
    if let Some(path) = save {
        save_workload(&prepared, path)?;
    }
    let has_media = prepared.requests.kept().iter().any(|request| request.media.is_some());
    let model_id = prepared.model_id.clone();
    let record = run_serve(&plan.serve, prepared, stop, &Bars(sink))?;
    match served(&record, model_id, plan.engine.clone(), has_media) {
        // Whoever stopped it before the first answer knows why there is none.
        Err(Error::AllFailed { .. }) if stop.draining() => Err(Error::Stopped),
        served => served,
    }
}

fn finished(record: Option<ThroughputRecord>, ended: Option<Error>) -> Result<Measured<ThroughputRecord>, Error> {
    record.map(|record| Measured { record, ended }).ok_or(Error::EmptyWorkload)
}

/// Whether the server says that it forgot its prefixes.
fn reset(caller: &Caller) -> bool {
    caller
        .post("/reset_prefix_cache", caller.user_headers(), b"")
        .is_ok_and(|answer| (200..300).contains(&answer.status))
}

/// Lets bars and warnings through: the lines of a served run are not this command's.
struct Bars<'a>(&'a dyn EventSink);

impl EventSink for Bars<'_> {
    fn event(&self, event: RunEvent) {
        if !matches!(event, RunEvent::Status(_)) {
            self.0.event(event);
        }
    }
}

fn served(
    record: &RunRecord,
    model_id: String,
    engine: EngineNote,
    has_media: bool,
) -> Result<ThroughputRecord, Error> {
    let (samples, summary) = (&record.measured.samples, &record.summary);
    if let (0, Some(first)) = (summary.completed, samples.iter().next()) {
        return Err(Error::AllFailed { count: samples.len(), reason: first.error.clone() });
    }
    let output_tokens = match &summary.task {
        TaskSummary::Generation(generation) => generation.total_output,
        TaskSummary::Pooling(_) => 0,
    };
    Ok(ThroughputRecord {
        model_id,
        engine,
        times: vec![record.measured.duration],
        profile_seconds: 0.0,
        num_requests: samples.len() as u64,
        failed: samples.len() as u64 - summary.completed,
        prompt_tokens: summary.total_input,
        output_tokens,
        media_uncounted: has_media,
    })
}
