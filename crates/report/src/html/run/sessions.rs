//! Session metrics on the page.

use tacho_metrics::sessions::{SessionEnd, SessionSummary, Spread, TurnSummary, UncachedSummary};
use tacho_record::RunRecord;

use crate::style::two;

/// Most turns shown individually.
const SHOWN_TURNS: usize = 50;

/// The section; empty for a run without sessions.
pub(super) fn section(record: &RunRecord) -> String {
    let Some(summary) = &record.sessions else { return String::new() };
    let ends = SessionEnd::ALL.map(|(end, name)| format!("{} {}", summary.ended(end), name.replace('_', " ")));
    let unsent = match (summary.not_sent_parent_failed, summary.not_sent_run_ended) {
        (0, 0) => String::new(),
        (parent, end) => format!(" Not sent: {parent} because one before failed, {end} because the run ended."),
    };
    format!(
        "<section><h2>Sessions</h2>\n<p>{} sessions: {}.{unsent}</p>\n{}{}{}</section>\n",
        summary.sessions,
        ends.join(", "),
        numbers(summary),
        turns(&summary.turns),
        ranges(&summary.by_uncached),
    )
}

fn numbers(summary: &SessionSummary) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "not known".to_owned(), |share| two(share * 100.0) + " %");
    let reuse = &summary.reuse;
    let rows: String = [
        ("Session time, ms", summary.wall_ms),
        ("Busy time, ms", summary.busy_ms),
        ("Think time, ms", summary.think_ms),
        ("Critical path, ms", summary.critical_path_ms),
        ("Start to the last turn's first token, ms", summary.to_last_turn_ms),
        ("Last turn from schedule, ms", summary.last_turn_ms),
        ("Start to the first token that the user sees, ms", summary.first_user_token_ms),
        ("Tokens/s/user while decoding", summary.decode_rate),
        ("Tokens/s/user end to end", summary.end_to_end_rate),
        ("Prompt tokens/s to the first token", summary.prefill_rate),
        ("Sent after schedule, ms", summary.lag_ms),
        ("Due after the recorded time, ms", summary.waits.predecessor_ms),
        ("Requested pauses, ms", summary.waits.requested_ms),
        ("Pauses delivered, ms", summary.waits.delivered_ms),
    ]
    .into_iter()
    .map(|(name, spread)| format!("<tr><th>{name}</th>{}</tr>\n", cells(spread)))
    .collect();
    format!(
        "<table><tr><th></th><th>mean</th><th>median</th><th>p99</th></tr>\n{rows}</table>\n\
         <p>Prompt tokens found in the server's cache: {}; in the order sent a cache that forgets nothing would have \
         had {}.</p>\n",
        percent(reuse.share(reuse.cached_tokens)),
        percent(reuse.share(reuse.ideal_tokens)),
    )
}

fn turns(turns: &[TurnSummary]) -> String {
    let percent = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |share| two(share * 100.0));
    let row = |turn: &TurnSummary| {
        let mean = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |spread| two(spread.mean));
        let p99 = |spread: Option<Spread>| spread.map_or_else(|| "–".to_owned(), |spread| two(spread.p99));
        format!(
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            turn.turn,
            turn.e2el_ms.map_or(0, |spread| spread.count),
            mean(turn.ttft_ms),
            p99(turn.ttft_ms),
            mean(turn.e2el_ms),
            mean(turn.input_tokens),
            percent(turn.hit_rate),
            percent(turn.ideal_hit_rate),
        )
    };
    let rows: String = turns.iter().take(SHOWN_TURNS).map(row).collect();
    format!(
        "<table><tr><th>turn</th><th>answers</th><th>TTFT mean, ms</th><th>TTFT p99, ms</th><th>latency mean, ms</th>\
         <th>input tokens</th><th>cached %</th><th>ideal %</th></tr>\n{rows}</table>\n"
    )
}

/// TTFT by uncached prompt tokens; empty if the server does not report them.
fn ranges(ranges: &[UncachedSummary]) -> String {
    if ranges.is_empty() {
        return String::new();
    }
    let row = |range: &UncachedSummary| {
        let rate = range.tokens_per_s.map_or_else(|| "–".to_owned(), |spread| two(spread.mean));
        let (count, cells) = (range.ttft_ms.count, cells(Some(range.ttft_ms)));
        format!("<tr><th>{}–{}</th><td>{count}</td>{cells}<td>{rate}</td></tr>\n", range.from, range.to)
    };
    let rows: String = ranges.iter().map(row).collect();
    format!(
        "<table><tr><th>uncached prompt tokens</th><th>answers</th><th>TTFT mean, ms</th><th>median</th><th>p99</th>\
         <th>of them per second</th></tr>\n{rows}</table>\n"
    )
}

fn cells(spread: Option<Spread>) -> String {
    match spread {
        None => "<td>–</td><td>–</td><td>–</td>".to_owned(),
        Some(spread) => {
            format!("<td>{}</td><td>{}</td><td>{}</td>", two(spread.mean), two(spread.median), two(spread.p99))
        }
    }
}
