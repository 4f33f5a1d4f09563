//! Why a run is slow: the parts of its latencies as sentences, a table, an object and a section of the page.

mod page;
mod request;

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_metrics::attribution::{Attribution, Breakdown, Explained, PARTS, Part, QueueLimit};
use tacho_metrics::vocabulary::{Concept, Phase};
use tacho_metrics::{ServerMetrics, server_metrics::Series, statistics};

pub(crate) use self::page::section;
use self::request::server_ms;
pub use self::request::{request_json, request_text};
use crate::style::{fold, grouped, short, short_tick};

const COLUMNS: [Explained; 4] = [Explained::MeanTtft, Explained::P99Ttft, Explained::MeanTpot, Explained::MeanE2el];
/// Width of a label and of a column.
const WIDTHS: (usize, usize) = (25, 13);
/// A part below this fraction of every latency has no row.
const MIN_SHARE: f64 = 0.005;

/// The name of a latency in a sentence.
fn name(what: Explained) -> &'static str {
    match what {
        Explained::MeanTtft => "mean TTFT",
        Explained::P99Ttft => "the TTFT of the slowest 1%",
        Explained::MeanTpot => "mean TPOT",
        Explained::MeanE2el => "mean E2EL",
        Explained::P99E2el => "the E2EL of the slowest 1%",
    }
}

fn heading(what: Explained) -> &'static str {
    match what {
        Explained::P99Ttft => "slowest 1%",
        _ => name(what),
    }
}

fn advice(attribution: &Attribution, part: Part) -> String {
    let value = |value: f64| short_tick(value.round());
    match (part, attribution.limit()) {
        (Part::DispatchDelay, _) => "the client sent late: free a core for it or use more workers".into(),
        (Part::SlotWait, _) => "raise --max-concurrency, which holds requests back".into(),
        (Part::Connection, _) => "keep connections open: see --reuse-connections".into(),
        (Part::FrontEnd, _) => "look at the network, tokenization and --api-server-count".into(),
        (Part::Queue, Some((QueueLimit::Sequences, max))) => {
            format!("the batch was full at {} sequences: raise --max-num-seqs or add replicas", value(max))
        }
        (Part::Queue, Some((QueueLimit::KvCache, max))) => {
            format!("the KV cache was full at about {} tokens: give it more memory or add replicas", value(max))
        }
        (Part::Queue, Some((QueueLimit::Tokens, max))) => {
            format!("prompts filled iterations up to {} tokens: raise --max-num-batched-tokens", value(max))
        }
        (Part::Queue, None) => "no limit was reached: requests wait for the iteration in progress".into(),
        (Part::OwnPrefill, _) => "cache common prefixes or shorten prompts".into(),
        (Part::OtherPrefills, _) => "lower --max-num-batched-tokens, or separate prefill and decode".into(),
        (Part::OwnDecode, _) => "only a faster engine helps: quantization, tensor parallelism, speculation".into(),
        (Part::BatchGrowth, _) => "lower --max-num-seqs or add replicas".into(),
        (Part::Preemption, _) => "the KV cache is too small: give it more memory or lower --max-num-seqs".into(),
        (Part::Stall, _) => "the whole engine paused: look for other work on its host, and at its log".into(),
        (Part::Streaming, _) => "the front end sends tokens one after another: see --api-server-count".into(),
        (Part::Unexplained, _) => "fit the server with tacho fit and pass --profile".into(),
    }
}

/// What most of a latency is; `None` if the run does not have it.
fn sentence(attribution: &Attribution, what: Explained) -> Option<String> {
    let found = attribution.breakdown(what).filter(|found| found.total() > 0.0)?;
    let share = |part: Part| found.share(part) * 100.0;
    let own = Part::ALL.into_iter().filter(|part| part.is_own_work()).map(share).sum::<f64>();
    let first = |text: &str| text[..1].to_uppercase() + &text[1..];
    if found.is_unexplained() {
        return Some(format!(
            "No cause is named for {} ({} ms): {:.0}% of it is unexplained, so this server is not the engine of the method's assumptions.",
            name(what),
            short(found.total()),
            share(Part::Unexplained)
        ));
    }
    Some(match found.largest().filter(|part| share(*part) >= 10.0) {
        Some(part) => {
            let (value, half) = (found.parts[part as usize], found.half[part as usize]);
            let unsure =
                if half < value { String::new() } else { format!(", within its uncertainty of ±{} ms", short(half)) };
            format!(
                "{:.0}% of {} ({} of {} ms) is {}{unsure}: {}.",
                share(part),
                name(what),
                short(value),
                short(found.total()),
                part.label(),
                advice(attribution, part)
            )
        }
        None => format!(
            "{} ({} ms) is {own:.0}% the request's own work, and no other part has 10%.",
            first(name(what)),
            short(found.total())
        ),
    })
}

/// The sentences at the top: the tail, the mean, and decoding.
pub fn sentences(attribution: &Attribution) -> Vec<String> {
    let all = [Explained::P99Ttft, Explained::MeanTtft, Explained::MeanTpot];
    all.into_iter().filter_map(|what| sentence(attribution, what)).collect()
}

/// The explanation for a terminal of this width.
pub fn text(attribution: &Attribution, server: &ServerMetrics, width: usize) -> String {
    let mut lines: Vec<String> = sentences(attribution).iter().flat_map(|line| fold(line, width, 2)).collect();
    lines.push(String::new());
    lines.extend(table("ms, mean ± 95%", &COLUMNS.map(|what| attribution.breakdown(what))));
    lines.extend(evidence(attribution, server).iter().flat_map(|line| fold(line, width, 2)));
    let from = if attribution.from_schedule { "scheduled" } else { "actual" };
    let (requests, iterations) = (grouped(attribution.requests.len() as i64), grouped(attribution.iterations as i64));
    let mut basis =
        format!("{requests} requests in {iterations} iterations; latencies count from the {from} send time.");
    if let Some(lag) = attribution.content_lag {
        basis += &format!(
            " TTFT counts to the first token, {} ms after the first event, such as a role, on average.",
            short(lag * 1e3)
        );
    }
    lines.extend(fold(&basis, width, 2));
    lines.join("\n") + "\n"
}

/// Rows of parts with their uncertainties; small ones are left out.
fn table(title: &str, columns: &[Option<Breakdown>]) -> Vec<String> {
    let cell = |text: String| format!("{text:>width$}", width = WIDTHS.1);
    let line = |label: &str, cells: Vec<String>| format!("{label:<width$}{}", cells.concat(), width = WIDTHS.0);
    let mut lines = vec![line(title, COLUMNS.map(|what| cell(heading(what).to_owned())).into())];
    let total = |column: &Breakdown| column.parts.iter().map(|part| part.abs()).sum::<f64>().max(f64::MIN_POSITIVE);
    for part in Part::ALL {
        let at = part as usize;
        let share = |column: &Breakdown| column.parts[at].abs() / total(column);
        let is_small = columns.iter().flatten().map(share).fold(0.0, f64::max) < MIN_SHARE;
        if part == Part::Unexplained || !is_small {
            let shown = |column: &Option<Breakdown>| match column.map(|column| (column.parts[at], column.half[at])) {
                Some((value, half)) if value.abs() >= 0.005 || half >= 0.005 => {
                    cell(format!("{} ±{}", short(value), short(half)))
                }
                Some(_) => cell("0".to_owned()),
                None => cell("–".to_owned()),
            };
            lines.push(line(part.label(), columns.iter().map(shown).collect()));
        }
    }
    let sum = |column: &Option<Breakdown>| cell(column.map_or("–".to_owned(), |column| short(column.total())));
    lines.push(line("together", columns.iter().map(sum).collect()));
    lines
}

/// Mean milliseconds of the phases that the engine itself distinguishes: measured by it, and inferred here.
fn phases(attribution: &Attribution, server: &ServerMetrics) -> Vec<(Phase, f64, f64)> {
    let mean = |what| attribution.breakdown(what);
    let (Some(ttft), Some(e2el)) = (mean(Explained::MeanTtft), mean(Explained::MeanE2el)) else { return Vec::new() };
    let of = |parts: &[Part]| parts.iter().map(|part| ttft.parts[*part as usize]).sum::<f64>();
    // A request that waits while the engine stalls is in its queue.
    let stalled = attribution.requests.iter().map(|request| request.stalled_in_queue as f64 / 1e6);
    let stalled = statistics::mean(&stalled.collect::<Vec<f64>>());
    let prefill = [Part::OwnPrefill, Part::OtherPrefills, Part::BatchGrowth, Part::Preemption, Part::Stall];
    let inferred = |phase: Phase| match phase {
        Phase::Queue => of(&[Part::Queue]) + stalled,
        Phase::Prefill => of(&prefill) - stalled,
        Phase::Decode => e2el.total() - ttft.total(),
    };
    // The times of these requests themselves, or else those of all that the server had.
    let own = |phase: Phase| {
        let times: Option<Vec<f64>> = attribution.requests.iter().map(|request| server_ms(request, phase)).collect();
        times.map(|times| statistics::mean(&times)).or_else(|| Some(server.phase_seconds(phase)? * 1e3))
    };
    let both = |phase: Phase| Some((phase, own(phase)?, inferred(phase)));
    Phase::ALL.into_iter().filter_map(both).collect()
}

/// What the server measured itself, next to what was inferred.
fn evidence(attribution: &Attribution, server: &ServerMetrics) -> Vec<String> {
    let phases = phases(attribution, server);
    let mut parts: Vec<String> = phases
        .iter()
        .map(|(phase, own, here)| format!("{} {} (here {})", phase.name(), short(*own), short(*here)))
        .collect();
    let preemptions = server.by_concept(Concept::Preemptions).and_then(Series::growth);
    parts.extend(preemptions.map(|count| format!("preemptions {}", short_tick(count))));
    if parts.is_empty() {
        return Vec::new();
    }
    let whole = attribution.breakdown(Explained::MeanE2el).map_or(0.0, |found| found.total());
    let worst = phases.iter().map(|(_, own, here)| (own - here).abs()).fold(0.0, f64::max);
    let off = match phases.is_empty() || whole <= 0.0 {
        true => String::new(),
        false => format!("; they differ by at most {:.1}% of mean E2EL", worst / whole * 100.0),
    };
    vec![format!("The server's own mean times, ms: {}{off}.", parts.join(", "))]
}

pub fn json(attribution: &Attribution, server: &ServerMetrics) -> Dict {
    let latencies: Dict = Explained::ALL
        .into_iter()
        .filter_map(|what| Some((what.name().to_owned(), breakdown(&attribution.breakdown(what)?))))
        .collect();
    let phase = |(phase, own, here): &(Phase, f64, f64)| {
        (phase.name().to_owned(), Value::from(dict! { "server_ms": *own, "inferred_ms": *here }))
    };
    let limit = attribution.limit().map(|(limit, value)| dict! { "name": limit.name(), "observed": value });
    dict! {
        "sentences": sentences(attribution).into_iter().map(Value::from).collect::<Value>(),
        "requests": attribution.requests.len(),
        "iterations": attribution.iterations,
        "latency_from": if attribution.from_schedule { "scheduled" } else { "sent" },
        "content_lag_ms"?: attribution.content_lag.map(|lag| lag * 1e3),
        "latencies": latencies,
        "queue_limit"?: limit,
        "server": phases(attribution, server).iter().map(phase).collect::<Dict>(),
    }
}

fn breakdown(found: &Breakdown) -> Value {
    let part = |part: Part| {
        let at = part as usize;
        let value = dict! { "ms": found.parts[at], "half_ms": found.half[at], "share": found.share(part) };
        (part.name().to_owned(), Value::from(value))
    };
    let parts: Dict = Part::ALL.into_iter().map(part).collect();
    dict! { "requests": found.requests, "total_ms": found.total(), "parts": parts }.into()
}

/// The change of each part from one run to another.
fn change(base: &Attribution, new: &Attribution, what: Explained) -> Option<Breakdown> {
    let (one, other) = (base.breakdown(what)?, new.breakdown(what)?);
    let of = |at: usize, by: fn(f64, f64) -> f64, a: &[f64; PARTS], b: &[f64; PARTS]| by(b[at], a[at]);
    Some(Breakdown {
        requests: other.requests,
        parts: std::array::from_fn(|at| of(at, |new, base| new - base, &one.parts, &other.parts)),
        half: std::array::from_fn(|at| of(at, f64::hypot, &one.half, &other.half)),
    })
}

/// Which part made the difference: "+38.2 of +41.0 ms mean TTFT is queue in the engine"; `None` if there is none.
pub fn difference(base: &Attribution, new: &Attribution, what: Explained) -> Option<String> {
    let change = change(base, new, what)?;
    let (total, signed) =
        (change.total(), |ms: f64| format!("{}{}", if ms < 0.0 { '-' } else { '+' }, short(ms.abs())));
    if total.abs() < 0.005 {
        return None;
    }
    let towards = |part: &Part| change.parts[*part as usize] * total.signum();
    let part = Part::ALL.into_iter().max_by(|one, other| towards(one).total_cmp(&towards(other)))?;
    let (max, half) = (change.parts[part as usize], change.half[part as usize]);
    let sure = if max.abs() > half { "" } else { ", within its uncertainty" };
    Some(format!(
        "{} of {} ms in {} is {} (±{}{sure}).",
        signed(max),
        signed(total),
        name(what),
        part.label(),
        short(half)
    ))
}

/// The differences of a gate's metrics: one sentence for each latency that a metric is of.
pub fn differences(base: &Attribution, new: &Attribution, keys: &[&str]) -> Vec<String> {
    let of = |key: &&str| {
        let is_mean = key.starts_with("mean") || key.starts_with("median");
        match () {
            () if key.ends_with("_ttft_ms") => Some(if is_mean { Explained::MeanTtft } else { Explained::P99Ttft }),
            () if key.ends_with("_e2el_ms") => Some(if is_mean { Explained::MeanE2el } else { Explained::P99E2el }),
            () if key.ends_with("_tpot_ms") || key.ends_with("_itl_ms") => Some(Explained::MeanTpot),
            () => None,
        }
    };
    let mut wanted: Vec<Explained> = keys.iter().filter_map(of).collect();
    wanted.dedup();
    wanted.into_iter().filter_map(|what| difference(base, new, what)).collect()
}

/// The comparison of two runs for a terminal of this width.
pub fn difference_text(base: &Attribution, new: &Attribution, width: usize) -> String {
    let sentences =
        [Explained::P99Ttft, Explained::MeanTtft, Explained::MeanTpot].map(|what| difference(base, new, what));
    let mut lines: Vec<String> = sentences.iter().flatten().flat_map(|line| fold(line, width, 2)).collect();
    lines.push(String::new());
    lines.extend(table("change in ms ± 95%", &COLUMNS.map(|what| change(base, new, what))));
    lines.join("\n") + "\n"
}

/// The comparison of two runs as an object.
pub fn difference_json(base: &Attribution, new: &Attribution) -> Dict {
    let all = || Explained::ALL.into_iter();
    let one = |what: Explained| Some((what.name().to_owned(), breakdown(&change(base, new, what)?)));
    let sentences = all().filter_map(|what| difference(base, new, what)).map(Value::from);
    dict! { "sentences": sentences.collect::<Value>(), "changes": all().filter_map(one).collect::<Dict>() }
}

#[cfg(test)]
mod tests {
    use tacho_metrics::attribution::{AttributedRequest, Parts};

    use super::*;

    /// Requests that queue longer and longer.
    pub(super) fn run(each_ms: i64) -> Attribution {
        let one = |index: usize| {
            let mut ttft = Parts::default();
            ttft[Part::Queue] = index as i64 * each_ms * 1_000_000;
            ttft[Part::OwnPrefill] = 20_000_000;
            let mut e2el = ttft;
            e2el[Part::OwnDecode] = 90_000_000;
            e2el[Part::OtherPrefills] = 10_000_000;
            AttributedRequest { index, sent: index as f64, prompt: 100, gaps: 10, ttft, e2el, ..<_>::default() }
        };
        Attribution {
            requests: (0..100).map(one).collect(),
            limits: vec![(QueueLimit::Sequences, 3.0, 16.0)],
            relative: [0.01; PARTS],
            iterations: 1234,
            ..Attribution::default()
        }
    }

    #[test]
    fn the_text_fits_a_terminal_and_starts_with_the_cause() {
        let text = text(&run(10), &ServerMetrics::default(), 80);
        assert!(
            text.starts_with("98% of the TTFT of the slowest 1% (990 of 1,010 ms) is queue in the engine:"),
            "{text}"
        );
        let unfolded = text.replace("\n  ", " ");
        assert!(unfolded.contains("the batch was full at 16 sequences: raise --max-num-seqs"), "{text}");
        assert!(text.lines().count() <= 25 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("mean TPOT (10.0 ms)") || text.contains("10% of mean TPOT"), "{text}");
        assert!(!text.contains("stalls"), "{text}");
    }

    #[test]
    fn no_cause_is_named_without_evidence() {
        let mut run = run(10);
        run.relative = [0.6; PARTS];
        assert!(
            sentence(&run, Explained::P99Ttft).unwrap().contains("is queue in the engine, within its uncertainty of ±")
        );
        run.requests.iter_mut().for_each(|one| one.ttft[Part::Unexplained] = -one.ttft[Part::Queue] / 2);
        let text = sentence(&run, Explained::MeanTtft).unwrap();
        assert!(text.starts_with("No cause is named for mean TTFT (268 ms): -93% of it is unexplained"), "{text}");
    }

    #[test]
    fn the_part_that_grew_is_named() {
        let found = difference(&run(1), &run(10), Explained::MeanTtft).unwrap();
        assert_eq!(found, "+446 of +446 ms in mean TTFT is queue in the engine (±9.75).");
        assert_eq!(difference(&run(1), &run(1), Explained::MeanTtft), None);
        let keys = ["p99_ttft_ms", "p90_ttft_ms", "mean_tpot_ms", "output_throughput"];
        assert_eq!(differences(&run(1), &run(10), &keys).len(), 1, "equal TPOTs need no sentence");
        assert!(difference_text(&run(1), &run(10), 80).lines().all(|line| line.chars().count() <= 80));
    }
}
