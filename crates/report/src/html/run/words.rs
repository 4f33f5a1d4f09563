//! The page's texts: the head with verdict and headline metrics, all metrics, and the settings.

use tacho_metrics::{MetricKind, RankUse, Statistics};
use tacho_record::RunRecord;

use super::About;
use crate::console::{audio_times, costs, interval_of};
use crate::html::escape;
use crate::html::hero::{self, Head, Tone, card, fact_card, load};
use crate::style::{grouped, short};
use crate::verdict::{Finding, Severity, Verdict};

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
    verdict(head, record, about).cards(cards)
}

/// The verdict in a sentence, and every reason to interpret the result with care.
fn verdict(head: Head, record: &RunRecord, about: &About) -> Head {
    let verdict = Verdict::of(record);
    let has_warnings = !about.warnings.is_empty();
    let (tone, sentence) = match (record.summary.completed, verdict.worst()) {
        (0, _) => (Tone::Bad, "No request succeeded."),
        (_, Some(Severity::Bad)) => (Tone::Bad, "Do not use this result before reading the warnings."),
        (_, None) if !has_warnings => (Tone::Good, "No warnings."),
        _ => (Tone::Warning, "Interpret with care: see the warnings below."),
    };
    let finding = |finding: &Finding| (finding.code, finding.text.clone());
    let unknown = || "client: how well it kept up is not known".to_owned();
    let trust = match (&record.trust, &about.client) {
        (Some(trust), _) if trust.is_ok() => Some(trust.text()),
        (Some(_), _) => None,
        (None, known) => Some(known.clone().unwrap_or_else(unknown)),
    };
    let findings = verdict.findings.iter().map(finding);
    let texts =
        findings.chain(about.warnings.iter().map(|text| ("", text.clone()))).chain(trust.map(|text| ("", text)));
    let mut seen: Vec<(&str, String)> = Vec::new();
    for text in texts {
        if !seen.iter().any(|(_, known)| *known == text.1) {
            seen.push(text);
        }
    }
    let item = |(code, text): &(&str, String)| {
        let code = if code.is_empty() { String::new() } else { format!(" <code>{code}</code>") };
        format!("<li>{}{code}</li>", escape(text))
    };
    let items: String = seen.iter().map(item).collect();
    head.verdict_with(tone, sentence, &items, verdict.next.as_deref())
}

/// The three most important metrics.
fn headline(record: &RunRecord) -> Vec<String> {
    let summary = &record.summary;
    let highest = |metric: MetricKind| {
        let statistics = summary.statistics(metric).filter(|statistics| statistics.count > 0)?;
        let (percent, value) =
            statistics.percentiles_ms.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        let percent = crate::style::percent(percent);
        let key = format!("p{percent}_{}_ms", metric.name());
        Some(card(&format!("P{percent} {}", metric.name().to_uppercase()), value, " ms", interval(record, &key)))
    };
    let throughput = match summary.generation() {
        Some(generation) => {
            card("Output tok/s", generation.output_throughput, "", interval(record, "output_throughput"))
        }
        None => media_rates(record).into_iter().next().unwrap_or_else(|| {
            card("Requests/s", summary.request_throughput, "", interval(record, "request_throughput"))
        }),
    };
    let latencies = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::E2el].into_iter().filter_map(highest);
    let latencies = audio_cards(record, |percentile| percentile != 50.0).into_iter().chain(latencies);
    std::iter::once(throughput).chain(latencies.take(2)).collect()
}

/// Audio and images per second.
fn media_rates(record: &RunRecord) -> Vec<String> {
    let Some(media) = record.summary.media() else { return Vec::new() };
    let audio = media.audio.as_ref().and_then(|audio| audio.totals).map(|totals| totals.throughput);
    let audio = audio.map(|rate| card("Audio s/s", rate, "", interval(record, "audio_throughput")));
    let images = media.images.map(|_| media.image_throughput);
    let images = images.map(|rate| card("Images/s", rate, "", interval(record, "image_throughput")));
    audio.into_iter().chain(images).collect()
}

/// The latencies of generated audio, at the percentiles that are `wanted`.
fn audio_cards(record: &RunRecord, wanted: impl Fn(f64) -> bool) -> Vec<String> {
    let times = audio_times(record).into_iter().filter(|time| wanted(time.percentile));
    let cards = times.filter_map(|time| {
        let percentile = crate::style::percent(time.percentile);
        let head = if time.percentile == 50.0 { "Median".to_owned() } else { format!("P{percentile}") };
        let unit = if time.unit.is_empty() { String::new() } else { format!(" {}", time.unit) };
        Some(card(&format!("{head} {}", time.name), time.value?, &unit, interval(record, &time.key)))
    });
    cards.collect()
}

/// The other metrics. A metric that was not measured has no card.
pub(super) fn cards(record: &RunRecord) -> String {
    let summary = &record.summary;
    if summary.completed == 0 {
        return String::new();
    }
    let generation = summary.generation();
    let goodput = generation.and_then(|generation| generation.request_goodput);
    let goodput = goodput.or(summary.media().and_then(|media| media.request_goodput));
    let mut cards = vec![card("Requests/s", summary.request_throughput, "", interval(record, "request_throughput"))];
    cards.extend(media_rates(record));
    if summary.media().is_none() {
        let tokens = summary.total_token_throughput;
        cards.push(card("Total tok/s", tokens, "", interval(record, "total_token_throughput")));
    }
    if let Some(generation) = generation {
        let low = interval(record, "output_throughput");
        cards.insert(0, card("Output tok/s", generation.output_throughput, "", low));
    }
    cards.extend(goodput.map(|rate| card("Goodput req/s", rate, "", interval(record, "request_goodput"))));
    cards.extend((summary.failed > 0).then(|| failures(summary.failed, summary.completed)));
    for metric in [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el] {
        if let Some(statistics) = summary.statistics(metric).filter(|statistics| statistics.count > 0) {
            cards.extend(of_times(record, metric, statistics));
        }
    }
    cards.extend(audio_cards(record, |_| true));
    let cost = |(name, value, interval): (&str, String, Option<String>)| {
        let below = interval.map_or_else(String::new, |interval| format!("95% CI {interval}"));
        fact_card(&format!("Cost per {name}"), &value, &below)
    };
    cards.extend(costs(record).into_iter().map(cost));
    let hero = headline(record);
    cards.retain(|card| !hero.contains(card));
    format!("<div class=\"cards\" style=\"--columns: {}\">{}</div>\n", columns(cards.len()), cards.concat())
}

/// Number of cards per row that fills the last row best.
fn columns(cards: usize) -> usize {
    [4, 5, 3].into_iter().min_by_key(|columns| cards.next_multiple_of(*columns) - cards).unwrap_or(4)
}

/// The median of a latency and its highest requested percentile.
fn of_times(record: &RunRecord, metric: MetricKind, statistics: &Statistics) -> Vec<String> {
    let name = metric.name().to_uppercase();
    let key = |what: &str| format!("{what}_{}_ms", metric.name());
    let median = interval(record, &key("median"));
    let mut cards = vec![card(&format!("Median {name}"), statistics.median_ms, " ms", median)];
    let highest = statistics.percentiles_ms.iter().copied().reduce(|a, b| if b.0 > a.0 { b } else { a });
    if let Some((percent, value)) = highest.filter(|(percent, _)| *percent != 50.0) {
        let percent = crate::style::percent(percent);
        let interval = interval(record, &key(&format!("p{percent}")));
        cards.push(card(&format!("P{percent} {name}"), value, " ms", interval));
    }
    cards
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

/// The confidence interval from this run; `None` for one burst.
fn interval(record: &RunRecord, key: &str) -> Option<(f64, f64)> {
    interval_of(record, key).map(|interval| (interval.low, interval.high))
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
        ("goodput objectives", objectives),
        ("fails if", slos),
        ("workload digest", record.workload().map(str::to_owned)),
        ("started", Some(setup.started.clone())),
        ("client machine", host),
        ("tacho", origin.tacho.clone()),
    ];
    let row = |name: &str, value: &str| format!("<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
    let mut rows: String = known.iter().filter_map(|(name, value)| Some(row(name, value.as_deref()?))).collect();
    rows.extend(setup.metadata.iter().map(|(key, value)| row(key, value)));
    let settings: String = origin.server.settings.iter().map(|(key, value)| row(key, value)).collect();
    let settings = if settings.is_empty() {
        settings
    } else {
        format!("<details><summary>Server settings</summary><table class=\"facts\">{settings}</table></details>")
    };
    let command = origin.command.as_ref().map_or_else(String::new, |command| {
        format!("<h3>Command</h3><pre class=\"command\">{}</pre>", escape(command))
    });
    format!("<h2>Settings</h2><table class=\"facts\">{rows}</table>{settings}{command}")
}
