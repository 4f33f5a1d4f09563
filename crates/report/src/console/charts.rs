//! What a person at a terminal sees of a run beside the report: how it went over time, how long requests took, and how
//! long the slowest of them.

use tacho_metrics::latency::{itls, successes, tpot};
use tacho_metrics::{Samples, Statistics};
use tacho_record::RunRecord;

use super::chart::{Canvas, Columns, short};
use crate::series::{OverTime, RUNNING, TOKENS, WAITING};

/// Lines of a chart over time, and of a histogram.
const ROWS: (usize, usize) = (6, 5);
/// Steps of a chart over time, at least and at most.
const STEPS: (f64, f64) = (20.0, 110.0);
/// The rungs of the ladder.
const LADDER: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
const CYAN: &str = "36";
const BLUE: &str = "34";
const YELLOW: &str = "33";

/// All pictures; nothing where no request succeeded, or where there is no room.
pub fn charts(record: &RunRecord, canvas: Canvas) -> String {
    let samples = &record.measured.samples;
    if record.summary.completed == 0 || canvas.width < Canvas::LEAST {
        return String::new();
    }
    let mut lines = over_time(record, canvas);
    for (title, times) in [("Time to first token, ms", Kind::Ttft), ("Time to the end of the answer, ms", Kind::E2el)] {
        lines.extend(histogram(title, &times.of(samples), canvas));
    }
    lines.extend(ladder(samples, canvas));
    super::joined(&lines)
}

fn over_time(record: &RunRecord, canvas: Canvas) -> Vec<String> {
    let Some(over) = OverTime::of(&record.measured.samples, STEPS) else { return Vec::new() };
    let end = format!("{} s", short(over.end));
    let chart = |title: &str, row: usize, code: &str| {
        let ends = ("0".to_owned(), end.clone());
        let chart = Columns { title, values: over.row(row), rows: ROWS.0, ends, code }.lines(canvas);
        chart.into_iter().chain([String::new()]).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    if record.summary.generation().is_some() {
        lines.extend(chart("Output, tokens/s", TOKENS, CYAN));
    }
    lines.extend(chart("Requests under way", RUNNING, BLUE));
    // A wait that nobody can see has no picture.
    if over.row(WAITING).iter().any(|waiting| *waiting >= 1.0) {
        lines.extend(chart("Requests waiting for a slot", WAITING, YELLOW));
    }
    lines
}

/// Times of requests.
#[derive(Clone, Copy)]
enum Kind {
    Ttft,
    Tpot,
    Itl,
    E2el,
    Queue,
}

impl Kind {
    /// In seconds.
    fn times(self, samples: &Samples) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Kind::Ttft => Box::new(successes(samples).map(|sample| sample.ttft).filter(|ttft| *ttft > 0.0)),
            Kind::Tpot => Box::new(successes(samples).filter_map(|sample| tpot(&sample))),
            Kind::Itl => Box::new(itls(samples)),
            Kind::E2el => Box::new(successes(samples).map(|sample| sample.latency)),
            Kind::Queue => Box::new(samples.iter().map(|sample| sample.queue_time())),
        }
    }

    /// In milliseconds, in order.
    fn of(self, samples: &Samples) -> Vec<f64> {
        let mut times: Vec<f64> = self.times(samples).map(|time| time * 1e3).collect();
        times.sort_unstable_by(f64::total_cmp);
        times
    }
}

/// How many took how long, on a logarithmic axis.
fn histogram(title: &str, times: &[f64], canvas: Canvas) -> Vec<String> {
    let (Some(&low), Some(&high)) = (times.iter().find(|time| **time > 0.0), times.last()) else { return Vec::new() };
    if times.len() < 10 || high <= low {
        return Vec::new();
    }
    let bars = (canvas.width / 3).clamp(10, 40);
    let width = (high / low).ln() / bars as f64;
    let mut counts = vec![0.0; bars];
    for time in times.iter().filter(|time| **time > 0.0) {
        counts[(((time / low).ln() / width) as usize).min(bars - 1)] += 1.0;
    }
    let ends = (short(low), format!("{} (logarithmic)", short(high)));
    let title = format!("{title}: requests");
    let mut lines = Columns { title: &title, values: &counts, rows: ROWS.1, ends, code: CYAN }.lines(canvas);
    lines.push(String::new());
    lines
}

/// A row for each kind of time, from its median to its largest.
fn ladder(samples: &Samples, canvas: Canvas) -> Vec<String> {
    let kinds = [
        ("TTFT", Kind::Ttft),
        ("TPOT", Kind::Tpot),
        ("ITL", Kind::Itl),
        ("E2EL", Kind::E2el),
        ("slot wait", Kind::Queue),
    ];
    // Where the screen is narrow, rungs between the first and the highest are left out.
    let room = canvas.width.saturating_sub(10) / 9;
    let rungs: Vec<f64> = match room.saturating_sub(1) {
        room if room >= LADDER.len() => LADDER.to_vec(),
        room => [50.0, 99.0, 90.0, 99.9].into_iter().take(room.max(1)).collect::<Vec<_>>(),
    };
    let mut rungs = rungs;
    rungs.sort_by(f64::total_cmp);
    let heads = rungs.iter().map(|rung| format!("{:>9}", format!("p{rung}"))).chain([format!("{:>9}", "max")]);
    let mut lines = vec![canvas.title(&format!("{:<10}{}", "ms", heads.collect::<String>()))];
    for (name, kind) in kinds {
        let times = Statistics::of_all(|| kind.times(samples), &rungs);
        if times.max_ms <= 0.005 {
            continue;
        }
        let cells = times.percentiles_ms.iter().map(|(_, value)| *value).chain([times.max_ms]);
        let cells: String = cells.map(|value| format!("{:>9}", cell(value))).collect();
        lines.push(format!("{name:<10}{cells}"));
    }
    lines.push(String::new());
    lines
}

fn cell(ms: f64) -> String {
    if ms >= 1e5 { format!("{ms:.0}") } else { format!("{ms:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_metrics::Sample;

    fn samples() -> Samples {
        let one = |at: usize| Sample {
            index: at,
            done: 1.0,
            ttft: at as f64 / 1000.0,
            latency: 0.5,
            itl: vec![0.01].into(),
            output_len: 2,
            ..Sample::default()
        };
        (1..=1000).map(one).collect()
    }

    #[test]
    fn the_ladder_has_every_rung_that_fits() {
        let lines = ladder(&samples(), Canvas { width: 80, colour: false });
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>().join(" "), "ms p50 p75 p90 p95 p99 p99.9 max");
        let first: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!((first[0], first[1], first[7]), ("TTFT", "500.50", "1000.00"));
        for width in [30, 40, 60, 80, 120] {
            let narrow = ladder(&samples(), Canvas { width, colour: false });
            assert!(narrow.iter().all(|line| line.len() <= width), "{width}: {narrow:?}");
            assert!(narrow[0].contains("p50") && narrow[0].contains("max"));
        }
    }

    #[test]
    fn a_histogram_counts_every_request() {
        let times = Kind::Ttft.of(&samples());
        let lines = histogram("t", &times, Canvas { width: 60, colour: false });
        assert!(lines.len() == 9 && lines.iter().all(|line| line.chars().count() <= 60), "{lines:?}");
        assert!(histogram("t", &[1.0; 50], Canvas { width: 60, colour: false }).is_empty());
    }
}
