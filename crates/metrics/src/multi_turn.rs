//! The samples of a multi-turn benchmark, in the definitions of vLLM's script.

use tacho_core::Observation;
use tacho_core::json::{Dict, Value};

/// One exchange: a message and its response.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnSample {
    /// Time to the first token, corrected where the first chunk held several, ms.
    pub ttft_ms: f64,
    /// Time per token after the first chunk, ms; 0 where it is unknown.
    pub tpot_ms: f64,
    /// From sending to the end of the response, ms.
    pub latency_ms: f64,
    /// Send time on the run's clock, ms.
    pub start_time_ms: f64,
    /// Messages sent.
    pub input_num_turns: u64,
    /// Tokens of their contents.
    pub input_num_tokens: u64,
    /// Tokens of the response.
    pub output_num_tokens: u64,
    /// Chunks of the response after the first.
    pub output_num_chunks: u64,
    /// Tokens of the first chunk.
    pub output_num_first_chunk_tokens: u64,
    /// The fraction of the prompt that was sent before.
    pub approx_cached_percent: f64,
    /// The conversation.
    pub conversation_id: String,
    /// The client.
    pub client_id: usize,
}

/// The tokens of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTokens {
    /// Messages sent.
    pub messages: u64,
    /// Of all messages sent.
    pub input: u64,
    /// Of the last one.
    pub last: u64,
}

/// The chunks of a response.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pieces {
    raw_ttft_ms: f64,
    count: u64,
    /// End of the first chunk's text; one token where that is unknown.
    first_end: Option<usize>,
}

impl TurnSample {
    /// The sample of a row with a complete response; `count` counts tokens.
    pub fn of(
        row: &Observation,
        tokens: TurnTokens,
        count: &dyn Fn(&str) -> u64,
        conversation_id: &str,
        client_id: usize,
    ) -> Self {
        let latency_ms = row.done.secs_since(row.sent) * 1000.0;
        let text = String::from_utf8_lossy(&row.text);
        let pieces = pieces(row);
        let raw_ttft_ms = pieces.map_or(latency_ms, |pieces| pieces.raw_ttft_ms);
        let head = |end: usize| count(&String::from_utf8_lossy(&row.text[..end]));
        let first = pieces.map_or(0, |pieces| pieces.first_end.map_or(1, head));
        let output = count(&text);
        let streamed = pieces.is_some();
        let tpot_ms = if streamed && output > 1 && output > first {
            (latency_ms - raw_ttft_ms) / (output - first) as f64
        } else {
            0.0
        };
        // The other tokens of the first chunk took their time too.
        let ttft_ms = if first > 1 { (raw_ttft_ms - (first - 1) as f64 * tpot_ms).max(0.1) } else { raw_ttft_ms };
        let cached = tokens.input.saturating_sub(tokens.last) as f64;
        TurnSample {
            ttft_ms,
            tpot_ms,
            latency_ms,
            start_time_ms: row.sent.0 as f64 / 1e6,
            input_num_turns: tokens.messages,
            input_num_tokens: tokens.input,
            output_num_tokens: output,
            output_num_chunks: pieces.map_or(0, |pieces| pieces.count - 1),
            output_num_first_chunk_tokens: first,
            approx_cached_percent: if tokens.input > 0 { 100.0 * (cached / tokens.input as f64) } else { 0.0 },
            conversation_id: conversation_id.to_owned(),
            client_id,
        }
    }

    /// End of the response on the run's clock.
    pub fn end_time_ms(&self) -> f64 {
        self.start_time_ms + self.latency_ms
    }

    /// The metrics of the table, by name.
    pub fn metrics(&self) -> [(&'static str, f64); 7] {
        [
            ("ttft_ms", self.ttft_ms),
            ("tpot_ms", self.tpot_ms),
            ("latency_ms", self.latency_ms),
            ("input_num_turns", self.input_num_turns as f64),
            ("input_num_tokens", self.input_num_tokens as f64),
            ("output_num_tokens", self.output_num_tokens as f64),
            ("output_num_chunks", self.output_num_chunks as f64),
        ]
    }

    /// The object in result files.
    pub fn to_json(&self) -> Dict {
        tacho_core::dict! {
            "ttft_ms": self.ttft_ms,
            "tpot_ms": self.tpot_ms,
            "latency_ms": self.latency_ms,
            "start_time_ms": self.start_time_ms,
            "input_num_turns": self.input_num_turns,
            "input_num_tokens": self.input_num_tokens,
            "output_num_tokens": self.output_num_tokens,
            "output_num_chunks": self.output_num_chunks,
            "output_num_first_chunk_tokens": self.output_num_first_chunk_tokens,
            "approx_cached_percent": self.approx_cached_percent,
            "conversation_id": Value::from(self.conversation_id.as_str()),
            "client_id": self.client_id,
        }
    }
}

/// The chunks of a streamed response that held text; `None` for a non-streamed one.
fn pieces(row: &Observation) -> Option<Pieces> {
    if row.text_ends.is_empty() && !row.chunks.is_empty() {
        // One chunk per token: the text ends were not kept.
        let first = row.first_content.unwrap_or(row.chunks[0]);
        let raw_ttft_ms = first.secs_since(row.sent) * 1000.0;
        return Some(Pieces { raw_ttft_ms, count: row.chunks.len() as u64, first_end: None });
    }
    let mut before = 0;
    let mut found: Option<Pieces> = None;
    for (end, timestamp) in row.text_ends.iter().zip(&row.chunks) {
        if *end > before {
            before = *end;
            match &mut found {
                Some(pieces) => pieces.count += 1,
                None => {
                    let raw_ttft_ms = timestamp.secs_since(row.sent) * 1000.0;
                    found = Some(Pieces { raw_ttft_ms, count: 1, first_end: Some(*end as usize) });
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use tacho_core::Timestamp;

    use super::*;

    fn row(pieces: &[(&str, u64)], done_ms: u64) -> Observation {
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        for (text, at_ms) in pieces {
            row.text.extend(text.bytes());
            row.text_ends.push(row.text.len() as u32);
            row.chunks.push(Timestamp(at_ms * 1_000_000));
        }
        row.done = Timestamp(done_ms * 1_000_000);
        row
    }

    fn words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    #[test]
    fn times_are_those_of_the_script() {
        let tokens = TurnTokens { messages: 1, input: 9, last: 9 };
        let pieces = [("", 10), ("Hello", 30), (" world", 41), (" !", 55), ("", 56)];
        let sample = TurnSample::of(&row(&pieces, 57), tokens, &words, "c", 0);
        assert_eq!((sample.ttft_ms, sample.tpot_ms, sample.latency_ms), (30.0, 13.5, 57.0));
        assert_eq!((sample.output_num_chunks, sample.output_num_first_chunk_tokens), (2, 1));
        let several = TurnSample::of(&row(&[("a b c", 30), (" d e", 50)], 60), tokens, &words, "c", 0);
        assert_eq!((several.tpot_ms, several.ttft_ms), (15.0, 0.1));
        let whole = TurnSample::of(&row(&[], 60), tokens, &words, "c", 0);
        assert_eq!((whole.ttft_ms, whole.tpot_ms, whole.output_num_chunks), (60.0, 0.0, 0));
    }

    #[test]
    fn earlier_messages_count_as_cached() {
        let tokens = TurnTokens { messages: 3, input: 40, last: 10 };
        let sample = TurnSample::of(&row(&[("a", 1)], 2), tokens, &words, "c", 0);
        assert_eq!(sample.approx_cached_percent, 75.0);
    }
}
