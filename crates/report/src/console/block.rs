//! The block after vLLM's report, on one screen: verdict, one table, the load, the server, the client, the next step.

use tacho_metrics::phase_energy::{Coefficient, by_phase};
use tacho_metrics::statistics::Statistic;
use tacho_metrics::vocabulary::Concept;
use tacho_metrics::{Interval, MetricKind, Statistics, Steady, TrustVerdict};
use tacho_record::metric::{Known, TIMES, Timed};
use tacho_record::{Estimate, RunRecord};

use super::{details, groups, joined, ranks, sessions};
use crate::json::telemetry::per;
use crate::style::{fold, harmless_line, percent, short, title};
use crate::verdict::{Severity, Verdict, timestamp_error_ms};

/// The style of the block.
#[derive(Debug, Clone, Copy)]
pub struct BlockStyle {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether colors are allowed.
    pub colour: bool,
    /// Whether every metric follows (`--verbose`).
    pub verbose: bool,
}

impl BlockStyle {
    /// Text for a file or a pipe.
    pub const PLAIN: BlockStyle = BlockStyle { width: 80, colour: false, verbose: false };

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const RED: &str = "1;31";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const DIM: &str = "2";
/// Column of the values in lines outside the table.
const LABEL: usize = 14;
/// Least completions in a steady state whose means are printed.
const MIN_STEADY_COMPLETIONS: f64 = 50.0;
/// Percentiles of a latency in the table, in addition to the median: the highest requested ones.
const PERCENTILES: usize = 2;

/// Most lines of the block without `--verbose`: one screen.
const SCREEN: usize = 24;
/// Lines that a full screen keeps for the hint about `--verbose`.
const HINT: usize = 2;
/// Most lines of a warning without `--verbose`.
const WARNING: usize = 3;
/// Fewest and most lines of a table of groups on a full screen: its head and some rows.
const GROUPS: (usize, usize) = (3, 8);

/// A part of the block.
struct Part {
    /// Its name in the hint about `--verbose`.
    name: String,
    /// Its place in the order in which parts get a line; the block needs those at 0.
    rank: usize,
    lines: Vec<String>,
    /// Whether its first lines stand alone.
    is_table: bool,
}

impl Part {
    fn new(name: &str, rank: usize, lines: Vec<String>) -> Self {
        Part { name: name.to_owned(), rank, lines, is_table: false }
    }
}

/// The block after vLLM's closing line.
pub fn own_report(record: &RunRecord, style: BlockStyle) -> String {
    let verdict = Verdict::of(record);
    let mut shown = parts(record, &verdict, style, false);
    let mut hidden: Vec<String> = Vec::new();
    if record.sessions.is_some() && !style.verbose {
        hidden.push("sessions and turns".to_owned());
    }
    let height: usize = shown.iter().map(|part| part.lines.len()).sum();
    if !style.verbose && height + hidden.len() > SCREEN {
        if verdict.findings.len() > 1 {
            hidden.push("whole warnings".to_owned());
        }
        if record.setup.metric_percentiles.iter().filter(|percentile| **percentile != 50.0).count() > 1 {
            hidden.push("percentiles".to_owned());
        }
        if !record.groups.is_empty() && record.summary.statistics(MetricKind::Itl).is_some() {
            hidden.push("ITL".to_owned());
        }
        shown = parts(record, &verdict, style, true);
        hidden.extend(fit(&mut shown));
    }
    let mut lines: Vec<String> = shown.into_iter().flat_map(|part| part.lines).collect();
    if !hidden.is_empty() {
        let mut hint = fold(&format!("more with --verbose: {}", hidden.join(", ")), style.width, 2);
        if hint.len() > HINT {
            hint = vec![format!("more with --verbose: {} parts", hidden.len())];
        }
        let end = lines.len() - 1;
        lines.splice(end..end, hint.iter().map(|line| style.paint(DIM, line)));
    }
    joined(&lines)
}

/// Leaves the most important parts that fit on a screen together with the hint; the names of the others.
fn fit(parts: &mut [Part]) -> Vec<String> {
    let mut order: Vec<usize> = (0..parts.len()).filter(|&at| parts[at].rank > 0).collect();
    order.sort_by_key(|&at| parts[at].rank);
    let needed = |part: &&Part| part.rank == 0;
    let mut used = HINT + parts.iter().filter(needed).map(|part| part.lines.len()).sum::<usize>();
    let mut hidden = Vec::new();
    for at in order {
        let Part { name, lines, is_table, .. } = &mut parts[at];
        let room = SCREEN.saturating_sub(used);
        let most = if *is_table { room.min(GROUPS.1) } else { room };
        if lines.len() > most {
            hidden.push(name.clone());
            lines.truncate(if *is_table && most >= GROUPS.0 { most } else { 0 });
        }
        used += lines.len();
    }
    hidden
}

/// The parts in the order of the block; on a full screen the table is shorter.
fn parts(record: &RunRecord, verdict: &Verdict, style: BlockStyle, is_full: bool) -> Vec<Part> {
    let mut parts = vec![Part::new("", 0, vec![title(" tacho ", '-')])];
    parts.extend(findings(verdict, style, is_full));
    if record.summary.completed > 0 {
        parts.push(Part::new("", 0, table(record, style, is_full)));
    }
    let facts = [
        (3, load(record)),
        (9, peak(record)),
        (3, failures(record)),
        (7, steady(record)),
        (4, fluidity(record)),
        (4, acceptance(record)),
        (4, underruns(record)),
        (4, sessions::fact(record)),
        (8, server(record)),
        (8, gpu(record)),
        (8, energy_by_phase(record)),
        (4, cost(record)),
        (6, client(record)),
    ];
    for (rank, fact) in facts {
        parts.extend(fact.map(|(label, text)| Part::new(label, rank, labelled(label, &text, style.width))));
    }
    let tables = groups::tables_of(record, style.width).into_iter();
    parts.extend(tables.map(|(name, lines)| Part { is_table: true, ..Part::new(&name, 2, lines) }));
    if !record.measured.ranks.is_empty() {
        parts.push(Part::new("ranks", 10, ranks::lines(record, style.width)));
    }
    // The block of vLLM's Rust client is one that a flag asks for.
    parts.extend(record.steady_state.iter().map(|state| Part::new("", 0, crate::json::full_concurrency::lines(state))));
    if style.verbose {
        parts.push(Part::new("", 0, sessions::lines(record)));
        parts.push(Part::new("", 0, details::lines(record)));
    }
    if let Some(next) = &verdict.next {
        let mut next = fold(&format!("next: {next}"), style.width, 6);
        next[0] = next[0].replacen("next:", &style.paint("1", "next:"), 1);
        parts.push(Part::new("", 0, next));
    }
    parts.push(Part::new("", 0, vec![title("", '=')]));
    parts
}

/// The warnings, the most severe first; on a full screen the others have one line each.
fn findings(verdict: &Verdict, style: BlockStyle, is_full: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    if verdict.worst().is_none() {
        parts.push(Part::new("", 0, vec![style.paint(GREEN, "✔ no warnings")]));
    }
    for (order, finding) in verdict.findings.iter().enumerate() {
        let (word, code, rank) = match finding.severity {
            Severity::Bad => ("warning", RED, 1),
            Severity::Warning => ("warning", YELLOW, 5),
            Severity::Note => ("note", DIM, 9),
        };
        let head = format!("{} {word}[{}]:", finding.severity.sign(), finding.code);
        let text = harmless_line(&finding.text);
        let mut folded = fold(&format!("{head} {text}"), style.width, 2);
        let most = if is_full && order > 0 { 1 } else { WARNING };
        if !style.verbose && folded.len() > most {
            folded.truncate(most);
            let last = folded.last_mut().expect("it has a line");
            *last = last.chars().take(style.width - 2).chain(" …".chars()).collect();
        }
        folded[0] = folded[0].replacen(&head, &style.paint(code, &head), 1);
        let rank = if order == 0 { 0 } else { rank };
        parts.push(Part::new(&format!("{word}[{}]", finding.code), rank, folded));
    }
    parts
}

/// A line ends between two parts, not within one that fits into a line.
fn labelled(label: &str, text: &str, width: usize) -> Vec<String> {
    const GLUE: &str = "\u{a0}";
    let room = width.saturating_sub(LABEL + 3);
    let glued = |part: &str| if part.chars().count() <= room { part.replace(' ', GLUE) } else { part.to_owned() };
    let parts: Vec<String> = text.split(" · ").map(glued).collect();
    let line = format!("{label:<LABEL$} {}", parts.join(&format!("{GLUE}· ")));
    fold(&line, width, LABEL + 1).into_iter().map(|line| line.replace(GLUE, " ")).collect()
}

/// A line of the table.
struct Row {
    name: String,
    value: String,
    interval: String,
    scheduled: String,
}

/// Rates and latencies: value, confidence interval if there is one, and the same from the scheduled time.
fn table(record: &RunRecord, style: BlockStyle, is_full: bool) -> Vec<String> {
    let mut rows = rates(record);
    let percentiles = if is_full { 1 } else { PERCENTILES };
    let leaves_out = |metric| is_full && !record.groups.is_empty() && metric == MetricKind::Itl;
    let metrics = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl, MetricKind::E2el];
    for metric in metrics.into_iter().filter(|metric| !leaves_out(*metric)) {
        rows.extend(latency(record, metric, percentiles));
    }
    rows.extend(audio(record));
    let paced = record.setup.is_paced();
    let intervals = if record.is_burst() { "" } else { "95% CI" };
    let head = Row {
        name: String::new(),
        value: "value".into(),
        interval: intervals.into(),
        scheduled: if paced { "from schedule".into() } else { String::new() },
    };
    let line = |row: &Row| {
        let Row { name, value, interval, scheduled } = row;
        format!("{name:<16}{value:>9}   {interval:<19}{scheduled}").trim_end().to_owned()
    };
    std::iter::once(style.paint(DIM, &line(&head))).chain(rows.iter().map(line)).collect()
}

fn rates(record: &RunRecord) -> Vec<Row> {
    let summary = &record.summary;
    let row = |name: &str, value: f64, key: &str| Row {
        name: name.into(),
        value: short(value),
        interval: interval(record, key),
        scheduled: String::new(),
    };
    let mut rows = vec![row("requests/s", summary.request_throughput, "request_throughput")];
    if let Some(generation) = summary.generation() {
        rows.push(row("output tok/s", generation.output_throughput, "output_throughput"));
        if let Some(goodput) = generation.request_goodput {
            let mut goodput = row("goodput req/s", goodput, "request_goodput");
            goodput.scheduled = record.open_loop.goodput_from_schedule.map_or_else(String::new, short);
            rows.push(goodput);
        }
    }
    if let Some(media) = summary.media() {
        rows.extend(media.request_goodput.map(|goodput| row("goodput req/s", goodput, "request_goodput")));
        let audio = media.audio.as_ref().and_then(|audio| audio.totals);
        rows.extend(audio.map(|audio| row("audio s/s", audio.throughput, "audio_throughput")));
        rows.extend(media.images.map(|_| row("images/s", media.image_throughput, "image_throughput")));
    }
    rows
}

/// A percentile of a latency of audio.
pub(crate) struct AudioTime {
    pub(crate) name: &'static str,
    pub(crate) percentile: f64,
    pub(crate) unit: &'static str,
    pub(crate) value: Option<f64>,
    pub(crate) key: String,
}

/// The median and the highest percentile of the latencies of audio: generated, or transcribed as it is recorded.
pub(crate) fn audio_times(record: &RunRecord) -> Vec<AudioTime> {
    let names = [
        ("audio_ttfp", "TTFP", "ms"),
        ("audio_rtf", "RTF", ""),
        ("audio_underrun", "gaps", "s"),
        ("finalization_latency", "FIN", "ms"),
    ];
    let families = names.into_iter().filter_map(|(family, name, unit)| {
        let times = TIMES.iter().find(|times| times.name == family)?;
        Some((times, (times.read)(record)?, name, unit))
    });
    let times = families.flat_map(|(times, found, name, unit)| {
        let highest = found.percentiles_ms.iter().map(|(percent, _)| *percent).filter(|percent| *percent != 50.0);
        let highest = highest.max_by(f64::total_cmp);
        let time = move |percentile: f64| {
            let statistic = Statistic::Percentile(percentile);
            let value = Timed { times, statistic }.read(record);
            AudioTime { name, percentile, unit, value, key: times.key(statistic) }
        };
        std::iter::once(50.0).chain(highest).map(time)
    });
    times.collect()
}

fn audio(record: &RunRecord) -> Vec<Row> {
    let row = |AudioTime { name, percentile, unit, value, key }: AudioTime| {
        let head = if percentile == 50.0 { name } else { "" };
        Row {
            name: format!("{head:<5}p{} {unit}", percent(percentile)).trim_end().to_owned(),
            value: value.map_or_else(|| "–".to_owned(), short),
            interval: interval(record, &key),
            scheduled: String::new(),
        }
    };
    audio_times(record).into_iter().map(row).collect()
}

/// Gaps in the playback of generated audio, if there are any.
fn underruns(record: &RunRecord) -> Fact {
    let audio = record.summary.media()?.audio.as_ref()?;
    let totals = audio.totals.filter(|totals| totals.underruns > 0)?;
    let stalled = audio.underrun.mean_ms / 1000.0 * audio.underrun.count as f64;
    let continuous = totals.continuous * 100.0;
    let text =
        format!("{} gaps, {} s in all · {continuous:.0}% of responses play on", totals.underruns, short(stalled));
    Some(("underruns", text))
}

/// The median of a latency and its highest percentiles.
fn latency(record: &RunRecord, metric: MetricKind, shown_percentiles: usize) -> Vec<Row> {
    let Some(statistics) = record.summary.statistics(metric) else { return Vec::new() };
    let open_loop = &record.open_loop;
    let scheduled = match metric {
        MetricKind::Ttft => open_loop.ttft_from_schedule.as_ref(),
        MetricKind::E2el => Some(&open_loop.e2el_from_schedule),
        _ => None,
    };
    let scheduled = scheduled.filter(|_| record.setup.is_paced());
    let mut percentiles: Vec<f64> = statistics.percentiles_ms.iter().map(|(percentile, _)| *percentile).collect();
    percentiles.retain(|percentile| *percentile != 50.0);
    percentiles.sort_by(f64::total_cmp);
    let highest = percentiles.split_off(percentiles.len().saturating_sub(shown_percentiles));
    let at = |of: &Statistics, percentile: f64| match percentile {
        50.0 => Some(of.median_ms),
        other => of.percentile_ms(other),
    };
    let shown = |of: Option<&Statistics>, percentile| {
        let known = of.filter(|of| of.count > 0).and_then(|of| at(of, percentile));
        known.map_or_else(|| "–".to_owned(), short)
    };
    let name = metric.name().to_uppercase();
    let row = |(order, percentile): (usize, f64)| {
        let head = if order == 0 { name.as_str() } else { "" };
        let what = if percentile == 50.0 { "median".to_owned() } else { format!("p{}", percent(percentile)) };
        Row {
            name: format!("{head:<5}p{} ms", percent(percentile)),
            value: shown(Some(statistics), percentile),
            interval: interval(record, &format!("{what}_{}_ms", metric.name())),
            scheduled: scheduled.map_or_else(String::new, |of| shown(Some(of), percentile)),
        }
    };
    std::iter::once(50.0).chain(highest).enumerate().map(row).collect()
}

/// The confidence interval of a metric; empty for one burst, which is a single observation.
fn interval(record: &RunRecord, key: &str) -> String {
    match record.is_burst() {
        true => String::new(),
        false => interval_of(record, key).map_or_else(|| "–".to_owned(), bounds),
    }
}

/// The confidence interval of a metric by its key; `None` for one burst.
pub(crate) fn interval_of(record: &RunRecord, key: &str) -> Option<Interval> {
    let estimate = || Estimate::from_samples(key, &record.measured.samples, record.measured.duration);
    let known = || record.intervals.get(key).or_else(|| estimate().map(|found| found.interval));
    if record.is_burst() { None } else { known() }
}

/// An interval as text; an end that the run is too short for is open.
pub(crate) fn bounds(interval: Interval) -> String {
    bounds_as(interval, short)
}

fn bounds_as(Interval { low, high }: Interval, text: fn(f64) -> String) -> String {
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} – {}", text(low), text(high)),
        // No metric is negative: a lower bound of 0 alone says nothing.
        (true, false) if low > 0.0 => format!("≥ {}", text(low)),
        (false, true) => format!("≤ {}", text(high)),
        _ => "–".to_owned(),
    }
}

/// A label and its text.
type Fact = Option<(&'static str, String)>;

fn load(record: &RunRecord) -> Fact {
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
fn peak(record: &RunRecord) -> Fact {
    let generation = record.summary.generation()?;
    let (peak, mean) = (generation.max_output_tokens_per_s, generation.output_throughput);
    let text =
        || format!("{} tok/s counts whole seconds: the run took {} s", short(peak), short(record.measured.duration));
    (peak > 0.0 && peak < mean).then(|| ("peak", text()))
}

fn failures(record: &RunRecord) -> Fact {
    let failed = record.open_loop.outcomes.iter().filter(|(name, _)| *name != "complete");
    let mut parts: Vec<String> = failed.map(|(name, count)| format!("{count} {name}")).collect();
    let (requests, retries) = record.open_loop.retried;
    if requests > 0 {
        parts.push(format!("{requests} sent again ({retries} times)"));
    }
    let probes = record.measured.probe.filter(|probe| probe.completed == 0 && probe.failed > 0);
    parts.extend(probes.map(|probe| format!("{} probes", probe.failed)));
    (!parts.is_empty()).then(|| ("failed", parts.join(" · ")))
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
fn steady(record: &RunRecord) -> Fact {
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
fn fluidity(record: &RunRecord) -> Fact {
    let found = record.open_loop.fluidity?;
    let goodput = short(found.goodput);
    Some(("fluidity", format!("{:.1}% of tokens in time · fluid goodput {goodput} req/s", found.index * 100.0)))
}

/// Draft tokens that were accepted, by the server's report for each request.
fn acceptance(record: &RunRecord) -> Fact {
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

fn cost(record: &RunRecord) -> Fact {
    let part = |(name, value, interval): (&str, String, Option<String>)| {
        format!("{value}{} per {name}", interval.map_or_else(String::new, |interval| format!(" ({interval})")))
    };
    let parts: Vec<String> = costs(record).into_iter().map(part).collect();
    (!parts.is_empty()).then(|| ("cost", parts.join(" · ")))
}

/// An amount of money: three digits of a small one.
fn amount(value: f64) -> String {
    let digits = if value > 0.0 { (2.0 - value.log10().floor()).clamp(2.0, 8.0) as usize } else { 2 };
    if value >= 1.0 { short(value) } else { format!("{value:.digits$}") }
}

/// The server's own metrics. A gauge that was not sampled during the run is not 0.
fn server(record: &RunRecord) -> Fact {
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
fn gpu(record: &RunRecord) -> Fact {
    let energy = record.measured.telemetry.energy(0.0, record.measured.duration)?;
    let tokens = record.summary.generation().map_or(0, |generation| generation.total_output);
    let each = per(energy.joules, tokens).map_or_else(String::new, |joules| format!(" · {joules:.4} J/token"));
    Some(("GPUs", format!("{} J · {} W mean{each}", short(energy.joules), short(energy.mean_watts))))
}

/// Energy per million tokens of each phase, or why it is not known.
fn energy_by_phase(record: &RunRecord) -> Fact {
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

fn client(record: &RunRecord) -> Fact {
    let trust = record.trust.as_ref()?;
    let is_known = trust.verdict != TrustVerdict::Unknown;
    let word = if trust.is_ok() { "ok" } else { "not reliable" };
    let mut parts = vec![if is_known { word } else { "unknown: no response could be timed" }.to_owned()];
    parts.extend(is_known.then(|| format!("error p99 {} ms", short(timestamp_error_ms(trust)))));
    let late = trust.lateness.as_ref().and_then(|lateness| lateness.percentile_ms(99.0));
    parts.extend(late.map(|ms| format!("late p99 {} ms", short(ms))));
    let busiest = trust.busy.iter().copied().reduce(f64::max);
    parts.extend(busiest.map(|busy| format!("busy {:.0}%", busy * 100.0)));
    Some(("client", parts.join(" · ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_says_nothing_is_a_dash() {
        let text = |low, high| bounds(Interval { low, high });
        assert_eq!([text(0.0, f64::INFINITY), text(f64::NEG_INFINITY, f64::INFINITY)], ["–", "–"]);
        assert_eq!([text(2.5, f64::INFINITY), text(0.0, 4.0)], ["≥ 2.50", "0.00 – 4.00"]);
    }
}
