//! Session metrics: one line, and with `--verbose` all of them.

use tacho_metrics::sessions::{Reuse, SessionEnd, Spread};
use tacho_record::RunRecord;

use crate::style::{short, title, two, value_line};

/// Most turns shown individually.
const SHOWN_TURNS: usize = 12;

/// The sessions of a run in a line; `None` without sessions.
pub(super) fn fact(record: &RunRecord) -> Option<(&'static str, String)> {
    let summary = record.sessions.as_ref()?;
    let mut parts = vec![format!("{} of {} finished", summary.ended(SessionEnd::Finished), summary.sessions)];
    let others = [
        (SessionEnd::Failed, "failed"),
        (SessionEnd::Cancelled, "with a cancelled request"),
        (SessionEnd::Truncated, "cut by the run's end"),
        (SessionEnd::NotStarted, "not started"),
    ];
    let others = others.map(|(end, name)| (summary.ended(end), name)).into_iter().filter(|(count, _)| *count > 0);
    parts.extend(others.map(|(count, name)| format!("{count} {name}")));
    parts.extend(
        summary.wall_ms.map(|time| format!("time {} s mean, {} p99", short(time.mean / 1e3), short(time.p99 / 1e3))),
    );
    let reuse = &summary.reuse;
    let bound = if reuse.cached_tokens.is_none() { "at least " } else { "" };
    let cached = reuse.share(cached(reuse).1);
    parts.extend(cached.map(|share| format!("{bound}{:.0}% of prompt tokens cached", share * 100.0)));
    Some(("sessions", parts.join(" · ")))
}

/// Every metric of the sessions; empty for a run without any.
pub(super) fn lines(record: &RunRecord) -> Vec<String> {
    let Some(summary) = &record.sessions else { return Vec::new() };
    let mut lines = vec![title(" Sessions ", '-')];
    lines.push(value_line("Sessions:", summary.sessions));
    lines.push(value_line("Sessions finished:", summary.ended(SessionEnd::Finished)));
    lines.push(value_line("Sessions failed:", summary.ended(SessionEnd::Failed)));
    if summary.ended(SessionEnd::Cancelled) > 0 {
        lines.push(value_line("Sessions with a cancelled request:", summary.ended(SessionEnd::Cancelled)));
    }
    lines.push(value_line("Sessions cut by the run's end:", summary.ended(SessionEnd::Truncated)));
    lines.push(value_line("Sessions not started:", summary.ended(SessionEnd::NotStarted)));
    lines.push(value_line("Not sent, parent failed:", summary.not_sent_parent_failed));
    lines.push(value_line("Not sent, run ended:", summary.not_sent_run_ended));
    for (name, found) in [
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
    ] {
        lines.extend(spread(name, found));
    }
    lines.extend(reuse(&summary.reuse));
    if let Some(share) = record.measured.server.prefix_cache_hit_rate() {
        lines.push(value_line("Server's prefix cache hits (%):", two(share * 100.0)));
    }
    for range in &summary.by_uncached {
        let name = format!("TTFT (ms), {}-{} uncached", range.from, range.to);
        lines.extend(spread(&name, Some(range.ttft_ms)));
    }
    for turn in summary.turns.iter().take(SHOWN_TURNS) {
        lines.extend(spread(&format!("Turn {} first token (ms)", turn.turn), turn.ttft_ms));
        lines.extend(spread(&format!("Turn {} input tokens", turn.turn), turn.input_tokens));
        if let Some(share) = turn.hit_rate {
            lines.push(value_line(&format!("Turn {} cached (%):", turn.turn), two(share * 100.0)));
        }
    }
    if summary.turns.len() > SHOWN_TURNS {
        lines.push(value_line("Turns not shown:", summary.turns.len() - SHOWN_TURNS));
    }
    lines
}

/// The label and the cached prompt tokens: all, or those of the responses that report them.
fn cached(reuse: &Reuse) -> (&'static str, Option<u64>) {
    match (reuse.cached_tokens, reuse.reported_cached_tokens) {
        (None, Some(reported)) => ("Prompt tokens cached, at least (%):", Some(reported)),
        (cached, _) => ("Prompt tokens cached (%):", cached),
    }
}

/// Use of the prefix cache; a value that the server does not report is not 0.
fn reuse(reuse: &Reuse) -> Vec<String> {
    let percent = |share: Option<f64>| share.map_or_else(|| "not known".to_owned(), |share| two(share * 100.0));
    let (name, cached) = cached(reuse);
    vec![
        value_line(name, percent(reuse.share(cached))),
        value_line("Ideal, in the order sent (%):", percent(reuse.share(reuse.ideal_tokens))),
    ]
}

fn spread(name: &str, spread: Option<Spread>) -> Vec<String> {
    let Some(spread) = spread else { return Vec::new() };
    vec![value_line(&format!("{name}, mean:"), two(spread.mean)), value_line(&format!("{name}, p99:"), two(spread.p99))]
}
