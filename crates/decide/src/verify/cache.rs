//! Signs that responses came from a cache in front of the engine: tokens faster than engines make them, repeated
//! prompts that decode faster than new ones, and tokens that the server did not generate. A prefix cache shortens
//! prefill, not the time between tokens.

use std::collections::BTreeMap;

use tacho_metrics::{percentile::percentile, server_metrics::Series, vocabulary::Concept};
use tacho_record::RunRecord;

use super::{Check, Finding, rows::RowAudit, seen::SeenRow};

/// Fewest output tokens of a response whose decode time says something.
const MIN_TOKENS: u64 = 8;
/// Fewest responses that a median is taken of.
const MIN_RESPONSES: usize = 5;
/// Seconds per token below which no engine decodes one sequence: 5,000 tokens/s.
const FASTEST: f64 = 2e-4;
/// Largest ratio of the decode time of repeated prompts to that of new ones.
const MAX_RATIO: f64 = 0.1;
/// Fraction of the responses' tokens that the server generated, below which others made them.
const MIN_GENERATED: f64 = 0.5;

/// The finding, if there is any sign: one sign is a remark, two are a contradiction.
pub(super) fn response_cache(record: &RunRecord, audit: &RowAudit<'_>) -> Option<Finding> {
    let timed: Vec<&SeenRow> = audit.responses.iter().filter(|row| per_token(row).is_some()).collect();
    let mut signs = Vec::new();
    let repeats = repeats(&timed, audit);
    signs.extend(repeats.as_ref().map(|(text, _)| text.clone()));
    let fast = median(timed.iter().copied()).filter(|_| timed.len() >= MIN_RESPONSES);
    let fast = repeats.map(|(_, median)| median).or(fast).filter(|median| *median < FASTEST);
    signs.extend(
        fast.map(|median| {
            format!("tokens arrive every {:.3} ms in the median, faster than engines decode", median * 1e3)
        }),
    );
    signs.extend(not_generated(record, audit));
    let text = signs.join("; ");
    match signs.len() {
        0 => None,
        1 => Some(Finding::remark(Check::ResponseCache, format!("a cache may have answered: {text}"))),
        _ => Some(Finding::invalid(Check::ResponseCache, format!("a cache in front of the engine answered: {text}"))),
    }
}

fn per_token(row: &SeenRow) -> Option<f64> {
    let tokens = row.output_tokens.filter(|tokens| *tokens >= MIN_TOKENS)?;
    Some(row.decode()? / (tokens - 1) as f64)
}

fn median<'a>(rows: impl Iterator<Item = &'a SeenRow>) -> Option<f64> {
    let mut values: Vec<f64> = rows.filter_map(per_token).collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| percentile(&values, 50.0))
}

/// Requests that repeat an answered one and decode far faster than it, with their median time per token.
fn repeats(timed: &[&SeenRow], audit: &RowAudit<'_>) -> Option<(String, f64)> {
    let mut groups: BTreeMap<u64, Vec<&SeenRow>> = BTreeMap::new();
    for row in timed {
        groups.entry(audit.content(row.index)?).or_default().push(row);
    }
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for mut group in groups.into_values() {
        group.sort_by(|one, other| one.sent.total_cmp(&other.sent));
        let (answered, rest) = (group[0], &group[1..]);
        first.push(answered);
        later.extend(rest.iter().copied().filter(|row| row.sent >= answered.done));
    }
    let (count, new, again) = (later.len(), median(first.into_iter())?, median(later.into_iter())?);
    let is_sign = count >= MIN_RESPONSES && new >= FASTEST && again < new * MAX_RATIO;
    let text = format!(
        "{count} repeated prompts took {:.3} ms per token in the median, and new ones {:.3} ms",
        again * 1e3,
        new * 1e3
    );
    is_sign.then_some((text, again))
}

/// Tokens that the server did not generate.
fn not_generated(record: &RunRecord, audit: &RowAudit<'_>) -> Option<String> {
    let made = record.measured.server.by_concept(Concept::GenerationTokens).and_then(Series::growth)?;
    let held = audit.output_tokens;
    (made < held as f64 * MIN_GENERATED)
        .then(|| format!("the server generated {made:.0} tokens, and the responses hold {held}"))
}
