//! What happened to one request: timestamps and counts, no interpretation.

use crate::{FailureKind, Outcome, Reply, Timestamp};

/// To what the moments of a row are kept: about a microsecond. A power of two, so that its multiples pack well.
pub const RESOLUTION_NS: u64 = 1024;

/// Token counts as the server reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub completion_tokens: Option<u64>,
    /// Tokens of the prompt that the server had cached; not known is not none.
    pub cached_tokens: Option<u64>,
    /// Whether a count was given that cannot be one (negative, infinite, beyond all contexts). It is left out above.
    pub impossible: bool,
}

/// Who said how many tokens an event brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenCountSource {
    /// Usage that the server reports with every event.
    Usage,
    /// The log-probabilities, one per token.
    Logprobs,
}

/// One row of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Which request of the workload this was.
    pub index: usize,
    /// When the schedule wanted it sent.
    pub scheduled: Timestamp,
    /// When the event loop dispatched it, before any wait for a concurrency slot.
    pub dispatched: Timestamp,
    /// When it had its slot and sending began; vLLM's `start_time`.
    pub sent: Timestamp,
    /// Time spent connecting (TCP, TLS) inside `sent`..first byte; zero on a connection that was open.
    pub connect_ns: u64,
    /// When the first byte of the answer arrived.
    pub first_byte: Option<Timestamp>,
    /// When the first token that carries content (not just a role) arrived.
    pub first_content: Option<Timestamp>,
    /// When each token event arrived, in order; vLLM's TTFT is the first, its ITLs are the gaps.
    pub chunks: Vec<Timestamp>,
    /// Where the text of each token event ends in `text`; empty where events do not append to it.
    pub text_ends: Vec<u32>,
    /// Tokens known by events: the event's place in `chunks`, and all tokens up to it. Events that bring one token
    /// each, as nearly all do, are not here.
    pub token_counts: Vec<(u32, u32)>,
    /// Where the marks come from, if there are any.
    pub token_count_source: Option<TokenCountSource>,
    /// When the first token of the answer itself, after any reasoning, arrived.
    pub first_answer: Option<Timestamp>,
    /// Tokens of reasoning among those generated, where the server says.
    pub reasoning_tokens: Option<u64>,
    /// How often it was sent again after a failure; all times are counted from the first sending.
    pub retries: u32,
    /// Token events whose bytes came in the same read as a later one's, so that their timestamp is a bound.
    pub coalesced: u32,
    /// When the request was over.
    pub done: Timestamp,
    /// The verdict.
    pub outcome: Outcome,
    /// The generated text as WTF-8: UTF-8 that may hold the lone surrogates JSON allows.
    pub text: Vec<u8>,
    /// What the server said of token counts.
    pub usage: Usage,
    /// What a later request needs of the answer in addition to its text; kept only where one does.
    pub reply: Option<Box<Reply>>,
}

impl Observation {
    /// Puts all its moments on another clock.
    pub fn shift(&mut self, to: impl Fn(Timestamp) -> Timestamp) {
        let moments = [&mut self.scheduled, &mut self.dispatched, &mut self.sent, &mut self.done].into_iter();
        let maybe = [&mut self.first_byte, &mut self.first_content, &mut self.first_answer].into_iter().flatten();
        moments.chain(maybe).chain(&mut self.chunks).for_each(|timestamp| *timestamp = to(*timestamp));
    }

    /// Rounds its timestamps up to a multiple of [`RESOLUTION_NS`] from `origin`: the rest is noise of clocks and
    /// reads, and would take most of the space of a log. The scheduled time is not a measurement and stays exact, since
    /// latencies count from it.
    pub fn round(&mut self, origin: Timestamp) {
        let up = |nanos: u64| nanos.wrapping_add(RESOLUTION_NS - 1) & !(RESOLUTION_NS - 1);
        self.shift(|timestamp| Timestamp(origin.0.wrapping_add(up(timestamp.0.wrapping_sub(origin.0)))));
    }

    /// A row for a request that was dispatched but has not been sent.
    pub fn dispatched(index: usize, scheduled: Timestamp, dispatched: Timestamp) -> Self {
        Observation {
            index,
            scheduled,
            dispatched,
            sent: dispatched,
            connect_ns: 0,
            first_byte: None,
            first_content: None,
            chunks: Vec::new(),
            text_ends: Vec::new(),
            token_counts: Vec::new(),
            token_count_source: None,
            first_answer: None,
            reasoning_tokens: None,
            retries: 0,
            coalesced: 0,
            done: dispatched,
            outcome: Outcome::Complete,
            text: Vec::new(),
            usage: Usage::default(),
            reply: None,
        }
    }

    /// Whether the end of the run cut it off.
    pub fn is_aborted(&self) -> bool {
        self.outcome.failure().is_some_and(|failure| failure.kind == FailureKind::Aborted)
    }

    /// Moves all timestamps so that the time `from` becomes `to`.
    pub fn move_clock(&mut self, from: Timestamp, to: Timestamp) {
        let moved =
            |timestamp: &mut Timestamp| *timestamp = Timestamp(timestamp.0.saturating_sub(from.0).saturating_add(to.0));
        let always = [&mut self.scheduled, &mut self.dispatched, &mut self.sent, &mut self.done];
        let maybe = [&mut self.first_byte, &mut self.first_content, &mut self.first_answer];
        always.into_iter().chain(maybe.into_iter().flatten()).chain(&mut self.chunks).for_each(moved);
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
            (row.first_byte, row.first_content, row.first_answer),
            (Some(Timestamp(115)), Some(Timestamp(116)), Some(Timestamp(117)))
        );
        assert_eq!((row.chunks, row.connect_ns), (vec![Timestamp(116), Timestamp(120)], 2));
    }
}
