//! `tacho startup`: start an engine repeatedly, each time in a new process.

use std::{sync::Arc, sync::atomic::Ordering, time::Instant};

use tacho_core::json::{Json, dumps};
use tacho_core::{Counters, Observation, RunEvent, Work};
use tacho_metrics::offline::{LoggedStart, OfflineKind, Phase, Start, Startup};
use tacho_rowlog::RequestInfo;

use super::EngineError;
use super::run::{Outcome, Session};
use crate::Error;

#[derive(Debug, Clone)]
pub struct StartupPlan {
    /// Number of starts with empty caches.
    pub cold: u64,
    /// Number of starts that fill the caches.
    pub warmups: u64,
    /// Number of starts with full caches.
    pub warm: u64,
}

/// Starts the engines. A failed start is recorded as a failure; a phase without any success ends the run.
pub(super) fn run(session: &mut Session<'_>, plan: &StartupPlan) -> Outcome {
    let phases = [
        ("Measuring cold startup time...\n", Phase::Cold, Work::ColdStarts, plan.cold),
        ("\nWarming up for warm startup measurement...\n", Phase::Warm, Work::WarmupIterations, plan.warmups),
        ("\nMeasuring warm startup time...\n", Phase::Warm, Work::WarmStarts, plan.warm),
    ];
    let (mut startup, mut ended) = (Startup::default(), None);
    session.say("Setting VLLM_ENABLE_V1_MULTIPROCESSING=0 to collect startup metrics.\n");
    for (note, phase, work, count) in phases {
        session.say(note);
        // The caches of warm-up starts are not full yet.
        let is_measured = work != Work::WarmupIterations;
        if count > 0 {
            let (starts, stopped) = session.starts(phase, work, count, is_measured, &mut startup.failures)?;
            match phase {
                _ if !is_measured => {}
                Phase::Cold => startup.cold = starts,
                Phase::Warm => startup.warm = starts,
            }
            ended = stopped;
        }
        if ended.is_some() {
            break;
        }
    }
    Ok((OfflineKind::Startup(startup), ended))
}

impl Session<'_> {
    /// The starts of a phase, and the reason if the user ended them.
    fn starts(
        &mut self,
        phase: Phase,
        work: Work,
        count: u64,
        is_measured: bool,
        failures: &mut Vec<String>,
    ) -> Result<(Vec<Start>, Option<Error>), Error> {
        let counters = Arc::new(Counters::default());
        self.sink.event(RunEvent::Started { work, total: count, counters: counters.clone() });
        let (mut done, mut last, mut ended) = (Vec::new(), None, None);
        for _ in 0..count {
            let started = if self.stop.draining() { Err(EngineError::Stopped.into()) } else { self.start(phase) };
            match started {
                Ok(start) => {
                    if is_measured {
                        self.log_start(phase, &start);
                    }
                    done.push(start);
                }
                Err(error @ Error::Engine(EngineError::Stopped)) => {
                    ended = Some(error);
                    break;
                }
                Err(error) if is_hopeless(&error) => return Err(error),
                Err(error) => {
                    failures.push(format!("{} start: {error}", phase.name()));
                    counters.failed.fetch_add(1, Ordering::Relaxed);
                    last = Some(error.to_string());
                }
            }
            counters.finished.fetch_add(1, Ordering::Relaxed);
        }
        self.sink.event(RunEvent::Finished);
        match last {
            Some(reason) if done.is_empty() && ended.is_none() => Err(Error::NoStart { phase: phase.name(), reason }),
            _ => Ok((done, ended)),
        }
    }

    /// The duration of a row is the time until the engine was ready, and its text has the other times.
    fn log_start(&mut self, phase: Phase, start: &Start) {
        let text = dumps(&LoggedStart { phase, start: *start }.to_json()).into_bytes();
        self.log.add(start.wall, &RequestInfo::default(), |row| Observation { text, ..row });
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
        let mut engine = (self.make)(phase, environment);
        self.arguments = engine.parse()?;
        let loaded = engine.load()?;
        let wall = if self.note.simulated.is_some() {
            loaded.import_seconds + loaded.load_seconds
        } else {
            began.elapsed().as_secs_f64()
        };
        engine.close()?;
        self.note.versions = loaded.versions;
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
