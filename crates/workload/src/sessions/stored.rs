//! Reads the model as printed by `tacho convert trace`.

use std::collections::HashMap;

use tacho_core::json::Value;

use super::model::{Edge, History, Prompt, Step, Take, Trace, Turn};
use super::{error::TraceError, kind::Format, notes::Notes, options::Options, row::Row, source::Source};

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let rows = source.rows()?;
    let [file] = &rows[..] else { return Err(source.graph("must be one object with requests")) };
    let format = file.need("format", Row::text)?;
    let name = file.text("file")?.map_or_else(|| source.name(), str::to_owned);
    let mut trace = Trace::new(name, Format::named(format).unwrap_or(Format::Model));
    trace.options = file.object("options")?.cloned().unwrap_or_default();
    let rows = file.need("requests", Row::rows)?;
    let mut positions = HashMap::new();
    for (position, row) in rows.iter().enumerate() {
        let id = row.need("id", Row::text)?;
        if positions.insert(id, position).is_some() {
            return Err(row.wrong("id", format!("{id:?} is there twice")));
        }
    }
    for row in &rows {
        trace.push(step(row, &positions)?);
    }
    Ok(trace)
}

fn step(row: &Row<'_>, positions: &HashMap<&str, usize>) -> Result<Step, TraceError> {
    let position = |row: &Row<'_>, field: &str, id: &str| {
        positions.get(id).copied().ok_or_else(|| row.wrong(field, format!("no request is called {id:?}")))
    };
    let mut step = Step::new(row.need("session", Row::name)?, 0);
    step.turn = match row.get("turn") {
        Some(Value::Str(name)) => Turn::Name(name.clone()),
        _ => Turn::Number(row.need("turn", Row::count)? as usize),
    };
    for edge in row.rows("parents")?.unwrap_or_default() {
        let parent = position(&edge, "id", edge.need("id", Row::text)?)?;
        step.parents.push(Edge { parent, after_ms: edge.span("after_ms")?.unwrap_or(0.0) });
    }
    step.at_ms = row.span("at_ms")?;
    step.start_delay_ms = row.span("start_delay_ms")?;
    step.gap_ms = row.span("gap_ms")?;
    step.sent = row.object("sent")?.cloned();
    step.starts_with = row.text("starts_with")?.map(|id| position(row, "starts_with", id)).transpose()?;
    step.root = row.get("root").map(Value::truthy);
    step.history = match row.get("history") {
        None => History::None,
        Some(Value::Str(word)) => named_history(row, word)?,
        Some(_) => {
            let mut takes = Vec::new();
            for edge in row.rows("history")?.unwrap_or_default() {
                takes.push((position(&edge, "from", edge.need("from", Row::text)?)?, take(&edge)?));
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
        Some(_) => Prompt::Given(row.need("content", Row::object)?.clone()),
    };
    step.answered = row.string("answered")?;
    step.input_tokens = row.count("input_tokens")?;
    step.output_tokens = row.count("output_tokens")?;
    step.blocks = row.has("blocks").then(|| row.record()).transpose()?;
    step.notes = row.record::<Notes>()?.into();
    Ok(step)
}

fn named_history(row: &Row<'_>, word: &str) -> Result<History, TraceError> {
    let found = History::NAMES.into_iter().find(|(name, _)| *name == word).map(|(_, history)| history);
    found.ok_or_else(|| row.wrong("history", format!("must be none, live, recorded, fork or a list, not {word:?}")))
}

fn take(edge: &Row<'_>) -> Result<Take, TraceError> {
    let name = edge.need("take", Row::text)?;
    Take::from_name(name).ok_or_else(|| edge.wrong("take", format!("must be full, last or new, not {name:?}")))
}
