//! Rows to columns. Timestamps are stored as differences from the previous one: these are small and compress to half
//! the size of absolute ones. Differences wrap around the integer's range, so that no value of a row is lost.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, SchemaRef};
use tacho_core::{FailureKind, Media, Observation, Timestamp};

use super::{follows, source_name};
use crate::{Origin, RequestInfo};

/// A row as its two parts.
type Parts<'a> = (&'a RequestInfo, &'a Observation);

/// The columns of `rows`, in the order of the table.
pub(crate) fn batch(schema: SchemaRef, origin: Origin, rows: &[Parts<'_>]) -> Result<RecordBatch, ArrowError> {
    let prefix = prefix(rows);
    let is_implied = |id: &str, index: usize| prefix.is_some_and(|prefix| follows(id, prefix, index));
    let columns = vec![
        int(rows, |(_, row)| row.index as i64),
        int(rows, |(_, row)| since(row.scheduled, origin.timestamp)),
        int(rows, |(_, row)| since(row.dispatched, row.scheduled)),
        int(rows, |(_, row)| since(row.sent, row.dispatched)),
        int(rows, |(_, row)| row.connect_ns as i64),
        maybe_int(rows, |(_, row)| row.input_end.map(|timestamp| since(timestamp, row.sent))),
        maybe_int(rows, |(_, row)| row.first_byte.map(|timestamp| since(timestamp, row.sent))),
        list::<Int64Type>(rows, |(_, row), out| gaps(row, out)),
        maybe_int(rows, |(_, row)| row.first_content.map(|timestamp| since(timestamp, first_event(row)))),
        maybe_int(rows, |(_, row)| row.first_answer.map(|timestamp| since(timestamp, first_event(row)))),
        int(rows, |(_, row)| since(row.done, row.chunks.last().copied().unwrap_or(row.sent))),
        list::<Int32Type>(rows, |(_, row), out| steps(row.text_ends.iter().copied(), out)),
        list::<Int32Type>(rows, |(_, row), out| steps(row.token_counts.iter().map(|mark| mark.0), out)),
        list::<Int32Type>(rows, |(_, row), out| steps(row.token_counts.iter().map(|mark| mark.1), out)),
        text(rows, |(_, row)| row.token_count_source.map(source_name)),
        maybe_int(rows, |(_, row)| row.reasoning_tokens.map(|tokens| tokens as i64)),
        int(rows, |(_, row)| i64::from(row.retries)),
        int(rows, |(_, row)| i64::from(row.coalesced)),
        text(rows, |(_, row)| row.outcome.failure().map(|failure| failure.kind.name())),
        maybe_int(rows, |(_, row)| row.outcome.failure().and_then(|failure| status(failure.kind))),
        text(rows, |(_, row)| row.outcome.failure().map(|failure| failure.message.as_str())),
        Arc::new(rows.iter().map(|(_, row)| readable(&row.text)).collect::<StringArray>()),
        Arc::new(rows.iter().map(|(_, row)| unreadable(&row.text)).collect::<BinaryArray>()),
        maybe_int(rows, |(_, row)| row.usage.prompt_tokens.map(|tokens| tokens as i64)),
        maybe_int(rows, |(_, row)| row.usage.completion_tokens.map(|tokens| tokens as i64)),
        maybe_int(rows, |(_, row)| row.usage.cached_tokens.map(|tokens| tokens as i64)),
        maybe_int(rows, |(_, row)| row.usage.drafts.and_then(|drafts| drafts.steps).map(i64::from)),
        maybe_int(rows, |(_, row)| row.usage.drafts.map(|drafts| i64::from(drafts.tokens))),
        maybe_int(rows, |(_, row)| row.usage.drafts.map(|drafts| i64::from(drafts.accepted))),
        maybe_int(rows, |(_, row)| row.usage.impossible.then_some(1)),
        int(rows, |(request, _)| request.prompt_len as i64),
        int(rows, |(request, _)| request.output_len),
        int(rows, |(request, _)| request.input_sequences as i64),
        Arc::new(rows.iter().map(|(request, _)| request.audio_seconds).collect::<Float64Array>()),
        text(rows, |(request, _)| request.lora.as_deref()),
        maybe_int(rows, |(_, row)| media(row)[0]),
        maybe_int(rows, |(_, row)| media(row)[1]),
        maybe_int(rows, |(_, row)| media(row)[2]),
        Arc::new(rows.iter().map(|(request, row)| labels(request, row)).collect::<StringArray>()),
        text(rows, |(request, row)| request.request_id.as_deref().filter(|id| !is_implied(id, row.index))),
        Arc::new((0..rows.len()).map(|at| prefix.filter(|_| at == 0)).collect::<StringArray>()),
    ];
    RecordBatch::try_new(schema, columns)
}

/// The prefix before the number in the first ID; `None` if a request has no ID, which would look like an omitted one.
fn prefix<'a>(rows: &[Parts<'a>]) -> Option<&'a str> {
    let (request, row) = rows.first().filter(|_| rows.iter().all(|(request, _)| request.request_id.is_some()))?;
    request.request_id.as_deref()?.strip_suffix(&row.index.to_string())
}

/// The reference time of the timestamps inside a response.
fn first_event(row: &Observation) -> Timestamp {
    row.chunks.first().copied().unwrap_or(row.sent)
}

fn since(timestamp: Timestamp, earlier: Timestamp) -> i64 {
    timestamp.0.wrapping_sub(earlier.0) as i64
}

fn int<'a>(rows: &[Parts<'a>], of: impl Fn(Parts<'a>) -> i64) -> ArrayRef {
    Arc::new(rows.iter().map(|&row| of(row)).collect::<Int64Array>())
}

fn maybe_int<'a>(rows: &[Parts<'a>], of: impl Fn(Parts<'a>) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(|&row| of(row)).collect::<Int64Array>())
}

fn text<'a>(rows: &[Parts<'a>], of: impl Fn(Parts<'a>) -> Option<&'a str>) -> ArrayRef {
    Arc::new(rows.iter().map(|&row| of(row)).collect::<StringArray>())
}

fn list<'a, T: ArrowPrimitiveType>(rows: &[Parts<'a>], fill: impl Fn(Parts<'a>, &mut PrimitiveBuilder<T>)) -> ArrayRef {
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for &row in rows {
        fill(row, lists.values());
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// The first gap counts from sending, each other one from the previous event.
fn gaps(row: &Observation, out: &mut PrimitiveBuilder<Int64Type>) {
    let mut before = row.sent;
    for &timestamp in &row.chunks {
        out.append_value(since(timestamp, before));
        before = timestamp;
    }
}

fn steps(numbers: impl Iterator<Item = u32>, out: &mut PrimitiveBuilder<Int32Type>) {
    let mut before = 0;
    for number in numbers {
        out.append_value(number.wrapping_sub(before) as i32);
        before = number;
    }
}

/// Rate and frame size of audio, and the number of images.
fn media(row: &Observation) -> [Option<i64>; 3] {
    match row.media {
        Some(Media::Audio { rate, frame_bytes }) => [Some(i64::from(rate)), Some(i64::from(frame_bytes)), None],
        Some(Media::UnknownAudio) => [Some(0), None, None],
        Some(Media::Images(count)) => [None, None, Some(i64::from(count))],
        None => [None; 3],
    }
}

fn labels(request: &RequestInfo, row: &Observation) -> Option<String> {
    let labels = request.labels.merged(&row.labels);
    (!labels.is_empty()).then(|| labels.to_json())
}

fn status(kind: FailureKind) -> Option<i64> {
    match kind {
        FailureKind::Http(status) => Some(i64::from(status)),
        _ => None,
    }
}

/// The text for people and programs, in which lone surrogates become U+FFFD.
fn readable(text: &[u8]) -> Option<std::borrow::Cow<'_, str>> {
    (!text.is_empty()).then(|| String::from_utf8_lossy(text))
}

fn unreadable(text: &[u8]) -> Option<&[u8]> {
    std::str::from_utf8(text).is_err().then_some(text)
}
