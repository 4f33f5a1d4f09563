//! Data-parallel engines behind one address, each with its own cache. Requests of one session go to the same one;
//! others round-robin.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::{future::poll_fn, io, sync::Arc};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::driver::{EngineHandle, Signal};
use super::{app::App, memory::Reserved, request::problem::Problem};
use tacho_engine::{Job, SeqId, Stats};

/// The engines. A job's id determines its engine.
pub(crate) struct Engines {
    all: Vec<EngineHandle>,
    turn: AtomicUsize,
    sequences: AtomicU64,
}

impl Engines {
    pub(crate) fn new(all: Vec<EngineHandle>) -> Self {
        Engines { all, turn: AtomicUsize::new(0), sequences: AtomicU64::new(0) }
    }

    /// The engine for a request, with or without a session.
    fn rank(&self, session: Option<&str>) -> usize {
        let Some(session) = session.filter(|_| self.all.len() > 1) else {
            return self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len();
        };
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        (hasher.finish() % self.all.len() as u64) as usize
    }

    fn next_sequence(&self, rank: usize) -> SeqId {
        let number = self.sequences.fetch_add(1, Ordering::Relaxed);
        SeqId(number * self.all.len() as u64 + rank as u64)
    }

    fn of(&self, id: SeqId) -> usize {
        (id.0 % self.all.len() as u64) as usize
    }

    fn cancel(&self, ids: Vec<SeqId>) {
        for (rank, engine) in self.all.iter().enumerate() {
            engine.cancel(ids.iter().copied().filter(|id| self.of(*id) == rank).collect());
        }
    }

    pub(crate) async fn reset_prefix_cache(&self) -> bool {
        let mut all = true;
        for engine in &self.all {
            all &= engine.reset_prefix_cache().await;
        }
        all
    }

    pub(crate) fn stop(&self) {
        self.all.iter().for_each(EngineHandle::stop);
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.all.iter().map(EngineHandle::stats);
        let first = stats.next().unwrap_or_default();
        let mut joined = stats.fold(first, Stats::joined);
        joined.kv_cache_usage /= self.all.len() as f64;
        joined
    }
}

/// The jobs of one request in an engine. Dropping it cancels unfinished ones.
pub(crate) struct Submitted {
    app: Arc<App>,
    sequences: Vec<SeqId>,
    signals: UnboundedReceiver<Signal>,
    /// Jobs that are not finished.
    left: usize,
    _memory: Reserved,
}

impl Submitted {
    /// Checks that all jobs fit, and submits them.
    pub(crate) fn new(
        app: &Arc<App>,
        jobs: Vec<Job>,
        session: Option<&str>,
        memory: Reserved,
    ) -> Result<Self, Problem> {
        for job in &jobs {
            app.spec.engine.check(job).map_err(|refusal| Problem::bad_request(&refusal.to_string()))?;
        }
        let (to, signals) = unbounded_channel();
        let (rank, left) = (app.engine.rank(session), jobs.len());
        let submit = |(choice, job)| {
            let sequence = app.engine.next_sequence(rank);
            app.engine.all[rank].submit(sequence, job, choice, to.clone());
            sequence
        };
        let sequences = jobs.into_iter().enumerate().map(submit).collect();
        Ok(Submitted { app: Arc::clone(app), sequences, signals, left, _memory: memory })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// The next token; an error when the engine has stopped.
    pub(crate) async fn next(&mut self) -> io::Result<Signal> {
        let signal = poll_fn(|cx| self.poll_next(cx)).await;
        signal.ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Signal>> {
        let signal = ready!(self.signals.poll_recv(cx));
        self.left -= usize::from(signal.is_some_and(|signal| signal.finish.is_some()));
        Poll::Ready(signal)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if self.left > 0 {
            self.app.engine.cancel(std::mem::take(&mut self.sequences));
        }
    }
}
