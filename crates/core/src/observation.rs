//! Timestamps and counts of one request, without interpretation.

use std::num::NonZeroU32;

use crate::{FailureKind, Judged, Labels, Outcome, OutputCheck, Reply, Timestamp};

/// Resolution of recorded timestamps, about a microsecond. A power of two compresses well.
pub const RESOLUTION_NS: u64 = 1024;

/// Token counts as the server reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens served from the prefix cache; `None` if unknown.
    pub cached_tokens: Option<u64>,
    /// Draft tokens of speculative decoding; `None` if the server does not report them per request.
    pub drafts: Option<Drafts>,
}

crate::packed! {
    /// How long the phases of one response took, as the server measured it: microseconds, where it reports them per
    /// request.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct ServerTimes {
        /// From arrival at the engine to the first iteration.
        pub queue: Option<NonZeroU32>,
        /// From there to the first token.
        pub prefill: Option<NonZeroU32>,
        /// From there to the last token.
        pub decode: Option<NonZeroU32>,
    }
}

impl ServerTimes {
    /// A time in whole microseconds, at least one, so that an unknown one needs no room; `None` if it is negative or
    /// longer than an hour.
    pub fn micros(value: f64) -> Option<NonZeroU32> {
        let whole = (0.0..=3.6e9).contains(&value).then(|| value.round() as u32);
        whole.and_then(|whole| NonZeroU32::new(whole.max(1)))
    }
}

crate::packed! {
    /// Speculative decoding of one response, as the server reported it.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Drafts {
        /// Verification steps; `None` if unknown.
        pub steps: Option<u32>,
        /// Tokens drafted.
        pub tokens: u32,
        /// Drafted tokens that were accepted.
        pub accepted: u32,
    }
}

impl Drafts {
    /// Mean tokens per verification step: the accepted ones and the one that every step adds.
    pub fn acceptance_length(self) -> Option<f64> {
        let steps = self.steps.filter(|&steps| steps > 0)?;
        Some(1.0 + f64::from(self.accepted) / f64::from(steps))
    }
}

crate::named! {
    /// The source of token counts per event.
    pub enum TokenCountSource, "a source of token counts" {
        /// Usage reported with every event.
        Usage = "usage",
        /// Log-probabilities, one per token.
        Logprobs = "logprobs",
    }
}

/// The format of generated audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AudioFormat {
    /// Frames per second.
    pub rate: u32,
    /// Bytes of a frame, which has one sample of each channel.
    pub frame_bytes: u16,
}

/// Generated media, if the response is not a text. Its fields are inline, so that it takes eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// Audio of this format.
    Audio {
        /// Frames per second.
        rate: u32,
        /// Bytes of a frame.
        frame_bytes: u16,
    },
    /// Audio of an unknown format, and so of an unknown duration.
    UnknownAudio,
    /// Number of images.
    Images(u32),
}

impl Media {
    /// Audio of a format, if it is known.
    pub fn audio(format: Option<AudioFormat>) -> Self {
        format.map_or(Media::UnknownAudio, |AudioFormat { rate, frame_bytes }| Media::Audio { rate, frame_bytes })
    }
}

/// One row of a run: the timestamps, counts and outcome of a request.
///
/// ```
/// use tacho_core::{Observation, Outcome, Timestamp};
///
/// let ms = |ms: u64| Timestamp(ms * 1_000_000);
/// let mut row = Observation::dispatched(0, ms(0), ms(1));
/// row.sent = ms(2);
/// row.chunks = vec![ms(52), ms(62), ms(74)];
/// row.outcome = Outcome::Complete;
/// assert_eq!(row.chunks[0].since(row.sent).as_millis(), 50); // TTFT
/// assert_eq!(row.chunks[2].since(row.chunks[1]).as_millis(), 12); // an ITL
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Index of the request in the workload.
    pub index: usize,
    /// Scheduled send time.
    pub scheduled: Timestamp,
    /// When the dispatcher handed it to a worker, before any wait for a concurrency slot.
    pub dispatched: Timestamp,
    /// When it got its slot and sending began; vLLM's `start_time`.
    pub sent: Timestamp,
    /// Time to connect (TCP, TLS), part of `sent`..`first_byte`; zero on a reused connection.
    pub connect_ns: u64,
    /// When the last of the input was due to be sent, if it is sent while the response is received.
    pub input_end: Option<Timestamp>,
    /// When the first byte of the response arrived.
    pub first_byte: Option<Timestamp>,
    /// When the first event with content (not just a role) arrived.
    pub first_content: Option<Timestamp>,
    /// When each token event arrived, in order. The first gives vLLM's TTFT, the gaps its ITLs.
    pub chunks: Vec<Timestamp>,
    /// End offset in `text` of each token event; empty if events do not append to it. Of audio, which is not kept: bytes
    /// received up to each event.
    pub text_ends: Vec<u32>,
    /// Cumulative token counts at events: (index into `chunks`, tokens up to it). Events with a single token, nearly
    /// all of them, are omitted.
    pub token_counts: Vec<(u32, u32)>,
    /// The source of `token_counts`, if there are any.
    pub token_count_source: Option<TokenCountSource>,
    /// When the first token after any reasoning arrived.
    pub first_answer: Option<Timestamp>,
    /// Reasoning tokens among the generated ones, if the server reports them.
    pub reasoning_tokens: Option<u64>,
    /// Number of retries; all times count from the first attempt.
    pub retries: u32,
    /// Token events read together with a later one, so that their timestamp is only an upper bound.
    pub coalesced: u32,
    /// When the request ended.
    pub done: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
    /// The generated text as WTF-8: UTF-8 that may hold the lone surrogates JSON allows.
    pub text: Vec<u8>,
    /// Token counts that the server reported.
    pub usage: Usage,
    /// Whether the server reported an invalid count (negative, infinite or beyond any context). Such counts are
    /// dropped.
    pub impossible_usage: bool,
    /// The server's own times.
    pub times: ServerTimes,
    /// The generated media, if the response is not a text.
    pub media: Option<Media>,
    /// Parts of the response, in addition to its text, that a later request needs; otherwise `None`.
    pub reply: Option<Box<Reply>>,
    /// Labels known only from the response: the replica, response headers.
    pub labels: Labels,
    /// What the output is worth, if outputs are checked or graded.
    pub judged: Option<Box<Judged>>,
}

impl Observation {
    /// Converts all timestamps to another clock.
    pub fn shift(&mut self, to: impl Fn(Timestamp) -> Timestamp) {
        let timestamps = [&mut self.scheduled, &mut self.dispatched, &mut self.sent, &mut self.done].into_iter();
        let maybe = [&mut self.input_end, &mut self.first_byte, &mut self.first_content, &mut self.first_answer];
        timestamps
            .chain(maybe.into_iter().flatten())
            .chain(&mut self.chunks)
            .for_each(|timestamp| *timestamp = to(*timestamp));
    }

    /// Rounds its timestamps up to a multiple of [`RESOLUTION_NS`] from `origin`: finer digits are clock noise and
    /// would dominate the size of a log. The scheduled time is exact, not measured, and stays as it is.
    pub fn round(&mut self, origin: Timestamp) {
        let up = |nanos: u64| nanos.wrapping_add(RESOLUTION_NS - 1) & !(RESOLUTION_NS - 1);
        self.shift(|timestamp| Timestamp(origin.0.wrapping_add(up(timestamp.0.wrapping_sub(origin.0)))));
    }

    /// The row of a request that was dispatched but not yet sent.
    pub fn dispatched(index: usize, scheduled: Timestamp, dispatched: Timestamp) -> Self {
        Observation { index, scheduled, dispatched, sent: dispatched, done: dispatched, ..Observation::default() }
    }

    /// The comparison with its reference, if outputs are checked.
    pub fn check(&self) -> Option<&OutputCheck> {
        self.judged.as_ref()?.check.as_ref()
    }

    /// Whether the end of the run aborted it.
    pub fn is_aborted(&self) -> bool {
        self.outcome.failure().is_some_and(|failure| failure.kind == FailureKind::Aborted)
    }

    /// Moves all timestamps so that the time `from` becomes `to`.
    pub fn move_clock(&mut self, from: Timestamp, to: Timestamp) {
        self.shift(|timestamp| Timestamp(timestamp.0.saturating_sub(from.0).saturating_add(to.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_the_order() {
        let origin = Timestamp(77);
        let at = |nanos: u64| Timestamp(origin.0 + nanos);
        let mut row = Observation {
            sent: at(1023),
            first_byte: Some(at(1024)),
            chunks: vec![at(1025), at(2048), at(9_000_000)],
            done: at(9_000_001),
            ..Observation::dispatched(0, at(5), at(6))
        };
        row.round(origin);
        assert_eq!((row.scheduled, row.dispatched, row.sent), (at(1024), at(1024), at(1024)));
        assert_eq!((row.first_byte, row.done), (Some(at(1024)), at(9_000_960)));
        assert_eq!(row.chunks, [at(2048), at(2048), at(9_000_960)]);
        let once = row.clone();
        row.round(origin);
        assert_eq!(row, once);
        let mut before = Observation::dispatched(0, Timestamp(3), Timestamp(3));
        before.round(origin);
        assert_eq!((before.scheduled, before.dispatched), (origin, origin));
    }

    #[test]
    fn moving_the_clock_moves_every_timestamp() {
        let mut row = Observation {
            sent: Timestamp(12),
            input_end: Some(Timestamp(14)),
            first_byte: Some(Timestamp(15)),
            first_content: Some(Timestamp(16)),
            first_answer: Some(Timestamp(17)),
            chunks: vec![Timestamp(16), Timestamp(20)],
            done: Timestamp(21),
            connect_ns: 2,
            ..Observation::dispatched(3, Timestamp(10), Timestamp(11))
        };
        row.move_clock(Timestamp(10), Timestamp(110));
        assert_eq!(
            (row.scheduled, row.dispatched, row.sent, row.done),
            (Timestamp(110), Timestamp(111), Timestamp(112), Timestamp(121))
        );
        assert_eq!(
            (row.input_end, row.first_byte, row.first_content, row.first_answer),
            (Some(Timestamp(114)), Some(Timestamp(115)), Some(Timestamp(116)), Some(Timestamp(117)))
        );
        assert_eq!((row.chunks, row.connect_ns), (vec![Timestamp(116), Timestamp(120)], 2));
    }
}
