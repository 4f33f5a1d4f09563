//! The data of the page's charts: a column per property of a request, and histograms of what would be too large to
//! embed.

use std::borrow::Cow;

use tacho_core::json::{Dict, Value};
use tacho_core::{StageSpan, dict, live::Output};
use tacho_metrics::latency::{itls, successes, tpot};
use tacho_metrics::{Sample, Samples, Statistics};
use tacho_record::RunRecord;

use super::served;
use crate::series::{self, LatencyOverTime, OverTime};
use crate::{console::not_steady, distinct::distinct};

const BARS: usize = 48;
/// Requests whose own timeline is shown.
const SLOWEST: usize = 12;
/// Segments of such a timeline; more would not be visible.
const PIECES: usize = 1000;

/// A column: its name in the page's script, and its value. Missing values are NaN.
type Column = (&'static str, fn(&Sample) -> Option<f64>);

/// Timestamps are added separately, since they are relative to the run's origin.
const COLUMNS: [Column; 7] = [
    ("index", |sample| Some(sample.index as f64)),
    ("queue", |sample| Some(sample.queue_time() * 1e3)),
    ("ttft", |sample| (sample.success() && sample.ttft > 0.0).then_some(sample.ttft * 1e3)),
    ("tpot", |sample| sample.success().then(|| tpot(sample)).flatten().map(|time| time * 1e3)),
    ("e2el", |sample| sample.success().then_some(sample.latency * 1e3)),
    ("prompt", |sample| Some(sample.prompt_len as f64)),
    ("output", |sample| Some(sample.output_len as f64)),
];

pub(super) fn facts(record: &RunRecord) -> Dict {
    let samples = &record.measured.samples;
    dict! {
        "count": drawn(samples).count(),
        "total": samples.len(),
        "columns": COLUMNS.iter().map(|(name, _)| *name).chain(["sent", "outcome", "group"]).collect::<Value>(),
        "groups": groups(record).into_iter().map(Value::from).collect::<Value>(),
        "outcomes": outcomes(samples).into_iter().collect::<Value>(),
        "distributions": distributions(record),
        "over": over_time(record),
        "tokens": output(record) == Output::Tokens,
        "first": first(record),
        "paced": record.setup.is_paced(),
        "steady": steady(record),
        "stages": stages(record),
        "slo": slo(record),
        "series": served::sets(record),
        "slowest": slowest(record),
    }
}

fn output(record: &RunRecord) -> Output {
    match (record.summary.generation(), record.summary.media().map(|media| media.audio.is_some())) {
        (Some(_), _) => Output::Tokens,
        (None, Some(true)) => Output::Audio,
        (None, _) => Output::Whole,
    }
}

/// The name of the time to the first part of a response; `None` if responses are not streamed.
fn first(record: &RunRecord) -> Option<&'static str> {
    match output(record) {
        Output::Tokens => Some("TTFT"),
        Output::Audio => Some("TTFP"),
        Output::Whole => None,
    }
}

/// Least and most time steps of a run.
const STEPS: (f64, f64) = (40.0, 300.0);

/// The time series; `None` without requests.
fn over_time(record: &RunRecord) -> Option<Dict> {
    let samples = &record.measured.samples;
    let over = OverTime::of(samples, STEPS)?;
    let times = floats((0..over.rows[0].1.len()).map(|at| at as f64 * over.step));
    let mut dict = dict! { "end": over.end, "times": times };
    let latencies = LatencyOverTime::of(samples, &over);
    for (name, values) in over.rows {
        dict.set(name, floats(values.into_iter()));
    }
    let latency = |(name, median, upper): (&str, &[f64], &[f64])| {
        let name = if name == "ttft" { first(record)?.to_owned() } else { name.to_uppercase() };
        let [median, upper] = [median, upper].map(|values| floats(values.iter().copied()));
        Some(dict! { "name": name, "median": median, "upper": upper })
    };
    dict.set("latencies", latencies.known().filter_map(latency).collect::<Value>());
    dict.set("upper", format!("p{}", series::UPPER_PERCENTILE));
    Some(dict)
}

/// Name and start of each stage, on the time axis of the charts.
fn stages(record: &RunRecord) -> Value {
    let shift = record.measured.origin - series::origin(&record.measured.samples);
    let start = |stage: &StageSpan| (stage.start + shift).max(0.0);
    let stages = record.setup.stages.iter();
    stages.map(|stage| vec![stage.name.as_str().into(), start(stage).into()]).collect()
}

/// Start and end of the steady state, if there is one.
fn steady(record: &RunRecord) -> Option<Vec<Value>> {
    let steady = record.steady.as_ref().filter(|steady| not_steady(steady).is_none())?;
    Some(vec![Value::Float(steady.start), Value::Float(steady.end)])
}

/// The goodput SLOs by latency, in ms.
fn slo(record: &RunRecord) -> Option<Dict> {
    let limits = record.setup.metrics.goodput?;
    let limits = [("ttft", limits.ttft_ms), ("tpot", limits.tpot_ms), ("e2el", limits.e2el_ms)];
    Some(limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?.into()))).collect())
}

fn floats(values: impl Iterator<Item = f64>) -> Vec<Value> {
    // Four digits: more than a pixel can show.
    let short = |value: f64| if value == 0.0 { 0.0 } else { format!("{value:.4e}").parse().unwrap_or(value) };
    values.map(|value| if value.is_finite() { Value::Float(short(value)) } else { Value::Null }).collect()
}

/// Most requests drawn as points; of more, every n-th one.
const MAX_POINTS: usize = 10_000;

/// The drawn requests: an even sample of many, and all failures while they are few.
fn drawn(samples: &Samples) -> impl Iterator<Item = Cow<'_, Sample>> {
    let step = samples.len().div_ceil(MAX_POINTS).max(1);
    let few = step > 1 && samples.iter().filter(|sample| !sample.success()).count() <= MAX_POINTS / 10;
    let wanted = move |(at, sample): &(usize, Cow<'_, Sample>)| at % step == 0 || (few && !sample.success());
    samples.iter().enumerate().filter(wanted).map(|(_, sample)| sample)
}

/// The columns as planes of bytes: neighbors in a plane are similar and compress well.
pub(super) fn rows(record: &RunRecord) -> Vec<u8> {
    let samples = &record.measured.samples;
    let origin = series::origin(samples);
    let kinds = outcomes(samples);
    let outcome = |sample: &Sample| kinds.iter().position(|kind| *kind == name(sample)).map(|at| at as f64);
    let (key, names) = (record.group_keys().into_iter().next(), groups(record));
    let group = |sample: &Sample| {
        let name = sample.labels.get(key?)?;
        names.iter().position(|known| known == name).map(|at| at as f64)
    };
    let plain = COLUMNS.iter().flat_map(|(_, of)| drawn(samples).map(|sample| of(&sample)));
    let sent = drawn(samples).map(|sample| Some(sample.sent - origin));
    let all: Vec<f32> = plain
        .chain(sent)
        .chain(drawn(samples).map(|sample| outcome(&sample)))
        .chain(drawn(samples).map(|sample| group(&sample)))
        .map(|value| value.unwrap_or(f64::NAN) as f32)
        .collect();
    (0..4).flat_map(|plane| all.iter().map(move |value| value.to_le_bytes()[plane])).collect()
}

/// Most groups with a color each.
const MAX_GROUPS: usize = 8;

/// The groups by the first label of the requests, whose points have a color each; none if there are too many.
fn groups(record: &RunRecord) -> Vec<String> {
    let key = record.group_keys().into_iter().next();
    let names: Vec<String> = key.iter().flat_map(|key| record.groups_by(key).map(|group| group.name.clone())).collect();
    if names.len() > MAX_GROUPS { Vec::new() } else { names }
}

fn name(sample: &Sample) -> &'static str {
    sample.failure.map_or("complete", |kind| kind.name())
}

/// The outcomes of requests; `complete` is the first.
fn outcomes(samples: &Samples) -> Vec<&'static str> {
    distinct(std::iter::once("complete").chain(samples.iter().map(|sample| name(&sample))))
}

/// The distribution of each latency over all requests.
fn distributions(record: &RunRecord) -> Vec<Value> {
    let samples = &record.measured.samples;
    let limits = record.setup.metrics.goodput.unwrap_or_default();
    let requests = |of: fn(&Sample) -> Option<f64>| move || successes(samples).filter_map(move |sample| of(&sample));
    let ttft = requests(|sample| Some(sample.ttft));
    let (tpot, e2el) = (requests(tpot), requests(|sample| Some(sample.latency)));
    let queue = requests(|sample| Some(sample.queue_time()));
    // In a closed loop no request is due before its slot is free.
    let limited = record.setup.max_concurrency.is_some() && record.setup.is_paced();
    let output = output(record);
    let has_tokens = output == Output::Tokens;
    let title = if output == Output::Audio { "Time to first packet (TTFP)" } else { "Time to first token (TTFT)" };
    let all = [
        (output != Output::Whole).then(|| distribution(title, "requests", limits.ttft_ms, ttft)),
        has_tokens.then(|| distribution("Time per output token (TPOT)", "requests", limits.tpot_ms, tpot)),
        has_tokens.then(|| distribution("Inter-token latency (ITL)", "gaps", None, || itls(samples))),
        Some(distribution("End-to-end latency (E2EL)", "requests", limits.e2el_ms, e2el)),
        limited.then(|| distribution("Wait for a concurrency slot", "requests", None, queue)),
    ];
    all.into_iter().flatten().flatten().collect()
}

/// The histogram of some latencies in seconds, with percentiles and the SLO in ms; `None` for fewer than two values.
fn distribution<I: Iterator<Item = f64>>(
    title: &str,
    counted: &str,
    slo: Option<f64>,
    seconds: impl Fn() -> I,
) -> Option<Value> {
    // A logarithmic axis has no 0: gaps of tokens that arrived together count in the percentiles only.
    let values = || seconds().filter(|value| *value > 0.0);
    let min = values().reduce(f64::min)? * 1e3;
    let times = Statistics::of_all(&seconds, &[50.0, 90.0, 99.0]);
    let zeros = times.count - values().count();
    if times.count < 2 {
        return None;
    }
    let (min, max) = (min.log10(), times.max_ms.log10());
    let width = ((max - min) / BARS as f64).max(1e-3);
    // Values within 5% have few bars rather than narrow ones.
    let bars = (((max - min) / width).ceil() as usize).clamp(1, BARS);
    let edges = (0..=bars).map(|bar| 10f64.powf(min + bar as f64 * width));
    let mut counts = vec![0u64; bars];
    for value in values() {
        counts[((((value * 1e3).log10() - min) / width).max(0.0) as usize).min(bars - 1)] += 1;
    }
    let marks = times.percentiles_ms.iter().filter(|(_, value)| *value > 0.0);
    let mark = |(percent, value): &(f64, f64)| vec![Value::from(format!("p{percent}")), Value::from(*value)];
    let dict = dict! {
        "title": title,
        "counted": counted,
        "slo": slo,
        "edges": floats(edges),
        "counts": counts.into_iter().collect::<Value>(),
        "zeros": zeros,
        "marks": marks.map(mark).collect::<Value>(),
    };
    Some(dict.into())
}

fn slowest(record: &RunRecord) -> Vec<Value> {
    let samples = &record.measured.samples;
    let origin = series::origin(samples);
    let queue = |sample: &Sample| if record.setup.is_paced() { sample.queue_time() } else { 0.0 };
    let whole = |sample: &Sample| queue(sample) + sample.latency;
    let mut order: Vec<Cow<'_, Sample>> = Vec::new();
    for sample in successes(samples) {
        order.push(sample);
        if order.len() >= 2 * SLOWEST {
            order.sort_by(|a, b| whole(b).total_cmp(&whole(a)));
            order.truncate(SLOWEST);
        }
    }
    order.sort_by(|a, b| whole(b).total_cmp(&whole(a)));
    order.truncate(SLOWEST);
    order.into_iter().map(|sample| Value::Dict(slow(&sample, (origin, queue(&sample))))).collect()
}

fn slow(sample: &Sample, (origin, queue): (f64, f64)) -> Dict {
    let gaps = sample.itl.to_vec();
    let together = sample.itl.len().div_ceil(PIECES).max(1);
    let pieces = gaps.chunks(together).map(|gaps| (gaps.iter().sum::<f64>() * 1e5).round() / 1e2);
    dict! {
        "index": sample.index,
        "sent": sample.sent - origin,
        "queue": queue * 1e3,
        "ttft": sample.ttft * 1e3,
        "e2el": sample.latency * 1e3,
        "prompt": sample.prompt_len,
        "output": sample.output_len,
        "longest": sample.itl.iter().reduce(f64::max).map(|gap| gap * 1e3),
        "gaps": pieces.collect::<Value>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bar() {
        let values = [0.001, 0.01, 0.01, 0.1, 0.0];
        let gaps = distribution("t", "gaps", Some(5.0), || values.into_iter()).unwrap();
        let counts: Vec<i64> =
            gaps.get("counts").unwrap().as_list().unwrap().iter().filter_map(Value::as_i64).collect();
        assert_eq!((counts.iter().sum::<i64>(), counts[0], counts[BARS - 1]), (4, 1, 1));
        assert!(distribution("t", "gaps", None, || [0.5].into_iter()).is_none(), "one value has no distribution");
    }

    #[test]
    fn of_many_requests_a_part_is_drawn_and_every_failure() {
        let failed = |at: usize| (at == 7).then_some(tacho_core::FailureKind::Malformed);
        let one = |index: usize| Sample { index, failure: failed(index), ..Sample::default() };
        let samples: Samples = (0..3 * MAX_POINTS).map(one).collect();
        let indices: Vec<usize> = drawn(&samples).map(|sample| sample.index).collect();
        assert_eq!((indices.len(), &indices[..4]), (MAX_POINTS + 1, &[0, 3, 6, 7][..]));
    }

    #[test]
    fn the_steady_state_is_that_of_the_terminal() {
        let setup = tacho_metrics::Setup { strict_parity: false, ..tacho_metrics::Setup::example() };
        let mut record = RunRecord::compute(setup, tacho_record::Measured::default());
        let none = || Statistics::of(Vec::new(), &[]);
        let mut shown = |request_throughput| {
            let (start, end, requests, reached, drift, backlog) = (0.0, 10.0, 90, true, None, None);
            let (ttft, e2el) = (none(), none());
            record.steady = Some(tacho_metrics::Steady {
                start,
                end,
                requests,
                reached,
                request_throughput,
                ttft,
                e2el,
                drift,
                backlog,
                away: None,
            });
            steady(&record).is_some()
        };
        assert_eq!([shown(9.0), shown(4.0)], [true, false], "40 requests are too few");
    }

    #[test]
    fn a_long_answer_is_shown_in_fewer_pieces() {
        let sample = Sample { itl: vec![0.001; 2500].into(), latency: 3.0, ..Sample::default() };
        let slow = slow(&sample, (0.0, 0.0));
        let pieces = slow.get("gaps").unwrap().as_list().unwrap();
        assert_eq!((pieces.len(), pieces[0].as_f64()), (834, Some(3.0)));
    }
}
