//! The labeled lines of the block.

use tacho_metrics::phase_energy::{Coefficient, by_phase};
use tacho_metrics::{Caveat, Interval, Steady, vocabulary::Concept};
use tacho_record::{RunRecord, metric::Known};

use super::table::{bounds, bounds_as};
use crate::failures::{Failures, by_kind};
use crate::{json::telemetry::per, style::short};

/// Least completions in a steady state whose means are printed.
const MIN_STEADY_COMPLETIONS: f64 = 50.0;

pub(super) type Fact = Option<(&'static str, String)>;

pub(super) fn load(record: &RunRecord) -> Fact {
    let (setup, open_loop) = (&record.setup, &record.open_loop);
    let mut parts = Vec::new();
    match (open_loop.rates, setup.max_concurrency) {
        (Some(rates), _) => parts.push(format!("sent {} of {} req/s", short(rates.delivered), short(rates.planned))),
        (None, Some(limit)) => parts.push(format!("closed loop, {limit} at a time")),
        (None, None) if record.is_burst() => parts.push(format!("{} requests at once", open_loop.requests)),
        (None, None) => {}
    }
    parts.push(format!("at most {} in flight", open_loop.peak_concurrency));
    Some(("load", parts.join(" · ")))
}

/// vLLM counts the peak in whole seconds, so that in a run of less it is below the mean.
pub(super) fn peak(record: &RunRecord) -> Fact {
    let generation = record.summary.generation()?;
    let (peak, mean) = (generation.max_output_tokens_per_s, generation.output_throughput);
    let text =
        || format!("{} tok/s counts whole seconds: the run took {} s", short(peak), short(record.measured.duration));
    (peak > 0.0 && peak < mean).then(|| ("peak", text()))
}

/// Most kinds of failures with their texts.
const MAX_KINDS: usize = 3;

/// The failures, one line per kind with the text of the first.
pub(super) fn failures(record: &RunRecord) -> Vec<String> {
    let kinds = by_kind(record);
    let line = |Failures { kind, count, text }: &Failures| match text.is_empty() {
        true => format!("{count} {kind}"),
        false => format!("{count} {kind}: {text}"),
    };
    let mut lines: Vec<String> = kinds.iter().take(MAX_KINDS).map(line).collect();
    let others: Vec<String> =
        kinds.iter().skip(MAX_KINDS).map(|kind| format!("{} {}", kind.count, kind.kind)).collect();
    if !others.is_empty() {
        lines.push(others.join(" · "));
    }
    let probes = record.measured.probe.filter(|probe| probe.completed == 0 && probe.failed > 0);
    lines.extend(probes.map(|probe| format!("{} probes", probe.failed)));
    lines
}

pub(super) fn retries(record: &RunRecord) -> Fact {
    let (requests, retries) = record.open_loop.retried;
    (requests > 0).then(|| ("retried", format!("{requests} requests sent again ({retries} times)")))
}

/// Why there is no steady state; `None` if there is one.
pub(crate) fn not_steady(steady: &Steady) -> Option<&'static str> {
    if steady.backlog.is_some() {
        Some("the queue grew")
    } else if steady.drift.is_some() {
        Some("latency drifted")
    } else if !steady.reached {
        Some("the run is too short")
    } else if steady.request_throughput * (steady.end - steady.start) < MIN_STEADY_COMPLETIONS {
        Some("too few requests ended in it")
    } else {
        None
    }
}

/// The steady state, or why there is none; `None` if the run is not checked for one.
pub(super) fn steady(record: &RunRecord) -> Fact {
    let steady = record.steady.as_ref()?;
    let Steady { start, end, request_throughput, .. } = steady;
    let text = not_steady(steady).map_or_else(
        || {
            let ttft = record.summary.generation().map(|_| format!(" · TTFT {}", short(steady.ttft.mean_ms)));
            format!(
                "{} – {} s · {} req/s{} · E2EL {} ms mean",
                short(*start),
                short(*end),
                short(*request_throughput),
                ttft.unwrap_or_default(),
                short(steady.e2el.mean_ms)
            )
        },
        |why| format!("none: {why}"),
    );
    Some(("steady state", text))
}

/// How evenly tokens arrived, if there are SLOs for them.
pub(super) fn fluidity(record: &RunRecord) -> Fact {
    let found = record.open_loop.fluidity?;
    let goodput = short(found.goodput);
    Some(("fluidity", format!("{:.1}% of tokens in time · fluid goodput {goodput} req/s", found.index * 100.0)))
}

/// Draft tokens that were accepted, by the server's report for each request.
pub(super) fn acceptance(record: &RunRecord) -> Fact {
    let found = record.open_loop.acceptance?;
    let length = found.length.map_or_else(String::new, |length| {
        format!(" · length mean {}, median {}, p10 {}", short(length.mean), short(length.median), short(length.p10))
    });
    Some(("acceptance", format!("{:.1}% of draft tokens{length} ({} requests)", found.rate * 100.0, found.responses)))
}

/// What the requests cost, if the price of the machines is known: for what, the amount, and its interval.
pub(crate) fn costs(record: &RunRecord) -> Vec<(&'static str, String, Option<String>)> {
    let cost = |(key, times, name): (&str, f64, &'static str)| {
        let value = Known::find(key)?.read(record)? * times;
        let interval =
            record.intervals.get(key).map(|Interval { low, high }| Interval { low: low * times, high: high * times });
        Some((name, amount(value), interval.map(|interval| bounds_as(interval, amount))))
    };
    let costs = [
        ("cost_per_million_output_tokens", 1.0, "1M output tokens"),
        ("cost_per_million_tokens", 1.0, "1M tokens"),
        ("cost_per_request", 1000.0, "1,000 requests"),
    ];
    costs.into_iter().filter_map(cost).collect()
}

pub(super) fn cost(record: &RunRecord) -> Fact {
    let part = |(name, value, interval): (&str, String, Option<String>)| {
        format!("{value}{} per {name}", interval.map_or_else(String::new, |interval| format!(" ({interval})")))
    };
    let parts: Vec<String> = costs(record).into_iter().map(part).collect();
    // With --gpus and no price, what each of them did.
    let each =
        || Some(("per GPU", format!("{} tok/s", short(Known::find("output_throughput_per_gpu")?.read(record)?))));
    (!parts.is_empty()).then(|| ("cost", parts.join(" · "))).or_else(each)
}

/// An amount of money: three digits of a small one.
fn amount(value: f64) -> String {
    let digits = if value > 0.0 { (2.0 - value.log10().floor()).clamp(2.0, 8.0) as usize } else { 2 };
    if value >= 1.0 { short(value) } else { format!("{value:.digits$}") }
}

/// The server's own metrics. A gauge that was not sampled during the run is not 0.
pub(super) fn server(record: &RunRecord) -> Fact {
    let server = &record.measured.server;
    if server.is_empty() {
        return None;
    }
    let during = |concept| {
        let series = server.by_concept(concept)?;
        let inside = server.times.iter().zip(&series.values);
        let inside =
            inside.filter(|(time, value)| (0.0..=record.measured.duration).contains(*time) && value.is_finite());
        let values: Vec<f64> = inside.map(|(_, value)| *value).collect();
        let max = values.iter().copied().reduce(f64::max);
        Some(max.map(|max| (values.iter().sum::<f64>() / values.len() as f64, max)))
    };
    // Engines do not count requests for speech and images: their gauges stay at 0.
    let is_idle = |concept| during(concept).flatten().is_none_or(|(_, max)| max == 0.0);
    if record.summary.media().is_some() && [Concept::Running, Concept::Waiting, Concept::KvUse].into_iter().all(is_idle)
    {
        return None;
    }
    let gauge = |name: &str, concept, scale: f64, unit: &str| {
        during(concept).map(|found| match found {
            Some((mean, max)) if max == 0.0 && mean == 0.0 => format!("{name} 0{unit}"),
            Some((mean, max)) => format!("{name} {}/{}{unit}", short(mean * scale), short(max * scale)),
            None => format!("{name} –"),
        })
    };
    let mut parts: Vec<String> = [
        gauge("running", Concept::Running, 1.0, ""),
        gauge("queue", Concept::Waiting, 1.0, ""),
        gauge("KV", Concept::KvUse, 100.0, "%"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let hits = server.prefix_cache_hit_rate();
    parts.extend(hits.map(|hits| format!("hits {:.0}%", hits * 100.0)));
    let preemptions = server.by_concept(Concept::Preemptions).and_then(|series| series.growth());
    parts.extend(preemptions.map(|count| format!("{count:.0} preemptions")));
    (!parts.is_empty()).then(|| ("server", format!("{} (mean/max)", parts.join(" · "))))
}

/// Energy of the GPUs, if telemetry measured it. All of it counts for the successful requests.
pub(super) fn gpu(record: &RunRecord) -> Fact {
    let energy = record.measured.telemetry.energy(0.0, record.measured.duration)?;
    let tokens = record.summary.generation().map_or(0, |generation| generation.total_output);
    let each = per(energy.joules, tokens).map_or_else(String::new, |joules| format!(" · {joules:.4} J/token"));
    Some(("GPUs", format!("{} J · {} W mean{each}", short(energy.joules), short(energy.mean_watts))))
}

/// Energy per million tokens of each phase, or why it is not known.
pub(super) fn energy_by_phase(record: &RunRecord) -> Fact {
    let measured = &record.measured;
    let found = by_phase(&measured.telemetry, &measured.samples, measured.origin, measured.duration)?;
    let text = found.map_or_else(
        |reason| format!("not by phase: {reason}"),
        |found| {
            let part = |one: Coefficient, times: f64| {
                let Interval { low, high } = one.interval;
                let interval = Interval { low: low * times, high: high * times };
                format!("{} ({})", short(one.value * times), bounds(interval))
            };
            let [prefill, decode] = [found.prefill, found.decode].map(|one| part(one, 1e3));
            let idle = part(found.idle_watts, 1.0);
            format!("prefill {prefill} · decode {decode} kJ per 1M tokens · idle {idle} W")
        },
    );
    Some(("energy", text))
}

pub(super) fn client(record: &RunRecord) -> Fact {
    let trust = record.trust.as_ref()?;
    let mut parts = vec![trust.verdict.word().to_owned()];
    // A warning says the effect of one that is not reliable.
    let is_warned = record.caveats.iter().any(|caveat| matches!(caveat, Caveat::ClientUnreliable { .. }));
    parts.extend((!is_warned).then(|| trust.effect()));
    let late = trust.lateness.as_ref().and_then(|lateness| lateness.percentile_ms(99.0));
    parts.extend(late.map(|ms| format!("late p99 {} ms", short(ms))));
    let busiest = trust.busy.iter().copied().reduce(f64::max);
    parts.extend(busiest.map(|busy| format!("busy {:.0}%", busy * 100.0)));
    Some(("client", parts.join(" · ")))
}

/// Gaps in the playback of generated audio, if there are any.
pub(super) fn underruns(record: &RunRecord) -> Fact {
    let audio = record.summary.media()?.audio.as_ref()?;
    let totals = audio.totals.filter(|totals| totals.underruns > 0)?;
    let stalled = audio.underrun.mean_ms / 1000.0 * audio.underrun.count as f64;
    let continuous = totals.continuous * 100.0;
    let text =
        format!("{} gaps, {} s in all · {continuous:.0}% of responses play on", totals.underruns, short(stalled));
    Some(("underruns", text))
}
