//! The page's texts: the head with verdict and headline metrics, all metrics, and the settings.

use tacho_metrics::{MetricKind, RankUse};
use tacho_record::{RunRecord, metric::Known};

use super::About;
use crate::console::{audio_times, bounds, costs, interval_of as interval, within_slo};
use crate::distinct::{by_key, counted, distinct};
use crate::failures::{Failures, by_kind};
use crate::html::hero::{self, Head, Tone, card, fact_card, load};
use crate::html::{escape, facts_table};
use crate::style::{grouped, short};
use crate::verdict::{Severity, Verdict};

/// The head: the run, the verdict, and three metrics.
pub(super) fn head(record: &RunRecord, about: &About) -> Head {
    let setup = &record.setup;
    let (count, duration) = (record.measured.samples.len(), record.measured.duration);
    let started = setup.started.split(['.', '+', 'Z']).next().unwrap_or_default().replace('T', " ");
    let origin = hero::origin(&record.provenance);
    // A server without a name is described by its protocol.
    let backend = if origin.iter().any(|(name, _)| *name == "server") { "" } else { &setup.backend };
    let head = Head::new(setup.label.clone().unwrap_or_else(|| setup.model_id.clone()))
        .fact("model", setup.model_id.as_str())
        .fact("backend", backend)
        .fact("load", load(setup))
        .facts(origin)
        .fact("requests", format!("{} in {} s", grouped(count as i64), short(duration)))
        .fact("started", started);
    let cards = if record.summary.completed == 0 { Vec::new() } else { headline(record) };
    let is_bad = Verdict::of(record).worst() == Some(Severity::Bad);
    verdict(head, record, about).cards(cards).doubtful(is_bad)
}

/// The verdict in a sentence, and every reason to interpret the result with care.
fn verdict(head: Head, record: &RunRecord, about: &About) -> Head {
    let verdict = Verdict::of(record);
    let has_warnings = !about.warnings.is_empty();
    let (tone, sentence) = match (record.summary.completed, verdict.worst()) {
        (0, _) => (Tone::Bad, "no request succeeded"),
        (_, Some(Severity::Bad)) => (Tone::Bad, "see the warnings"),
        (_, None) if !has_warnings => (Tone::Good, "no warnings"),
        _ => (Tone::Warning, "see the warnings"),
    };
    let sentence = format!("{}: {sentence}", tone.word());
    let unknown = || "client: how well it kept up is not known".to_owned();
    let trust = match (&record.trust, &about.client) {
        (Some(trust), _) if trust.is_ok() => Some(trust.text()),
        (Some(_), _) => None,
        (None, known) => Some(known.clone().unwrap_or_else(unknown)),
    };
    let findings = verdict.findings.iter().map(|finding| (finding.text.clone(), finding.code));
    let others = about.warnings.iter().cloned().chain(trust);
    let texts = findings.chain(others.map(|text| (text, "")));
    let item = |(text, codes): &(String, Vec<&str>)| {
        let code = if codes[0].is_empty() { String::new() } else { format!(" <code>{}</code>", codes[0]) };
        format!("<li>{}{code}</li>", escape(text))
    };
    let items: String = by_key(texts).iter().map(item).collect();
    head.verdict_with(tone, &sentence, &items, verdict.next.as_deref())
}

/// Rates by their keys, in the order of their cards.
const RATES: [(&str, &str); 6] = [
    ("Output tok/s", "output_throughput"),
    ("Requests/s", "request_throughput"),
    ("Audio s/s", "audio_throughput"),
    ("Images/s", "image_throughput"),
    ("Total tok/s", "total_token_throughput"),
    ("Goodput req/s", "request_goodput"),
];

/// The card of a metric by its key; `None` if it was not measured.
fn metric_card(record: &RunRecord, name: &str, key: &str, unit: &str) -> Option<String> {
    Some(card(name, Known::find(key)?.read(record)?, unit, interval(record, key)))
}

fn rate_cards(record: &RunRecord) -> Vec<String> {
    // Audio and images have no tokens, even if prompts do.
    let has_tokens = record.summary.media().is_none();
    let rates = RATES.iter().filter(|(_, key)| has_tokens || *key != "total_token_throughput");
    let goodput = |key: &str| within_slo(record).filter(|_| key == "request_goodput");
    let card = |(name, key): &(&str, &str)| match goodput(key) {
        Some(share) => {
            let interval = interval(record, key).map_or_else(String::new, |of| format!(" · 95% CI {}", bounds(of)));
            let below = format!("{}% of requests within the SLO{interval}", short(share * 100.0));
            Some(fact_card(name, &short(Known::find(key)?.read(record)?), &below))
        }
        None => metric_card(record, name, key, ""),
    };
    rates.filter_map(card).collect()
}

pub(super) fn failure_kinds(record: &RunRecord) -> String {
    let kinds = by_kind(record);
    if kinds.is_empty() {
        return String::new();
    }
    let row = |Failures { kind, count, text }: &Failures| {
        format!("<tr><th>{}</th><td class=\"n\">{count}</td><td>{}</td></tr>\n", escape(kind), escape(text))
    };
    let rows: String = kinds.iter().map(row).collect();
    let heads = "<tr><th>kind</th><th class=\"n\">requests</th><th>first error</th></tr>";
    format!("<section><h2>Failures</h2>\n<table class=\"facts\">{heads}\n{rows}</table></section>\n")
}

/// The median of each latency and its highest requested percentile.
fn latency_cards(record: &RunRecord, metrics: &[MetricKind], wanted: impl Fn(f64) -> bool) -> Vec<String> {
    let cards = metrics.iter().flat_map(|metric| {
        let statistics = record.summary.statistics(*metric);
        let highest = statistics.and_then(|of| of.percentiles_ms.iter().map(|(percent, _)| *percent).reduce(f64::max));
        distinct(std::iter::once(50.0).chain(highest)).into_iter().map(|percentile| (metric.name(), percentile))
    });
    let card = |(name, percentile): (&str, f64)| {
        let (word, statistic) = statistic(percentile);
        metric_card(record, &format!("{word} {}", name.to_uppercase()), &format!("{statistic}_{name}_ms"), " ms")
    };
    cards.filter(|(_, percentile)| wanted(*percentile)).filter_map(card).collect()
}

/// The name of a percentile on a card and in keys.
fn statistic(percentile: f64) -> (String, String) {
    match percentile {
        50.0 => ("Median".to_owned(), "median".to_owned()),
        other => (format!("P{}", crate::style::percent(other)), format!("p{}", crate::style::percent(other))),
    }
}

/// The latencies of generated audio, at the percentiles that are `wanted`.
fn audio_cards(record: &RunRecord, wanted: impl Fn(f64) -> bool) -> Vec<String> {
    let times = audio_times(record).into_iter().filter(|time| wanted(time.percentile));
    let cards = times.filter_map(|time| {
        let unit = if time.unit.is_empty() { String::new() } else { format!(" {}", time.unit) };
        metric_card(record, &format!("{} {}", statistic(time.percentile).0, time.name), &time.key, &unit)
    });
    cards.collect()
}

/// The three most important metrics: the rate of what the server makes, and two latencies.
fn headline(record: &RunRecord) -> Vec<String> {
    let rates = ["output_throughput", "audio_throughput", "image_throughput", "request_throughput"];
    let rates = rates.iter().filter_map(|key| RATES.iter().find(|(_, known)| known == key));
    let rate = rates.filter_map(|(name, key)| metric_card(record, name, key, "")).take(1);
    let is_high = |percentile: f64| percentile != 50.0;
    let latencies = latency_cards(record, &[MetricKind::Ttft, MetricKind::Tpot, MetricKind::E2el], is_high);
    rate.chain(audio_cards(record, is_high).into_iter().chain(latencies).take(2)).collect()
}

/// The other metrics. A metric that was not measured has no card.
pub(super) fn cards(record: &RunRecord) -> String {
    let summary = &record.summary;
    if summary.completed == 0 {
        return String::new();
    }
    let mut cards = rate_cards(record);
    cards.extend((summary.failed > 0).then(|| failures(summary.failed, summary.completed)));
    let metrics = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el];
    cards.extend(latency_cards(record, &metrics, |_| true));
    cards.extend(audio_cards(record, |_| true));
    let cost = |(name, value, interval): (&str, String, Option<String>)| {
        let below = interval.map_or_else(String::new, |interval| format!("95% CI {interval}"));
        fact_card(&format!("Cost per {name}"), &value, &below)
    };
    cards.extend(costs(record).into_iter().map(cost));
    let hero = headline(record);
    cards.retain(|card| !hero.contains(card));
    let doubtful = if Verdict::of(record).worst() == Some(Severity::Bad) { " doubtful" } else { "" };
    format!("<div class=\"cards{doubtful}\" style=\"--columns: {}\">{}</div>\n", columns(cards.len()), cards.concat())
}

/// Number of cards per row that fills the last row best.
fn columns(cards: usize) -> usize {
    [4, 5, 3].into_iter().min_by_key(|columns| cards.next_multiple_of(*columns) - cards).unwrap_or(4)
}

fn failures(failed: u64, completed: u64) -> String {
    let all = failed + completed;
    let share = failed as f64 * 100.0 / all as f64;
    format!(
        "<div class=\"card bad\"><span>Failed requests</span><b>{}</b><small>of {} ({}%)</small></div>",
        grouped(failed as i64),
        grouped(all as i64),
        short(share)
    )
}

/// Statistics of each rank; empty for a run of one process.
pub(super) fn ranks(record: &RunRecord) -> String {
    if record.measured.ranks.is_empty() {
        return String::new();
    }
    let known =
        |value: Option<f64>, unit: &str| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}{unit}"));
    let row = |rank: &RankUse| {
        let cells = [
            rank.rank.to_string(),
            rank.machine.clone(),
            format!("{} of {}", rank.requests, rank.planned),
            known(rank.p99_lateness_ms, " ms"),
            known(rank.busy.map(|busy| busy * 100.0), "%"),
            known(rank.clock_bound_ms, " ms"),
            known(rank.clock_drift_ms, " ms"),
            known(rank.calendar_offset_ms, " ms"),
            rank.lost.clone().unwrap_or_default(),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        format!("<tr>{cells}</tr>")
    };
    let heads = ["rank", "machine", "requests", "late, p99", "busiest worker", "clock ±", "drift", "calendar", "lost"];
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let rows: String = record.measured.ranks.iter().map(row).collect();
    format!("<h2>Ranks</h2><table class=\"facts\"><tr>{heads}</tr>{rows}</table>")
}

/// What a reader needs to start the same server. The simulator has no hardware, and a run under strict parity asks for
/// nothing.
fn stack(record: &RunRecord) -> Vec<(&'static str, Option<String>)> {
    let (server, telemetry) = (&record.provenance.server, &record.measured.telemetry);
    let is_simulated = server.engine.as_ref().is_some_and(|engine| engine.starts_with("tacho simulator"));
    if is_simulated || record.is_predicted() || record.setup.strict_parity {
        return Vec::new();
    }
    let sampled = |name: &str| match name {
        "GPUs" => Some(counted(&telemetry.gpus)).filter(|text| !text.is_empty()),
        "GPU driver" => telemetry.driver.clone(),
        "CUDA" => telemetry.cuda.clone(),
        _ => None,
    };
    server.stack().map(|(name, stated)| (name, stated.map(str::to_owned).or_else(|| sampled(name)))).into()
}

/// The provenance of the run, as a table at the page's end.
pub(super) fn facts(record: &RunRecord) -> String {
    let (setup, origin) = (&record.setup, &record.provenance);
    let objectives = setup.metrics.goodput.map(|limits| {
        let all = [("TTFT", limits.ttft_ms), ("TPOT", limits.tpot_ms), ("E2EL", limits.e2el_ms)];
        let all = all.iter().filter_map(|(name, limit)| Some(format!("{name} ≤ {} ms", short((*limit)?))));
        all.collect::<Vec<_>>().join(", ")
    });
    let host = origin.host.as_ref().map(|host| {
        let cpu = if host.cpu.is_empty() { String::new() } else { format!(" {}", host.cpu) };
        format!("{}: {} ×{cpu}, {}", host.name, host.cpus, host.system)
    });
    let slos = (!origin.slos.is_empty()).then(|| origin.slos.join(", "));
    let known = [
        ("model", Some(setup.model_id.clone())),
        ("backend", Some(setup.backend.clone())),
        ("server", origin.server.name()),
        ("tokenizer", Some(setup.tokenizer_id.clone().unwrap_or_else(|| "none".into()))),
        ("dataset", origin.dataset.clone()),
        ("seed", origin.seed.map(|seed| seed.to_string())),
        ("requests", Some(setup.num_prompts.to_string())),
        ("load", Some(load(setup))),
        ("goodput SLOs", objectives),
        ("fails if", slos),
        ("workload digest", record.workload().map(str::to_owned)),
        ("started", Some(setup.started.clone())),
        ("client machine", host),
        ("tacho", origin.tacho.clone()),
    ];
    let known = known.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
    let stack = stack(record);
    let stack = stack.iter().map(|(name, value)| (*name, value.as_deref().unwrap_or("not known")));
    let facts =
        facts_table(known.chain(stack).chain(setup.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str()))));
    let settings = match origin.server.settings.as_slice() {
        [] => String::new(),
        settings => {
            let table = facts_table(settings.iter().map(|(key, value)| (key, value)));
            format!("<details><summary>Server settings</summary>{table}</details>")
        }
    };
    let command = origin.command.as_ref().map_or_else(String::new, |command| {
        format!("<h3>Command</h3><pre class=\"command\">{}</pre>", escape(command))
    });
    format!("<h2>Settings</h2>{facts}{settings}{command}")
}
