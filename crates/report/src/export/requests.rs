//! `--save-requests`: one flat row per request with named columns. One table defines the columns for all formats.

use std::io::{self, Write};
use std::{borrow::Cow, path::Path};

use tacho_core::json::{Value, write_str, write_value};
use tacho_core::{labels::MODEL, stage::STAGE};
use tacho_metrics::{Sample, Samples, latency::tpot, replicas::REPLICA};
use tacho_record::RunRecord;
use tacho_rowlog::{Columns, Values, write_parquet};

use crate::{Error, json::write_whole};

/// The value of a column. Missing times are null, never 0.
enum Of {
    Int(fn(&Sample) -> Option<i64>),
    /// Seconds since the scheduled time of the first request.
    Time(fn(&Sample) -> Option<f64>),
    Float(fn(&Sample) -> Option<f64>),
    Text(fn(&Sample) -> Option<String>),
    List(fn(&Sample) -> Vec<f64>),
}

pub struct Column {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    pub about: &'static str,
    of: Of,
}

const fn column(name: &'static str, of: Of, about: &'static str) -> Column {
    Column { name, about, of }
}

#[rustfmt::skip]
pub static COLUMNS: &[Column] = &[
    column("index", Of::Int(|s| i64::try_from(s.index).ok()), "Index of the request in the workload, from 0."),
    column("outcome", Of::Text(|s| Some(s.failure.map_or("complete", |kind| kind.name()).to_owned())), "complete, or the kind of failure."),
    column("error", Of::Text(|s| (!s.success()).then(|| s.error.clone())), "The error message."),
    column("scheduled_s", Of::Time(|s| Some(s.scheduled)), "Scheduled send time."),
    column("dispatched_s", Of::Time(|s| Some(s.dispatched)), "Dispatch time, before any wait for a slot."),
    column("sent_s", Of::Time(|s| Some(s.sent)), "Send time."),
    column("done_s", Of::Time(|s| Some(s.done)), "End time."),
    column("queue_ms", Of::Float(|s| Some(s.queue_time() * 1e3)), "Wait for a concurrency slot."),
    column("connect_ms", Of::Float(|s| Some(s.connect * 1e3)), "Time spent connecting; 0 on an open connection."),
    column("ttft_ms", Of::Float(|s| (s.ttft > 0.0).then_some(s.ttft * 1e3)), "From sending to the first token event."),
    column("first_content_ms", Of::Float(|s| s.first_content.map(|t| t * 1e3)), "From sending to the first token with content."),
    column("first_answer_ms", Of::Float(|s| s.first_answer.map(|t| t * 1e3)), "From sending to the first token after any reasoning."),
    column("tpot_ms", Of::Float(|s| s.success().then(|| tpot(s)).flatten().map(|t| t * 1e3)), "Time per output token after the first."),
    column("e2el_ms", Of::Float(|s| s.success().then_some(s.latency * 1e3)), "From sending to the last token event."),
    column("prompt_tokens", Of::Int(|s| i64::try_from(s.prompt_len).ok()), "Prompt tokens."),
    column("output_tokens", Of::Int(|s| i64::try_from(s.output_len).ok()), "Generated tokens; 0 for a failure."),
    column("reasoning_tokens", Of::Int(|s| s.reasoning_tokens.and_then(|n| i64::try_from(n).ok())), "Reasoning tokens among them, if the server reports them."),
    column("token_events", Of::Int(|s| Some(s.events() as i64)), "Token events; 0 for a failure."),
    column("coalesced_events", Of::Int(|s| Some(i64::from(s.coalesced))), "Token events that arrived in one read with a later one."),
    column("input_audio_s", Of::Float(|s| (s.input_audio_duration > 0.0).then_some(s.input_audio_duration)), "Duration of the audio in the request."),
    column("ttft_from_audio_ms", Of::Float(|s| s.ttft_from_audio().map(|t| t * 1e3)), "From the start of the audio to the first text (openai-realtime)."),
    column("finalization_ms", Of::Float(|s| s.finalization_latency().map(|t| t * 1e3)), "From the end of the audio to the complete transcript (openai-realtime)."),
    column("audio_ttfp_ms", Of::Float(|s| s.audio_ttfp().map(|t| t * 1e3)), "From sending to the first generated audio."),
    column("audio_s", Of::Float(|s| s.audio().map(|a| a.duration)), "Duration of the generated audio, if its format is known."),
    column("audio_rtf", Of::Float(Sample::audio_rtf), "Real-time factor: E2EL per second of generated audio."),
    column("audio_underrun_s", Of::Float(|s| s.audio().map(|a| a.underrun)), "Time for which playback waited for audio."),
    column("audio_underruns", Of::Int(|s| s.audio().and_then(|a| i64::try_from(a.underruns).ok())), "Gaps in the playback."),
    column("images", Of::Int(|s| s.images().and_then(|n| i64::try_from(n).ok())), "Generated images."),
    column("class", Of::Text(|s| label(s, "class")), "Class of the request (--class)."),
    column("stage", Of::Text(|s| label(s, STAGE)), "Stage in which it was sent (--stages)."),
    column("replica", Of::Text(|s| label(s, REPLICA)), "Replica that it was sent to, the last one after retries."),
    column("model", Of::Text(|s| label(s, MODEL)), "Model of its class, if it is not the run's."),
    column("adapter", Of::Text(|s| label(s, "adapter")), "LoRA adapter."),
    column("session", Of::Int(|s| s.session.map(|(session, _)| i64::from(session))), "Number of its session, from 0."),
    column("turn", Of::Int(|s| s.session.map(|(_, turn)| i64::from(turn))), "Its turn in the session, from 0."),
    column("retries", Of::Int(|s| Some(i64::from(s.retries))), "Number of retries."),
    column("itl_ms", Of::List(|s| s.itl.iter().map(|gap| gap * 1e3).collect()), "Times between token events."),
    column("generated_text", Of::Text(|s| (!s.text.is_empty()).then(|| String::from_utf8_lossy(&s.text).into_owned())), "The generated text, if texts are kept (--save-detailed)."),
];

fn label(sample: &Sample, key: &str) -> Option<String> {
    sample.labels.get(key).map(str::to_owned)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    JsonLines,
    /// One line per request after a header; without lists.
    Csv,
    Parquet,
}

impl Format {
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Format::JsonLines),
            "csv" => Some(Format::Csv),
            "parquet" => Some(Format::Parquet),
            _ => None,
        }
    }
}

const ROWS_IN_MEMORY: usize = 1 << 16;

/// Writes the requests of `record` to `path`, in the format of its extension.
pub fn save(record: &RunRecord, path: &Path) -> Result<(), Error> {
    let samples = &record.measured.samples;
    match Format::of(path) {
        Some(Format::JsonLines) => write_whole(path, |out| json_lines(samples, out))?,
        Some(Format::Csv) => write_whole(path, |out| csv(samples, out))?,
        Some(Format::Parquet) => save_parquet(samples, path)?,
        None => return Err(Error::RequestsFormat { path: path.to_owned() }),
    }
    // An incomplete table is an error.
    samples.check().map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn first_due(samples: &Samples) -> f64 {
    samples.iter().map(|sample| sample.scheduled).fold(f64::INFINITY, f64::min)
}

impl Column {
    fn cell(&self, sample: &Sample, origin: f64) -> Value {
        match self.of {
            Of::Int(of) => Value::from(of(sample)),
            Of::Time(of) => Value::from(of(sample).map(|time| time - origin)),
            Of::Float(of) => Value::from(of(sample)),
            Of::Text(of) => Value::from(of(sample)),
            Of::List(of) => Value::List(of(sample).into_iter().map(Value::Float).collect()),
        }
    }

    fn values(&self, samples: &[Cow<'_, Sample>], origin: f64) -> Values {
        let each = samples.iter();
        match self.of {
            Of::Int(of) => Values::Ints(each.map(|s| of(s)).collect()),
            Of::Time(of) => Values::Floats(each.map(|s| of(s).map(|time| time - origin)).collect()),
            Of::Float(of) => Values::Floats(each.map(|s| of(s)).collect()),
            Of::Text(of) => Values::Texts(each.map(|s| of(s)).collect()),
            Of::List(of) => Values::Lists(each.map(|s| of(s)).collect()),
        }
    }
}

/// Appends a request as a line of JSON. `origin` is the zero of its times.
pub fn json_line(sample: &Sample, origin: f64, line: &mut Vec<u8>) {
    for (at, column) in COLUMNS.iter().enumerate() {
        line.extend_from_slice(if at == 0 { b"{" } else { b", " });
        write_str(line, column.name);
        line.extend_from_slice(b": ");
        write_value(line, &column.cell(sample, origin));
    }
    line.extend_from_slice(b"}\n");
}

fn json_lines(samples: &Samples, out: &mut impl Write) -> io::Result<()> {
    let origin = first_due(samples);
    let mut line = Vec::new();
    for sample in samples {
        line.clear();
        json_line(&sample, origin, &mut line);
        out.write_all(&line)?;
    }
    Ok(())
}

fn csv(samples: &Samples, out: &mut impl Write) -> io::Result<()> {
    let flat: Vec<&Column> = COLUMNS.iter().filter(|column| !matches!(column.of, Of::List(_))).collect();
    let names: Vec<&str> = flat.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    let origin = first_due(samples);
    for sample in samples {
        let cells: Vec<String> = flat.iter().map(|column| csv_cell(&column.cell(&sample, origin))).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// A cell by RFC 4180: quoted if it contains a separator.
fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Str(text) if text.contains(['"', ',', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::Str(text) => text.clone(),
        other => tacho_core::json::dumps(other),
    }
}

fn save_parquet(samples: &Samples, path: &Path) -> Result<(), Error> {
    let origin = first_due(samples);
    let mut left = samples.iter();
    let mut first = true;
    let parts = std::iter::from_fn(|| {
        let part: Vec<Cow<'_, Sample>> = left.by_ref().take(ROWS_IN_MEMORY).collect();
        // A table without rows has columns too.
        let wanted = !part.is_empty() || std::mem::take(&mut first);
        first = false;
        let columns = || COLUMNS.iter().map(|column| (column.name.into(), column.values(&part, origin)));
        wanted.then(|| columns().collect::<Columns>())
    });
    // Written to a temporary file next to it and renamed, like every other file.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = write_parquet(&temporary, parts);
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(|error| Error::Requests { path: path.to_owned(), source: error })?;
    std::fs::rename(&temporary, path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::{FailureKind, json::parse};
    use tacho_metrics::RareFields;

    fn samples() -> Samples {
        let good = Sample {
            index: 4,
            scheduled: 1.0,
            dispatched: 1.25,
            sent: 1.5,
            done: 3.0,
            ttft: 0.5,
            itl: vec![0.25, 0.75].into(),
            latency: 1.5,
            prompt_len: 7,
            output_len: 3,
            rare: RareFields { text: b"a \"b\",\nc".to_vec(), ..RareFields::default() }.into(),
            ..Sample::default()
        };
        let rare = RareFields { error: "too late".into(), ..RareFields::default() }.into();
        let bad = Sample { scheduled: 2.0, failure: Some(FailureKind::TimedOut), rare, ..Sample::default() };
        [good, bad].into()
    }

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_of_json_has_every_column() {
        let text = text(|out| json_lines(&samples(), out));
        let rows: Vec<Value> = text.lines().map(|line| parse(line).unwrap()).collect();
        assert_eq!(rows[0].as_dict().unwrap().len(), COLUMNS.len());
        let number = |row: usize, key: &str| rows[row].get(key).and_then(Value::as_f64);
        assert_eq!(
            (number(0, "sent_s"), number(0, "queue_ms"), number(0, "ttft_ms")),
            (Some(0.5), Some(250.0), Some(500.0))
        );
        assert_eq!((number(0, "tpot_ms"), number(0, "index")), (Some(500.0), Some(4.0)));
        assert_eq!(rows[0].get("itl_ms"), Some(&Value::List(vec![Value::Float(250.0), Value::Float(750.0)])));
        assert_eq!((number(1, "ttft_ms"), number(1, "e2el_ms"), number(1, "scheduled_s")), (None, None, Some(1.0)));
        assert_eq!(rows[1].text("outcome"), Some("timed_out"));
    }

    #[test]
    fn csv_quotes_separators_and_omits_lists() {
        let text = text(|out| csv(&samples(), out));
        assert!(!text.lines().next().unwrap().contains("itl_ms"));
        assert!(text.contains("\"a \"\"b\"\",\nc\""), "{text}");
        assert!(
            text.ends_with("\n0,timed_out,too late,1.0,-1.0,-1.0,-1.0,0.0,0.0,,,,,,0,0,,0,0,,,,,,,,,,,,,,,,,0,\n"),
            "{text}"
        );
    }

    #[test]
    fn groups_of_a_request_are_columns() {
        let labels = [("class", "chat"), (STAGE, "peak"), (REPLICA, "a:1"), (MODEL, "m"), ("adapter", "l")];
        let mut sample = Sample::default().labeled(labels.into_iter().collect());
        sample.rare.session = Some((3, 1));
        let line = text(|out| json_lines(&[sample].into_iter().collect(), out));
        let groups = r#""class": "chat", "stage": "peak", "replica": "a:1", "model": "m", "adapter": "l", "session": 3, "turn": 1"#;
        assert!(line.contains(groups), "{line}");
    }

    #[test]
    fn every_column_is_documented() {
        let guide = include_str!("../../../../docs/howto/raw-data.md");
        for column in COLUMNS {
            assert!(guide.contains(&format!("| `{}` |", column.name)), "{}", column.name);
            assert!(guide.contains(column.about), "{}", column.about);
        }
    }

    #[test]
    fn the_extension_selects_the_format() {
        assert_eq!(Format::of(Path::new("a/b.PARQUET")), Some(Format::Parquet));
        assert_eq!(Format::of(Path::new("b.jsonl")), Some(Format::JsonLines));
        assert_eq!([Format::of(Path::new("b.xlsx")), Format::of(Path::new("b"))], [None, None]);
    }
}
