//! The columns of a log, one row each: type, name, meaning, and how a value is taken from a row and put back. Schema,
//! encoding, decoding and documentation follow from it. Timestamps are stored as differences from the previous one:
//! these are small and compress to half the size of absolute ones. Differences wrap around the integer's range, so that
//! no value of a row is lost.

use std::{borrow::Cow, sync::Arc};

use arrow_array::builder::{Int32Builder, Int64Builder};
use arrow_schema::{DataType, Field};
use tacho_core::{
    Failure, FailureKind, Flaw, Labels, Media, Observation, Outcome, OutputCheck, RequestInfo, ServerTimes, Timestamp,
    TokenCountSource, json,
};

/// The origin of a segment's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The run's start, from which scheduled times count, on the run's clock.
    pub timestamp: Timestamp,
    /// The same time on the wall clock: nanoseconds since 1970, UTC.
    pub unix_ns: i64,
}

/// The batch that a row belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) origin: Origin,
    /// The prefix of IDs that are not stored.
    pub(crate) prefix: Option<&'a str>,
    /// The row's index in the batch.
    pub(crate) at: usize,
}

impl Context<'_> {
    /// Whether an ID is the prefix and the index of its request.
    fn implies(&self, id: &str, index: usize) -> bool {
        let number = self.prefix.and_then(|prefix| id.strip_prefix(prefix));
        number.is_some_and(|number| number == index.to_string())
    }
}

type Get<T> = fn(&Context<'_>, &RequestInfo, &Observation) -> T;
type Append<B> = fn(&Context<'_>, &RequestInfo, &Observation, &mut B);
type Set<T> = fn(&Context<'_>, &mut RequestInfo, &mut Observation, T) -> Result<(), String>;
type SetPart<T> = fn(&Context<'_>, &mut RequestInfo, &mut Observation, &T) -> Result<(), String>;

/// The type of a column, with access to its value in a row. Integers are signed, so that differences do not wrap in
/// other programs.
pub(crate) enum Access {
    Int(Get<i64>, Set<i64>),
    MaybeInt(Get<Option<i64>>, Set<i64>),
    Float(Get<f64>, Set<f64>),
    Text(for<'a> fn(&Context<'a>, &'a RequestInfo, &'a Observation) -> Option<Cow<'a, str>>, SetPart<str>),
    Bytes(for<'a> fn(&Context<'a>, &'a RequestInfo, &'a Observation) -> Option<&'a [u8]>, SetPart<[u8]>),
    /// A list of integers.
    Ints(Append<Int64Builder>, SetPart<[i64]>),
    /// A list of 32-bit integers.
    SmallInts(Append<Int32Builder>, SetPart<[i32]>),
}

pub struct Column {
    /// Its name, including the unit.
    pub name: &'static str,
    pub about: &'static str,
    pub(crate) access: Access,
}

impl Column {
    pub fn nullable(&self) -> bool {
        matches!(self.access, Access::MaybeInt(..) | Access::Text(..) | Access::Bytes(..))
    }

    pub(crate) fn data_type(&self) -> DataType {
        let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
        match self.access {
            Access::Int(..) | Access::MaybeInt(..) => DataType::Int64,
            Access::Float(..) => DataType::Float64,
            Access::Text(..) => DataType::Utf8,
            Access::Bytes(..) => DataType::Binary,
            Access::Ints(..) => list(DataType::Int64),
            Access::SmallInts(..) => list(DataType::Int32),
        }
    }
}

/// Declares the columns: type and name, the value of a row, and how a value is put into a row.
macro_rules! columns {
    (@Ints $get:expr, $set:block; ($cx:ident $request:ident $row:ident $value:ident $out:ident)) => {
        Access::Ints(|$cx, $request, $row, $out| $get, |$cx, $request, $row, $value| { $set Ok(()) })
    };
    (@SmallInts $get:expr, $set:block; ($cx:ident $request:ident $row:ident $value:ident $out:ident)) => {
        Access::SmallInts(|$cx, $request, $row, $out| $get, |$cx, $request, $row, $value| { $set Ok(()) })
    };
    (@$kind:ident $get:expr, $set:block; ($cx:ident $request:ident $row:ident $value:ident $out:ident)) => {
        Access::$kind(|$cx, $request, $row| $get, |$cx, $request, $row, $value| { $set Ok(()) })
    };
    ($names:tt; $(#[doc = $about:literal] $kind:ident $name:ident => $get:expr, $set:block)*) => {
        /// All columns, in file order.
        #[expect(unused_variables, reason = "a column needs some of them")]
        pub static COLUMNS: &[Column] = &[$(Column {
            name: stringify!($name),
            about: $about.trim_ascii_start(),
            access: columns!(@$kind $get, $set; $names),
        }),*];
    };
}

columns! {
    (cx request row value out);
    /// Index of the request in the workload, from 0.
    Int index => row.index as i64, { row.index = usize::try_from(value).map_err(|_| "an index is negative")?; }
    /// Scheduled send time, from the segment's origin. All other times are durations.
    Int scheduled_ns => since(row.scheduled, cx.origin.timestamp), {
        row.scheduled = after(cx.origin.timestamp, value);
    }
    /// From the scheduled time until it was dispatched.
    Int dispatch_lag_ns => since(row.dispatched, row.scheduled), { row.dispatched = after(row.scheduled, value); }
    /// From dispatch until sending began: the wait for a concurrency slot.
    Int slot_wait_ns => since(row.sent, row.dispatched), { row.sent = after(row.dispatched, value); }
    /// Time spent connecting; 0 on a connection that was open.
    Int connect_ns => row.connect_ns as i64, { row.connect_ns = value as u64; }
    /// From sending to the end of the input, if the input is streamed (the last audio of openai-realtime).
    MaybeInt input_end_ns => row.input_end.map(|end| since(end, row.sent)), {
        row.input_end = Some(after(row.sent, value));
    }
    /// From sending to the first byte of the response.
    MaybeInt first_byte_ns => row.first_byte.map(|byte| since(byte, row.sent)), {
        row.first_byte = Some(after(row.sent, value));
    }
    /// Token events: the first value is the time from sending to the first event (TTFT), each other one the time since the previous event (ITL).
    Ints token_gaps_ns => append_gaps(row, out), { row.chunks = timestamps(row.sent, value); }
    /// From the first token event to the first with content.
    MaybeInt content_lag_ns => row.first_content.map(|content| since(content, first_event(row))), {
        row.first_content = Some(after(first_event(row), value));
    }
    /// From the first token event to the first after any reasoning.
    MaybeInt answer_lag_ns => row.first_answer.map(|answer| since(answer, first_event(row))), {
        row.first_answer = Some(after(first_event(row), value));
    }
    /// From the last token event, or from sending if there was none, to the end.
    Int rest_ns => since(row.done, last_event(row)), { row.done = after(last_event(row), value); }
    /// Bytes of text or audio in each event; empty if events do not append to the text.
    SmallInts event_bytes => append_steps(row.text_ends.iter().copied(), out), {
        row.text_ends = sums(value).collect();
    }
    /// Events with a known token count: delta-encoded indices into token_gaps_ns.
    SmallInts mark_events => append_steps(row.token_counts.iter().map(|mark| mark.0), out), {
        row.token_counts = sums(value).map(|event| (event, 0)).collect();
    }
    /// Token count at each of those events, delta-encoded.
    SmallInts mark_tokens => append_steps(row.token_counts.iter().map(|mark| mark.1), out), {
        if value.len() != row.token_counts.len() {
            return Err("mark_events and mark_tokens are not equally long".into());
        }
        row.token_counts.iter_mut().zip(sums(value)).for_each(|(mark, tokens)| mark.1 = tokens);
    }
    /// Source of these counts: usage or logprobs.
    Text mark_source => row.token_count_source.map(|source| source.name().into()), {
        let source = TokenCountSource::from_name(value).ok_or_else(|| format!("mark_source {value:?} is not known"))?;
        row.token_count_source = Some(source);
    }
    /// Reasoning tokens among the generated ones, if the server reports them.
    MaybeInt reasoning_tokens => row.reasoning_tokens.map(|tokens| tokens as i64), {
        row.reasoning_tokens = Some(value as u64);
    }
    /// Number of retries after a failure.
    Int retries => row.retries.into(), { row.retries = value as u32; }
    /// Token events that arrived in one read with a later one.
    Int coalesced => row.coalesced.into(), { row.coalesced = value as u32; }
    /// The kind of failure; absent if the response is complete.
    Text failure => row.outcome.failure().map(|failure| failure.kind.name().into()), {
        let kind = FailureKind::from_name(value, 0).ok_or_else(|| format!("failure {value:?} is not known"))?;
        row.outcome = Outcome::failed(kind, "");
    }
    /// HTTP status of an http_error.
    MaybeInt http_status => row.outcome.failure().and_then(|failure| status(failure.kind)), {
        if let Outcome::Failed(Failure { kind: FailureKind::Http(status), .. }) = &mut row.outcome {
            *status = value as u16;
        }
    }
    /// The error message; may contain text of the server.
    Text error => row.outcome.failure().map(|failure| failure.message.as_str().into()), {
        if let Outcome::Failed(failure) = &mut row.outcome {
            failure.message = value.to_owned();
        }
    }
    /// The generated text, if texts are kept.
    Text text => (!row.text.is_empty()).then(|| String::from_utf8_lossy(&row.text)), {
        row.text = value.as_bytes().to_vec();
    }
    /// The text as bytes, if it contains lone surrogates, which UTF-8 cannot represent.
    Bytes text_wtf8 => std::str::from_utf8(&row.text).is_err().then_some(&row.text[..]), { row.text = value.to_vec(); }
    /// Prompt tokens reported by the server.
    MaybeInt prompt_tokens => row.usage.prompt_tokens.map(|tokens| tokens as i64), {
        row.usage.prompt_tokens = Some(value as u64);
    }
    /// Generated tokens reported by the server.
    MaybeInt completion_tokens => row.usage.completion_tokens.map(|tokens| tokens as i64), {
        row.usage.completion_tokens = Some(value as u64);
    }
    /// Cached prompt tokens reported by the server.
    MaybeInt cached_tokens => row.usage.cached_tokens.map(|tokens| tokens as i64), {
        row.usage.cached_tokens = Some(value as u64);
    }
    /// Verification steps of speculative decoding, if the server reports them per request.
    MaybeInt draft_steps => row.usage.drafts.and_then(|drafts| drafts.steps).map(i64::from), {
        row.usage.drafts.get_or_insert_default().steps = Some(value as u32);
    }
    /// Tokens that speculative decoding drafted.
    MaybeInt draft_tokens => row.usage.drafts.map(|drafts| drafts.tokens.into()), {
        row.usage.drafts.get_or_insert_default().tokens = value as u32;
    }
    /// Drafted tokens that were accepted.
    MaybeInt accepted_tokens => row.usage.drafts.map(|drafts| drafts.accepted.into()), {
        row.usage.drafts.get_or_insert_default().accepted = value as u32;
    }
    /// The server's own time in the queue, in microseconds, if it reports it per request.
    MaybeInt server_queue_us => row.times.queue.map(|us| us.get().into()), {
        row.times.queue = ServerTimes::micros(value as f64);
    }
    /// Its time from the first iteration to the first token.
    MaybeInt server_prefill_us => row.times.prefill.map(|us| us.get().into()), {
        row.times.prefill = ServerTimes::micros(value as f64);
    }
    /// Its time from the first token to the last.
    MaybeInt server_decode_us => row.times.decode.map(|us| us.get().into()), {
        row.times.decode = ServerTimes::micros(value as f64);
    }
    /// 1 if the server reported an impossible token count.
    MaybeInt impossible_usage => row.impossible_usage.then_some(1), { row.impossible_usage = true; }
    /// Prompt tokens counted by the client's tokenizer.
    Int prompt_len => request.prompt_len as i64, { request.prompt_len = value as u64; }
    /// Requested output tokens.
    Int output_len => request.output_len, { request.output_len = value; }
    /// Number of texts in the request.
    Int input_sequences => request.input_sequences as i64, { request.input_sequences = value as u64; }
    /// Seconds of audio in the request.
    Float audio_seconds => request.audio_seconds, { request.audio_seconds = value; }
    /// Requested LoRA adapter.
    Text lora => request.lora.as_deref().map(Into::into), { request.lora = Some(value.to_owned()); }
    /// Frames per second of the generated audio; 0 if its format is unknown.
    MaybeInt audio_rate => audio(row).map(|(rate, _)| rate.into()), {
        row.media = u32::try_from(value).ok().map(|rate| Media::Audio { rate, frame_bytes: 0 });
    }
    /// Bytes per frame of the generated audio.
    MaybeInt audio_frame_bytes => audio(row).and_then(|(_, bytes)| bytes).map(i64::from), {
        if let Some(Media::Audio { frame_bytes, .. }) = &mut row.media {
            *frame_bytes = u16::try_from(value).unwrap_or(0);
        }
    }
    /// Generated images.
    MaybeInt images => if let Some(Media::Images(count)) = row.media { Some(count.into()) } else { None }, {
        row.media = u32::try_from(value).ok().map(Media::Images);
    }
    /// The groups of the request (class, stage, replica), as a JSON object.
    Text labels => labels(request, row).map(Into::into), {
        // Rows are also read alone, where the request is known: from ranks, and from disk.
        request.labels = Labels::from_json(value).ok_or("labels are not a JSON object")?;
        row.labels = request.labels.clone();
    }
    /// With --check-outputs, the number of its reference; equal requests have the same one.
    MaybeInt reference => row.check().map(|check| check.reference.into()), {
        check(row).reference = value as u32;
    }
    /// Characters of the output that equal the reference, up to the first difference; absent where both are equal.
    MaybeInt first_difference => row.check().and_then(|check| check.first_difference).map(i64::from), {
        check(row).first_difference = Some(value as u32);
    }
    /// Edit distance to the reference in characters, of at most 256 after the first difference.
    MaybeInt edit_distance => row.check().map(|check| check.edits.into()), { check(row).edits = value as u32; }
    /// 1 where the same request sent alone also differed from the reference, 0 where it did not.
    MaybeInt alone_differs => row.check().and_then(|check| check.alone_differs).map(i64::from), {
        check(row).alone_differs = Some(value != 0);
    }
    /// The request whose reference the output equals instead of its own.
    MaybeInt belongs_to => row.check().and_then(|check| check.belongs_to).map(i64::from), {
        check(row).belongs_to = Some(value as u32);
    }
    /// What is wrong with the output: truncated, repetitive, garbled, other_script.
    Text flaws => row.check().filter(|check| check.flaws != 0).map(|check| flaws(check).into()), {
        value.split(',').filter_map(Flaw::from_name).for_each(|flaw| check(row).add(flaw));
    }
    /// Tokens before the first different one, where the response has log-probabilities; absent where all are equal.
    MaybeInt first_different_token => row.check().and_then(|check| check.first_token).map(i64::from), {
        check(row).first_token = Some(value as u32);
    }
    /// Mean Kullback-Leibler divergence from the reference over the tokens with an equal prefix, in nats.
    Text mean_kl_divergence => row.check().and_then(|check| check.mean_kl).map(|kl| kl.to_string().into()), {
        check(row).mean_kl = value.parse().ok();
    }
    /// Its maximum.
    Text max_kl_divergence => row.check().and_then(|check| check.max_kl).map(|kl| kl.to_string().into()), {
        check(row).max_kl = value.parse().ok();
    }
    /// The reference around the first difference, where texts are kept.
    Text expected => row.check().filter(|check| !check.expected.is_empty()).map(|check| (&*check.expected).into()), {
        check(row).expected = value.to_owned();
    }
    /// The scores of --grade or --grade-command, as a JSON object.
    Text scores => row.judged.as_ref().and_then(|judged| judged.scores.as_ref()).map(|scores| json::dumps(scores).into()), {
        row.judged.get_or_insert_default().scores = Some(json::parse(value).map_err(|_| "scores are not JSON")?);
    }
    /// The request's ID, sent as x-request-id unless that is turned off; absent if it is the request_id_prefix of the batch and the index.
    Text request_id => request.request_id.as_deref().filter(|id| !cx.implies(id, row.index)).map(Into::into), {
        request.request_id = Some(value.to_owned());
    }
    /// In the first row of a batch: the prefix of the IDs that are not stored.
    Text request_id_prefix => cx.prefix.filter(|_| cx.at == 0).map(Into::into), { let _ = value; }
}

fn check(row: &mut Observation) -> &mut OutputCheck {
    row.judged.get_or_insert_default().check.get_or_insert_default()
}

fn flaws(check: &OutputCheck) -> String {
    check.flaws().map(Flaw::name).collect::<Vec<_>>().join(",")
}

fn since(timestamp: Timestamp, earlier: Timestamp) -> i64 {
    timestamp.0.wrapping_sub(earlier.0) as i64
}

fn after(earlier: Timestamp, nanos: i64) -> Timestamp {
    Timestamp(earlier.0.wrapping_add(nanos as u64))
}

/// The reference time of the timestamps inside a response.
fn first_event(row: &Observation) -> Timestamp {
    row.chunks.first().copied().unwrap_or(row.sent)
}

fn last_event(row: &Observation) -> Timestamp {
    row.chunks.last().copied().unwrap_or(row.sent)
}

/// The first gap counts from sending, each other one from the previous event.
fn append_gaps(row: &Observation, out: &mut Int64Builder) {
    let mut before = row.sent;
    for &timestamp in &row.chunks {
        out.append_value(since(timestamp, before));
        before = timestamp;
    }
}

fn timestamps(sent: Timestamp, gaps: &[i64]) -> Vec<Timestamp> {
    let next = |before: &mut Timestamp, gap: &i64| {
        *before = after(*before, *gap);
        Some(*before)
    };
    gaps.iter().scan(sent, next).collect()
}

fn append_steps(numbers: impl Iterator<Item = u32>, out: &mut Int32Builder) {
    let mut before = 0;
    for number in numbers {
        out.append_value(number.wrapping_sub(before) as i32);
        before = number;
    }
}

fn sums(steps: &[i32]) -> impl Iterator<Item = u32> {
    steps.iter().scan(0u32, |sum, step| {
        *sum = sum.wrapping_add(*step as u32);
        Some(*sum)
    })
}

/// The rate of generated audio, and its bytes per frame; 0 and `None` for an unknown format.
fn audio(row: &Observation) -> Option<(u32, Option<u16>)> {
    match row.media? {
        Media::Audio { rate, frame_bytes } => Some((rate, Some(frame_bytes))),
        Media::UnknownAudio => Some((0, None)),
        Media::Images(_) => None,
    }
}

fn labels(request: &RequestInfo, row: &Observation) -> Option<String> {
    let labels = request.labels.merged(&row.labels);
    (!labels.is_empty()).then(|| labels.to_json())
}

fn status(kind: FailureKind) -> Option<i64> {
    if let FailureKind::Http(status) = kind { Some(status.into()) } else { None }
}

pub(crate) fn fields() -> Vec<Field> {
    COLUMNS.iter().map(|column| Field::new(column.name, column.data_type(), column.nullable())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_documented() {
        let guide = include_str!("../../../docs/reference/request-log.md");
        for column in COLUMNS {
            assert!(guide.contains(&format!("| `{}` |", column.name)), "{}", column.name);
            assert!(guide.contains(column.about), "{}", column.about);
        }
    }
}
