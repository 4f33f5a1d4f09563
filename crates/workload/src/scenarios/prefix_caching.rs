//! Repeated prompts, which a prefix cache can serve.

use std::path::PathBuf;
use tacho_core::bounded::TokenCount;

use tacho_core::{Content, Request};
use tacho_pyrand::Random;
use tacho_text::Tokenizer;

use super::pairs;
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled};

/// Minimum and maximum prompt length in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixLengths {
    pub min: i64,
    pub max: i64,
}

impl PrefixLengths {
    /// Parses `least:most`.
    pub fn parse(text: &str) -> Option<Self> {
        let (min, max) = text.split_once(':')?;
        let lengths = PrefixLengths { min: min.trim().parse().ok()?, max: max.trim().parse().ok()? };
        (0 <= lengths.min && lengths.min <= lengths.max && TokenCount::holds(lengths.max)).then_some(lengths)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct PrefixCachingSpec {
    /// Seed of prompts and order.
    pub seed: u64,
    pub num_prompts: usize,
    pub repeat_count: usize,
    pub lengths: PrefixLengths,
    pub output_len: i64,
    /// Tokens of the common prefix of random prompts.
    pub prefix_len: usize,
    /// A ShareGPT file; `None` for random tokens.
    pub dataset: Option<PathBuf>,
    /// Whether prompts are sorted by length instead of shuffled.
    pub sort: bool,
    /// Whether prompts are sent as token IDs, so that nothing is tokenized again.
    pub token_ids: bool,
}

/// A prompt, its IDs and its length.
struct Prompt {
    text: String,
    ids: Vec<u32>,
}

/// Generates the requests. Python's generator draws the prompts, then their order.
pub(crate) fn sample(spec: &PrefixCachingSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("prefix-caching")?;
    let globals = &mut *context.globals;
    globals.py = Random::new(spec.seed);
    let prompts = match &spec.dataset {
        Some(path) => spec.recorded(pairs::read(path)?, tokenizer, &mut globals.py),
        None => spec.drawn(tokenizer, &mut globals.py)?,
    };
    if prompts.is_empty() {
        return Err(Error::NothingToRepeat { wanted: spec.num_prompts });
    }
    let mut order: Vec<usize> = (0..spec.repeat_count).flat_map(|_| 0..prompts.len()).collect();
    if spec.sort {
        order.sort_by_key(|&at| prompts[at].ids.len());
    } else {
        globals.py.shuffle(&mut order);
    }
    let requests = order.into_iter().map(|at| spec.request(&prompts[at])).collect();
    Ok(Sampled::of(requests))
}

impl PrefixCachingSpec {
    fn request(&self, prompt: &Prompt) -> Request {
        let content =
            if self.token_ids { Content::Ids(prompt.ids.clone()) } else { Content::Text(prompt.text.clone()) };
        Request { content, ..Request::text("", prompt.ids.len() as u64, self.output_len) }
    }

    /// Questions of the file whose length is within range.
    fn recorded(&self, mut pairs: Vec<pairs::Pair>, tokenizer: &Tokenizer, random: &mut Random) -> Vec<Prompt> {
        random.shuffle(&mut pairs);
        let encoded = pairs.iter().map(|(question, _)| tokenizer.encode(question, true));
        let fits = |ids: &Vec<u32>| (self.lengths.min..=self.lengths.max).contains(&(ids.len() as i64));
        let chosen = encoded.filter(fits).take(self.num_prompts);
        chosen.map(|ids| Prompt { text: tokenizer.decode(&ids), ids }).collect()
    }

    /// Random tokens after a common prefix. The vocabulary is in the order of IDs, whereas upstream uses a hash order
    /// that differs in every process.
    fn drawn(&self, tokenizer: &Tokenizer, random: &mut Random) -> Result<Vec<Prompt>, Error> {
        let special = tokenizer.special_ids();
        let ids: Vec<u32> = tokenizer.all_ids().into_iter().filter(|id| !special.contains(id)).collect();
        if ids.is_empty() {
            return Err(Error::NoAllowedTokens { vocab_size: tokenizer.vocab_size() });
        }
        let draw = |random: &mut Random, count: usize| -> Vec<u32> {
            random.choices_indices(ids.len(), count).into_iter().map(|index| ids[index]).collect()
        };
        let prefix = draw(random, self.prefix_len);
        let shift = self.prefix_len as i64;
        let mut prompt = || {
            let unique = random.randint(self.lengths.min - shift, self.lengths.max - shift);
            let mut ids = prefix.clone();
            ids.extend(draw(random, usize::try_from(unique).unwrap_or(0)));
            Prompt { text: tokenizer.decode(&ids), ids }
        };
        Ok((0..self.num_prompts).map(|_| prompt()).collect())
    }
}
