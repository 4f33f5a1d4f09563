//! Session metrics: a line and all of them on a terminal, and a section of the page.

use tacho_metrics::sessions::{Reuse, SessionSummary, Spread, TurnSummary, UncachedSummary};
use tacho_record::RunRecord;

use crate::style::{short, title, two, value_line};

/// Most turns shown individually, on a terminal and on the page.
const SHOWN_TURNS: (usize, usize) = (12, 50);

fn spreads(summary: &SessionSummary) -> [(&'static str, Option<Spread>); 14] {
    [
        ("Session time (ms)", summary.wall_ms),
        ("Busy time (ms)", summary.busy_ms),
        ("Think time (ms)", summary.think_ms),
        ("Critical path (ms)", summary.critical_path_ms),
        ("Start to last turn's token (ms)", summary.to_last_turn_ms),
        ("Last turn, from schedule (ms)", summary.last_turn_ms),
        ("Start to first user token (ms)", summary.first_user_token_ms),
        ("Tokens/s/user, decoding", summary.decode_rate),
        ("Tokens/s/user, end to end", summary.end_to_end_rate),
        ("Prompt tokens/s to first token", summary.prefill_rate),
        ("Sent after schedule (ms)", summary.lag_ms),
        ("Due after recorded time (ms)", summary.waits.predecessor_ms),
        ("Requested pauses (ms)", summary.waits.requested_ms),
        ("Pauses delivered (ms)", summary.waits.delivered_ms),
    ]
}

/// The sessions of a run in a line; `None` without sessions.
pub(crate) fn fact(record: &RunRecord) -> Option<(&'static str, String)> {
    let summary = record.sessions.as_ref()?;
    let ends = &summary.ends;
    let mut parts = vec![format!("{} of {} finished", ends.finished, summary.sessions)];
    let others = [
        (ends.failed, "failed"),
        (ends.cancelled, "with a cancelled request"),
        (ends.truncated, "cut by the run's end"),
        (ends.not_started, "not started"),
    ];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")));
    parts.extend(
        summary.wall_ms.map(|time| format!("time {} s mean, {} p99", short(time.mean / 1e3), short(time.p99 / 1e3))),
    );
    let reuse = &summary.reuse;
    let bound = if reuse.cached_tokens.is_none() { "at least " } else { "" };
    let cached = cached(reuse).1;
    parts.extend(cached.map(|share| format!("{bound}{:.0}% of prompt tokens cached", share * 100.0)));
    Some(("sessions", parts.join(" · ")))
}

/// Every metric of the sessions; empty for a run without any.
pub(crate) fn lines(record: &RunRecord) -> Vec<String> {
    let Some(summary) = &record.sessions else { return Vec::new() };
    let mut lines = vec![title(" Sessions ", '-')];
    lines.push(value_line("Sessions:", summary.sessions));
    lines.push(value_line("Sessions finished:", summary.ends.finished));
    lines.push(value_line("Sessions failed:", summary.ends.failed));
    if summary.ends.cancelled > 0 {
        lines.push(value_line("Sessions with a cancelled request:", summary.ends.cancelled));
    }
    lines.push(value_line("Sessions cut by the run's end:", summary.ends.truncated));
    lines.push(value_line("Sessions not started:", summary.ends.not_started));
    lines.push(value_line("Not sent, parent failed:", summary.not_sent_parent_failed));
    lines.push(value_line("Not sent, run ended:", summary.not_sent_run_ended));
    lines.extend(spreads(summary).into_iter().flat_map(|(name, found)| spread(name, found)));
    lines.extend(reuse(&summary.reuse));
    if let Some(share) = record.measured.server.prefix_cache_hit_rate() {
        lines.push(value_line("Server's prefix cache hits (%):", two(share * 100.0)));
    }
    for range in summary.by_uncached.iter().flatten() {
        let name = format!("TTFT (ms), {}-{} uncached", range.from, range.to);
        lines.extend(spread(&name, Some(range.ttft_ms)));
    }
    for turn in summary.turns.iter().take(SHOWN_TURNS.0) {
        lines.extend(spread(&format!("Turn {} first token (ms)", turn.turn), turn.ttft_ms));
        lines.extend(spread(&format!("Turn {} input tokens", turn.turn), turn.input_tokens));
        if let Some(share) = turn.hit_rate {
            lines.push(value_line(&format!("Turn {} cached (%):", turn.turn), two(share * 100.0)));
        }
    }
    if summary.turns.len() > SHOWN_TURNS.0 {
        lines.push(value_line("Turns not shown:", summary.turns.len() - SHOWN_TURNS.0));
    }
    lines
}

/// The label and the fraction of cached prompt tokens: of all, or of the responses that report them.
fn cached(reuse: &Reuse) -> (&'static str, Option<f64>) {
    match (reuse.hit_rate, reuse.hit_rate_at_least) {
        (None, Some(reported)) => ("Prompt tokens cached, at least (%):", Some(reported)),
        (cached, _) => ("Prompt tokens cached (%):", cached),
    }
}

/// Use of the prefix cache; a value that the server does not report is not 0.
fn reuse(reuse: &Reuse) -> Vec<String> {
    let percent = |share: Option<f64>| share.map_or_else(|| "not known".to_owned(), |share| two(share * 100.0));
    let (name, cached) = cached(reuse);
    vec![value_line(name, percent(cached)), value_line("Ideal, in the order sent (%):", percent(reuse.ideal_hit_rate))]
}

fn spread(name: &str, spread: Option<Spread>) -> Vec<String> {
    let Some(spread) = spread else { return Vec::new() };
    vec![value_line(&format!("{name}, mean:"), two(spread.mean)), value_line(&format!("{name}, p99:"), two(spread.p99))]
}

/// The section of the page; empty for a run without sessions.
pub(crate) fn section(record: &RunRecord) -> String {
    let Some(summary) = &record.sessions else { return String::new() };
    let ends = [
        (summary.ends.finished, "finished"),
        (summary.ends.failed, "failed"),
        (summary.ends.cancelled, "cancelled"),
        (summary.ends.truncated, "truncated"),
        (summary.ends.not_started, "not started"),
    ];
    let ends = ends.map(|(count, name)| format!("{count} {name}"));
    let unsent = match (summary.not_sent_parent_failed, summary.not_sent_run_ended) {
        (0, 0) => String::new(),
        (parent, end) => format!(" Not sent: {parent} because one before failed, {end} because the run ended."),
    };
    let rows = spreads(summary).into_iter().map(|(name, spread)| row(name, cells(spread)));
    let percent = |share: Option<f64>| share.map_or_else(|| "not known".to_owned(), |share| two(share * 100.0) + " %");
    let reuse = &summary.reuse;
    format!(
        "<section><h2>Sessions</h2>\n<p>{} sessions: {}.{unsent}</p>\n{}\
         <p>Prompt tokens found in the server's cache: {}; in the order sent a cache that forgets nothing would have \
         had {}.</p>\n{}{}</section>\n",
        summary.sessions,
        ends.join(", "),
        table(&["", "mean", "median", "p99"], rows),
        percent(reuse.hit_rate),
        percent(reuse.ideal_hit_rate),
        turns(&summary.turns),
        ranges(summary.by_uncached.as_deref().unwrap_or_default()),
    )
}

/// A table of the page whose rows are made by [`row`].
fn table(headings: &[&str], rows: impl Iterator<Item = String>) -> String {
    let headings: String = headings.iter().map(|heading| format!("<th>{heading}</th>")).collect();
    format!("<table><tr>{headings}</tr>\n{}</table>\n", rows.collect::<String>())
}

fn row<const N: usize>(name: &str, cells: [String; N]) -> String {
    format!("<tr><th>{name}</th>{}</tr>\n", cells.map(|cell| format!("<td>{cell}</td>")).concat())
}

fn unknown_or(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), two)
}

fn cells(spread: Option<Spread>) -> [String; 3] {
    [spread.map(|of| of.mean), spread.map(|of| of.median), spread.map(|of| of.p99)].map(unknown_or)
}

fn turns(turns: &[TurnSummary]) -> String {
    let one = |turn: &TurnSummary| {
        let [ttft, _, ttft_p99] = cells(turn.ttft_ms);
        let ([e2el, ..], [input, ..]) = (cells(turn.e2el_ms), cells(turn.input_tokens));
        let [cached, ideal] = [turn.hit_rate, turn.ideal_hit_rate].map(|share| unknown_or(share.map(|of| of * 100.0)));
        let answers = turn.e2el_ms.map_or(0, |spread| spread.count).to_string();
        row(&turn.turn.to_string(), [answers, ttft, ttft_p99, e2el, input, cached, ideal])
    };
    let headings =
        ["turn", "answers", "TTFT mean, ms", "TTFT p99, ms", "latency mean, ms", "input tokens", "cached %", "ideal %"];
    table(&headings, turns.iter().take(SHOWN_TURNS.1).map(one))
}

/// TTFT by uncached prompt tokens; empty if the server does not report them.
fn ranges(ranges: &[UncachedSummary]) -> String {
    if ranges.is_empty() {
        return String::new();
    }
    let one = |range: &UncachedSummary| {
        let [mean, median, p99] = cells(Some(range.ttft_ms));
        let rate = unknown_or(range.tokens_per_s.map(|spread| spread.mean));
        row(&format!("{}–{}", range.from, range.to), [range.ttft_ms.count.to_string(), mean, median, p99, rate])
    };
    let headings = ["uncached prompt tokens", "answers", "TTFT mean, ms", "median", "p99", "of them per second"];
    table(&headings, ranges.iter().map(one))
}
