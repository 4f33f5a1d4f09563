//! Data-parallel engines behind one address, each with its own cache. Requests of one session go to the same one;
//! others round-robin.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::driver::{EngineHandle, Signal};
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
    pub(crate) fn rank(&self, session: Option<&str>) -> usize {
        let Some(session) = session.filter(|_| self.all.len() > 1) else {
            return self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len();
        };
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        (hasher.finish() % self.all.len() as u64) as usize
    }

    /// An id for a job of that engine.
    pub(crate) fn next_sequence(&self, rank: usize) -> SeqId {
        let number = self.sequences.fetch_add(1, Ordering::Relaxed);
        SeqId(number * self.all.len() as u64 + rank as u64)
    }

    fn of(&self, id: SeqId) -> usize {
        (id.0 % self.all.len() as u64) as usize
    }

    pub(crate) fn submit(&self, id: SeqId, job: Job, choice: usize, to: UnboundedSender<Signal>) {
        self.all[self.of(id)].submit(id, job, choice, to);
    }

    pub(crate) fn cancel(&self, ids: Vec<SeqId>) {
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
