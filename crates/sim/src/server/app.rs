//! What all connections share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tacho_pyrand::{Generator, SeedSequence};

use super::engines::Engines;
use super::front::FrontEnd;
use super::problem::Problem;
use super::room::Room;
use super::store::Store;
use crate::engine::Vocabulary;
use crate::faults::Fault;
use crate::spec::SimSpec;

/// What all connections share.
pub(crate) struct App {
    pub(super) spec: SimSpec,
    pub(super) names: Vec<String>,
    pub(super) vocabulary: Vocabulary,
    pub(super) engine: Engines,
    pub(super) front: FrontEnd,
    pub(super) fingerprint: String,
    pub(super) started: Instant,
    pub(super) requests: AtomicU64,
    pub(super) ids: AtomicU64,
    pub(super) serving: AtomicU64,
    pub(super) room: Room,
    pub(super) responses: Store,
    pub(super) characters: OnceLock<usize>,
}

impl App {
    /// The name an answer carries for the model that was asked for; none means the first.
    pub(super) fn resolve(&self, model: Option<&str>) -> Result<String, Problem> {
        match model {
            None => Ok(self.names[0].clone()),
            Some(name) if self.names.iter().any(|served| served == name) => Ok(self.names[0].clone()),
            Some(name) if self.spec.lora_modules.iter().any(|adapter| adapter == name) => Ok(name.to_owned()),
            Some(name) => Err(Problem::unknown_model(name, &self.names)),
        }
    }

    /// Separates the adapters' prefix caches.
    pub(super) fn salt(&self, model: &str) -> u64 {
        let adapter = self.spec.lora_modules.iter().position(|adapter| adapter == model);
        adapter.map_or(0, |at| at as u64 + 1)
    }

    /// Characters of the longest token, which bounds the tokens of a text without counting them.
    pub(super) fn characters_per_token(&self) -> usize {
        *self.characters.get_or_init(|| {
            let tokenizer = &self.spec.tokenizer;
            let longest = tokenizer.all_ids().into_iter().map(|id| tokenizer.decode(&[id]).len()).max();
            longest.unwrap_or(1).max(1)
        })
    }

    /// The fate of the next generation request.
    pub(super) fn strike(&self) -> Fault {
        self.spec.faults.strike(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Sixteen hexadecimal digits, another each time.
    pub(super) fn random_id(&self) -> String {
        let ordinal = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}", scrambled(self.spec.seed, ordinal))
    }

    pub(super) fn unix_time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }
}

pub(super) fn scrambled(seed: u64, ordinal: u64) -> u64 {
    let words = [seed as u32, (seed >> 32) as u32, ordinal as u32, (ordinal >> 32) as u32];
    Generator::from_sequence(&SeedSequence::from_words(&words)).up_to(u64::MAX)
}
