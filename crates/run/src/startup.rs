//! `tacho startup`: start an engine again and again, each time in a process of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tacho_core::{Counters, EventSink, RunEvent};
use tacho_metrics::offline::{EngineNote, Phase, Start, StartupRecord};

use crate::Error;
use crate::offline::{EngineError, OfflineEngine};

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
/// ends the run.
pub fn run(plan: &StartupPlan, maker: &dyn EngineMaker, sink: &dyn EventSink) -> Result<StartupRecord, Error> {
    let say = |line: &str| sink.event(RunEvent::Status(line.to_owned()));
    say("Setting VLLM_ENABLE_V1_MULTIPROCESSING=0 to collect startup metrics.\n");
    let mut record = StartupRecord {
        model_id: plan.model_id.clone(),
        engine: plan.engine.clone(),
        cold: Vec::new(),
        warm: Vec::new(),
        failures: Vec::new(),
    };
    say("Measuring cold startup time...\n");
    record.cold = starts(Phase::Cold, "Cold startup iterations", plan.cold, maker, &mut record, sink)?;
    say("\nWarming up for warm startup measurement...\n");
    if plan.warmups > 0 {
        starts(Phase::Warm, "Warmup iterations", plan.warmups, maker, &mut record, sink)?;
    }
    say("\nMeasuring warm startup time...\n");
    record.warm = starts(Phase::Warm, "Warm startup iterations", plan.warm, maker, &mut record, sink)?;
    Ok(record)
}

fn starts(
    phase: Phase,
    what: &'static str,
    count: u64,
    maker: &dyn EngineMaker,
    record: &mut StartupRecord,
    sink: &dyn EventSink,
) -> Result<Vec<Start>, Error> {
    let counters = Arc::new(Counters::default());
    sink.event(RunEvent::Started { what, total: count, counters: counters.clone() });
    let mut done = Vec::new();
    let mut last = None;
    for _ in 0..count {
        match start(phase, maker, &mut record.engine) {
            Ok(one) => done.push(one),
            // Nothing about a wrong argument or a missing library changes with the next attempt.
            Err(
                error @ Error::Engine(EngineError::Usage { .. } | EngineError::Missing { .. } | EngineError::NoPython),
            )
            | Err(error @ Error::CacheFolder { .. }) => return Err(error),
            Err(error) => {
                record.failures.push(format!("{} start: {error}", phase.name()));
                counters.failed.fetch_add(1, Ordering::Relaxed);
                last = Some(error.to_string());
            }
        }
        counters.finished.fetch_add(1, Ordering::Relaxed);
    }
    sink.event(RunEvent::Finished);
    match last {
        Some(reason) if done.is_empty() => Err(Error::NoStart { phase: phase.name(), reason }),
        _ => Ok(done),
    }
}

fn start(phase: Phase, maker: &dyn EngineMaker, note: &mut EngineNote) -> Result<Start, Error> {
    let folder = |prefix: &str| {
        tempfile::Builder::new().prefix(prefix).tempdir().map_err(|source| Error::CacheFolder { source })
    };
    let mut environment = vec![("VLLM_ENABLE_V1_MULTIPROCESSING".to_owned(), "0".to_owned())];
    let mut kept = Vec::new();
    if phase == Phase::Cold {
        let caches = folder("vllm_startup_bench_cold_")?;
        let inductor = folder("tacho_startup_inductor_")?;
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        environment.push(("VLLM_CACHE_ROOT".to_owned(), text(caches.path())));
        environment.push(("TORCHINDUCTOR_CACHE_DIR".to_owned(), text(inductor.path())));
        environment.push(("TRITON_CACHE_DIR".to_owned(), text(&inductor.path().join("triton"))));
        kept.extend([caches, inductor]);
    }
    let began = Instant::now();
    let mut engine = maker.make(phase, environment);
    engine.parse()?;
    let loaded = engine.load()?;
    let wall = if note.simulated.is_some() {
        loaded.import_seconds + loaded.load_seconds
    } else {
        began.elapsed().as_secs_f64()
    };
    engine.close()?;
    note.versions = loaded.versions;
    Ok(Start {
        startup: loaded.load_seconds,
        compilation: loaded.compilation_seconds,
        encoder_compilation: loaded.encoder_compilation_seconds,
        import: loaded.import_seconds,
        wall,
    })
}
