//! Prompts as named blocks: their lengths, and how much of a prompt an unlimited cache would hit.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::model::{Blocks, Trace};
use super::{error::TraceError, row::Row};

/// Block names are not adversarial, so one multiplication is enough as a hash; the default hasher would dominate the
/// time to read a long trace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

type Mixing = BuildHasherDefault<Mixed>;

/// Splits prompts into blocks and checks that each name denotes one block.
#[derive(Debug)]
pub(crate) struct Layout {
    block: u64,
    sizes: HashMap<u64, u64, Mixing>,
}

impl Layout {
    /// A layout with blocks of this many tokens.
    pub(crate) fn new(block: u64) -> Self {
        Layout { block, sizes: HashMap::default() }
    }

    /// The blocks of a prompt: all full except perhaps the last; tokens beyond them are unshared.
    pub(crate) fn lay(&mut self, row: &Row<'_>, field: &str, ids: &[u64], tokens: u64) -> Result<Blocks, TraceError> {
        let full = self.block * (ids.len() as u64).saturating_sub(1);
        if !ids.is_empty() && tokens == 0 {
            return Err(row.wrong(field, "an empty prompt has no blocks"));
        }
        if !ids.is_empty() && tokens <= full {
            let (count, max) = (ids.len(), (tokens - 1) / (ids.len() as u64 - 1));
            let problem = format!(
                "{count} blocks of {} tokens are more than the {tokens} tokens: this trace has smaller blocks, {max} tokens at \
                 most; name their size with --sessions-option block_size=N (convert trace: --option), or send its requests one by \
                 one with --dataset-name timed_trace --timed-trace-chunk-hash-size N",
                self.block
            );
            return Err(row.wrong(field, problem));
        }
        let mut left = tokens;
        let mut named = Vec::with_capacity(ids.len());
        for &id in ids {
            let size = left.min(self.block);
            left -= size;
            let known = *self.sizes.entry(id).or_insert(size);
            if known != size {
                let problem = format!("one hash id with two sizes: {id} has {size} tokens here and {known} before");
                return Err(row.wrong(field, problem));
            }
            named.push((id, size));
        }
        Ok(Blocks { named, tail: left, cached_ideal: 0 })
    }
}

/// Which blocks a prompt may find in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    File,
    Tree,
}

/// Computes the hits of an unlimited cache, in time order.
pub(crate) fn ideal(trace: &mut Trace, scope: Scope) {
    let trees = trace.trees().0;
    let times = trace.earliest_ms();
    let mut order: Vec<usize> = (0..trace.steps.len()).collect();
    order.sort_by(|&left, &right| times[left].total_cmp(&times[right]));
    let mut known: HashSet<(usize, u64), Mixing> = HashSet::default();
    for index in order {
        let owner = if scope == Scope::Tree { trees[index] } else { 0 };
        if let Some(blocks) = &mut trace.steps[index].blocks {
            let seen = blocks.named.iter().take_while(|(id, _)| known.contains(&(owner, *id)));
            blocks.cached_ideal = seen.map(|(_, tokens)| tokens).sum();
            known.extend(blocks.named.iter().map(|(id, _)| (owner, *id)));
        }
    }
}
