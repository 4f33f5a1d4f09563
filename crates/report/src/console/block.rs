//! The block after vLLM's report, on one screen: verdict, one table, the load, the server, the client, the next step.

mod facts;
mod table;

use tacho_metrics::MetricKind;
use tacho_record::RunRecord;

use super::{details, joined, ranks};
use crate::style::{Ink, fold, harmless_line, title};
use crate::verdict::{Severity, Verdict};
use crate::{groups::tables, outputs, sessions};

pub(crate) use self::facts::{costs, not_steady};
pub(crate) use self::table::{audio_times, bounds, interval_of, within_slo};

#[derive(Debug, Clone, Copy)]
pub struct BlockStyle {
    pub width: usize,
    pub color: bool,
    pub verbose: bool,
}

impl BlockStyle {
    /// Text for a file or a pipe.
    pub const PLAIN: BlockStyle = BlockStyle { width: 80, color: false, verbose: false };
}

/// Column of the values in lines outside the table.
const LABEL: usize = 14;

/// Most lines of the block without `--verbose`: one screen.
const SCREEN: usize = 24;
/// Lines that a full screen keeps for the hint about `--verbose`.
const HINT: usize = 2;
/// Most lines of a warning without `--verbose`.
const WARNING: usize = 3;
/// Most lines of a kind of failure without `--verbose`.
const FAILURE: usize = 2;
/// Fewest and most lines of a table of groups on a full screen: its head and some rows.
const GROUPS: (usize, usize) = (3, 8);

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
pub fn summary_report(record: &RunRecord, style: BlockStyle) -> String {
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
        lines.splice(end..end, hint.iter().map(|line| Ink::Dim.paint(style.color, line)));
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
        let available = SCREEN.saturating_sub(used);
        let max = if *is_table { available.min(GROUPS.1) } else { available };
        if lines.len() > max {
            hidden.push(name.clone());
            lines.truncate(if *is_table && max >= GROUPS.0 { max } else { 0 });
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
        parts.push(Part::new("", 0, table::lines(record, style, is_full)));
    }
    let facts = [
        (3, facts::load(record)),
        (9, facts::peak(record)),
        (3, facts::retries(record)),
        (7, facts::steady(record)),
        (4, facts::fluidity(record)),
        (4, facts::acceptance(record)),
        (4, facts::underruns(record)),
        (4, sessions::fact(record)),
        (0, outputs::fact(record)),
        (0, outputs::dependence(record)),
        (0, outputs::scores(record)),
        (8, facts::server(record)),
        (8, facts::gpu(record)),
        (8, facts::energy_by_phase(record)),
        (4, facts::cost(record)),
        (6, facts::client(record)),
    ];
    parts.extend(failed(record, style));
    for (rank, fact) in facts {
        parts.extend(fact.map(|(label, text)| Part::new(label, rank, labeled(label, &text, style.width))));
    }
    let groups = tables(record).into_iter();
    parts.extend(
        groups.map(|group| Part {
            is_table: true,
            ..Part::new(&group.title.to_lowercase(), 2, group.lines(style.width))
        }),
    );
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
        next[0] = next[0].replacen("next:", &Ink::Bold.paint(style.color, "next:"), 1);
        parts.push(Part::new("", 0, next));
    }
    parts.push(Part::new("", 0, vec![title("", '=')]));
    parts
}

fn failed(record: &RunRecord, style: BlockStyle) -> Option<Part> {
    let failures = facts::failures(record);
    let lines = failures.iter().enumerate().flat_map(|(at, text)| {
        let mut lines = labeled(if at == 0 { "failed" } else { "" }, text, style.width);
        if !style.verbose && lines.len() > FAILURE {
            lines.truncate(FAILURE);
            lines[FAILURE - 1] += " …";
        }
        lines
    });
    (!failures.is_empty()).then(|| Part::new("failed", 1, lines.collect()))
}

/// The warnings, the most severe first; on a full screen the others have one line each.
fn findings(verdict: &Verdict, style: BlockStyle, is_full: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let word = verdict.word();
    if verdict.worst().is_none() {
        parts.push(Part::new("", 0, vec![Ink::Green.paint(style.color, &format!("✔ {word}: no warnings"))]));
    }
    for (order, finding) in verdict.findings.iter().enumerate() {
        let (sign, kind, ink, rank) = match finding.severity {
            Severity::Bad => ("✗", "warning", Ink::Red, 1),
            Severity::Warning => ("!", "warning", Ink::Yellow, 5),
            Severity::Note => ("·", "note", Ink::Dim, 9),
        };
        let name = format!("{kind}[{}]", finding.code);
        let head = match order == 0 && verdict.worst().is_some() {
            true => format!("{sign} {word}: {name}:"),
            false => format!("{sign} {name}:"),
        };
        let text = format!("{head} {}", harmless_line(&finding.text));
        let max_lines = if is_full && order > 0 { 1 } else { WARNING };
        let mut folded = match style.verbose {
            true => fold(&text, style.width, 2),
            false => fold_clauses(&text, style.width, max_lines),
        };
        folded[0] = folded[0].replacen(&head, &ink.paint(style.color, &head), 1);
        parts.push(Part::new(&name, if order == 0 { 0 } else { rank }, folded));
    }
    parts
}

/// As many whole clauses of a text as fit into this many lines, and at least one.
fn fold_clauses(text: &str, width: usize, max_lines: usize) -> Vec<String> {
    let ends = text.match_indices([';', ':', '(']).map(|(at, _)| at).filter(|at| text[..*at].contains("]:"));
    let clause = |end: usize| fold(text[..end].trim_end(), width, 2);
    let ends: Vec<usize> = ends.chain([text.len()]).collect();
    let fitting = ends.iter().rev().map(|end| clause(*end)).find(|lines| lines.len() <= max_lines);
    fitting.unwrap_or_else(|| clause(ends[0]))
}

/// A line ends between two parts, not within one that fits into a line.
fn labeled(label: &str, text: &str, width: usize) -> Vec<String> {
    const GLUE: &str = "\u{a0}";
    let available = width.saturating_sub(LABEL + 3);
    let glued = |part: &str| if part.chars().count() <= available { part.replace(' ', GLUE) } else { part.to_owned() };
    let parts: Vec<String> = text.split(" · ").map(glued).collect();
    let line = format!("{label:<LABEL$} {}", parts.join(&format!("{GLUE}· ")));
    fold(&line, width, LABEL + 1).into_iter().map(|line| line.replace(GLUE, " ")).collect()
}
