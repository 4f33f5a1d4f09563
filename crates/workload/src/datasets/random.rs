//! `random`: runs of consecutive vocabulary entries from a random place, behind a common random prefix.

use tacho_core::{Content, Counters, Request};
use tacho_pyrand::{Generator, Random};
use tacho_text::Tokenizer;

use crate::Error;
use crate::fit::{FittedText, GeneratorDraw, fit, fit_all, mismatch_notice};
use crate::lengths::{LengthRange, Lengths, RangeRatio};
use crate::sampled::Sampled;

/// Settings of the dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomSpec {
    /// Seed of the dataset's own generator.
    pub seed: i64,
    /// How many prompts.
    pub num_prompts: i64,
    /// Tokens of a prompt, its prefix not counted.
    pub input_len: i64,
    /// Tokens to generate.
    pub output_len: i64,
    /// Tokens of the prefix that all prompts share.
    pub prefix_len: i64,
    /// How far lengths vary.
    pub range_ratio: RangeRatio,
    /// Prompts per request; more than one makes requests that carry a list.
    pub batch_size: i64,
    /// What request ids begin with.
    pub request_id_prefix: String,
    /// Whether prompts are sent as token ids.
    pub token_ids: bool,
    /// How much of the prompts a prefix cache is to find, where that is chosen.
    pub cached: Option<CachedShare>,
}

/// A chosen hit rate: some prompts begin with the same tokens, the others with tokens of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CachedShare {
    /// Share of the requests that begin with the common tokens.
    pub fraction: f64,
    /// Share of their tokens that are common.
    pub ratio: f64,
}

/// The ids that prompts are made of: the vocabulary without `prohibited`, ascending.
pub(crate) fn allowed_tokens(tokenizer: &Tokenizer, prohibited: &[u32]) -> Result<Vec<u32>, Error> {
    let vocab_size = tokenizer.vocab_size();
    let allowed: Vec<u32> = (0..vocab_size as u32).filter(|id| !prohibited.contains(id)).collect();
    if allowed.is_empty() { Err(Error::NoAllowedTokens { vocab_size }) } else { Ok(allowed) }
}

/// Makes the requests; the global generators are not touched.
pub(crate) fn sample(spec: &RandomSpec, tokenizer: Option<&Tokenizer>, counters: &Counters) -> Result<Sampled, Error> {
    let tokenizer = tokenizer.ok_or(Error::NoTokenizer { dataset: "random" })?;
    let seed = u64::try_from(spec.seed).map_err(|_| Error::NegativeSeed { seed: spec.seed })?;
    let lengths = spec.length_range(tokenizer);
    spec.check_shortest(&lengths)?;
    let count = usize::try_from(spec.num_prompts).map_err(|_| Error::NegativeCount { count: spec.num_prompts })?;
    let mut generator = Generator::new(seed);
    let lengths = lengths.draw(&mut generator, count)?;
    let allowed = allowed_tokens(tokenizer, &tokenizer.special_ids())?;
    let mut draw = GeneratorDraw { generator, vocab_size: tokenizer.vocab_size() };
    let prefix = prefix(spec.prefix_len, &allowed, tokenizer, &mut draw);
    let fitted = fit_prompts(spec, &lengths, &allowed, &prefix, tokenizer, &mut draw, counters);
    let notices = mismatch_notice(fitted.iter().map(FittedText::mismatch).sum()).into_iter().collect();
    let mut requests = spec.requests(fitted, &lengths.outputs);
    if spec.token_ids {
        requests.iter_mut().for_each(|request| as_ids(request, tokenizer));
    }
    if let Some(cached) = spec.cached {
        cached.apply(&mut requests, seed, &allowed);
    }
    Ok(Sampled { requests, notices })
}

/// Sends a prompt's ids in place of its text.
fn as_ids(request: &mut Request, tokenizer: &Tokenizer) {
    if let Content::Text(text) = &request.content {
        let ids = tokenizer.encode(text, false);
        request.prompt_len = ids.len() as u64;
        request.content = Content::Ids(ids);
    }
}

impl CachedShare {
    /// Puts the common tokens into the chosen requests, drawn apart from everything that vLLM draws. The first block of
    /// the others is their own, so that they find nothing.
    fn apply(&self, requests: &mut [Request], seed: u64, allowed: &[u32]) {
        let mut random = Random::new(seed ^ 0x6361_6368_6500);
        let longest = requests.iter().map(|request| request.prompt_len as usize).max().unwrap_or(0);
        let draw = |random: &mut Random, count: usize| -> Vec<u32> {
            random.choices_indices(allowed.len(), count).into_iter().map(|place| allowed[place]).collect()
        };
        let common = draw(&mut random, longest);
        for request in requests {
            let Content::Ids(ids) = &mut request.content else { continue };
            let shared = if random.random() < self.fraction { (ids.len() as f64 * self.ratio) as usize } else { 0 };
            let own = draw(&mut random, ids.len() - shared);
            ids[..shared].copy_from_slice(&common[..shared]);
            ids[shared..].copy_from_slice(&own);
        }
    }
}

/// The ids of a common prefix, after decoding and encoding; none for a length that is not positive.
pub(crate) fn prefix(len: i64, allowed: &[u32], tokenizer: &Tokenizer, draw: &mut GeneratorDraw) -> Vec<u32> {
    let Some(len) = usize::try_from(len).ok().filter(|&len| len > 0) else {
        return Vec::new();
    };
    let places = draw.generator.integers_vec(0, allowed.len() as i64, len);
    let ids = places.into_iter().map(|place| allowed[place as usize]).collect();
    fit(ids, len, tokenizer, draw).ids
}

/// `len` consecutive allowed tokens from `start` on, round the end of the vocabulary.
pub(crate) fn run_of(allowed: &[u32], start: usize, len: usize) -> impl Iterator<Item = u32> + '_ {
    allowed.iter().copied().cycle().skip(start % allowed.len()).take(len)
}

fn fit_prompts(
    spec: &RandomSpec,
    lengths: &Lengths,
    allowed: &[u32],
    prefix: &[u32],
    tokenizer: &Tokenizer,
    draw: &mut GeneratorDraw,
    counters: &Counters,
) -> Vec<FittedText> {
    let sequence = |index: usize| {
        let len = lengths.inputs[index] as usize;
        let mut ids = Vec::with_capacity(prefix.len() + len);
        ids.extend_from_slice(prefix);
        ids.extend(run_of(allowed, lengths.offsets[index] as usize + index, len));
        // The target counts the prefix as asked for, even if it came out longer or shorter.
        let target = spec.prefix_len.saturating_add(lengths.inputs[index]);
        (ids, usize::try_from(target).unwrap_or(0))
    };
    fit_all(lengths.inputs.len(), sequence, tokenizer, draw, counters)
}

impl RandomSpec {
    fn length_range(&self, tokenizer: &Tokenizer) -> LengthRange {
        LengthRange {
            ratio: self.range_ratio,
            input_len: self.input_len,
            output_len: self.output_len,
            num_special: tokenizer.num_special(),
            vocab_size: tokenizer.vocab_size(),
        }
    }

    fn check_shortest(&self, lengths: &LengthRange) -> Result<(), Error> {
        let minimum = lengths.shortest_input()?.saturating_add(self.prefix_len);
        if minimum >= 1 {
            return Ok(());
        }
        Err(Error::InputTooSmall { num_special: lengths.num_special, ratio: self.range_ratio.input, minimum })
    }

    fn requests(&self, fitted: Vec<FittedText>, outputs: &[i64]) -> Vec<Request> {
        let id = |index: usize| Some(format!("{}{index}", self.request_id_prefix));
        let Some(batch) = usize::try_from(self.batch_size).ok().filter(|&batch| batch > 1) else {
            let single = |(index, (fitted, &output)): (usize, (FittedText, &i64))| {
                let len = fitted.len as u64;
                Request { id: id(index), ..Request::text(fitted.text, len, output) }
            };
            return fitted.into_iter().zip(outputs).enumerate().map(single).collect();
        };
        let mut requests = Vec::with_capacity(fitted.len().div_ceil(batch));
        let mut rest = fitted.into_iter();
        while rest.len() > 0 {
            let group: Vec<FittedText> = rest.by_ref().take(batch).collect();
            let len = group.iter().map(|fitted| fitted.len as u64).sum();
            let texts = group.into_iter().map(|fitted| fitted.text).collect();
            let request = Request { content: Content::Texts(texts), ..Request::text("", len, 0) };
            requests.push(Request { id: id(requests.len()), ..request });
        }
        requests
    }
}
