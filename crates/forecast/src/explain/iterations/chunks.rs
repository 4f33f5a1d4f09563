//! Parts of prompts in the iterations before their first token.

use std::ops::{Range, RangeInclusive};

use tacho_metrics::attribution::QueueLimit;

use super::{Iteration, MAX_GROUP, Timeline};
use crate::explain::model::{Load, Model};
use crate::fit::limits::budget::{Held, MIN_WITNESSES, witnessed};

/// Part of the largest chunk of a prompt below which time over the expected is noise.
const MIN_CHUNK: f64 = 0.15;
/// Largest ratio of the time that a prompt may explain to its cost.
const MAX_EXCESS: f64 = 1.5;
/// Part of an iteration up to which it is off what is expected of one whose contents are known.
const MAX_OFF: f64 = 0.1;
/// Rounds in which the tokens of a duration are found, and the part of each correction that is made.
const ROUNDS: usize = 8;
const DAMPING: f64 = 0.7;

impl Timeline<'_> {
    /// Distributes a prompt over the iterations since it arrived, by the time that nothing else in them explains.
    pub(super) fn place_chunks(&mut self, model: &Model<'_>, stream: usize, end: usize) {
        let tokens = self.remaining[stream];
        let mut from = end;
        while from > 0 && end - from < MAX_GROUP && {
            let before = &self.iterations[from - 1];
            let is_open = matches!(before.blocked, None | Some(QueueLimit::Tokens));
            before.head == Some(stream) && is_open && !before.is_idle
        } {
            from -= 1;
        }
        self.admitted[stream] = end;
        let last = self.iterations[end];
        if from == end {
            return;
        }
        if last.is_idle {
            // The streams that showed the iterations before have ended; it went on since.
            self.iterations[end].start = self.iterations[end - 1].end;
        }
        self.iterations[end].prompts = last.prompts - self.streams[stream].prefill();
        let parts = match self.caps[2].is_finite() {
            true => self.filled(model, stream, from..end),
            false => self.by_excess(model, tokens, from..=end),
        };
        let cached = self.streams[stream].traced.prompt as f64 - tokens;
        if parts.iter().all(|part| *part < 1.0) {
            self.iterations[end] = last;
            return;
        }
        self.iterations[end].is_idle = false;
        for (at, part) in (from..end).zip(parts).filter(|(_, part)| *part >= 1.0) {
            let before = cached + tokens - self.remaining[stream];
            self.iterations[at].chunk = self.iterations[at].chunk + Load::prefill(before, part);
            self.chunks[stream].push((at, part));
            self.remaining[stream] -= part;
        }
        if !self.is_whole(stream) {
            self.chunks[stream].iter().for_each(|(at, _)| self.iterations[*at].blocked = Some(QueueLimit::Tokens));
        }
        self.admitted[stream] = self.chunks[stream][0].0;
        let rest = Load::prefill(cached + tokens - self.remaining[stream], self.remaining[stream]);
        self.iterations[end].prompts = self.iterations[end].prompts + rest;
    }

    /// Bounds of the most tokens of an iteration: a prompt that shared no iteration with another fitted into all of its own, and
    /// filled those before the last. `None` if they contradict each other.
    pub(super) fn bounds(&self, model: &Model<'_>) -> Option<Held> {
        let is_explained = |one: &Iteration| {
            (one.seconds() / model.seconds(&one.contents()) - 1.0).abs() < (3.0 * model.noise).max(MAX_OFF)
        };
        let (mut low, mut high) = ([0.0; MIN_WITNESSES], [0.0; MIN_WITNESSES]);
        for (stream, &end) in self.first.iter().enumerate() {
            let chunks = &self.chunks[stream];
            let before = || chunks.iter().map(|(at, _)| &self.iterations[*at]);
            let last = &self.iterations[end];
            let is_alone = before().all(|one| one.prompts.prompts == 0.0 && one.chunk.prompts == 1.0);
            if !before().chain([last]).all(is_explained)
                || last.is_idle
                || !is_alone
                || last.prompts.prompts != 1.0
                || last.chunk.prompts > 0.0
            {
                continue;
            }
            let filled = self.streams[stream].computed() + before().map(|one| one.decode.decodes).sum::<f64>();
            witnessed(&mut low, (filled + last.decode.decodes) / (chunks.len() + 1) as f64);
            if !chunks.is_empty() {
                witnessed(&mut high, chunks.len() as f64 / (filled - 1.0));
            }
        }
        let [low, high] = [low[MIN_WITNESSES - 1], 1.0 / high[MIN_WITNESSES - 1]];
        Held::within(low, high)
    }

    /// Tokens of a prompt in each iteration, by the time that nothing else explains.
    fn by_excess(&self, model: &Model<'_>, tokens: f64, iterations: RangeInclusive<usize>) -> Vec<f64> {
        let excess = |one: &Iteration| {
            let expected = model.seconds(&one.contents());
            Some(one.seconds() - expected).filter(|excess| *excess > 3.0 * model.noise * expected).unwrap_or(0.0)
        };
        let mut over: Vec<f64> = self.iterations[iterations].iter().map(excess).collect();
        let min = MIN_CHUNK * over.iter().copied().fold(0.0, f64::max);
        over.iter_mut().filter(|over| **over < min).for_each(|over| *over = 0.0);
        let sum = over.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        // A prompt does not explain much more than it costs: that is a stall.
        if sum > MAX_EXCESS * model.added(&Load::decode(0.0), &Load::prefill(0.0, tokens)) {
            return vec![0.0; over.len() - 1];
        }
        // Later tokens cost more: they attend to those before.
        let mut before = 0.0;
        for over in over.iter_mut().filter(|over| **over > 0.0) {
            let (seconds, mut part) = (*over, 256.0_f64);
            for _ in 0..ROUNDS {
                let cost = model.added(&Load::decode(0.0), &Load::prefill(before, part)).max(f64::MIN_POSITIVE);
                part = (part * (seconds / cost).powf(DAMPING)).max(1.0);
            }
            *over = part;
            before += part;
        }
        over.iter().take(over.len() - 1).map(|part| tokens * part / before.max(f64::MIN_POSITIVE)).collect()
    }

    /// Tokens of a prompt in each iteration, where the most tokens of one are known: from the first that took longer, it
    /// fills them.
    fn filled(&self, model: &Model<'_>, stream: usize, iterations: Range<usize>) -> Vec<f64> {
        let (mut left, mut has_begun) = (self.remaining[stream], false);
        let part = |one: &Iteration| {
            let contents = one.contents();
            let part = (self.caps[2] - contents.tokens()).clamp(0.0, left - 1.0);
            let (cost, expected) = (model.added(&contents, &Load::prefill(0.0, part)), model.seconds(&contents));
            has_begun |= part >= 1.0 && one.seconds() - expected > 0.5 * cost - 2.0 * model.noise * expected;
            let part = if has_begun { part } else { 0.0 };
            left -= part;
            part
        };
        self.iterations[iterations].iter().map(part).collect()
    }
}
