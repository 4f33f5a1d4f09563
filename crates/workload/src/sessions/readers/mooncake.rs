//! Mooncake traces (one request per row, times in milliseconds, prompts as blocks of 512 tokens), with AIPerf's
//! additions: sessions, pauses, and given instead of synthetic prompts.

use super::*;

const BLOCK: u64 = 512;
const SOURCES: [&str; 4] = ["input_length", "text_input", "messages", "payload"];

/// The meaning of `input_length` in a later turn of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    Cumulative,
    /// Only the new part.
    Delta,
}

impl Lengths {
    pub(crate) const NAMES: [(&'static str, Option<Lengths>); 3] =
        [("auto", None), ("cumulative", Some(Lengths::Cumulative)), ("delta", Some(Lengths::Delta))];

    pub(crate) fn name(self) -> &'static str {
        if self == Lengths::Cumulative { "cumulative" } else { "delta" }
    }
}

pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace> {
    let rows = source.rows()?;
    let block = options.positive("block_size", BLOCK)?;
    let mut trace = source.trace();
    trace.options.set("block_size", block);
    let unit = timestamp_unit(options, 1.0, &mut trace)?;
    let mut layout = Layout::new(block);
    for row in &rows {
        check(row)?;
        lay(&mut layout, row)?;
    }
    let sessions = by_session(&rows)?;
    let asked = options.choice("input_length_is", &Lengths::NAMES, None)?;
    let lengths = asked.map_or_else(|| lengths(&sessions), |asked| Ok(Some(asked)))?;
    if let Some(lengths) = lengths {
        trace.options.set("input_length_is", lengths.name());
    }
    for (session, rows) in &sessions {
        one_kind(rows)?;
        trace.chain(session, &History::Live, rows, |step, row| {
            if step.history == History::Live && is_complete(row, lengths) {
                step.history = History::Recorded;
            }
            step.blocks = lay(&mut layout, row)?;
            fill(step, row, unit)
        })?;
    }
    trace.start_at_the_earliest();
    blocks::ideal(&mut trace, Scope::File);
    Ok(trace)
}

/// Checks that there is one source of the prompt, with matching fields.
fn check(row: &Row<'_>) -> Result<()> {
    let given: Vec<&str> = SOURCES.into_iter().filter(|field| row.has(field)).collect();
    match given[..] {
        [_] => {}
        [] if row.has("hash_ids") => return Err(row.wrong("hash_ids", "needs input_length")),
        [] => {
            return Err(
                row.wrong("input_length", format!("no prompt source: one of {} must be given", SOURCES.join(", ")))
            );
        }
        [first, second, ..] => {
            return Err(row.wrong(second, format!("more than one prompt source: {first} is given too")));
        }
    }
    if row.has("hash_ids") && !row.has("input_length") {
        return Err(row.wrong("hash_ids", "hash_ids without input_length"));
    }
    if row.has("tools") && !row.has("messages") {
        return Err(row.wrong("tools", "tools without messages"));
    }
    if row.list("tools")?.is_some_and(<[Value]>::is_empty) {
        return Err(row.wrong("tools", "has no tool"));
    }
    row.messages("messages")?;
    row.object("payload")?;
    row.text("text_input")?;
    Ok(())
}

pub(super) fn lay(layout: &mut Layout, row: &Row<'_>) -> Result<Option<Blocks>> {
    let Some(ids) = row.ids("hash_ids")? else { return Ok(None) };
    let tokens = row.need("input_length", Row::count)?;
    layout.lay(row, "hash_ids", &ids, tokens).map(Some)
}

fn fill(step: &mut Step, row: &Row<'_>, unit: f64) -> Result<f64> {
    step.at_ms = row.number("timestamp")?.map(|time| clean(time * unit));
    step.input_tokens = row.count("input_length")?;
    step.output_tokens = row.count("output_length")?;
    if let Some(extra) = row.object("extra")? {
        step.notes.extra = Some(extra.clone());
    }
    if let Some(text) = row.text("text_input")? {
        step.prompt = Prompt::text(text);
    } else if !row.has("input_length") {
        step.prompt = Prompt::Given(copied(row, &["messages", "payload", "tools"]));
    }
    Ok(row.span("delay")?.unwrap_or(0.0))
}

/// Whether the prompt of a later turn contains the turns before it.
fn is_complete(row: &Row<'_>, lengths: Option<Lengths>) -> bool {
    row.has("messages") || row.has("payload") || (row.has("input_length") && lengths == Some(Lengths::Cumulative))
}

/// Refuses a session with both synthetic and complete prompts.
fn one_kind(rows: &[&Row<'_>]) -> Result<()> {
    let kind = |row: &Row<'_>| ["messages", "payload"].into_iter().find(|field| row.has(field));
    let first = kind(rows[0]);
    match rows.iter().find(|row| kind(row) != first) {
        None => Ok(()),
        Some(row) => {
            let field = kind(row).unwrap_or(if row.has("input_length") { "input_length" } else { "text_input" });
            Err(row.wrong(field, "session mixes recorded and generated prompts"))
        }
    }
}

/// The meaning of lengths, inferred from the blocks: a later prompt that begins with the blocks of the previous one is
/// a whole prompt. `None` without a session of several synthetic prompts.
fn lengths(sessions: &[(String, Vec<&Row<'_>>)]) -> Result<Option<Lengths>> {
    let (mut whole, mut bare, mut broken) = (None, None, None);
    let mut several = false;
    for (_, rows) in sessions {
        for pair in rows.windows(2) {
            let [before, row] = pair else { continue };
            several = true;
            if !row.has("input_length") {
                continue;
            }
            match (before.ids("hash_ids")?, row.ids("hash_ids")?) {
                (Some(before), Some(ids)) if !before.is_empty() && ids.starts_with(&before) => {
                    whole = whole.or(Some(*row))
                }
                (_, None) => bare = bare.or(Some(*row)),
                (_, Some(_)) => broken = broken.or(Some(*row)),
            }
        }
    }
    let conflict = "can be a whole prompt or its new part: say --option input_length_is=cumulative or =delta";
    match (whole, bare, broken) {
        (Some(_), Some(row), _) | (None, _, Some(row)) => Err(row.wrong("input_length", conflict)),
        (Some(_), None, _) => Ok(Some(Lengths::Cumulative)),
        (None, _, None) => Ok(several.then_some(Lengths::Delta)),
    }
}
