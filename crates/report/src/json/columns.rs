//! The arrays with one value per request, one row each.

use std::io::{self, Write};

use tacho_core::json::{Dict, Json, Value, write_str, write_value, write_wtf8};
use tacho_metrics::{Sample, Samples};
use tacho_record::RunRecord;

/// How much of single requests a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Detail {
    /// Latencies and waits only.
    Brief,
    /// Everything, with texts and token times (`--save-detailed`).
    PerRequest,
}

impl Detail {
    /// A value that only a detailed file has.
    pub(super) fn per_request<T>(self, value: impl FnOnce() -> T) -> Option<T> {
        (self == Detail::PerRequest).then(value)
    }
}

/// An array of a result file.
pub(super) struct List {
    pub(super) key: &'static str,
    pub(super) schema: fn() -> Dict,
    pub(super) about: &'static str,
    /// The minimum detail of files that have it.
    pub(super) detail: Detail,
    pub(super) applies: fn(&RunRecord) -> bool,
    pub(super) column: Column,
}

/// Writes the value of a request.
#[derive(Clone, Copy)]
pub(super) struct Column(fn(&Sample, &mut Vec<u8>));

const fn list(
    key: &'static str,
    schema: fn() -> Dict,
    about: &'static str,
    applies: fn(&RunRecord) -> bool,
    write: fn(&Sample, &mut Vec<u8>),
) -> List {
    List { key, schema, about, detail: Detail::PerRequest, applies, column: Column(write) }
}

impl List {
    /// In every file.
    const fn brief(self) -> List {
        List { detail: Detail::Brief, ..self }
    }
}

/// vLLM's arrays, in its order.
#[rustfmt::skip]
pub(super) const VLLM: &[List] = &[
    list("input_lens", counts, "Prompt tokens per request.", always, |row, out| value(out, row.prompt_len)),
    list("output_lens", counts, "Output tokens per request.", is_generation, |row, out| value(out, row.output_len)),
    list("ttfts", numbers, "TTFT per request, s.", is_generation, |row, out| write_float(out, row.ttft)),
    list("itls", Vec::<Vec<f64>>::schema, "Inter-token latencies per request, s.", is_generation,
        |row, out| write_floats(out, &row.itl.to_vec())),
    list("latencies", numbers, "End-to-end latency per request, s.", always, |row, out| write_float(out, row.latency))
        .brief(),
    list("start_times", numbers, "Send time per request, s.", is_generation, |row, out| write_float(out, row.sent)),
    list("queue_times", numbers, "Wait for a concurrency slot per request, s.", always,
        |row, out| write_float(out, row.queue_time())).brief(),
    list("generated_texts", texts, "Output per request.", is_generation, |row, out| write_wtf8(out, &row.text)),
    list("errors", texts, "Error per request; empty where it succeeded.", always, |row, out| write_str(out, &row.error)),
];

/// tacho's own arrays.
#[rustfmt::skip]
pub(super) const TACHO: &[List] = &[
    list("scheduled", numbers, "Scheduled send time per request, s.", always, |row, out| write_float(out, row.scheduled)),
    list("dispatched", numbers, "When a request was dispatched, before any wait for a slot, s.", always,
        |row, out| write_float(out, row.dispatched)),
    list("sent", numbers, "When a request was sent, s.", always, |row, out| write_float(out, row.sent)),
    list("first_content", numbers, "Time to the first event with content per request, s.", always,
        |row, out| value(out, row.first_content)),
    list("done", numbers, "When a response ended, s.", always, |row, out| write_float(out, row.done)),
    list("outcome", texts, "Outcome per request.", always,
        |row, out| write_str(out, row.failure.map_or("complete", |failure| failure.name()))),
    list("request_retries", counts, "Additional attempts per request.", always,
        |row, out| value(out, u64::from(row.retries))),
    list("audio_ttfps", numbers, "Time to the first generated audio per request, s.", has_audio,
        |row, out| value(out, row.audio_ttfp())),
    list("audio_rtfs", numbers, "Real-time factor per request.", has_audio, |row, out| value(out, row.audio_rtf())),
    list("audio_durations", numbers, "Duration of the generated audio per request, s.", has_audio,
        |row, out| value(out, row.audio().map(|audio| audio.duration))),
    list("audio_underrun_times", numbers, "Time for which playback waited for audio per request, s.", has_audio,
        |row, out| value(out, row.audio().map(|audio| audio.underrun))),
    list("audio_underrun_counts", counts, "Gaps in the playback per request.", has_audio,
        |row, out| value(out, row.audio().map(|audio| audio.underruns))),
    list("image_counts", counts, "Generated images per request.", |record| record.summary.media().is_some_and(|media| media.images.is_some()),
        |row, out| value(out, row.images())),
    list("ttfts_from_audio", numbers, "Time from the start of the audio input to the first text per request, s.",
        has_paced_audio, |row, out| value(out, row.ttft_from_audio())),
    list("finalization_latencies", numbers, "Time from the end of the audio input to the transcript per request, s.",
        has_paced_audio, |row, out| value(out, row.finalization_latency())),
    list("labels", Value::schema, "Labels per request: an object of texts.", |record| !record.groups.is_empty(),
        |row, out| out.extend_from_slice(row.labels.to_json().as_bytes())),
    list("session", counts, "Session per request.", has_sessions,
        |row, out| value(out, row.session.map(|(session, _)| u64::from(session)))),
    list("turn", counts, "Turn per request.", has_sessions,
        |row, out| value(out, row.session.map(|(_, turn)| u64::from(turn)))),
    list("cached_tokens", counts, "Prompt tokens from the prefix cache per request, by the server's usage.",
        has_sessions, |row, out| value(out, row.cached_tokens)),
];

fn counts() -> Dict {
    Vec::<Option<u64>>::schema()
}

fn numbers() -> Dict {
    Vec::<f64>::schema()
}

fn texts() -> Dict {
    Vec::<Option<String>>::schema()
}

fn always(_: &RunRecord) -> bool {
    true
}

fn is_generation(record: &RunRecord) -> bool {
    record.summary.generation().is_some()
}

fn has_audio(record: &RunRecord) -> bool {
    record.summary.media().is_some_and(|media| media.audio.is_some())
}

/// Whether input audio was sent at its own pace.
fn has_paced_audio(record: &RunRecord) -> bool {
    record.open_loop.finalization_latency.is_some()
}

fn has_sessions(record: &RunRecord) -> bool {
    record.sessions.is_some()
}

fn value(text: &mut Vec<u8>, value: impl Into<Value>) {
    write_value(text, &value.into());
}

impl Column {
    /// Writes the array one request at a time, so that only one text is in memory.
    pub(super) fn write(self, samples: &Samples, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b"[")?;
        let mut text = Vec::new();
        for (at, sample) in samples.iter().enumerate() {
            text.clear();
            if at > 0 {
                text.extend_from_slice(b", ");
            }
            self.0(&sample, &mut text);
            out.write_all(&text)?;
        }
        out.write_all(b"]")
    }
}

/// The text of a float. In this range Rust's own format equals Python's, and it is several times faster, which
/// matters for lists of all token times.
fn write_float(text: &mut Vec<u8>, number: f64) {
    if (1e-4..1e16).contains(&number) {
        write!(text, "{number:?}").expect("writing to memory does not fail");
    } else {
        write_value(text, &Value::Float(number));
    }
}

fn write_floats(text: &mut Vec<u8>, numbers: &[f64]) {
    text.push(b'[');
    for (at, &number) in numbers.iter().enumerate() {
        if at > 0 {
            text.extend_from_slice(b", ");
        }
        write_float(text, number);
    }
    text.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::float_repr;

    #[test]
    fn fast_floats_are_pythons() {
        let edges = [1e-4, 1.0, 100.0, 0.1 + 0.2, 1e15, 123456789012345.6, 9999999999999998.0, 1e16, 9.9e-5, 0.0, -2.5];
        let spread = (0..2000).map(|at| 1.7f64.powi(at % 90 - 20) * (1.0 + f64::from(at) / 7.0));
        for number in edges.into_iter().chain(spread) {
            let mut text = Vec::new();
            write_float(&mut text, number);
            assert_eq!(String::from_utf8(text).unwrap(), float_repr(number));
        }
    }
}
