//! `--dry-run`: prints the requests and their schedule statistics.

use std::io::Write;

use tacho_core::Request;
use tacho_report::style::{title, two, value_line};
use tacho_run::ServePlan;
use tacho_run::serve::{Prepared, workload_digest};
use tacho_workload::{BLOCK, LengthStats, PrefixSharing, WorkloadStats, shared_text};

use crate::exit::Exit;

/// Maximum width of a histogram bar.
const BAR: usize = 28;

/// Prints the workload's statistics. Prefixes are those of the requests in memory.
pub(in crate::commands) fn print(plan: &ServePlan, prepared: &Prepared) -> anyhow::Result<Exit> {
    let requests = &prepared.requests;
    let stats = WorkloadStats::of(requests)?;
    let mut lines = vec![title(" Workload ", '=')];
    lines.push(value_line("Requests:", stats.count));
    lines.push(value_line("Total input tokens:", stats.total_prompt_tokens));
    lines.push(value_line("Total output tokens asked for:", stats.total_output_tokens));
    lines.extend(sharing(prepared, requests.kept()));
    if requests.kept().len() < requests.len() {
        lines.push(value_line("Prefixes are of the first:", requests.kept().len()));
    }
    lines.push(value_line("Last request due (s):", two(prepared.timeline.scheduled().last().copied().unwrap_or(0.0))));
    lines.push(value_line("Workload digest:", workload_digest(plan, prepared)?));
    lines.extend(lengths("Input tokens", stats.prompt_len.as_ref()));
    lines.extend(lengths("Output tokens", stats.output_len.as_ref()));
    lines.push(title("", '='));
    let text = lines.join("\n");
    writeln!(tacho_report::out(), "{text}")?;
    Ok(Exit::Done)
}

/// Potential savings of a prefix cache; estimated from characters if there is no tokenizer.
fn sharing(prepared: &Prepared, requests: &[Request]) -> Vec<String> {
    let Some(tokenizer) = &prepared.tokenizer else {
        return vec![value_line("Shared prefix (% of text):", two(shared_text(requests) * 100.0))];
    };
    let sharing = PrefixSharing::new(requests, tokenizer);
    vec![
        value_line("Shared prefix (% of tokens):", two(sharing.repeated_share() * 100.0)),
        value_line(&format!("Distinct first blocks of {BLOCK}:"), sharing.beginnings),
        value_line("Prefix cache ceiling (%):", two(sharing.cached_share() * 100.0)),
    ]
}

fn lengths(name: &str, stats: Option<&LengthStats>) -> Vec<String> {
    let Some(stats) = stats else { return Vec::new() };
    let mut lines = vec![title(name, '-')];
    lines.push(value_line("Min:", stats.min));
    lines.push(value_line("Mean:", two(stats.mean)));
    lines.push(value_line("Median:", two(stats.median)));
    lines.push(value_line("P99:", two(stats.p99)));
    lines.push(value_line("Max:", stats.max));
    let histogram = &stats.histogram;
    let largest = histogram.counts.iter().copied().max().unwrap_or(0).max(1);
    for (at, &count) in histogram.counts.iter().enumerate() {
        let start = histogram.start + at as u64 * histogram.width;
        let bar = "#".repeat((count * BAR).div_ceil(largest));
        lines.push(format!("{start:>8} | {bar} {count}"));
    }
    lines
}
