//! `tacho startup`: start an engine repeatedly, each time in a new process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tacho_core::json::dumps;
use tacho_core::{Counters, EventSink, Observation, RunEvent, Work};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, OfflineKind, OfflineRecord, Phase, Start, Startup};
use tacho_rowlog::RequestInfo;

use crate::Error;
use crate::offline::{EngineError, Measured, Notebook, OfflineEngine};

/// A run of `tacho startup`.
#[derive(Debug, Clone)]
pub struct StartupPlan {
    /// The model's name.
    pub model_id: String,
    pub engine: EngineNote,
    /// Number of starts with empty caches.
    pub cold: u64,
    /// Number of starts that fill the caches.
    pub warmups: u64,
    /// Number of starts with full caches.
    pub warm: u64,
}

/// Creates engines to start, each with its environment variables.
pub trait EngineMaker {
    /// An engine that has not been started.
    fn make(&self, phase: Phase, environment: Vec<(String, String)>) -> Box<dyn OfflineEngine>;
}

/// Starts the engines and computes the record. A failed start is recorded as a failure; a phase without any success
/// ends the run. If the run is stopped, the measured starts are kept; `notebook` records them as they are made.
pub fn run(
    plan: &StartupPlan,
    maker: &dyn EngineMaker,
    notebook: &mut Notebook<'_>,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Measured, Error> {
    let say = |text: &str| sink.event(RunEvent::status(text));
    say("Setting VLLM_ENABLE_V1_MULTIPROCESSING=0 to collect startup metrics.\n");
    let mut engine = plan.engine.clone();
    let mut startup = Startup::default();
    say("Measuring cold startup time...\n");
    let mut run = Run { maker, stop, sink, engine: &mut engine, startup: &mut startup };
    let mut note = |phase: Phase, start: &Start| note(notebook, phase, start);
    let mut ended = run.starts(Phase::Cold, Work::ColdStarts, plan.cold, &mut note)?;
    if ended.is_none() {
        say("\nWarming up for warm startup measurement...\n");
        if plan.warmups > 0 {
            ended = run.starts(Phase::Warm, Work::WarmupIterations, plan.warmups, &mut |_, _| {})?;
            // Their caches were not full yet.
            run.startup.warm.clear();
        }
    }
    if ended.is_none() {
        say("\nMeasuring warm startup time...\n");
        ended = run.starts(Phase::Warm, Work::WarmStarts, plan.warm, &mut note)?;
    }
    let measured = OfflineKind::Startup(startup);
    Measured::kept(OfflineRecord { model_id: plan.model_id.clone(), engine, measured }, ended)
}

/// Records a start: the duration of its row is the time until the engine was ready, and its text has the other times.
fn note(notebook: &mut Notebook<'_>, phase: Phase, start: &Start) {
    let text = dumps(&start.to_json(phase).into()).into_bytes();
    notebook.add(start.wall, &RequestInfo::default(), |row| Observation { text, ..row });
}

/// The parts common to all phases.
struct Run<'a> {
    maker: &'a dyn EngineMaker,
    stop: &'a StopSignal,
    sink: &'a dyn EventSink,
    engine: &'a mut EngineNote,
    startup: &'a mut Startup,
}

impl Run<'_> {
    /// Adds the starts of a phase to the record and the log; returns the reason if the user ended them.
    fn starts(
        &mut self,
        phase: Phase,
        work: Work,
        count: u64,
        note: &mut dyn FnMut(Phase, &Start),
    ) -> Result<Option<Error>, Error> {
        let counters = Arc::new(Counters::default());
        self.sink.event(RunEvent::Started { work, total: count, counters: counters.clone() });
        let (mut done, mut last, mut ended) = (Vec::new(), None, None);
        for _ in 0..count {
            let started = if self.stop.draining() { Err(EngineError::Stopped.into()) } else { self.start(phase) };
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
                    self.startup.failures.push(format!("{} start: {error}", phase.name()));
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
            Phase::Cold => self.startup.cold = done,
            Phase::Warm => self.startup.warm = done,
        }
        Ok(ended)
    }

    fn start(&mut self, phase: Phase) -> Result<Start, Error> {
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
        let mut engine = self.maker.make(phase, environment);
        self.startup.arguments = engine.parse()?;
        let loaded = engine.load()?;
        let wall = if self.engine.simulated.is_some() {
            loaded.import_seconds + loaded.load_seconds
        } else {
            began.elapsed().as_secs_f64()
        };
        engine.close()?;
        self.engine.versions = loaded.versions;
        Ok(Start {
            startup: loaded.load_seconds,
            compilation: loaded.compilation_seconds,
            encoder_compilation: loaded.encoder_compilation_seconds,
            import: loaded.import_seconds,
            wall,
        })
    }
}

/// Returns whether another attempt would fail the same way: a wrong argument or a missing library.
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
