//! The columns of a log: one table, from which the schema and the documentation are generated.

use std::sync::Arc;

use arrow_schema::{DataType, Field};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Float,
    Text,
    Bytes,
    /// A list of integers.
    Ints,
    /// A list of 32-bit integers.
    SmallInts,
}

impl Kind {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Text => DataType::Utf8,
            Kind::Bytes => DataType::Binary,
            Kind::Ints => list(DataType::Int64),
            Kind::SmallInts => list(DataType::Int32),
        }
    }
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name, including the unit.
    pub name: &'static str,
    pub(crate) kind: Kind,
    /// Whether a row may have no value.
    pub nullable: bool,
    pub about: &'static str,
}

const fn always(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, nullable: false, about }
}

const fn maybe(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, nullable: true, about }
}

/// All columns, in file order. Integers are signed, so that differences do not wrap in other programs.
#[rustfmt::skip]
pub static COLUMNS: &[Column] = &[
    always("index", Kind::Int, "Which request of the workload this was, from 0."),
    always("scheduled_ns", Kind::Int, "Scheduled send time, from the segment's origin. All other times are durations."),
    always("dispatch_lag_ns", Kind::Int, "From the scheduled time until it was dispatched."),
    always("slot_wait_ns", Kind::Int, "From dispatch until sending began: the wait for a concurrency slot."),
    always("connect_ns", Kind::Int, "Time spent connecting; 0 on a connection that was open."),
    maybe("input_end_ns", Kind::Int, "From the sending to the end of the input, where it was sent while the answer came: the last audio of openai-realtime."),
    maybe("first_byte_ns", Kind::Int, "From the sending to the first byte of the answer."),
    always("token_gaps_ns", Kind::Ints, "Token events: the first is the time from the sending to the first event (TTFT), each other the time since the event before (ITL)."),
    maybe("content_lag_ns", Kind::Int, "From the first token event to the first that carries content."),
    maybe("answer_lag_ns", Kind::Int, "From the first token event to the first of the answer itself, after any reasoning."),
    always("rest_ns", Kind::Int, "From the last token event, or from the sending where there was none, to the end."),
    always("event_bytes", Kind::SmallInts, "Bytes of text or audio that each event brought; empty where events do not append to the text."),
    always("mark_events", Kind::SmallInts, "Events whose count of tokens is known: places in token_gaps_ns, each as the step from the one before."),
    always("mark_tokens", Kind::SmallInts, "Tokens known at each of those events, each as the step from the one before."),
    maybe("mark_source", Kind::Text, "Who counted them: usage or logprobs."),
    maybe("reasoning_tokens", Kind::Int, "Tokens of reasoning among those generated, where the server says."),
    always("retries", Kind::Int, "How often it was sent again after a failure."),
    always("coalesced", Kind::Int, "Token events whose bytes came in the same read as a later one's."),
    maybe("failure", Kind::Text, "The kind of failure; absent where the answer came whole."),
    maybe("http_status", Kind::Int, "The status, of an http_error."),
    maybe("error", Kind::Text, "The failure in words; may hold text that the server sent."),
    maybe("text", Kind::Text, "The generated text, where it is kept."),
    maybe("text_wtf8", Kind::Bytes, "The same as bytes, where it holds lone surrogates and text cannot be exact."),
    maybe("prompt_tokens", Kind::Int, "Tokens of the prompt as the server reports them."),
    maybe("completion_tokens", Kind::Int, "Generated tokens as the server reports them."),
    maybe("cached_tokens", Kind::Int, "Tokens of the prompt that the server had cached, as it reports them."),
    maybe("draft_steps", Kind::Int, "Verification steps of speculative decoding, where the server reports them per request."),
    maybe("draft_tokens", Kind::Int, "Tokens that speculative decoding drafted."),
    maybe("accepted_tokens", Kind::Int, "Drafted tokens that were accepted."),
    maybe("impossible_usage", Kind::Int, "1 where the server gave a token count that cannot be one."),
    always("prompt_len", Kind::Int, "Tokens of the prompt by the client's tokenizer."),
    always("output_len", Kind::Int, "Tokens that were asked for."),
    always("input_sequences", Kind::Int, "Texts in the request."),
    always("audio_seconds", Kind::Float, "Seconds of audio in the request."),
    maybe("lora", Kind::Text, "The adapter that was asked for."),
    maybe("audio_rate", Kind::Int, "Frames per second of the generated audio; 0 where its format is not known."),
    maybe("audio_frame_bytes", Kind::Int, "Bytes of a frame of the generated audio."),
    maybe("images", Kind::Int, "Generated images."),
    maybe("labels", Kind::Text, "The groups it is counted in (class, stage, replica), as a JSON object."),
    maybe("request_id", Kind::Text, "The request's ID, sent as x-request-id unless that is turned off; absent where it is the batch's request_id_prefix and the index."),
    maybe("request_id_prefix", Kind::Text, "In the first row of a batch: the prefix of the ids that are not stored."),
];

pub(crate) fn fields() -> Vec<Field> {
    COLUMNS.iter().map(|column| Field::new(column.name, column.kind.data_type(), column.nullable)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_documented() {
        let guide = include_str!("../../../docs/guides/data.md");
        for column in COLUMNS {
            assert!(guide.contains(&format!("| `{}` |", column.name)), "{}", column.name);
            assert!(guide.contains(column.about), "{}", column.about);
        }
    }
}
