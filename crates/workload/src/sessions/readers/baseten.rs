//! AIPerf's form of Baseten traces: a table of whole prompts with their times, in milliseconds since 1970, and their
//! session if known.

use super::*;

/// Reads the table. A request is eligible at its time, but not before its predecessor in the session has ended.
pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let rows = source.rows()?;
    let mut moments = Vec::with_capacity(rows.len());
    for row in &rows {
        moments.push(row.need("timestamp_start_unix_ms", Row::span)?);
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&left, &right| moments[left].total_cmp(&moments[right]));
    let mut last: HashMap<String, (usize, usize)> = HashMap::new();
    for index in order {
        let row = &rows[index];
        let session = session(row)?.unwrap_or_else(|| format!("row{index}"));
        let before = last.get(&session).copied();
        let turn = before.map_or(0, |(_, turn)| turn + 1);
        let mut step = Step::new(session.clone(), turn);
        step.at_ms = Some(moments[index]);
        step.parents = after(before.map(|(position, _)| position), 0.0);
        step.history = if turn > 0 { History::Recorded } else { History::None };
        step.input_tokens = row.count("input_tokens")?;
        step.output_tokens = Some(row.need("output_tokens", Row::count)?);
        step.prompt = prompt(row, &mut step)?;
        last.insert(session, (trace.push(step), turn));
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// The session that the caller named, or else the inferred one.
fn session(row: &Row<'_>) -> Result<Option<String>> {
    Ok(match row.name("provided_session_id")? {
        None => row.name("poor_man_session_id")?,
        named => named,
    })
}

/// The prompt, with an output of exactly the recorded length; synthetic if the table has only lengths.
fn prompt(row: &Row<'_>, step: &mut Step) -> Result<Prompt> {
    let Some(text) = row.text("prompt")? else {
        row.need("input_tokens", Row::count)?;
        return Ok(Prompt::Synthetic);
    };
    let extra = dict! { "ignore_eos": true };
    step.notes.extra = Some(extra);
    Ok(Prompt::text(text))
}
