//! `tacho startup`: start an engine repeatedly, each time in a new process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tacho_core::event::OfflineNote;
use tacho_core::json::{Dict, dumps};
use tacho_core::{Counters, EventSink, Observation, RunEvent, Work};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, Phase, Start, StartupRecord};
use tacho_rowlog::Asked;

use crate::Error;
use crate::offline::{EngineError, Measured, Notebook, OfflineEngine};

/// A run of `tacho startup`.
#[derive(Debug, Clone)]
pub struct StartupPlan {
    /// The model's name.
    pub model_id: String,
    /// What is started.
    pub engine: EngineNote,
    /// Starts with empty caches.
    pub cold: u64,
    /// Starts that fill the caches.
    pub warmups: u64,
    /// Starts with full caches.
    pub warm: u64,
}

/// Makes engines to start; variables are set for each.
pub trait EngineMaker {
    /// An engine that has not been started.
    fn make(&self, phase: Phase, environment: Vec<(String, String)>) -> Box<dyn OfflineEngine>;
}

/// Starts the engines and computes the record. A start that fails is kept as a failure; a phase without any success
/// ends the run. When it is stopped, the starts that were measured are kept; `notebook` has them as they are made.
///
/// # Errors
/// When no start succeeds.
pub fn run(
    plan: &StartupPlan,
    maker: &dyn EngineMaker,
    notebook: &mut Notebook<'_>,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Measured<StartupRecord>, Error> {
    let say = |note: OfflineNote| sink.event(RunEvent::status(note));
    say(OfflineNote::OneProcess);
    let mut record = StartupRecord {
        model_id: plan.model_id.clone(),
        engine: plan.engine.clone(),
        cold: Vec::new(),
        warm: Vec::new(),
        arguments: Dict::new(),
        failures: Vec::new(),
    };
    say(OfflineNote::ColdStarts);
    let run = Run { maker, stop, sink };
    let mut note = |phase: Phase, start: &Start| note(notebook, phase, start);
    let mut ended = run.starts(Phase::Cold, Work::ColdStarts, plan.cold, &mut record, &mut note)?;
    if ended.is_some() {
        return kept(record, ended);
    }
    say(OfflineNote::FillingStarts);
    if plan.warmups > 0 {
        ended = run.starts(Phase::Warm, Work::WarmupIterations, plan.warmups, &mut record, &mut |_, _| {})?;
        // Their caches were not full yet.
        record.warm.clear();
    }
    if ended.is_some() {
        return kept(record, ended);
    }
    say(OfflineNote::WarmStarts);
    ended = run.starts(Phase::Warm, Work::WarmStarts, plan.warm, &mut record, &mut note)?;
    kept(record, ended)
}

/// Writes a start down: its row takes as long as the process did until its engine was ready, and its text is the rest.
fn note(notebook: &mut Notebook<'_>, phase: Phase, start: &Start) {
    let text = dumps(&start.to_json(phase).into()).into_bytes();
    notebook.add(start.wall, &Asked::default(), |row| Observation { text, ..row });
}

/// What is left of a run that was ended early, if anything is.
fn kept(record: StartupRecord, ended: Option<Error>) -> Result<Measured<StartupRecord>, Error> {
    match ended {
        Some(error) if record.cold.is_empty() && record.warm.is_empty() => Err(error),
        ended => Ok(Measured { record, ended }),
    }
}

/// What all phases share.
struct Run<'a> {
    maker: &'a dyn EngineMaker,
    stop: &'a StopSignal,
    sink: &'a dyn EventSink,
}

impl Run<'_> {
    /// Adds the starts of a phase to the record, each noted as it is made; gives the reason when the user ended them.
    fn starts(
        &self,
        phase: Phase,
        work: Work,
        count: u64,
        record: &mut StartupRecord,
        note: &mut dyn FnMut(Phase, &Start),
    ) -> Result<Option<Error>, Error> {
        let counters = Arc::new(Counters::default());
        self.sink.event(RunEvent::Started { work, total: count, counters: counters.clone() });
        let (mut done, mut last, mut ended) = (Vec::new(), None, None);
        for _ in 0..count {
            let started =
                if self.stop.draining() { Err(EngineError::Stopped.into()) } else { start(phase, self.maker, record) };
            match started {
                Ok(one) => {
                    note(phase, &one);
                    done.push(one);
                }
                Err(error @ Error::Engine(EngineError::Stopped)) => {
                    ended = Some(error);
                    break;
                }
                Err(error) if is_hopeless(&error) => return Err(error),
                Err(error) => {
                    record.failures.push(format!("{} start: {error}", phase.name()));
                    counters.failed.fetch_add(1, Ordering::Relaxed);
                    last = Some(error.to_string());
                }
            }
            counters.finished.fetch_add(1, Ordering::Relaxed);
        }
        self.sink.event(RunEvent::Finished);
        if let (Some(reason), true, None) = (last, done.is_empty(), &ended) {
            return Err(Error::NoStart { phase: phase.name(), reason });
        }
        match phase {
            Phase::Cold => record.cold = done,
            Phase::Warm => record.warm = done,
        }
        Ok(ended)
    }
}

/// Nothing about a wrong argument or a missing library changes with the next attempt.
fn is_hopeless(error: &Error) -> bool {
    matches!(
        error,
        Error::Engine(
            EngineError::Usage { .. }
                | EngineError::Missing { .. }
                | EngineError::NoPython
                | EngineError::Start { .. }
                | EngineError::Version { .. }
        ) | Error::CacheDirectory { .. }
    )
}

fn start(phase: Phase, maker: &dyn EngineMaker, record: &mut StartupRecord) -> Result<Start, Error> {
    let directory = |prefix: &str| {
        tempfile::Builder::new().prefix(prefix).tempdir().map_err(|source| Error::CacheDirectory { source })
    };
    let mut environment = vec![("VLLM_ENABLE_V1_MULTIPROCESSING".to_owned(), "0".to_owned())];
    let mut kept = Vec::new();
    if phase == Phase::Cold {
        let caches = directory("vllm_startup_bench_cold_")?;
        let inductor = directory("tacho_startup_inductor_")?;
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        environment.push(("VLLM_CACHE_ROOT".to_owned(), text(caches.path())));
        environment.push(("TORCHINDUCTOR_CACHE_DIR".to_owned(), text(inductor.path())));
        environment.push(("TRITON_CACHE_DIR".to_owned(), text(&inductor.path().join("triton"))));
        kept.extend([caches, inductor]);
    }
    let began = Instant::now();
    let mut engine = maker.make(phase, environment);
    record.arguments = engine.parse()?;
    let loaded = engine.load()?;
    let wall = if record.engine.simulated.is_some() {
        loaded.import_seconds + loaded.load_seconds
    } else {
        began.elapsed().as_secs_f64()
    };
    engine.close()?;
    record.engine.versions = loaded.versions;
    Ok(Start {
        startup: loaded.load_seconds,
        compilation: loaded.compilation_seconds,
        encoder_compilation: loaded.encoder_compilation_seconds,
        import: loaded.import_seconds,
        wall,
    })
}
