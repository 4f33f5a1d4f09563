//! Prompts as named blocks: how long each is, and how much of a prompt a cache that never forgets would know.

use std::collections::{HashMap, HashSet};

use super::error::TraceError;
use super::model::{Blocks, Trace};
use super::order::earliest;
use super::row::Row;

/// Lays out prompts and sees to it that one name is one block.
#[derive(Debug)]
pub(crate) struct Layout {
    block: u64,
    sizes: HashMap<i64, u64>,
}

impl Layout {
    /// Blocks of this many tokens.
    pub(crate) fn new(block: u64) -> Self {
        Layout { block, sizes: HashMap::new() }
    }

    /// The blocks of a prompt: all full but perhaps the last; what they do not cover is nobody else's.
    pub(crate) fn lay(&mut self, row: &Row<'_>, field: &str, ids: &[i64], tokens: u64) -> Result<Blocks, TraceError> {
        let full = self.block * (ids.len() as u64).saturating_sub(1);
        if !ids.is_empty() && tokens == 0 {
            return Err(row.wrong(field, "an empty prompt has no blocks"));
        }
        if !ids.is_empty() && tokens <= full {
            let problem = format!("{} blocks of {} tokens are more than the {tokens} tokens", ids.len(), self.block);
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

/// Whose blocks a prompt may find in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of the file.
    File,
    /// Those of its own tree.
    Tree,
}

/// Fills in what a cache that never forgets would know, in the order of time.
pub(crate) fn ideal(trace: &mut Trace, scope: Scope) {
    let trees = trace.trees().0;
    let times = earliest(trace);
    let mut order: Vec<usize> = (0..trace.steps.len()).collect();
    order.sort_by(|&left, &right| times[left].total_cmp(&times[right]));
    let mut known: HashSet<(usize, i64)> = HashSet::new();
    for place in order {
        let owner = if scope == Scope::Tree { trees[place] } else { 0 };
        if let Some(blocks) = &mut trace.steps[place].blocks {
            let seen = blocks.named.iter().take_while(|(id, _)| known.contains(&(owner, *id)));
            blocks.cached_ideal = seen.map(|(_, tokens)| tokens).sum();
            known.extend(blocks.named.iter().map(|(id, _)| (owner, *id)));
        }
    }
}
