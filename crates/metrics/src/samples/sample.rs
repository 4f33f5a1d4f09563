//! One request as the metrics see it: times in seconds and counts, computed from an observation.

use std::ops::{Deref, DerefMut};

use tacho_core::{FailureKind, Labels, Observation, Outcome, RequestInfo, TokenCountSource};

use crate::{
    BoxedRareFields, Gaps, Media, PerToken, RareFields, Setup, Task, TokenSource, samples::per_token::tokens_of_events,
};

/// Counts the tokens of a WTF-8 text.
pub type TokenCounter<'a> = &'a dyn Fn(&[u8]) -> u64;

tacho_core::packed! {
    /// One request. Timestamps are seconds since the run's origin, durations are in seconds. The fields of [`RareFields`] are
    /// accessible as if they were its own.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Sample {
        /// Its index in the workload.
        pub index: usize,
        /// Scheduled send time.
        pub scheduled: f64,
        /// Dispatch time, before any wait for a slot.
        pub dispatched: f64,
        /// Send time; vLLM's `start_time`.
        pub sent: f64,
        /// End time.
        pub done: f64,
        /// From `sent` to the first token event; kept even if the request failed later.
        pub ttft: f64,
        /// Times between token events.
        pub itl: Gaps,
        /// From `sent` to the last token event (pooling: to the end); 0 for a failed request.
        pub latency: f64,
        /// From `sent` to the first event with content.
        pub first_content: Option<f64>,
        /// From `sent` to the first token after any reasoning.
        pub first_answer: Option<f64>,
        /// Whether the response has text, not only tool calls.
        pub has_text: bool,
        /// Number of retries; its times include all attempts.
        pub retries: u32,
        /// Time spent connecting; 0 on an open connection.
        pub connect: f64,
        /// Token events whose bytes arrived together with those of a later one.
        pub coalesced: u32,
        /// Generated tokens, as reported by the server.
        pub output_tokens: Option<u64>,
        /// Generated tokens, as the metrics count them.
        pub output_len: u64,
        /// Prompt tokens, as reported by the server if it does.
        pub prompt_len: u64,
        /// Cached prompt tokens, as reported by the server; `None` if unknown.
        pub cached_tokens: Option<u64>,
        /// Number of texts in the request.
        pub num_input_sequences: u64,
        /// Why it failed; `None` for a success.
        pub failure: Option<FailureKind>,
        /// Rarely used fields.
        pub rare: BoxedRareFields,
    }
}

impl Deref for Sample {
    type Target = RareFields;

    fn deref(&self) -> &RareFields {
        &self.rare
    }
}

impl DerefMut for Sample {
    fn deref_mut(&mut self) -> &mut RareFields {
        &mut self.rare
    }
}

impl Sample {
    /// The sample of an observation. `count` counts the tokens of a text if the server does not report them; without
    /// it, such a response counts as one token.
    pub fn from_observation(
        row: Observation,
        request: &RequestInfo,
        setup: &Setup,
        count: Option<TokenCounter<'_>>,
    ) -> Self {
        let media = row.outcome.is_complete().then(|| Media::of(&row, setup.metrics.playback_buffer)).flatten();
        let Observation { sent, done, usage, .. } = row;
        let has_text = !row.text.is_empty();
        let (failure, error) = match row.outcome {
            Outcome::Complete => (None, String::new()),
            Outcome::Failed(failure) => (Some(failure.kind), failure.message),
        };
        // A response without token events (pooling) is timed by its end.
        let whole = if failure.is_none() { done.secs_since(sent) } else { 0.0 };
        let (first, last) = (row.chunks.first(), row.chunks.last());
        let unreported = if setup.task == Task::Pooling { 0 } else { request.prompt_len };
        let judged = row.judged.map(|judged| *judged).unwrap_or_default();
        let rare = RareFields {
            reasoning_tokens: row.reasoning_tokens,
            drafts: usage.drafts,
            times: row.times,
            input_audio_duration: request.audio_seconds,
            input_end: row.input_end.map(|time| time.secs_since(sent)),
            media,
            check: judged.check,
            scores: judged.scores,
            text: if failure.is_none() { row.text } else { Vec::new() },
            error,
            ..RareFields::default()
        };
        let sample = Sample {
            index: row.index,
            scheduled: row.scheduled.secs(),
            dispatched: row.dispatched.secs(),
            sent: sent.secs(),
            done: done.secs(),
            ttft: first.map_or(whole, |first| first.secs_since(sent)),
            itl: Gaps::between(&row.chunks),
            latency: if failure.is_none() { last.map_or(whole, |last| last.secs_since(sent)) } else { 0.0 },
            first_content: row.first_content.map(|time| time.secs_since(sent)),
            first_answer: row.first_answer.map(|time| time.secs_since(sent)),
            has_text: has_text || row.text_ends.last().is_some_and(|end| *end > 0),
            retries: row.retries,
            connect: row.connect_ns as f64 / 1e9,
            coalesced: row.coalesced,
            output_tokens: usage.completion_tokens.filter(|&tokens| tokens > 0),
            output_len: 0,
            prompt_len: usage.prompt_tokens.unwrap_or(unreported),
            cached_tokens: usage.cached_tokens,
            num_input_sequences: request.input_sequences,
            rare: rare.into(),
            failure,
        };
        let marks = row.token_count_source.map(|source| (source, row.token_counts));
        if setup.task == Task::Generation { sample.with_tokens(marks, &row.text_ends, count) } else { sample }
    }

    /// The sample with its output length and, if events had several tokens, its times between tokens.
    fn with_tokens(
        mut self,
        marks: Option<(TokenCountSource, Vec<(u32, u32)>)>,
        text_ends: &[u32],
        count: Option<TokenCounter<'_>>,
    ) -> Self {
        self.output_len = self.counted_output(count);
        let tokens = match marks {
            Some((source, marks)) => Some((source.into(), tokens_of_events(&marks, self.events()))),
            None => self.retokenised(text_ends, count),
        };
        let own = tokens.and_then(|(source, tokens)| PerToken::new(source, &self.itl.to_vec(), &tokens));
        if own.is_some() {
            self.per_token = own;
        }
        self
    }

    /// Sets its labels.
    #[must_use]
    pub fn labeled(mut self, labels: Labels) -> Self {
        if !labels.is_empty() {
            self.rare.labels = labels;
        }
        self
    }

    /// Returns whether the response is complete.
    pub fn success(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns whether it failed other than by a deliberate cancellation.
    pub fn is_fault(&self) -> bool {
        self.failure.is_some_and(|kind| kind != FailureKind::Cancelled)
    }

    /// Approximate heap memory of the sample.
    pub(crate) fn heap(&self) -> usize {
        let rare = self.rare.get().map_or(0, |rare| {
            let gaps = rare.per_token.as_ref().map_or(0, |own| own.gaps.len() * size_of::<f64>());
            size_of::<RareFields>() + rare.error.len() + rare.text.len() + gaps
        });
        self.itl.as_bytes().len() + rare
    }

    /// Wait for a concurrency slot.
    pub fn queue_time(&self) -> f64 {
        self.sent - self.dispatched
    }

    /// Number of token events of a success.
    pub fn events(&self) -> usize {
        if self.success() { self.itl.len() + 1 } else { 0 }
    }

    /// Events without a token, such as a role or a finish reason: before the first content, and at the end. The server's
    /// count tells how many there are; without it, only those before the first content are known.
    pub fn silent_events(&self) -> (usize, usize) {
        let Some(first) = self.first_content else { return (0, 0) };
        // Timestamps are whole nanoseconds.
        let (mut time, mut lead) = (self.ttft + 5e-10, 0);
        for gap in self.itl.iter().take_while(|_| first > self.ttft) {
            if time >= first {
                break;
            }
            (time, lead) = (time + gap, lead + 1);
        }
        let tokens = self.output_tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
        let silent = tokens.map_or(lead, |tokens| self.events().saturating_sub(tokens));
        (lead.min(silent), silent.saturating_sub(lead).min(self.itl.len().saturating_sub(lead)))
    }

    /// The times between tokens, and the source of the token counts: the gaps between events if each has one token.
    pub fn token_gaps(&self) -> (Vec<f64>, Option<TokenSource>) {
        if let Some(own) = &self.per_token {
            return (own.gaps.clone(), Some(own.source));
        }
        let (mut gaps, (lead, tail)) = (self.itl.to_vec(), self.silent_events());
        gaps.truncate(gaps.len() - tail);
        gaps.drain(..lead);
        (gaps, (lead + tail > 0).then_some(TokenSource::Events))
    }

    /// Tokens of each event by their texts, if the server reports more tokens than events.
    fn retokenised(&self, ends: &[u32], count: Option<TokenCounter<'_>>) -> Option<(TokenSource, Vec<u32>)> {
        let more = self.output_tokens.is_some_and(|tokens| tokens > self.events() as u64);
        let count = count.filter(|_| self.success() && more && ends.len() == self.events())?;
        let mut start = 0;
        let tokens = ends.iter().map(|&end| {
            let piece = self.text.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            if piece.is_empty() { 0 } else { count(piece) as u32 }
        });
        Some((TokenSource::Retokenised, tokens.collect()))
    }

    /// The output length: zero for a failure, the server's count, else the tokenizer's, else one.
    fn counted_output(&self, count: Option<TokenCounter<'_>>) -> u64 {
        match (self.success(), self.output_tokens, count) {
            (false, ..) => 0,
            (true, Some(tokens), _) => tokens,
            (true, None, Some(count)) => count(&self.text),
            (true, None, None) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::{Timestamp, Usage};

    fn sampled(row: Observation, task: Task, count: Option<TokenCounter<'_>>) -> Sample {
        let request = RequestInfo { prompt_len: 16, input_sequences: 1, ..RequestInfo::default() };
        Sample::from_observation(row, &request, &Setup { task, ..Setup::example() }, count)
    }

    fn answered() -> Observation {
        Observation {
            sent: Timestamp(2_000_000_000),
            connect_ns: 500_000,
            first_content: Some(Timestamp(2_250_000_000)),
            chunks: vec![Timestamp(2_125_000_000), Timestamp(2_250_000_000), Timestamp(2_750_000_000)],
            done: Timestamp(3_000_000_000),
            text: b"one two".to_vec(),
            ..Observation::dispatched(0, Timestamp(1_000_000_000), Timestamp(1_500_000_000))
        }
    }

    fn words(text: &[u8]) -> u64 {
        text.split(|&byte| byte == b' ').count() as u64
    }

    #[test]
    fn times_end_at_the_last_token_event() {
        let sample = sampled(answered(), Task::Generation, None);
        assert_eq!((sample.ttft, sample.itl.to_vec(), sample.latency), (0.125, vec![0.125, 0.5], 0.75));
        assert_eq!((sample.queue_time(), sample.first_content, sample.connect), (0.5, Some(0.25), 0.0005));
        assert_eq!((sample.scheduled, sample.done, sample.events()), (1.0, 3.0, 3));
    }

    #[test]
    fn output_length_prefers_the_server() {
        let reported = |tokens| Observation {
            usage: Usage { prompt_tokens: Some(11), completion_tokens: tokens, ..Usage::default() },
            ..answered()
        };
        let length =
            |tokens, count: Option<TokenCounter<'_>>| sampled(reported(tokens), Task::Generation, count).output_len;
        assert_eq!(length(Some(7), Some(&words)), 7);
        assert_eq!(length(Some(0), Some(&words)), 2);
        assert_eq!(length(None, Some(&words)), 2);
        assert_eq!(length(None, None), 1);
    }

    #[test]
    fn a_failure_keeps_its_ttft_but_has_no_latency() {
        let failed = Observation {
            outcome: Outcome::failed(FailureKind::ConnectionLost, "broken"),
            usage: Usage { completion_tokens: Some(3), ..Usage::default() },
            ..answered()
        };
        let sample = sampled(failed, Task::Generation, Some(&words));
        assert_eq!((sample.latency, sample.ttft, sample.itl.len()), (0.0, 0.125, 2));
        assert_eq!((sample.output_len, sample.output_tokens, sample.prompt_len), (0, Some(3), 16));
        assert_eq!((sample.error.as_str(), sample.text.len(), sample.success()), ("broken", 0, false));
    }

    #[test]
    fn pooling_is_timed_by_its_end_and_trusts_only_the_servers_prompt_length() {
        let sample = sampled(Observation { chunks: Vec::new(), ..answered() }, Task::Pooling, Some(&words));
        assert_eq!((sample.ttft, sample.latency, sample.prompt_len, sample.output_len), (1.0, 1.0, 0, 0));
    }

    #[test]
    fn events_of_several_tokens_are_known_by_marks_or_by_their_text() {
        let several = Observation {
            text_ends: vec![1, 3, 7],
            usage: Usage { completion_tokens: Some(4), ..Usage::default() },
            text: b"a b c d".to_vec(),
            ..answered()
        };
        let per_token =
            |row: Observation, count: Option<TokenCounter<'_>>| sampled(row, Task::Generation, count).per_token.clone();
        let counted = per_token(several.clone(), Some(&words)).unwrap();
        let third = 0.5 / 3.0;
        assert_eq!(
            (counted.source, counted.gaps),
            (TokenSource::Retokenised, vec![0.0625, 0.0625, third, third, third])
        );
        let marked = Observation {
            token_counts: vec![(0, 1), (1, 2), (2, 4)],
            token_count_source: Some(tacho_core::TokenCountSource::Usage),
            ..several.clone()
        };
        let marked = per_token(marked, None).unwrap();
        assert_eq!((marked.source, marked.gaps), (TokenSource::Usage, vec![0.125, 0.25, 0.25]));
        assert_eq!(per_token(several, None), None);
        assert_eq!(per_token(answered(), Some(&words)), None);
    }

    /// A stream of llama.cpp: a role, two tokens, and a finish reason.
    #[test]
    fn gaps_between_tokens_leave_out_events_without_any() {
        let ms = |ms: u64| Timestamp(2_000_000_000 + ms * 1_000_000);
        let gaps = |times: &[u64], content: u64, tokens: Option<u64>| {
            let row = Observation {
                chunks: times.iter().map(|time| ms(*time)).collect(),
                first_content: Some(ms(content)),
                usage: Usage { completion_tokens: tokens, ..Usage::default() },
                ..answered()
            };
            let (gaps, source) = sampled(row, Task::Generation, None).token_gaps();
            (gaps.iter().map(|gap| (gap * 1e3).round() as u64).collect::<Vec<_>>(), source)
        };
        let events = Some(TokenSource::Events);
        assert_eq!(gaps(&[100, 150, 170, 171], 150, Some(2)), (vec![20], events));
        assert_eq!(gaps(&[100, 150, 170, 171], 150, Some(3)), (vec![20, 1], events));
        assert_eq!(gaps(&[100, 150, 170, 171], 150, None), (vec![20, 1], events));
        assert_eq!(gaps(&[100, 150, 170, 171], 100, Some(4)), (vec![50, 20, 1], None));
        assert_eq!(gaps(&[150, 170], 150, Some(0)), (vec![20], None));
        assert_eq!(gaps(&[100, 150], 150, Some(1)), (vec![], events));
    }

    #[test]
    fn most_samples_take_little_room() {
        assert!(size_of::<Sample>() <= 200, "{}", size_of::<Sample>());
    }

    #[test]
    fn errors_and_texts_count_as_memory() {
        let heap = |error: usize, text: usize| {
            let mut sample = Sample::default();
            (sample.error, sample.text) = ("e".repeat(error), vec![0; text]);
            sample.heap()
        };
        assert_eq!((heap(1000, 1), heap(1, 1000)), (heap(1, 1) + 999, heap(1, 1) + 999));
    }
}
