//! The measurements of `tacho fit --base-url`: runs at several concurrencies, in rounds so that a slow period of the machine
//! is not mistaken for a cost, then a burst that reaches the scheduler's limits, then requests with a shared prefix.

use super::limits::reached::{Held, KnownBefore, reached};
use super::{Fitted, caches, limits::KnownLimits, trace::Traced};
use crate::explain::token_limit;

/// Concurrency, median prompt length and median output length of the runs of a round. Prompts of single requests have all
/// lengths, which separates quadratic from linear costs; outputs are short, so that many steps have a prefill.
pub const LEVELS: [(usize, usize, usize); 4] = [(1, 510, 8), (4, 450, 16), (12, 250, 20), (40, 160, 24)];
pub const MAX_ROUNDS: usize = 3;
/// Steps per run: shorter ones end before their first requests do.
const MIN_STEPS: f64 = 150.0;
/// Fraction of the time for the burst of short prompts, which reaches `max_num_seqs`.
const BURST: f64 = 0.1;
/// Fraction of the time for the burst of prompts with short outputs, which reaches `max_num_batched_tokens` and shows
/// chunked prefill.
const PREFILL_BURST: f64 = 0.1;
/// Least and most prompt tokens of the prefill burst: 3 to 16 full steps of a budget of 8,192.
const PREFILL_TOKENS: (f64, f64) = (24_576.0, 131_072.0);
/// Mean prompt length of the prefill burst: short enough for several prompts per step of a common budget.
const PREFILL_PROMPT: usize = 700;
/// Prompt tokens of the shared prefix: as many as take this many seconds to the first token, within these bounds.
const SHARED: (f64, usize, usize) = (0.15, 480, 4000);
/// Tokens of the model length that are left for outputs.
const OUTPUT_ROOM: usize = 40;

pub trait Server {
    type Error;

    fn run(&mut self, load: &Load) -> Result<Vec<Traced>, Self::Error>;

    /// Seconds since the experiment started.
    fn elapsed(&self) -> f64;
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    Requests(usize),
    Seconds(f64),
}

/// The load of one run: random prompts without common prefixes but for `prefix`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub concurrency: usize,
    pub length: Length,
    /// Tokens of a prefix that all prompts share.
    pub prefix: usize,
    /// Mean prompt tokens after the prefix.
    pub input: usize,
    pub output: usize,
    /// Lengths are uniform within this fraction of the mean.
    pub range: f64,
    /// Seed of the prompts; different for each run.
    pub seed: usize,
    /// Whether it is the first run, before which the server may not be ready.
    pub is_first: bool,
}

impl Load {
    fn new(concurrency: usize, (input, output): (usize, usize), length: Length, seed: usize) -> Self {
        Load { concurrency, length, prefix: 0, input, output, range: 0.9, seed, is_first: false }
    }

    /// Returns whether it is fitted, not only used to test for prefix caching.
    pub fn is_fitted(&self) -> bool {
        self.range > 0.0
    }

    /// EngineSpec its prompts to `longest` tokens; lengths are drawn up to twice the mean.
    fn within(self, longest: usize) -> Self {
        let prefix = self.prefix.min(longest / 2);
        Load { prefix, input: self.input.min((longest - prefix) / 2).max(1), ..self }
    }
}

#[derive(Debug, Default)]
pub struct Experiment {
    /// Runs of prompts without common prefixes.
    pub runs: Vec<Vec<Traced>>,
    /// Sequential requests without a common prefix.
    pub unlike: Vec<Traced>,
    /// Sequential requests of the same length with a common prefix.
    pub alike: Vec<Traced>,
}

impl Experiment {
    /// Measures a server for about `seconds`, with prompts and outputs within `max_model_len`. `None` if it returned nothing
    /// that could be timed.
    pub fn measure<S: Server>(server: &mut S, seconds: f64, max_model_len: usize) -> Result<Option<Self>, S::Error> {
        let longest = max_model_len.saturating_sub(OUTPUT_ROOM).max(16);
        let probe = Load { is_first: true, ..Load::new(1, (330, 12), Length::Requests(3), 99) };
        let first = server.run(&probe.within(longest))?;
        if first.is_empty() {
            return Ok(None);
        }
        // Half of the longest, since prompts without a common prefix are drawn up to twice as long.
        let shared = shared_tokens(&first).min((longest / 2).saturating_sub(16));
        let until = seconds * (1.0 - BURST - PREFILL_BURST);
        let prefill = prefill_burst(&first, seconds, longest);
        let mut runs = vec![first];
        let fastest = rounds(server, until, longest, &mut runs)?;
        let many = ((fastest * 1.6 * seconds * BURST) as usize).clamp(24, 4000);
        let burst = Load { range: 0.3, ..Load::new(many, (120, 24), Length::Requests(many), 50) };
        runs.push(server.run(&burst.within(longest))?);
        runs.push(server.run(&prefill.within(longest))?);
        let sequential =
            |prompt: usize, seed: usize| Load { range: 0.0, ..Load::new(1, (prompt, 2), Length::Requests(6), seed) };
        let unlike = server.run(&sequential(shared + 16, 52).within(longest))?;
        let alike = server.run(&Load { prefix: shared, ..sequential(16, 51) }.within(longest))?;
        Ok(Some(Experiment { runs, unlike, alike }))
    }

    /// Returns whether the server caches prefixes, from the TTFT of prompts that share one; `None` if unclear.
    pub fn prefix_caching(&self, fitted: &Fitted) -> Option<bool> {
        let ttfts = |run: &[Traced]| -> Vec<f64> {
            run.iter().filter_map(|one| Some(one.tokens.first()? - one.sent)).collect()
        };
        let (first, later) = self.alike.split_at_checked(1)?;
        let fresh = [ttfts(&self.unlike), ttfts(first)].concat();
        let prompt = first[0].prompt as f64;
        caches(&fresh, &ttfts(later), |share| fitted.first_token(prompt, share * prompt))
    }

    /// Adds the limits that the runs reached, and bounds of those that they did not.
    pub fn learn_limits(&self, known: &mut KnownLimits) {
        let limits = &known.limits;
        let before = KnownBefore {
            sequences: known.is_known("max_num_seqs").then_some(limits.max_num_seqs),
            splits: known.is_known("enable_chunked_prefill").then_some(limits.enable_chunked_prefill),
        };
        let reached = reached(&self.runs, before);
        reached.sequences.into_iter().for_each(|count| known.learn("max_num_seqs", count, "reached"));
        // A step has a token for every sequence, so that the token budget is at least as large.
        let min = if known.is_known("max_num_seqs") { known.limits.max_num_seqs } else { reached.widest };
        if let Some(Held { limit, between: (low, high) }) = reached.tokens.filter(|held| held.limit >= min) {
            known.learn("max_num_batched_tokens", limit, &format!("reached: from {low} to {high}"));
            reached.splits.into_iter().for_each(|on| known.learn("enable_chunked_prefill", usize::from(on), "reached"));
        }
        if !known.is_known("max_num_batched_tokens") {
            // Prompts that are longer fill iterations with their parts, whether or not others are queued.
            let found: Vec<Held> =
                self.runs.iter().filter_map(|run| token_limit(run, known.async_scheduling)).collect();
            let low = found.iter().map(|held| held.between.0).max().unwrap_or(usize::MAX);
            let high = found.iter().map(|held| held.between.1).min().unwrap_or(0);
            let min = min.max(reached.most_tokens);
            let both = Held::within(low as f64, high as f64).map(|both| {
                match found.iter().find(|held| both.has(held.limit as f64)) {
                    Some(one) if !both.is_close() => Held { limit: one.limit, ..both },
                    _ => both,
                }
            });
            if let Some(held) = both.filter(|held| held.limit >= min) {
                let source = match held.between {
                    (low, high) if low < high => format!("reached by long prompts: from {low} to {high}"),
                    _ => "reached by long prompts".to_owned(),
                };
                known.learn("max_num_batched_tokens", held.limit, &source);
            }
        }
        known.assume("max_num_seqs", reached.widest);
        known.assume("max_num_batched_tokens", reached.most_tokens);
    }
}

/// Runs all levels in rounds until the given time; returns the highest throughput, requests per second.
fn rounds<S: Server>(server: &mut S, until: f64, longest: usize, runs: &mut Vec<Vec<Traced>>) -> Result<f64, S::Error> {
    let parts = LEVELS.len() * round_count(&runs[0], until - server.elapsed());
    let (mut fastest, mut excess) = (0.0_f64, 0.0);
    for part in 0..parts {
        let (level, prompt, output) = LEVELS[part % LEVELS.len()];
        let left = (until - server.elapsed()) / (parts - part) as f64;
        let length = (left - excess).max(left * 0.3).max(0.5);
        let before = server.elapsed();
        let load = Load::new(level, (prompt, output), Length::Seconds(length), part + 1);
        let range = if level == 1 { 0.96 } else { load.range };
        let run = server.run(&Load { range, ..load }.within(longest))?;
        let took = server.elapsed() - before;
        // Requests in flight at the end take time to finish; those of the next level take longer.
        excess = if part % LEVELS.len() == LEVELS.len() - 1 { 0.0 } else { (took - length) * 1.3 };
        fastest = fastest.max(run.len() as f64 / took);
        runs.push(run);
    }
    Ok(fastest)
}

/// Prompts all at once: as many as fill many steps, within their part of the time. Outputs are short, so that sequences
/// make room and steps stay full of prompts.
fn prefill_burst(first: &[Traced], seconds: f64, longest: usize) -> Load {
    let (min, max) = PREFILL_TOKENS;
    let tokens = (prefill_rate(first) * seconds * PREFILL_BURST).clamp(min, max);
    let prompt = PREFILL_PROMPT.min(longest / 2);
    let count = ((tokens / prompt as f64) as usize).max(24);
    Load { range: 0.9, ..Load::new(count, (prompt, 4), Length::Requests(count), 49) }
}

/// As many rounds as leave each run its steps, whose length is known from the first requests.
fn round_count(first: &[Traced], seconds: f64) -> usize {
    let gaps = first.iter().flat_map(|one| one.tokens.windows(2)).map(|pair| pair[1] - pair[0]);
    let (sum, count) = gaps.fold((0.0, 0.0), |(sum, count), gap| (sum + gap, count + 1.0));
    let step: f64 = if count > 0.0 { sum / count } else { 0.0 };
    let each = (MIN_STEPS * step).max(1.0);
    ((seconds / LEVELS.len() as f64 / each) as usize).clamp(1, MAX_ROUNDS)
}

/// Prompt tokens whose prefill is clearly visible in the time to first token.
fn shared_tokens(first: &[Traced]) -> usize {
    let (seconds, min, max) = SHARED;
    ((seconds * prefill_rate(first)) as usize).clamp(min, max)
}

/// Prompt tokens per second to the first token, of single requests.
fn prefill_rate(first: &[Traced]) -> f64 {
    let prefill = |one: &Traced| one.tokens.first().map(|token| (one.prompt as f64, token - one.sent));
    let (tokens, took) = first.iter().filter_map(prefill).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    tokens / took.max(1e-6)
}
