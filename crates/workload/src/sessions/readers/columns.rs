//! GuideLLM's rows: columns by kind, with a suffix for the turn. A pause follows its turn's response.

use super::*;
use std::collections::BTreeMap;

/// The content of a column, and its names. Plurals are equivalent.
const COLUMNS: &[(Kind, &[&str])] = &[
    (Kind::Text, &["prompt", "instruction", "question", "input", "context", "content", "conversation", "turn", "text"]),
    (Kind::System, &["system_prompt", "system", "prefix"]),
    (Kind::Input, &["prompt_tokens_count"]),
    (Kind::Output, &["output_tokens_count"]),
    (Kind::Messages, &["messages", "chat_messages"]),
    (Kind::Media("image"), &["image"]),
    (Kind::Media("video"), &["video"]),
    (Kind::Media("audio"), &["audio"]),
    (Kind::Tools, &["tools", "functions", "tool_definitions"]),
    (Kind::ToolResponse, &["tool_response", "tool_result", "tool_output"]),
    (Kind::ToolChoice, &["tool_choice"]),
    (Kind::At, &["relative_timestamp"]),
    (Kind::Pause, &["requeue_delay"]),
    (Kind::Duration, &["duration", "request_duration"]),
    (Kind::TurnType, &["turn_type"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Text,
    System,
    Input,
    Output,
    Messages,
    Media(&'static str),
    Tools,
    ToolResponse,
    ToolChoice,
    At,
    Pause,
    Duration,
    TurnType,
}

/// The values of one turn, each with the column it came from.
pub(crate) type Cells<'d> = BTreeMap<Kind, (&'d str, &'d Value)>;

pub(crate) fn is_prompt(field: &str) -> bool {
    matches!(kind(field), Some((Kind::Text | Kind::Messages, _)))
}

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    for (index, row) in source.rows()?.iter().enumerate() {
        let turns = turns(row)?;
        let mut pause = 0.0;
        trace.chain(&format!("row{index}"), &History::Live, &turns, |step, cells| {
            fill(row, cells, step)?;
            Ok(std::mem::replace(&mut pause, seconds(row, cells, Kind::Pause)?.unwrap_or(0.0)))
        })?;
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

fn turns<'d>(row: &Row<'d>) -> Result<Vec<Cells<'d>>> {
    let mut turns: Vec<Cells<'d>> = Vec::new();
    let mut next: BTreeMap<Kind, usize> = BTreeMap::new();
    for (field, value) in row.dict.iter().filter(|(_, value)| **value != Value::Null) {
        let Some((kind, suffix)) = kind(field) else { continue };
        let free = next.entry(kind).or_insert(0);
        let turn = suffix.unwrap_or(*free);
        *free = (*free).max(turn + 1);
        if turn > 100_000 {
            return Err(row.wrong(field, "a turn of this number cannot be"));
        }
        if turns.len() <= turn {
            turns.resize_with(turn + 1, Cells::new);
        }
        if turns[turn].insert(kind, (field, value)).is_some() {
            return Err(row.wrong(field, format!("turn {turn} has this twice")));
        }
    }
    let sends = |cells: &Cells<'_>| {
        [Kind::Text, Kind::Messages, Kind::ToolResponse, Kind::Input].iter().any(|kind| cells.contains_key(kind))
            || cells.keys().any(|kind| matches!(kind, Kind::Media(_)))
    };
    match turns.iter().position(|cells| !sends(cells)) {
        _ if turns.is_empty() => Err(row.wrong("prompt", "no column of this row is known")),
        Some(turn) => Err(row.wrong(&format!("prompt_{turn}"), format!("turn {turn} has nothing to send"))),
        None => Ok(turns),
    }
}

/// The kind of a column and the turn in its name.
pub(crate) fn kind(field: &str) -> Option<(Kind, Option<usize>)> {
    let lower = field.to_ascii_lowercase();
    let exact = |name: &str| {
        let same = |known: &&str| name == *known || name.strip_suffix('s') == Some(known);
        COLUMNS.iter().find(|(_, names)| names.iter().any(same)).map(|(kind, _)| *kind)
    };
    if let Some(kind) = exact(&lower) {
        return Some((kind, None));
    }
    let (name, number) = lower.rsplit_once(['_', '-'])?;
    Some((exact(name)?, Some(number.parse().ok()?)))
}

pub(crate) fn fill(row: &Row<'_>, cells: &Cells<'_>, step: &mut Step) -> Result<()> {
    step.at_ms = seconds(row, cells, Kind::At)?;
    step.input_tokens = count(row, cells, Kind::Input)?;
    step.output_tokens = count(row, cells, Kind::Output)?;
    step.notes.recorded_ms = seconds(row, cells, Kind::Duration)?;
    step.notes.kind = cells.get(&Kind::TurnType).and_then(|(_, value)| value.as_str()).map(str::to_owned);
    let content = content(row, cells)?;
    step.prompt = if content.is_empty() { Prompt::Synthetic } else { Prompt::Given(content) };
    Ok(())
}

fn content(row: &Row<'_>, cells: &Cells<'_>) -> Result<Dict> {
    let mut content = Dict::new();
    for (kind, (field, value)) in cells {
        match (kind, value) {
            (Kind::Text, Value::Str(text)) => content.set("text", text.as_str()),
            (Kind::Text, Value::List(items)) if items.iter().all(|item| item.as_str().is_some()) => {
                content.set("texts", items.clone());
            }
            (Kind::Text, _) => return Err(row.wrong(field, "must be a text")),
            (Kind::System, value) => {
                content.set("system", value.as_str().ok_or_else(|| row.wrong(field, "must be a text"))?);
            }
            (Kind::Messages, value) => content.set("messages", decoded(row, field, value)?),
            (Kind::Tools, value) => content.set("tools", decoded(row, field, value)?),
            (Kind::ToolResponse, value) => content.set("tool_response", (*value).clone()),
            (Kind::ToolChoice, value) => content.set("tool_choice", (*value).clone()),
            (Kind::Media(name), value) => content.set(*name, (*value).clone()),
            _ => {}
        }
    }
    Ok(content)
}

/// A list, also if it is written as JSON text.
fn decoded(row: &Row<'_>, field: &str, value: &Value) -> Result<Value> {
    let read = value.as_str().map_or_else(|| Some(value.clone()), |text| json::parse(text).ok());
    read.filter(|value| value.as_list().is_some()).ok_or_else(|| row.wrong(field, "must be a list"))
}

/// A column of seconds, in milliseconds.
pub(crate) fn seconds(row: &Row<'_>, cells: &Cells<'_>, kind: Kind) -> Result<Option<f64>> {
    let Some((field, value)) = cells.get(&kind) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.map(|seconds| Some(from_s(seconds))).ok_or_else(|| row.wrong(field, "must be seconds, not negative"))
}

fn count(row: &Row<'_>, cells: &Cells<'_>, kind: Kind) -> Result<Option<u64>> {
    let Some((field, value)) = cells.get(&kind) else { return Ok(None) };
    let count = value.as_f64().filter(|count| *count >= 0.0 && count.fract() == 0.0);
    count.map(|count| Some(count as u64)).ok_or_else(|| row.wrong(field, "must be a whole number that is not negative"))
}
