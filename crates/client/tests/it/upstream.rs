//! How `vllm bench` processes the reads of a stream, to find recorded results that depend on how the reads were split.

use tacho_core::json::{Value, parse};

/// The outcome fields of the recordings.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) success: bool,
    pub(crate) text: String,
    pub(crate) token_events: usize,
    pub(crate) output_tokens: u64,
    pub(crate) prompt_tokens: Option<u64>,
}

/// The request functions for streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Completions,
    Chat,
    Audio,
    Responses,
}

/// The outcome of a body that arrived in these reads and ended as framed.
pub(crate) fn verdict(reads: &[Vec<u8>], function: Function) -> Verdict {
    let mut state = State::default();
    let ran = run(reads, function, &mut state).is_some();
    let ended = function != Function::Responses || (state.ended && !state.error);
    state.verdict.success = ran && ended && state.verdict.token_events > 0;
    if !state.verdict.success {
        state.verdict.text.clear();
    }
    state.verdict
}

#[derive(Default)]
struct State {
    verdict: Verdict,
    ended: bool,
    error: bool,
}

fn run(reads: &[Vec<u8>], function: Function, state: &mut State) -> Option<()> {
    let mut pending: Vec<u8> = Vec::new();
    let mut buffer = String::new();
    for read in reads {
        let read = if function == Function::Responses { read } else { read.trim_ascii() };
        pending.extend_from_slice(read);
        let valid = match std::str::from_utf8(&pending) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return None,
        };
        buffer.push_str(std::str::from_utf8(&pending[..valid]).unwrap());
        pending.drain(..valid);
        while let Some(end) = buffer.find("\n\n") {
            let message = buffer[..end].trim().to_owned();
            buffer.drain(..end + 2);
            if !message.is_empty() {
                take(&message, function, state)?;
            }
        }
        if let Some(rest) = buffer.strip_prefix("data: ")
            && (rest.trim() == "[DONE]" || (!rest.trim().is_empty() && parse(rest.trim()).is_ok()))
        {
            let message = std::mem::take(&mut buffer);
            take(message.trim(), function, state)?;
        }
    }
    Some(())
}

fn take(message: &str, function: Function, state: &mut State) -> Option<()> {
    match function {
        Function::Responses => take_response(message, state),
        Function::Completions | Function::Chat if message.starts_with(':') => Some(()),
        _ => take_choices(message, function, &mut state.verdict),
    }
}

fn take_choices(message: &str, function: Function, verdict: &mut Verdict) -> Option<()> {
    let data = message.strip_prefix("data: ").unwrap_or(message);
    if data == "[DONE]" {
        return Some(());
    }
    let Ok(Value::Dict(event)) = parse(data) else { return None };
    match event.get("choices").filter(|choices| choices.truthy()) {
        Some(choices) => {
            let first = choices.as_list()?.first()?.as_dict()?;
            let text = match function {
                Function::Completions => first.get("text"),
                _ => first.get("delta")?.as_dict()?.get("content"),
            };
            verdict.token_events += 1;
            push(text, verdict)?;
        }
        None => {
            if let Some(usage) = event.get("usage").filter(|usage| usage.truthy()) {
                verdict.output_tokens = count(usage, "completion_tokens").unwrap_or(0);
                if function != Function::Audio {
                    verdict.prompt_tokens = count(usage, "prompt_tokens").or(verdict.prompt_tokens);
                }
            }
        }
    }
    Some(())
}

fn take_response(message: &str, state: &mut State) -> Option<()> {
    let lines = message.split('\n').filter_map(|line| line.strip_prefix("data:"));
    let data = lines.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect::<Vec<_>>().join("\n");
    if data.trim().is_empty() || data.trim() == "[DONE]" {
        return Some(());
    }
    let Ok(Value::Dict(event)) = parse(&data) else { return None };
    match event.get("type").and_then(Value::as_str).unwrap_or_default() {
        "response.output_text.delta" => {
            state.verdict.token_events += 1;
            push(event.get("delta"), &mut state.verdict)?;
        }
        "response.reasoning_text.delta" => state.verdict.token_events += 1,
        "response.completed" | "response.incomplete" => {
            state.ended = true;
            if let Some(usage) = event.get("response").and_then(|response| response.get("usage")) {
                state.verdict.output_tokens = count(usage, "output_tokens").unwrap_or(state.verdict.output_tokens);
                state.verdict.prompt_tokens = count(usage, "input_tokens").or(state.verdict.prompt_tokens);
            }
        }
        "error" | "response.failed" => state.error = true,
        _ => state.error |= event.get("error").is_some_and(Value::truthy),
    }
    Some(())
}

fn push(text: Option<&Value>, verdict: &mut Verdict) -> Option<()> {
    match text {
        None | Some(Value::Null) => {}
        Some(Value::Str(text)) => verdict.text.push_str(text),
        Some(_) => return None,
    }
    Some(())
}

fn count(usage: &Value, name: &str) -> Option<u64> {
    usage.get(name).and_then(Value::as_f64).map(|count| count as u64)
}
