//! `--plot-timeline`: every request as a row of colored segments, on one page that opens quickly even with many
//! requests. The page gets the times as compressed arrays and draws only what is visible.

use std::io::{self, Write};
use std::{borrow::Cow, path::Path};

use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{FailureKind, dict};
use tacho_metrics::Sample;
use tacho_record::RunRecord;

use super::{escape, in_script, packed};
use crate::{Error, json::write_whole, plots::number};

const STYLE: &str = include_str!("timeline.css");
const SCRIPT: &str = include_str!("timeline.js");
/// Seconds per unit of the segments' ends: ten microseconds, a hundredth of the page's resolution.
const UNIT: f64 = 1e-5;
/// Most characters of an error text.
const ERROR_LENGTH: usize = 300;

/// The thresholds between the three classes of inter-token times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds(pub f64, pub f64);

impl Thresholds {
    /// The class of a gap in seconds: 1, 2 or 3; 0 is for the first token.
    fn class(self, gap: f64) -> u8 {
        if gap < self.0 / 1000.0 {
            1
        } else if gap < self.1 / 1000.0 {
            2
        } else {
            3
        }
    }

    fn names(self) -> [String; 4] {
        let (a, b) = (number(self.0), number(self.1));
        ["TTFT".into(), format!("ITL < {a}ms"), format!("{a}ms ≤ ITL < {b}ms"), format!("ITL ≥ {b}ms")]
    }
}

/// Parts of a row other than segments: the wait before sending, and the time after the last token of a failed
/// request. They follow the classes of segments in the page's list of names.
const MORE: [&str; 3] = ["wait for a slot", "failed", "cut off"];

const SEGMENTS: usize = 4;

/// How a request ended, as an index into [`MORE`]; `None` for a success.
fn ending(sample: &Sample) -> Option<usize> {
    match sample.failure? {
        FailureKind::Truncated | FailureKind::ConnectionLost | FailureKind::Aborted => Some(2),
        _ => Some(1),
    }
}

/// Writes the page of `record`; returns whether there was anything to draw.
pub fn save(record: &RunRecord, thresholds: Thresholds, path: &Path) -> Result<bool, Error> {
    if record.measured.samples.is_empty() {
        return Ok(false);
    }
    write_whole(path, |out| write_page(record, thresholds, out))?;
    Ok(true)
}

pub fn write_page(record: &RunRecord, thresholds: Thresholds, out: &mut impl Write) -> io::Result<()> {
    let samples = &rows(record);
    let setup = &record.setup;
    let title = format!("{} · {} · {} requests", setup.model_id, setup.backend, samples.len());
    let segments = Segments::of(samples, thresholds);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Timeline: {0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{0}</h1><p id=\"help\">wheel: zoom (over an axis: that axis only) · drag: move · shift and drag: \
         zoom to a box · double click: everything</p></header>\n\
         <main><canvas id=\"plot\" tabindex=\"0\" aria-label=\"Timeline of all requests\"></canvas>\n\
         <div id=\"legend\"></div><div id=\"tip\" hidden></div><div id=\"box\" hidden></div></main>\n\
         <script type=\"application/json\" id=\"facts\">{1}</script>\n",
        escape(&title),
        in_script(&dumps(&Value::Dict(facts(samples, thresholds, segments.total)))),
    )?;
    let arrays = [
        ("starts", starts(samples)),
        ("ends", segments.ends),
        ("classes", segments.classes),
        ("waits", spans(samples, Sample::queue_time)),
        ("tails", spans(samples, tail)),
    ];
    for (name, bytes) in arrays {
        writeln!(out, "<script type=\"application/octet-stream\" id=\"{name}\">{}</script>", packed(&bytes)?)?;
    }
    writeln!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>")?;
    record.measured.samples.check()
}

/// The requests in page order: workload order, or session by session.
fn rows(record: &RunRecord) -> Vec<Cow<'_, Sample>> {
    let mut rows: Vec<Cow<'_, Sample>> = record.measured.samples.iter().collect();
    if record.sessions.is_some() {
        rows.sort_by(|a, b| {
            a.session
                .map(|position| position.0)
                .cmp(&b.session.map(|position| position.0))
                .then(a.sent.total_cmp(&b.sent))
        });
    }
    rows
}

/// Data of the requests other than times.
fn facts(samples: &[Cow<'_, Sample>], thresholds: Thresholds, total: usize) -> Dict {
    let whole = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample)).collect::<Value>();
    let mut dict = dict! {
        "unit": UNIT,
        "total": total,
        "names": thresholds.names().into_iter().chain(MORE.map(str::to_owned)).collect::<Value>(),
        "prompt": whole(|sample| sample.prompt_len),
        "output": whole(|sample| sample.output_len),
        "counts": whole(|sample| sample.itl.len() as u64 + 1),
    };
    if samples.iter().any(|sample| sample.session.is_some()) {
        let position =
            |sample: &Sample| sample.session.map(|(session, turn)| format!("session {session}, turn {turn}"));
        dict.set("places", samples.iter().map(|sample| position(sample)).collect::<Value>());
    }
    // Texts repeat, so each is stored once.
    let mut texts: Vec<Value> = Vec::new();
    let mut errors = Dict::new();
    let failed = samples.iter().enumerate().filter(|(_, sample)| !sample.error.is_empty());
    for (at, sample) in failed {
        let text = Value::from(crate::style::harmless_line(&shortened(&sample.error)));
        let position = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
            texts.push(text);
            texts.len() - 1
        });
        errors.set(at.to_string(), position);
    }
    dict.set("error_texts", Value::List(texts));
    dict.set("errors", errors);
    let failed = samples.iter().enumerate().filter_map(|(at, sample)| Some((at, ending(sample)?, sample.failure?)));
    let ended = |(at, ending, kind): (usize, usize, FailureKind)| {
        (at.to_string(), Value::List(vec![Value::from(ending + SEGMENTS), Value::from(kind.name())]))
    };
    dict.set("failed", failed.map(ended).collect::<Dict>());
    dict
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(ERROR_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Send time of each request in seconds after the first dispatch, as doubles.
fn starts(samples: &[Cow<'_, Sample>]) -> Vec<u8> {
    let first = samples.iter().map(|sample| sample.dispatched.min(sample.sent)).fold(f64::INFINITY, f64::min);
    samples.iter().flat_map(|sample| (sample.sent - first).to_le_bytes()).collect()
}

/// A duration of each request in seconds, as floats.
fn spans(samples: &[Cow<'_, Sample>], of: fn(&Sample) -> f64) -> Vec<u8> {
    samples.iter().flat_map(|sample| (of(sample).max(0.0) as f32).to_le_bytes()).collect()
}

/// From the last token of a failed request to its end.
fn tail(sample: &Sample) -> f64 {
    let streamed = sample.ttft + sample.itl.iter().sum::<f64>();
    if sample.success() { 0.0 } else { sample.done - sample.sent - streamed }
}

struct Segments {
    total: usize,
    /// Lengths in units, 32 bits each, as planes: all lowest bytes first, then the next, so that the nearly constant
    /// high bytes compress well.
    ends: Vec<u8>,
    /// Classes, four to a byte. They are stored because a rounded length may fall on the wrong side of a threshold.
    classes: Vec<u8>,
}

impl Segments {
    fn of(samples: &[Cow<'_, Sample>], thresholds: Thresholds) -> Self {
        let total: usize = samples.iter().map(|sample| sample.itl.len() + 1).sum();
        let mut ends = vec![0; total * 4];
        let mut classes = vec![0; total.div_ceil(4)];
        let mut at = 0;
        for sample in samples {
            let (mut time, mut before) = (0.0, 0);
            let gaps = sample.itl.iter().map(|gap| (gap, thresholds.class(gap)));
            for (gap, class) in std::iter::once((sample.ttft, 0)).chain(gaps) {
                time += gap;
                // The ends are rounded, not the lengths, so that errors do not accumulate.
                let end = (time / UNIT).round() as u64;
                let length = u32::try_from(end.saturating_sub(before)).unwrap_or(u32::MAX);
                before = end.max(before);
                for (plane, byte) in length.to_le_bytes().into_iter().enumerate() {
                    ends[plane * total + at] = byte;
                }
                classes[at / 4] |= class << (at % 4 * 2);
                at += 1;
            }
        }
        Segments { total, ends, classes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_lower_bound_inside() {
        let thresholds = Thresholds(25.0, 50.0);
        assert_eq!([0.0249, 0.025, 0.0499, 0.05].map(|gap| thresholds.class(gap)), [1, 2, 2, 3]);
        assert_eq!(thresholds.names(), ["TTFT", "ITL < 25ms", "25ms ≤ ITL < 50ms", "ITL ≥ 50ms"]);
        assert_eq!(Thresholds(0.5, 1.25).names()[2], "0.5ms ≤ ITL < 1.25ms");
    }

    #[test]
    fn segments_keep_ends_and_classes() {
        let sample = Sample { ttft: 0.1, itl: vec![0.02, 0.025, 0.7].into(), ..Sample::default() };
        let segments = Segments::of(&[Cow::Borrowed(&sample)], Thresholds(25.0, 50.0));
        let length =
            |at: usize| (0..4).rev().fold(0u32, |sum, plane| sum << 8 | u32::from(segments.ends[plane * 4 + at]));
        assert_eq!([0, 1, 2, 3].map(length), [10_000, 2000, 2500, 70_000]);
        assert_eq!(segments.classes, [0b11_10_01_00]);
    }

    #[test]
    fn failures_and_waits_have_their_places() {
        let cut = Sample {
            dispatched: 1.0,
            sent: 1.5,
            done: 3.0,
            ttft: 0.25,
            itl: vec![0.25].into(),
            failure: Some(FailureKind::Truncated),
            ..Sample::default()
        };
        assert_eq!((cut.queue_time(), tail(&cut), ending(&cut)), (0.5, 1.0, Some(2)));
        assert_eq!(spans(&[Cow::Borrowed(&cut)], tail), 1.0f32.to_le_bytes());
        assert_eq!(starts(&[Cow::Borrowed(&cut)]), 0.5f64.to_le_bytes());
        assert_eq!(ending(&Sample { failure: Some(FailureKind::Http(500)), ..Sample::default() }), Some(1));
    }

    #[test]
    fn rounding_does_not_add_up() {
        let sample = Sample { ttft: 0.0, itl: vec![4.4e-6; 1000].into(), ..Sample::default() };
        let segments = Segments::of(&[Cow::Borrowed(&sample)], Thresholds(25.0, 50.0));
        let sum: u32 = segments.ends[..1001].iter().map(|&byte| u32::from(byte)).sum();
        assert_eq!(sum, 440);
    }

    #[test]
    fn long_errors_are_cut_between_characters() {
        assert_eq!(shortened(&"é".repeat(301)).chars().count(), 301);
        assert_eq!(shortened("short"), "short");
    }
}
