//! The arrays with one value per request.

use std::io::{self, Write};

use tacho_core::json::{Value, write_str, write_value, write_wtf8};
use tacho_metrics::{Sample, Samples};
use tacho_record::RunRecord;

/// The value per request in an array.
#[derive(Clone, Copy)]
pub(super) enum Column {
    InputLens,
    OutputLens,
    Ttfts,
    Itls,
    Latencies,
    QueueTimes,
    GeneratedTexts,
    Errors,
    Scheduled,
    Dispatched,
    Sent,
    FirstContent,
    Done,
    Outcomes,
    Retries,
    Sessions,
    Turns,
    CachedTokens,
    Labels,
    /// A value that only some requests have.
    Rare(fn(&Sample) -> Value),
}

/// The arrays of generated audio.
const AUDIO: [(&str, Column); 5] = [
    ("audio_ttfps", Column::Rare(|sample| sample.audio_ttfp().into())),
    ("audio_rtfs", Column::Rare(|sample| sample.audio_rtf().into())),
    ("audio_durations", Column::Rare(|sample| sample.audio().map(|audio| audio.duration).into())),
    ("audio_underrun_times", Column::Rare(|sample| sample.audio().map(|audio| audio.underrun).into())),
    ("audio_underrun_counts", Column::Rare(|sample| sample.audio().map(|audio| audio.underruns).into())),
];

/// The arrays of generated images.
const IMAGES: [(&str, Column); 1] = [("image_counts", Column::Rare(|sample| sample.images().into()))];

/// The arrays of audio that is sent as it is recorded.
const RECORDED: [(&str, Column); 2] = [
    ("ttfts_from_audio", Column::Rare(|sample| sample.ttft_from_audio().into())),
    ("finalization_latencies", Column::Rare(|sample| sample.finalization_latency().into())),
];

/// The arrays of the media that a run has.
pub(super) fn media(record: &RunRecord) -> impl Iterator<Item = (&'static str, Column)> {
    let media = record.summary.media();
    let parts: [(bool, &[(&str, Column)]); 3] = [
        (media.is_some_and(|media| media.audio.is_some()), &AUDIO),
        (media.is_some_and(|media| media.images.is_some()), &IMAGES),
        (record.open_loop.finalization_latency.is_some(), &RECORDED),
    ];
    parts.into_iter().filter(|(has, _)| *has).flat_map(|(_, columns)| columns.iter().copied())
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
            self.write_cell(&sample, &mut text);
            out.write_all(&text)?;
        }
        out.write_all(b"]")
    }

    fn write_cell(self, sample: &Sample, text: &mut Vec<u8>) {
        match self {
            Column::InputLens => write_value(text, &Value::from(sample.prompt_len)),
            Column::OutputLens => write_value(text, &Value::from(sample.output_len)),
            Column::Ttfts => write_float(text, sample.ttft),
            Column::Itls => write_floats(text, &sample.itl.to_vec()),
            Column::Latencies => write_float(text, sample.latency),
            Column::QueueTimes => write_float(text, sample.queue_time()),
            Column::GeneratedTexts => write_wtf8(text, &sample.text),
            Column::Errors => write_str(text, &sample.error),
            Column::Scheduled => write_float(text, sample.scheduled),
            Column::Dispatched => write_float(text, sample.dispatched),
            Column::Sent => write_float(text, sample.sent),
            Column::FirstContent => write_value(text, &Value::from(sample.first_content)),
            Column::Done => write_float(text, sample.done),
            Column::Sessions => write_value(text, &Value::from(sample.session.map(|(session, _)| u64::from(session)))),
            Column::Turns => write_value(text, &Value::from(sample.session.map(|(_, turn)| u64::from(turn)))),
            Column::CachedTokens => write_value(text, &Value::from(sample.cached_tokens)),
            Column::Labels => text.extend_from_slice(sample.labels.to_json().as_bytes()),
            Column::Rare(of) => write_value(text, &of(sample)),
            Column::Retries => write_value(text, &Value::from(u64::from(sample.retries))),
            Column::Outcomes => write_str(text, sample.failure.map_or("complete", |failure| failure.name())),
        }
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
