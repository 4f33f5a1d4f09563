//! `random`: runs of consecutive vocabulary entries from a random start, after a common random prefix.

use std::ops::Range;

use tacho_core::{Content, Counters, Request};
use tacho_pyrand::{Generator, Random};
use tacho_text::Tokenizer;

use crate::sampling::fit_length::{FittedText, GeneratorDraw, fit, fit_all, mismatch_notice};
use crate::sampling::lengths::{LengthRange, Lengths, RangeRatio, checked_count, checked_seed};
use crate::{Error, sampling::context::SampleContext, sampling::length_dist::LengthPlan, sampling::sampled::Sampled};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RandomSpec {
    /// Seed of the dataset's own generator.
    pub seed: i64,
    pub num_prompts: i64,
    /// Tokens of a prompt, without its prefix.
    pub input_len: i64,
    pub output_len: i64,
    /// Tokens of the prefix that all prompts share.
    pub prefix_len: i64,
    pub range_ratio: RangeRatio,
    /// Prompts per request; above one, requests contain a list of prompts.
    pub batch_size: i64,
    pub request_id_prefix: String,
    pub token_ids: bool,
    /// The prefix-cache hit rate to aim for, if set.
    pub cached: Option<CachedShare>,
    /// Distributions that replace the lengths above.
    pub length_plan: LengthPlan,
}

/// A chosen hit rate: some prompts start with common tokens, the others with unique ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CachedShare {
    /// Fraction of the requests that start with the common tokens.
    pub fraction: f64,
    /// Fraction of their tokens that are common.
    pub ratio: f64,
}

/// The IDs that prompts consist of: the vocabulary without `prohibited`, ascending.
pub(crate) fn allowed_tokens(tokenizer: &Tokenizer, prohibited: &[u32]) -> Result<Vec<u32>, Error> {
    let vocab_size = tokenizer.vocab_size();
    let allowed: Vec<u32> = (0..vocab_size as u32).filter(|id| !prohibited.contains(id)).collect();
    if allowed.is_empty() { Err(Error::NoAllowedTokens { vocab_size }) } else { Ok(allowed) }
}

/// Prompts per batch.
const PART: usize = 4096;

/// Generates the requests; does not use the global generators.
pub(crate) fn sample(spec: &RandomSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let mut requests = Vec::new();
    let notices = sample_in_parts(spec, context.tokenizer, context.counters, |mut part| {
        requests.append(&mut part);
        Ok(())
    })?;
    if let (Some(cached), Some(tokenizer)) = (spec.cached, context.tokenizer) {
        let allowed = allowed_tokens(tokenizer, &tokenizer.special_ids())?;
        cached.apply(&mut requests, checked_seed(spec.seed)?, &allowed);
    }
    Ok(Sampled { notices, ..Sampled::of(requests) })
}

/// Generates the requests in batches, without the common tokens of a chosen hit rate, which depend on all prompts.
pub(crate) fn sample_in_parts(
    spec: &RandomSpec,
    tokenizer: Option<&Tokenizer>,
    counters: &Counters,
    mut take: impl FnMut(Vec<Request>) -> Result<(), Error>,
) -> Result<Vec<String>, Error> {
    let tokenizer = tokenizer.ok_or(Error::NoTokenizer { dataset: "random" })?;
    let seed = checked_seed(spec.seed)?;
    let lengths = spec.length_range(tokenizer);
    spec.check_shortest(&lengths)?;
    let count = checked_count(spec.num_prompts)?;
    let mut generator = Generator::new(seed);
    let num_special = lengths.num_special;
    let mut lengths = lengths.draw(&mut generator, count)?;
    spec.length_plan.apply(seed, num_special, &mut lengths);
    let allowed = allowed_tokens(tokenizer, &tokenizer.special_ids())?;
    let mut draw = GeneratorDraw { generator, vocab_size: tokenizer.vocab_size() };
    let prefix = prefix(spec.prefix_len, &allowed, tokenizer, &mut draw);
    let (batch, mut mismatch) = (spec.batch(), 0);
    for start in (0..count).step_by(PART.next_multiple_of(batch)) {
        let part = start..count.min(start + PART.next_multiple_of(batch));
        let outputs = &lengths.outputs[part.clone()];
        let fitted = fit_prompts(spec, &lengths, part, &allowed, &prefix, tokenizer, &mut draw, counters);
        mismatch += fitted.iter().map(FittedText::mismatch).sum::<i64>();
        let mut requests = spec.requests(start / batch, fitted, outputs);
        if spec.token_ids {
            requests.iter_mut().for_each(|request| as_ids(request, tokenizer));
        }
        take(requests)?;
    }
    Ok(mismatch_notice(mismatch).into_iter().collect())
}

fn as_ids(request: &mut Request, tokenizer: &Tokenizer) {
    if let Content::Text(text) = &request.content {
        let ids = tokenizer.encode(text, false);
        request.prompt_len = ids.len() as u64;
        request.content = Content::Ids(ids);
    }
}

impl CachedShare {
    /// Puts the common tokens into the chosen requests, drawn separately from everything that vLLM draws. The first
    /// block of the other requests is unique, so that they get no cache hits.
    fn apply(&self, requests: &mut [Request], seed: u64, allowed: &[u32]) {
        let mut random = Random::new(seed ^ 0x6361_6368_6500);
        let longest = requests.iter().map(|request| request.prompt_len as usize).max().unwrap_or(0);
        let draw = |random: &mut Random, count: usize| -> Vec<u32> {
            random.choices_indices(allowed.len(), count).into_iter().map(|position| allowed[position]).collect()
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

/// The IDs of a common prefix, after decoding and encoding; empty if the length is not positive.
pub(crate) fn prefix(len: i64, allowed: &[u32], tokenizer: &Tokenizer, draw: &mut GeneratorDraw) -> Vec<u32> {
    let Some(len) = usize::try_from(len).ok().filter(|&len| len > 0) else {
        return Vec::new();
    };
    let positions = draw.generator.integers_vec(0, allowed.len() as i64, len);
    let ids = positions.into_iter().map(|position| allowed[position as usize]).collect();
    fit(ids, len, tokenizer, draw).ids
}

/// `len` consecutive allowed tokens from `start` on, wrapping around the end of the vocabulary.
pub(crate) fn run_of(allowed: &[u32], start: usize, len: usize) -> impl Iterator<Item = u32> + '_ {
    allowed.iter().copied().cycle().skip(start % allowed.len()).take(len)
}

#[expect(clippy::too_many_arguments, reason = "all of what prompts are made of, and which of them")]
fn fit_prompts(
    spec: &RandomSpec,
    lengths: &Lengths,
    part: Range<usize>,
    allowed: &[u32],
    prefix: &[u32],
    tokenizer: &Tokenizer,
    draw: &mut GeneratorDraw,
    counters: &Counters,
) -> Vec<FittedText> {
    let sequence = |at: usize| {
        let index = part.start + at;
        let len = lengths.inputs[index] as usize;
        let mut ids = Vec::with_capacity(prefix.len() + len);
        ids.extend_from_slice(prefix);
        ids.extend(run_of(allowed, lengths.offsets[index] as usize + index, len));
        // The target uses the requested prefix length, even if the prefix came out longer or shorter.
        let target = spec.prefix_len.saturating_add(lengths.inputs[index]);
        (ids, usize::try_from(target).unwrap_or(0))
    };
    fit_all(part.len(), sequence, tokenizer, draw, counters)
}

impl RandomSpec {
    pub(super) fn length_range(&self, tokenizer: &Tokenizer) -> LengthRange {
        LengthRange::of(tokenizer, self.range_ratio, self.input_len, self.output_len)
    }

    fn check_shortest(&self, lengths: &LengthRange) -> Result<(), Error> {
        let minimum = lengths.shortest_input()?.saturating_add(self.prefix_len);
        if minimum >= 1 {
            return Ok(());
        }
        Err(usage!(
            "--random-input-len is too small: with {} special tokens of the tokenizer and an input range ratio of {}, the \
             shortest prompt would have {minimum} tokens; increase --random-input-len or --random-prefix-len, or \
             decrease --random-range-ratio",
            lengths.num_special,
            self.range_ratio.input
        ))
    }

    fn batch(&self) -> usize {
        usize::try_from(self.batch_size).unwrap_or(1).max(1)
    }

    fn requests(&self, first: usize, fitted: Vec<FittedText>, outputs: &[i64]) -> Vec<Request> {
        let id = |index: usize| Some(format!("{}{}", self.request_id_prefix, first + index));
        let batch = self.batch();
        if batch == 1 {
            let single = |(index, (fitted, &output)): (usize, (FittedText, &i64))| {
                let len = fitted.len as u64;
                Request { id: id(index), ..Request::text(fitted.text, len, output) }
            };
            return fitted.into_iter().zip(outputs).enumerate().map(single).collect();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::context::with_builtin;

    #[test]
    fn made_in_parts_they_are_what_they_are_at_once() {
        let tokenizer = Tokenizer::builtin();
        let spec = RandomSpec {
            seed: 7,
            num_prompts: PART as i64 + 500,
            input_len: 5,
            output_len: 3,
            prefix_len: 2,
            range_ratio: RangeRatio::both(0.5),
            request_id_prefix: "r".to_owned(),
            ..RandomSpec::default()
        };
        let sampled = with_builtin(|context| sample(&spec, context)).unwrap().requests;
        let count = sampled.len();
        assert_eq!(count, PART + 500);
        let mut generator = Generator::new(7);
        let lengths = spec.length_range(&tokenizer).draw(&mut generator, count).unwrap();
        let allowed = allowed_tokens(&tokenizer, &tokenizer.special_ids()).unwrap();
        let mut draw = GeneratorDraw { generator, vocab_size: tokenizer.vocab_size() };
        let prefix = prefix(2, &allowed, &tokenizer, &mut draw);
        let counters = Counters::default();
        let at_once = fit_prompts(&spec, &lengths, 0..count, &allowed, &prefix, &tokenizer, &mut draw, &counters);
        assert!(spec.requests(0, at_once, &lengths.outputs) == sampled);
        // Two prompts per request, the last one alone; each batch contains complete requests.
        let pairs = RandomSpec { batch_size: 2, num_prompts: PART as i64 + 501, ..spec };
        let pairs = with_builtin(|context| sample(&pairs, context)).unwrap().requests;
        assert_eq!(pairs.len(), PART / 2 + 251);
        assert_eq!(pairs.last().unwrap().id.as_deref(), Some("r2298"));
    }
}
