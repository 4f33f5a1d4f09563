//! AIPerf's own text formats: one request per row, one conversation per row, and pools to draw from.

use tacho_core::json::{Dict, Value};

use super::{after, by_session, copied, start_delay};
use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{History, Pool, Prompt, Step, Trace, clean};
use crate::sessions::options::Options;
use crate::sessions::row::Row;
use crate::sessions::source::Source;

const CONTENT: [(&str, &str); 4] = [("text", "texts"), ("image", "images"), ("audio", "audios"), ("video", "videos")];
const FIELDS: [&str; 9] = ["text", "texts", "image", "images", "image_uuids", "audio", "audios", "video", "videos"];

/// One request per row. Rows of a session follow each other and share no history.
pub(crate) fn single_turn(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let rows = source.rows()?;
    rows.iter().try_for_each(check)?;
    let mut trace = Trace::new(source.name(), Format::SingleTurn);
    for (session, rows) in by_session(&rows)? {
        let mut last = None;
        for (turn, row) in rows.into_iter().enumerate() {
            last = Some(trace.push(step(&session, turn, row, last)?));
        }
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// One conversation per row; rows of the same name continue it.
pub(crate) fn multi_turn(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let rows = source.rows()?;
    for row in &rows {
        let turns = row.need("turns", row.rows("turns")?)?;
        if turns.is_empty() {
            return Err(row.wrong("turns", "has no turn"));
        }
        turns.iter().try_for_each(check)?;
    }
    let mut trace = Trace::new(source.name(), Format::MultiTurn);
    for (session, rows) in by_session(&rows)? {
        let mut turns = Vec::new();
        for row in rows {
            turns.extend(row.rows("turns")?.unwrap_or_default());
        }
        let system = system_prompt(&turns)?;
        let mut last = None;
        for (turn, row) in turns.iter().skip(usize::from(system.is_some())).enumerate() {
            let mut step = step(&session, turn, row, last)?;
            if let (Some(system), Prompt::Given(content)) = (system, &mut step.prompt) {
                content.set("system", system);
            }
            if turn > 0 {
                step.history = History::Live;
            }
            last = Some(trace.push(step));
        }
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// Entries to draw from, one pool per file.
pub(crate) fn random_pool(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let mut trace = Trace::new(source.name(), Format::RandomPool);
    for document in &source.documents {
        let mut entries: Vec<Dict> = Vec::new();
        for row in document.rows() {
            check(&row)?;
            if let Some(field) = ["timestamp", "delay"].into_iter().find(|field| row.has(field)) {
                return Err(row.wrong(field, "entries of a pool have no time"));
            }
            let kept = row.dict.iter().filter(|(key, value)| *key != "type" && **value != Value::Null);
            entries.push(kept.map(|(key, value)| (key.to_owned(), value.clone())).collect());
        }
        if entries.is_empty() {
            return Err(TraceError::Empty { place: crate::sessions::Place::file(&document.path) });
        }
        let name = document.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        trace.pools.push(Pool { name, entries });
    }
    if trace.pools.is_empty() { Err(source.empty()) } else { Ok(trace) }
}

fn check(row: &Row<'_>) -> Result<(), TraceError> {
    for (one, many) in CONTENT {
        if row.has(one) && row.has(many) {
            return Err(row.wrong(many, format!("{one} and {many} exclude each other")));
        }
        let texts =
            row.list(many)?.is_none_or(|items| !items.is_empty() && items.iter().all(|item| item.as_str().is_some()));
        if !texts {
            return Err(row.wrong(many, "must be a list of texts that is not empty"));
        }
        row.text(one)?;
    }
    if !CONTENT.iter().any(|(one, many)| row.has(one) || row.has(many)) {
        return Err(row.wrong("text", "no content: a text, image, audio or video must be given"));
    }
    let given = |value: Option<f64>| value.is_some_and(|number| number != 0.0);
    if given(row.number("timestamp")?) && given(row.number("delay")?) {
        return Err(row.wrong("delay", "timestamp and delay exclude each other"));
    }
    row.positive("output_length")?;
    row.text("role")?;
    row.object("extra")?;
    Ok(())
}

fn step(session: &str, turn: usize, row: &Row<'_>, last: Option<usize>) -> Result<Step, TraceError> {
    let delay = row.span("delay")?;
    let mut step = Step::new(session, turn);
    step.parents = after(last, delay.unwrap_or(0.0));
    step.start_delay_ms = start_delay(turn == 0, delay);
    step.at_ms = row.number("timestamp")?.map(clean);
    step.output_tokens = row.positive("output_length")?;
    step.notes.extra = row.object("extra")?.cloned();
    let mut content = copied(row, &FIELDS);
    if let Some(role) = row.text("role")?.filter(|role| *role != "user") {
        content.set("role", role);
    }
    step.prompt = Prompt::Given(content);
    Ok(step)
}

/// The conversation's system prompt: a first turn of that role with only a text, if it is the only one and others
/// follow.
fn system_prompt<'d>(turns: &[Row<'d>]) -> Result<Option<&'d str>, TraceError> {
    let is_system = |row: &Row<'_>| row.text("role").is_ok_and(|role| role == Some("system"));
    let [first, rest @ ..] = turns else { return Ok(None) };
    let plain = first.dict.iter().all(|(key, value)| matches!(key, "role" | "text" | "type") || *value == Value::Null);
    if rest.is_empty() || rest.iter().any(is_system) || !is_system(first) || !plain {
        return Ok(None);
    }
    first.text("text")
}
