//! What the users of sessions felt, after vLLM's lines.

use tacho_metrics::RunRecord;
use tacho_metrics::sessions::{SessionEnd, Spread};

use crate::style::{title, two, value_line};

/// Turns that are shown one by one.
const SHOWN_TURNS: usize = 12;

/// The lines of the block; none for a run without sessions.
pub(super) fn lines(record: &RunRecord) -> Vec<String> {
    let Some(summary) = &record.sessions else { return Vec::new() };
    let ended = |end: SessionEnd| summary.ends.get(&end).copied().unwrap_or(0);
    let mut lines = vec![title(" Sessions ", '-')];
    lines.push(value_line("Sessions:", summary.sessions));
    lines.push(value_line("Sessions finished:", ended(SessionEnd::Finished)));
    lines.push(value_line("Sessions failed:", ended(SessionEnd::Failed)));
    lines.push(value_line("Sessions cut by the run's end:", ended(SessionEnd::Truncated)));
    lines.push(value_line("Sessions not started:", ended(SessionEnd::NotStarted)));
    lines.push(value_line("Not sent, parent failed:", summary.not_sent_parent_failed));
    lines.push(value_line("Not sent, run ended:", summary.not_sent_run_ended));
    lines.extend(spread("Session time (ms)", summary.wall_ms));
    lines.extend(spread("Busy time (ms)", summary.busy_ms));
    lines.extend(spread("Think time (ms)", summary.think_ms));
    lines.extend(spread("Start to last turn's token (ms)", summary.to_last_turn_ms));
    lines.extend(spread("Sent after due (ms)", summary.lag_ms));
    for turn in summary.turns.iter().take(SHOWN_TURNS) {
        lines.extend(spread(&format!("Turn {} first token (ms)", turn.turn), turn.ttft_ms));
        lines.extend(spread(&format!("Turn {} input tokens", turn.turn), turn.input_tokens));
    }
    if summary.turns.len() > SHOWN_TURNS {
        lines.push(value_line("Turns not shown:", summary.turns.len() - SHOWN_TURNS));
    }
    lines
}

fn spread(name: &str, spread: Option<Spread>) -> Vec<String> {
    let Some(spread) = spread else { return Vec::new() };
    vec![value_line(&format!("{name}, mean:"), two(spread.mean)), value_line(&format!("{name}, p99:"), two(spread.p99))]
}
