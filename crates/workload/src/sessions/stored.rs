//! Reads the model as printed by `tacho convert trace`.

use std::collections::HashMap;

use tacho_core::json::Value;

use super::error::TraceError;
use super::kind::Format;
use super::model::{Blocks, Edge, History, Prompt, Step, Take, Trace, Turn};
use super::notes::Notes;
use super::options::Options;
use super::row::Row;
use super::source::Source;

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let rows = source.rows()?;
    let [file] = &rows[..] else { return Err(source.graph("must be one object with requests")) };
    let format = file.need("format", file.text("format")?)?;
    let name = file.text("file")?.map_or_else(|| source.name(), str::to_owned);
    let mut trace = Trace::new(name, Format::named(format).unwrap_or(Format::Model));
    trace.options = file.object("options")?.cloned().unwrap_or_default();
    let rows = file.need("requests", file.rows("requests")?)?;
    let mut places = HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        let id = row.need("id", row.text("id")?)?;
        if places.insert(id, place).is_some() {
            return Err(row.wrong("id", format!("{id:?} is there twice")));
        }
    }
    for row in &rows {
        trace.push(step(row, &places)?);
    }
    if trace.steps.is_empty() { Err(source.empty()) } else { Ok(trace) }
}

fn step(row: &Row<'_>, places: &HashMap<&str, usize>) -> Result<Step, TraceError> {
    let place = |row: &Row<'_>, field: &str, id: &str| {
        places.get(id).copied().ok_or_else(|| row.wrong(field, format!("no request is called {id:?}")))
    };
    let mut step = Step::new(row.need("session", row.name("session")?)?, 0);
    step.turn = match row.need("turn", row.get("turn"))? {
        Value::Str(name) => Turn::Name(name.clone()),
        _ => Turn::Number(row.need("turn", row.count("turn")?)? as usize),
    };
    for edge in row.rows("parents")?.unwrap_or_default() {
        let parent = place(&edge, "id", edge.need("id", edge.text("id")?)?)?;
        step.parents.push(Edge { parent, after_ms: edge.span("after_ms")?.unwrap_or(0.0) });
    }
    step.at_ms = row.span("at_ms")?;
    step.start_delay_ms = row.span("start_delay_ms")?;
    step.gap_ms = row.span("gap_ms")?;
    step.sent = row.object("sent")?.cloned();
    step.starts_with = row.text("starts_with")?.map(|id| place(row, "starts_with", id)).transpose()?;
    step.root = row.get("root").map(Value::truthy);
    step.history = match row.get("history") {
        None => History::None,
        Some(Value::Str(word)) => named_history(row, word)?,
        Some(_) => {
            let mut takes = Vec::new();
            for edge in row.rows("history")?.unwrap_or_default() {
                takes.push((place(&edge, "from", edge.need("from", edge.text("from")?)?)?, take(&edge)?));
            }
            History::Edges(takes)
        }
    };
    step.choice = row.count("choice")?.unwrap_or(0) as usize;
    step.deltas = row.get("deltas").is_some_and(Value::truthy);
    step.prompt = match row.get("content") {
        _ if row.get("request") == Some(&Value::Bool(false)) => Prompt::Nothing,
        None => Prompt::Synthetic,
        Some(Value::Str(word)) if word == "synthetic" => Prompt::Synthetic,
        Some(_) => Prompt::Given(row.need("content", row.object("content")?)?.clone()),
    };
    step.answered = row.text("answered")?.map(str::to_owned);
    step.input_tokens = row.count("input_tokens")?;
    step.output_tokens = row.count("output_tokens")?;
    step.blocks = blocks(row)?;
    step.notes = notes(row)?.into();
    Ok(step)
}

fn named_history(row: &Row<'_>, word: &str) -> Result<History, TraceError> {
    match word {
        "none" => Ok(History::None),
        "live" => Ok(History::Live),
        "recorded" => Ok(History::Recorded),
        "fork" => Ok(History::Fork),
        other => Err(row.wrong("history", format!("must be none, live, recorded, fork or a list, not {other:?}"))),
    }
}

fn take(edge: &Row<'_>) -> Result<Take, TraceError> {
    let name = edge.need("take", edge.text("take")?)?;
    let found = Take::NAMES.iter().find(|(known, _)| *known == name).map(|(_, take)| *take);
    found.ok_or_else(|| edge.wrong("take", format!("must be full, last or new, not {name:?}")))
}

fn blocks(row: &Row<'_>) -> Result<Option<Blocks>, TraceError> {
    let Some(items) = row.list("blocks")? else { return Ok(None) };
    let pair = |item: &Value| match item.as_list()? {
        [id, tokens] => Some((id.as_u64()?, tokens.as_u64()?)),
        _ => None,
    };
    let named = items.iter().map(pair).collect::<Option<Vec<_>>>();
    let named = named.ok_or_else(|| row.wrong("blocks", "must be pairs of an id and its tokens"))?;
    let tail = row.count("tail_tokens")?.unwrap_or(0);
    Ok(Some(Blocks { named, tail, cached_ideal: row.count("cached_tokens_ideal")?.unwrap_or(0) }))
}

fn notes(row: &Row<'_>) -> Result<Notes, TraceError> {
    let text = |name: &str| Ok::<_, TraceError>(row.text(name)?.map(str::to_owned));
    Ok(Notes {
        model: text("model")?,
        extra: row.object("extra")?.cloned(),
        agent: text("agent")?,
        kind: text("kind")?,
        span_id: text("span_id")?,
        recorded_start_ms: row.number("recorded_start_ms")?,
        recorded_ms: row.number("recorded_ms")?,
        failed: row.get("failed_in_trace").is_some_and(Value::truthy),
    })
}
