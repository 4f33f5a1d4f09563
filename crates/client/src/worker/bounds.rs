//! Bounds on one response: a server that never ends it must not fill the memory.
//!
//! They are far above what any server sends for the requested tokens, and low enough that thousands of such responses
//! fit into memory.

use tacho_core::Observation;

/// Token events, bytes of text and bytes in total that are accepted if the number of requested tokens is unknown.
const UNKNOWN: (usize, usize, u64) = (4 << 20, 64 << 20, 16 << 30);
/// The same for few requested tokens.
const FEW: (usize, usize, u64) = (128 << 10, 4 << 20, 256 << 20);
/// The same for each requested token: several choices, tokens of many bytes, log-probabilities of many alternatives.
const EACH: (usize, usize, u64) = (16, 256, 64 << 10);

/// Unit of received bytes: all numbers fit into 32 bits, because every stream in flight has them.
const BLOCK: usize = 64;

#[derive(Debug)]
pub(super) struct Bounds {
    /// Requested tokens; 0 if their number is unknown.
    pub(super) asked: u32,
    /// Received blocks, rounded up for each part.
    received: u32,
}

impl Bounds {
    /// The bounds of a response with this many requested tokens; 0 if their number is unknown.
    pub(super) fn of(asked: usize) -> Self {
        Bounds { asked: u32::try_from(asked).unwrap_or(u32::MAX), received: 0 }
    }

    /// Adds bytes that were received; returns whether the response is too long.
    pub(super) fn are_exceeded(&mut self, bytes: usize, row: &Observation) -> bool {
        self.received = self.received.saturating_add(u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX));
        let (events, text, max) = match self.asked as usize {
            0 => UNKNOWN,
            asked => (
                asked.saturating_mul(EACH.0).max(FEW.0),
                asked.saturating_mul(EACH.1).max(FEW.1),
                (asked as u64).saturating_mul(EACH.2).max(FEW.2),
            ),
        };
        row.chunks.len() > events || row.text.len() > text || u64::from(self.received) * BLOCK as u64 > max
    }

    /// Drops what a row holds of a response that is too long, but for its first token; returns the message.
    #[cold]
    pub(super) fn cut(&self, row: &mut Observation) -> String {
        let (events, received) = (row.chunks.len(), (u64::from(self.received) * BLOCK as u64) >> 10);
        row.chunks = row.chunks.first().copied().into_iter().collect();
        (row.text, row.text_ends, row.token_counts, row.coalesced) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let asked = match self.asked {
            0 => String::new(),
            asked => format!(" for {asked} requested tokens"),
        };
        format!("the response is too long: it did not end after {events} events and {received} KiB{asked}")
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::Timestamp;

    use super::*;

    #[test]
    fn real_responses_fit_and_endless_ones_do_not() {
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        // A server that ignores the limit of eight tokens.
        row.chunks = vec![Timestamp(1); 100_000];
        assert!(!Bounds::of(8).are_exceeded(20 << 20, &row));
        row.chunks = vec![Timestamp(1); 140_000];
        assert!(Bounds::of(8).are_exceeded(0, &row));
        // A million tokens in four choices, with log-probabilities; and a response of unknown length.
        row.chunks = vec![Timestamp(1); 4_000_000];
        assert!(!Bounds::of(1_000_000).are_exceeded(8 << 30, &row));
        assert!(!Bounds::of(0).are_exceeded(8 << 30, &row));
        assert!(Bounds::of(8).are_exceeded(1 << 30, &Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO)));
    }
}
