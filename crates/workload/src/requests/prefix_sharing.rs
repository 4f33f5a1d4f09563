//! How much of a workload a prefix cache could save: the prefixes that prompts share.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;
use tacho_core::{Content, Request, json};
use tacho_text::Tokenizer;

use crate::parallel;

/// Tokens per block of vLLM's prefix cache.
pub const BLOCK: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrefixSharing {
    pub tokens: u64,
    /// Tokens that repeat the prefix of another prompt.
    pub repeated: u64,
    /// Tokens that an unlimited cache of whole blocks serves if requests arrive one after another. Never all of a
    /// prompt, because its last token is always computed.
    pub cached: u64,
    /// The same if the prompts are sent a second time.
    pub cached_again: u64,
    /// Number of distinct first blocks.
    pub beginnings: usize,
}

impl PrefixSharing {
    /// Counts the prompts in sending order. Texts are encoded as the server would encode them.
    pub fn new(requests: &[Request], tokenizer: &Tokenizer) -> Self {
        let mut prompts = parallel::map(requests, |(_, request)| ids(&request.content, tokenizer));
        let (mut known, mut firsts) = (HashSet::new(), HashSet::new());
        let (mut cached, mut cached_again) = (0, 0);
        for chain in parallel::map(&prompts, |(_, prompt)| chain(prompt)) {
            firsts.insert(chain.blocks.first().copied().unwrap_or(chain.whole));
            let hits = chain.blocks.iter().take_while(|block| known.contains(*block)).count();
            let max = chain.tokens.saturating_sub(1) / BLOCK;
            cached += hits.min(max) * BLOCK;
            cached_again += max * BLOCK;
            known.extend(chain.blocks);
        }
        prompts.par_sort_unstable();
        let common = |pair: &[Vec<u32>]| pair[0].iter().zip(&pair[1]).take_while(|(left, right)| left == right).count();
        PrefixSharing {
            tokens: prompts.iter().map(|prompt| prompt.len() as u64).sum(),
            // In sorted order, each prompt has its longest common prefix with a neighbor.
            repeated: prompts.par_windows(2).map(|pair| common(pair) as u64).sum(),
            cached: cached as u64,
            cached_again: cached_again as u64,
            beginnings: firsts.len(),
        }
    }

    /// Fraction of the tokens that repeat another prompt's prefix.
    pub fn repeated_share(&self) -> f64 {
        self.repeated as f64 / self.tokens.max(1) as f64
    }

    /// The hit rate of an unlimited cache.
    pub fn cached_share(&self) -> f64 {
        self.cached as f64 / self.tokens.max(1) as f64
    }
}

/// The whole blocks of a prompt, each hashed with all blocks before it.
struct Chain {
    blocks: Vec<u64>,
    whole: u64,
    tokens: usize,
}

fn chain(prompt: &[u32]) -> Chain {
    let mut hasher = DefaultHasher::new();
    let mut name = |part: &[u32]| {
        part.hash(&mut hasher);
        hasher.finish()
    };
    let blocks = prompt.chunks_exact(BLOCK).map(&mut name).collect();
    Chain { blocks, whole: name(prompt), tokens: prompt.len() }
}

fn ids(content: &Content, tokenizer: &Tokenizer) -> Vec<u32> {
    match content {
        Content::Text(text) => tokenizer.encode(text, true),
        Content::Texts(texts) => texts.iter().flat_map(|text| tokenizer.encode(text, true)).collect(),
        Content::Ids(ids) => ids.clone(),
        Content::Json(value) => tokenizer.encode(&json::dumps(value), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(ids: impl IntoIterator<Item = u32>) -> Request {
        Request { content: Content::Ids(ids.into_iter().collect()), ..Request::text("", 0, 1) }
    }

    #[test]
    fn whole_blocks_count_for_the_cache() {
        let shared = 0..40;
        let requests =
            [prompt(shared.clone().chain([100; 10])), prompt(shared.clone().chain([200; 10])), prompt(500..520)];
        let sharing = PrefixSharing::new(&requests, &Tokenizer::builtin());
        let expected = PrefixSharing { tokens: 120, repeated: 40, cached: 32, cached_again: 112, beginnings: 2 };
        assert_eq!(sharing, expected);
        assert_eq!(sharing.repeated_share(), 40.0 / 120.0);
    }

    #[test]
    fn the_last_token_is_always_computed() {
        let requests = [prompt(0..32), prompt(0..32)];
        let sharing = PrefixSharing::new(&requests, &Tokenizer::builtin());
        assert_eq!((sharing.repeated, sharing.cached, sharing.cached_again, sharing.beginnings), (32, 16, 32, 1));
        assert_eq!(PrefixSharing::new(&[], &Tokenizer::builtin()), PrefixSharing::default());
    }
}
