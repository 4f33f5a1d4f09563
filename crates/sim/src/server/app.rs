//! State that all connections share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tacho_core::Mutex;

use tacho_pyrand::{Generator, SeedSequence};

use super::request::{ON_PURPOSE, Problem};
use super::{api_server::ApiServer, engines::Engines, memory::MemoryBudget, response::store::Store};
use crate::{faults::Fault, spec::SimSpec};
use tacho_engine::{Tokens, Vocabulary};

pub(crate) struct App {
    pub(crate) spec: SimSpec,
    pub(crate) names: Vec<String>,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) engine: Engines,
    pub(crate) api_server: ApiServer,
    pub(crate) fingerprint: String,
    pub(crate) started: Instant,
    pub(crate) requests: AtomicU64,
    pub(crate) ids: AtomicU64,
    pub(crate) serving: AtomicU64,
    /// Set by `/sleep`, cleared by `/wake_up`.
    pub(crate) sleeping: AtomicBool,
    pub(crate) memory: MemoryBudget,
    pub(crate) responses: Store,
    pub(crate) characters: OnceLock<usize>,
    /// The output that began last, if outputs are swapped.
    pub(crate) last_output: Mutex<Option<Tokens>>,
}

impl App {
    /// The model name in responses; `None` selects the first.
    pub(crate) fn resolve(&self, model: Option<&str>) -> Result<String, Problem> {
        match model {
            None => Ok(self.names[0].clone()),
            Some(name) if self.names.iter().any(|served| served == name) => Ok(self.names[0].clone()),
            Some(name) if self.spec.lora_modules.iter().any(|adapter| adapter == name) => Ok(name.to_owned()),
            Some(name) => Err(Problem::unknown_model(name, &self.names)),
        }
    }

    /// The adapter's number from 1, or 0: separates the adapters' prefix caches and outputs.
    pub(crate) fn salt(&self, model: &str) -> u64 {
        let adapter = self.spec.lora_modules.iter().position(|adapter| adapter == model);
        adapter.map_or(0, |at| at as u64 + 1)
    }

    /// Characters of the longest token, which bounds the tokens of a text without tokenizing it.
    pub(crate) fn characters_per_token(&self) -> usize {
        *self.characters.get_or_init(|| {
            let tokenizer = &self.spec.tokenizer;
            let longest = tokenizer.all_ids().into_iter().map(|id| tokenizer.decode(&[id]).len()).max();
            longest.unwrap_or(1).max(1)
        })
    }

    /// The fault of the next generation request, if it gets a response.
    pub(crate) fn next_fault(&self) -> Result<Fault, Problem> {
        match self.spec.faults.of(self.requests.fetch_add(1, Ordering::Relaxed)) {
            Fault::Error => Err(Problem::internal(ON_PURPOSE)),
            fault => Ok(fault),
        }
    }

    /// A new id of sixteen hexadecimal digits.
    pub(crate) fn random_id(&self) -> String {
        let ordinal = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}", hashed(self.spec.seed, ordinal))
    }

    pub(crate) fn unix_time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }
}

pub(crate) fn hashed(seed: u64, ordinal: u64) -> u64 {
    let words = [seed as u32, (seed >> 32) as u32, ordinal as u32, (ordinal >> 32) as u32];
    Generator::from_sequence(&SeedSequence::from_words(&words)).up_to(u64::MAX)
}
