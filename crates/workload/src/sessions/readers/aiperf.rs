//! AIPerf's own text formats: one request per row, one conversation per row, and pools to draw from.

use super::*;

const CONTENT: [(&str, &str); 4] = [("text", "texts"), ("image", "images"), ("audio", "audios"), ("video", "videos")];
const FIELDS: [&str; 9] = ["text", "texts", "image", "images", "image_uuids", "audio", "audios", "video", "videos"];

/// One request per row. Rows of a session follow each other and share no history.
pub(crate) fn single_turn(source: &Source, _: &Options) -> Result<Trace> {
    let rows = source.rows()?;
    rows.iter().try_for_each(check)?;
    let mut trace = source.trace();
    for (session, rows) in by_session(&rows)? {
        trace.chain(&session, &History::None, rows, fill)?;
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// One conversation per row; rows of the same name continue it.
pub(crate) fn multi_turn(source: &Source, _: &Options) -> Result<Trace> {
    let rows = source.rows()?;
    for row in &rows {
        let turns = row.need("turns", Row::rows)?;
        if turns.is_empty() {
            return Err(row.wrong("turns", "has no turn"));
        }
        turns.iter().try_for_each(check)?;
    }
    let mut trace = source.trace();
    for (session, rows) in by_session(&rows)? {
        let mut turns = Vec::new();
        for row in rows {
            turns.extend(row.rows("turns")?.unwrap_or_default());
        }
        let system = system_prompt(&turns)?;
        let rows = turns.iter().skip(usize::from(system.is_some()));
        trace.chain(&session, &History::Live, rows, |step, row| {
            let pause_ms = fill(step, row)?;
            if let (Some(system), Prompt::Given(content)) = (system, &mut step.prompt) {
                content.set("system", system);
            }
            Ok(pause_ms)
        })?;
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// Entries to draw from, one pool per file.
pub(crate) fn random_pool(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
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
            return Err(TraceError::Empty { location: Location::file(&document.path) });
        }
        let name = document.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        trace.pools.push(Pool { name, entries });
    }
    Ok(trace)
}

fn check(row: &Row<'_>) -> Result<()> {
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

fn fill(step: &mut Step, row: &Row<'_>) -> Result<f64> {
    step.at_ms = row.number("timestamp")?.map(clean);
    step.output_tokens = row.positive("output_length")?;
    step.notes.extra = row.object("extra")?.cloned();
    let mut content = copied(row, &FIELDS);
    if let Some(role) = row.text("role")?.filter(|role| *role != "user") {
        content.set("role", role);
    }
    step.prompt = Prompt::Given(content);
    Ok(row.span("delay")?.unwrap_or(0.0))
}

/// The conversation's system prompt: a first turn of that role with only a text, if it is the only one and others
/// follow.
fn system_prompt<'d>(turns: &[Row<'d>]) -> Result<Option<&'d str>> {
    let is_system = |row: &Row<'_>| row.text("role").is_ok_and(|role| role == Some("system"));
    let [first, rest @ ..] = turns else { return Ok(None) };
    let plain = first.dict.iter().all(|(key, value)| matches!(key, "role" | "text" | "type") || *value == Value::Null);
    if rest.is_empty() || rest.iter().any(is_system) || !is_system(first) || !plain {
        return Ok(None);
    }
    first.text("text")
}
