//! Stream events of the completions and chat protocols.

use std::ops::Range;

use tacho_core::{Drafts, Observation, ServerTimes};

use super::scan::{Cursor, Kind, NotJson, Text, whole};

/// The relevant fields of an event; spans point into the event's bytes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) choices: Choices,
    pub(crate) choice: Choice,
    pub(crate) usage: Option<UsageField>,
    pub(crate) usage_span: Option<Range<usize>>,
    /// Speculative decoding of the whole response, in its last event.
    pub(crate) drafts: Option<Drafts>,
    pub(crate) times: ServerTimes,
    /// Whether `usage` is neither empty nor an object.
    pub(crate) odd_usage: bool,
    /// The value of a truthy `error`.
    pub(crate) error: Option<Range<usize>>,
    /// The value of a truthy `detail` or `message`, which is an error if there is nothing else.
    pub(crate) complaint: Option<Range<usize>>,
    pub(crate) is_object: bool,
}

#[derive(Debug, Default, PartialEq, Clone, Copy)]
pub(crate) enum Choices {
    /// Missing, null or empty.
    #[default]
    None,
    /// At least one; the first is an object.
    Some,
    Bad,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// The text: `text`, or the `content` of the delta.
    pub(crate) text: TextField,
    pub(crate) branch: u64,
    /// Whether it contains reasoning or a tool call.
    pub(crate) other_content: bool,
    pub(crate) reasoning: bool,
    /// The tool calls, or fragments of them.
    pub(crate) calls: Option<Range<usize>>,
    /// Whether it has a delta (chat only).
    pub(crate) has_delta: bool,
    pub(crate) finished: bool,
    /// The finish reason, if it is an error.
    pub(crate) error_finish: Option<Range<usize>>,
    pub(crate) logprobs: u32,
    pub(crate) logprobs_span: Range<usize>,
}

/// A member that should be a string.
#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) enum TextField {
    #[default]
    Missing,
    Text(Text),
    /// Not a string, but falsy in Python: false, zero, an empty list.
    Falsy,
    /// A number, a list, or another value.
    Other,
}

impl TextField {
    pub(super) fn has_characters(&self) -> bool {
        matches!(self, TextField::Text(text) if !text.span.is_empty())
    }
}

/// The `usage` of an event, if it has any members.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
pub(crate) struct UsageField {
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) reasoning_tokens: Option<u64>,
    /// Prompt tokens served from the prefix cache.
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) impossible: bool,
}

impl UsageField {
    /// Updates a row; fields that are missing here stay as they are.
    pub(crate) fn note(&self, row: &mut Observation) {
        row.usage.prompt_tokens = self.prompt_tokens.or(row.usage.prompt_tokens);
        row.usage.completion_tokens = self.completion_tokens.or(row.usage.completion_tokens);
        self.note_details(row);
    }

    /// Updates all fields but the two counts.
    pub(crate) fn note_details(&self, row: &mut Observation) {
        row.usage.cached_tokens = self.cached_tokens.or(row.usage.cached_tokens);
        row.impossible_usage |= self.impossible;
        row.reasoning_tokens = self.reasoning_tokens.or(row.reasoning_tokens);
    }
}

/// Position of the text in a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Completions,
    Chat,
}

impl Event {
    /// Parses an event and validates all of it.
    pub(crate) fn read(bytes: &[u8], shape: Shape) -> Result<Event, NotJson> {
        whole(bytes, |cursor| {
            let mut event = Event { is_object: cursor.kind()? == Kind::Object, ..Event::default() };
            cursor.members_if_object(|cursor, key| event.member(cursor, key, shape))?;
            Ok(event)
        })
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8], shape: Shape) -> Result<(), NotJson> {
        match key {
            b"choices" => self.read_choices(cursor, shape),
            b"usage" if cursor.kind()? == Kind::Object => {
                let start = cursor.at;
                self.usage = read_usage(cursor, UsageNames::Choices)?;
                self.usage_span = Some(start..cursor.at);
                Ok(())
            }
            b"usage" => {
                self.odd_usage = cursor.truthy_span()?.is_some();
                Ok(())
            }
            b"error" => {
                self.error = cursor.truthy_span()?;
                Ok(())
            }
            b"metrics" | b"timings" => {
                (self.drafts, self.times) = read_metrics(cursor)?;
                Ok(())
            }
            b"detail" | b"message" => {
                self.complaint = cursor.truthy_span()?.or(self.complaint.take());
                Ok(())
            }
            // The older form of an error: the event itself is the error.
            b"object" => {
                if let TextField::Text(text) = read_text(cursor)?
                    && cursor.slice(text.span) == b"error"
                {
                    self.error = Some(0..cursor.len());
                }
                Ok(())
            }
            _ => cursor.skip().map(drop),
        }
    }

    fn read_choices(&mut self, cursor: &mut Cursor<'_>, shape: Shape) -> Result<(), NotJson> {
        self.choice = Choice::default();
        if cursor.kind()? != Kind::List {
            self.choices = if cursor.truthy_span()?.is_none() { Choices::None } else { Choices::Bad };
            return Ok(());
        }
        let mut first_is_object = false;
        let choice = &mut self.choice;
        let count = cursor.items(|cursor, at| {
            if at == 0 && cursor.kind()? == Kind::Object {
                first_is_object = true;
                cursor.members(|cursor, key| choice.member(cursor, key, shape))
            } else {
                cursor.skip().map(drop)
            }
        })?;
        self.choices = match (count, first_is_object) {
            (0, _) => Choices::None,
            (_, true) => Choices::Some,
            (_, false) => Choices::Bad,
        };
        Ok(())
    }
}

impl Choice {
    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8], shape: Shape) -> Result<(), NotJson> {
        match (key, shape) {
            (b"text", Shape::Completions) => self.text = read_text(cursor)?,
            (b"delta", Shape::Chat) if cursor.kind()? == Kind::Object => {
                self.has_delta = true;
                cursor.members(|cursor, key| self.delta_member(cursor, key))?;
            }
            (b"index", _) => {
                // An invalid number here does not affect the usage counts.
                let met = cursor.met_impossible;
                self.branch = cursor.count()?.unwrap_or(0);
                cursor.met_impossible = met;
            }
            (b"logprobs", _) => {
                let start = cursor.at;
                self.logprobs = count_logprobs(cursor)?;
                self.logprobs_span = start..cursor.at;
            }
            (b"finish_reason", _) => (self.finished, self.error_finish) = read_finish(cursor)?,
            _ => drop(cursor.skip()?),
        }
        Ok(())
    }

    fn delta_member(&mut self, cursor: &mut Cursor<'_>, key: &[u8]) -> Result<(), NotJson> {
        match key {
            b"content" => self.text = read_text(cursor)?,
            b"reasoning" | b"reasoning_content" | b"tool_calls" => {
                let start = cursor.at;
                let kind = cursor.skip()?;
                // Longer than the two characters of an empty string or list.
                let content = matches!(kind, Kind::Text | Kind::List) && cursor.at - start > 2;
                self.other_content |= content;
                self.reasoning |= content && key != b"tool_calls";
                if content && key == b"tool_calls" {
                    self.calls = Some(start..cursor.at);
                }
            }
            _ => drop(cursor.skip()?),
        }
        Ok(())
    }
}

/// Whether a choice has a finish reason, and its position if it is an error. vLLM reports `abort` and `error`.
pub(super) fn read_finish(cursor: &mut Cursor<'_>) -> Result<(bool, Option<Range<usize>>), NotJson> {
    match cursor.kind()? {
        Kind::Text => {
            let span = cursor.text()?.span;
            let bad = matches!(cursor.slice(span.clone()), b"error" | b"abort" | b"aborted" | b"cancelled");
            Ok((true, bad.then_some(span)))
        }
        _ => Ok((cursor.skip()? != Kind::Null, None)),
    }
}

/// Tokens in a choice's `logprobs`: its `tokens` (completions) or `content` (chat).
fn count_logprobs(cursor: &mut Cursor<'_>) -> Result<u32, NotJson> {
    let mut count = 0;
    cursor.members_if_object(|cursor, key| {
        if matches!(key, b"tokens" | b"content") && cursor.kind()? == Kind::List {
            count = cursor.items(|cursor, _| cursor.skip().map(drop))? as u32;
            return Ok(());
        }
        cursor.skip().map(drop)
    })?;
    Ok(count)
}

pub(super) fn read_text(cursor: &mut Cursor<'_>) -> Result<TextField, NotJson> {
    Ok(match cursor.kind()? {
        Kind::Text => TextField::Text(cursor.text()?),
        Kind::Null => {
            cursor.skip()?;
            TextField::Missing
        }
        _ if cursor.truthy_span()?.is_none() => TextField::Falsy,
        _ => TextField::Other,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageNames {
    /// `prompt_tokens`, `completion_tokens`.
    Choices,
    /// `input_tokens`, `output_tokens`.
    Responses,
}

/// A usage report; `None` for anything but a nonempty object.
pub(super) fn read_usage(cursor: &mut Cursor<'_>, names: UsageNames) -> Result<Option<UsageField>, NotJson> {
    use UsageNames::{Choices, Responses};
    let mut usage = UsageField::default();
    let mut members = 0;
    cursor.members_if_object(|cursor, key| {
        members += 1;
        match (names, key) {
            (Choices, b"prompt_tokens") | (Responses, b"input_tokens") => usage.prompt_tokens = cursor.count()?,
            (Choices, b"completion_tokens") | (Responses, b"output_tokens") => {
                usage.completion_tokens = cursor.count()?;
            }
            (Choices, b"prompt_tokens_details") | (Responses, b"input_tokens_details") => {
                usage.cached_tokens = member_count(cursor, b"cached_tokens")?;
            }
            (Choices, b"completion_tokens_details") | (Responses, b"output_tokens_details") => {
                usage.reasoning_tokens = member_count(cursor, b"reasoning_tokens")?;
            }
            _ => drop(cursor.skip()?),
        }
        Ok(())
    })?;
    usage.impossible = cursor.met_impossible;
    Ok((members > 0).then_some(usage))
}

/// What the server measured of a response: `metrics` of vLLM with its draft tokens in `speculative_decoding`, or `timings`
/// of llama.cpp.
pub(super) fn read_metrics(cursor: &mut Cursor<'_>) -> Result<(Option<Drafts>, ServerTimes), NotJson> {
    // An invalid number here does not affect the usage counts.
    let met = cursor.met_impossible;
    let (mut steps, mut tokens, mut accepted) = (None, None, None);
    let mut times = ServerTimes::default();
    let mut member = |cursor: &mut Cursor<'_>, key: &[u8]| {
        let time = match key {
            b"queue_time_ms" => Some(&mut times.queue),
            // vLLM counts it from the first iteration.
            b"time_to_first_token_ms" | b"prompt_ms" => Some(&mut times.prefill),
            b"generation_time_ms" | b"predicted_ms" => Some(&mut times.decode),
            _ => None,
        };
        if let Some(time) = time
            && cursor.kind()? == Kind::Number
        {
            *time = ServerTimes::micros(cursor.number()? * 1e3);
            return Ok(());
        }
        let position = match key {
            b"num_spec_steps" => &mut steps,
            b"num_draft_tokens" | b"draft_n" => &mut tokens,
            b"num_accepted_draft_tokens" | b"draft_n_accepted" => &mut accepted,
            _ => return cursor.skip().map(drop),
        };
        *position = cursor.count()?.and_then(|count| u32::try_from(count).ok());
        Ok(())
    };
    cursor.members_if_object(|cursor, key| match key {
        b"speculative_decoding" => cursor.members_if_object(&mut member),
        _ => member(cursor, key),
    })?;
    cursor.met_impossible = met;
    let drafts = tokens.zip(accepted).filter(|(tokens, accepted)| *tokens > 0 && accepted <= tokens);
    let drafts = drafts.map(|(tokens, accepted)| Drafts { steps, tokens, accepted });
    Ok((drafts, times))
}

pub(super) fn member_count(cursor: &mut Cursor<'_>, name: &[u8]) -> Result<Option<u64>, NotJson> {
    let mut count = None;
    cursor.member_if_object(name, |cursor| {
        count = cursor.count()?;
        Ok(())
    })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_read_under_the_names_of_vllm_and_llama_cpp() {
        let drafts = |text: &str| Event::read(text.as_bytes(), Shape::Chat).unwrap().drafts;
        let vllm = r#"{"choices":[],"usage":{},"metrics":{"time":{"a":1},"speculative_decoding":{"num_spec_steps":43,
            "acceptance_histogram":[39,1,0,3],"num_accepted_draft_tokens":10,"num_draft_tokens":129}}}"#;
        let found = drafts(vllm).unwrap();
        assert_eq!(found, Drafts { steps: Some(43), tokens: 129, accepted: 10 });
        assert!((found.acceptance_length().unwrap() - 1.232_558).abs() < 1e-6);
        let timings = drafts(r#"{"timings":{"draft_n":90,"draft_n_accepted":81}}"#).unwrap();
        assert_eq!((timings, timings.acceptance_length()), (Drafts { steps: None, tokens: 90, accepted: 81 }, None));
        for none in [
            r#"{"timings":{"draft_n":0,"draft_n_accepted":0}}"#,
            r#"{"metrics":null}"#,
            r#"{"metrics":[3]}"#,
            r#"{"timings":{"draft_n":2,"draft_n_accepted":3}}"#,
            r#"{"timings":{"draft_n":-1,"draft_n_accepted":1e99}}"#,
        ] {
            assert_eq!(drafts(none), None, "{none}");
        }
    }

    #[test]
    fn times_of_the_server_are_read_under_the_names_of_vllm_and_llama_cpp() {
        let times = |text: &str| Event::read(text.as_bytes(), Shape::Chat).unwrap().times;
        let of = |queue, prefill, decode| {
            let [queue, prefill, decode] =
                [queue, prefill, decode].map(|us: Option<f64>| us.and_then(ServerTimes::micros));
            ServerTimes { queue, prefill, decode }
        };
        let vllm = r#"{"choices":[],"metrics":{"time_to_first_token_ms":12.3456,"generation_time_ms":250,"queue_time_ms":0.25,
            "mean_itl_ms":null,"speculative_decoding":null}}"#;
        assert_eq!(times(vllm), of(Some(250.0), Some(12_346.0), Some(250e3)));
        let llama_cpp = r#"{"timings":{"prompt_n":9,"prompt_ms":1.5,"predicted_ms":20.25,"draft_n":9}}"#;
        assert_eq!(times(llama_cpp), of(None, Some(1500.0), Some(20_250.0)));
        for none in [
            r#"{"metrics":{"queue_time_ms":null}}"#,
            r#"{"metrics":{"queue_time_ms":-1}}"#,
            r#"{"timings":{"prompt_ms":1e99}}"#,
        ] {
            assert_eq!(times(none), ServerTimes::default(), "{none}");
        }
    }

    #[test]
    fn reads_a_completions_chunk() {
        let text = br#"{"id":"c","choices":[{"index":0,"text":"a\n","finish_reason":null}],"usage":null}"#;
        let event = Event::read(text, Shape::Completions).unwrap();
        assert_eq!(event.choices, Choices::Some);
        let TextField::Text(found) = &event.choice.text else { panic!("{event:?}") };
        assert_eq!(&text[found.span.clone()], br"a\n");
        assert!(found.escaped && !event.choice.finished && event.usage.is_none());
    }

    #[test]
    fn distinguishes_reasoning_and_tool_calls_from_empty_deltas() {
        let other = |delta: &str| {
            let text = format!(r#"{{"choices":[{{"delta":{delta},"finish_reason":"stop"}}]}}"#);
            let choice = Event::read(text.as_bytes(), Shape::Chat).unwrap().choice;
            assert_eq!(choice.reasoning, delta.contains(r#":"r""#));
            choice.other_content
        };
        assert!(other(r#"{"reasoning":"r"}"#) && other(r#"{"tool_calls":[{}]}"#));
        assert!(
            !other(r#"{"role":"assistant","content":""}"#) && !other(r#"{"reasoning_content":"","tool_calls":[]}"#)
        );
    }

    #[test]
    fn counts_that_cannot_be_are_left_out_and_noted() {
        let usage = |counts: &str| {
            let text = format!(r#"{{"choices":[],"usage":{{"prompt_tokens":7,{counts}}}}}"#);
            Event::read(text.as_bytes(), Shape::Chat).unwrap().usage.unwrap()
        };
        for count in ["Infinity", "NaN", "-1", "1e40", "18446744073709551615", "9223372036854775807", "2.5"] {
            let found = usage(&format!(r#""completion_tokens":{count}"#));
            assert_eq!(
                (found.prompt_tokens, found.completion_tokens, found.impossible),
                (Some(7), None, true),
                "{count}"
            );
        }
        let found = usage(r#""completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}"#);
        assert_eq!((found.completion_tokens, found.cached_tokens, found.impossible), (Some(3), Some(4), false));
        assert_eq!(usage(r#""prompt_tokens_details":null"#).cached_tokens, None);
    }

    #[test]
    fn an_event_without_choices_may_bring_usage_or_an_error() {
        let event = Event::read(br#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3.0}}"#, Shape::Chat);
        let usage = UsageField { prompt_tokens: Some(7), completion_tokens: Some(3), ..UsageField::default() };
        assert_eq!(event.unwrap().usage, Some(usage));
        assert!(Event::read(br#"{"error":{"message":"m"}}"#, Shape::Chat).unwrap().error.is_some());
        assert!(Event::read(br#"{"error":null}"#, Shape::Chat).unwrap().error.is_none());
    }
}
