//! OpenTelemetry spans of model calls. A call depends on those that had ended when it started and that no other such
//! call followed; the pause is the time from their end to its start. Recorded prompts are sent unchanged.

use super::*;

/// Reads the spans: rows of one trace, single spans, or an export.
pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace> {
    options.choice("edges", &[("interval order", ())], ())?;
    let mut trace = source.trace();
    trace.options.set("edges", "interval order");
    let mut sessions = Groups::new();
    let mut others = 0;
    for row in &source.rows()? {
        for (session, call) in calls(row)? {
            match call {
                Some(call) => sessions.add(session, call),
                None => others += 1,
            }
        }
    }
    if others > 0 {
        trace.notices.push(format!("{others} spans are not model calls and are skipped"));
    }
    // Nanoseconds since 1970 do not fit in a float: subtract the first call before converting.
    let starts = sessions.groups.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.start));
    let earliest = starts.min().ok_or_else(|| source.empty())?;
    for (session, mut calls) in sessions.groups {
        calls.sort_by_key(|call| call.start);
        add(&mut trace, &session, &calls, earliest);
    }
    Ok(trace)
}

struct Call {
    start: i128,
    end: i128,
    step: Step,
    /// Marks that identify its response in a later prompt: texts and the names of tool calls.
    response_marks: Vec<String>,
    prompt_marks: Vec<String>,
}

fn add(trace: &mut Trace, session: &str, calls: &[Call], earliest: i128) {
    let first = trace.steps.len();
    for (turn, call) in calls.iter().enumerate() {
        let mut step = Step { session: session.to_owned(), ..call.step.clone() };
        step.turn = Turn::Number(turn);
        step.parents = parents(&calls[..turn], call, first);
        if step.parents.is_empty() {
            step.at_ms = Some((call.start - earliest) as f64 / 1e6);
        } else {
            step.history = History::Recorded;
        }
        trace.push(step);
    }
}

/// Calls that had ended when this one started, without those that another of them followed; and calls whose response is
/// in its prompt, although their clocks disagree.
fn parents(earlier: &[Call], call: &Call, first: usize) -> Vec<Edge> {
    let ended: Vec<usize> = (0..earlier.len()).filter(|&index| earlier[index].end <= call.start).collect();
    let followed =
        |&index: &usize| ended.iter().any(|&other| other != index && earlier[index].end <= earlier[other].start);
    let quoted = |index: &usize| {
        earlier[*index].end > call.start
            && earlier[*index].response_marks.iter().any(|mark| call.prompt_marks.contains(mark))
    };
    let edge = |index: usize| {
        let pause = (call.start - earlier[index].end).max(0) as f64 / 1e6;
        Edge { parent: first + index, after_ms: clean(pause) }
    };
    let order = ended.iter().copied().filter(|index| !followed(index)).map(edge);
    order.chain((0..earlier.len()).filter(quoted).map(edge)).collect()
}

/// The spans of a row, with their session; spans that are not model calls are skipped.
fn calls(row: &Row<'_>) -> Result<Vec<(String, Option<Call>)>> {
    let owner = row.name("session_id")?.or(row.name("trace_id")?);
    if row.has("resourceSpans") {
        let spans = otlp::spans(row)?;
        return spans.iter().map(|span| of_span(&Row { dict: span, ..row.clone() }, None)).collect();
    }
    match row.rows("spans")? {
        Some(spans) => spans.iter().map(|span| of_span(span, owner.as_deref())).collect(),
        None => Ok(vec![of_span(row, None)?]),
    }
}

fn of_span(span: &Row<'_>, owner: Option<&str>) -> Result<(String, Option<Call>)> {
    let none = Dict::new();
    let attributes = span.object("attributes")?.unwrap_or(&none);
    let attributes = span.inner("attributes", attributes);
    let conversation = attributes.name("gen_ai.conversation.id")?;
    let session = match owner.map(str::to_owned).or(conversation).or(span.name("trace_id")?) {
        Some(session) => session,
        None => return Err(span.missing("trace_id")),
    };
    let operation = attributes.text("gen_ai.operation.name")?.unwrap_or_default();
    if !(matches!(operation, "chat" | "text_completion") || operation.starts_with("generate")) {
        return Ok((session, None));
    }
    let (start, end) = (time(span, "start_time")?, time(span, "end_time")?);
    if end < start {
        return Err(span.wrong("end_time", "is before start_time"));
    }
    let (content, prompt_marks) = content(&attributes)?;
    let mut step = Step::new(String::new(), 0);
    step.input_tokens = first_count(&attributes, &["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"])?;
    step.output_tokens = first_count(&attributes, &["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"])?
        .or(attributes.count("gen_ai.request.max_tokens")?);
    step.prompt = content.map_or(Prompt::Synthetic, Prompt::Given);
    if step.prompt == Prompt::Synthetic && step.input_tokens.is_none() {
        return Err(
            attributes.wrong("gen_ai.usage.input_tokens", "is missing, and so are the messages: nothing can be sent")
        );
    }
    step.notes.model = attributes.string("gen_ai.request.model")?;
    step.notes.agent = attributes.name("gen_ai.agent.id")?.or(attributes.name("gen_ai.agent.name")?);
    step.notes.span_id = span.name("span_id")?;
    step.notes.failed = span.object("status")?.is_some_and(|status| is_error(status.get("code")));
    if let Some(temperature) = attributes.number("gen_ai.request.temperature")? {
        step.notes.extra = Some([("temperature".to_owned(), temperature.into())].into_iter().collect());
    }
    let response_marks = output(&attributes)?;
    Ok((session, Some(Call { start, end, step, response_marks, prompt_marks })))
}

fn is_error(code: Option<&Value>) -> bool {
    match code {
        Some(Value::Int(code)) => *code == 2,
        Some(Value::Str(code)) => code.ends_with("ERROR"),
        _ => false,
    }
}

/// The content that was sent, and the marks of earlier responses in it.
fn content(attributes: &Row<'_>) -> Result<(Option<Dict>, Vec<String>)> {
    let Some(sent) = listed(attributes, "gen_ai.input.messages")? else { return Ok((None, Vec::new())) };
    let messages = messages::openai(attributes, "gen_ai.input.messages", &sent)?;
    let prompt_marks = messages.iter().flat_map(messages::marks).collect();
    let mut content = dict! { "messages": messages };
    if let Some(tools) = listed(attributes, "gen_ai.tool.definitions")? {
        content.set("tools", tools);
    }
    Ok((Some(content), prompt_marks))
}

fn output(attributes: &Row<'_>) -> Result<Vec<String>> {
    let Some(response) = listed(attributes, "gen_ai.output.messages")? else { return Ok(Vec::new()) };
    let messages = messages::openai(attributes, "gen_ai.output.messages", &response)?;
    Ok(messages.iter().flat_map(messages::marks).collect())
}

/// A list, also if it is written as JSON text.
fn listed(attributes: &Row<'_>, name: &str) -> Result<Option<Vec<Value>>> {
    let wrong = || attributes.wrong(name, "must be a list, or the JSON text of one");
    match attributes.get(name) {
        None => Ok(None),
        Some(Value::List(items)) => Ok(Some(items.clone())),
        Some(Value::Str(text)) => match json::parse(text) {
            Ok(Value::List(items)) => Ok(Some(items)),
            _ => Err(wrong()),
        },
        Some(_) => Err(wrong()),
    }
}

fn first_count(row: &Row<'_>, names: &[&str]) -> Result<Option<u64>> {
    names.iter().find(|name| row.has(name)).map_or(Ok(None), |name| row.count(name))
}

/// A time field in nanoseconds since 1970.
fn time(span: &Row<'_>, name: &str) -> Result<i128> {
    let nanos = match span.get(name).ok_or_else(|| span.missing(name))? {
        Value::Str(text) => nanoseconds(text),
        Value::Int(nanos) => Some(i128::from(*nanos)),
        _ => None,
    };
    nanos.ok_or_else(|| span.wrong(name, "must be a time such as 2026-01-01T00:00:00Z, or nanoseconds since 1970"))
}
