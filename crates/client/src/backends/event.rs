//! What one stream event of the completions and chat protocols says.

use std::ops::Range;

use super::scan::{Cursor, Kind, NotJson, Text, whole};

/// The fields of an event that matter; spans point into the event's bytes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) choices: Choices,
    pub(crate) choice: Choice,
    pub(crate) usage: Option<UsageField>,
    /// The value of a truthy `error`.
    pub(crate) error: Option<Range<usize>>,
    /// Whether the event is an object at all.
    pub(crate) is_object: bool,
}

/// The `choices` of an event.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
pub(crate) enum Choices {
    /// Missing, null or empty.
    #[default]
    None,
    /// At least one, the first an object.
    Some,
    /// Something else.
    Bad,
}

/// The first choice.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// Its text: `text`, or `content` of its delta.
    pub(crate) text: TextField,
    /// Whether it brings reasoning or a tool call.
    pub(crate) other_content: bool,
    /// Whether it brings reasoning.
    pub(crate) reasoning: bool,
    /// Whether a delta is there (chat only).
    pub(crate) has_delta: bool,
    /// Whether it says why generation ended.
    pub(crate) finished: bool,
    /// Tokens it gives log-probabilities for.
    pub(crate) logprobs: u32,
}

/// A member that should be a text.
#[derive(Debug, Default, PartialEq, Clone)]
pub(crate) enum TextField {
    /// Not there, or null.
    #[default]
    Missing,
    /// A text.
    Text(Text),
    /// A number, a list, …
    Other,
}

/// The `usage` of an event, if it has any member.
#[derive(Debug, Default, PartialEq, Clone, Copy)]
pub(crate) struct UsageField {
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) reasoning_tokens: Option<u64>,
}

/// Where the text of a choice stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Completions,
    Chat,
}

impl Event {
    /// Reads an event; the whole text is checked.
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
            b"usage" => {
                self.usage = read_usage(cursor)?;
                Ok(())
            }
            b"error" => {
                self.error = cursor.truthy_span()?;
                Ok(())
            }
            // The older form of an error, where the event is the error itself.
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
            (b"logprobs", _) => self.logprobs = count_logprobs(cursor)?,
            (b"finish_reason", _) => self.finished = cursor.skip()? != Kind::Null,
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
                // Longer than the two characters of an empty text or list.
                let content = matches!(kind, Kind::Text | Kind::List) && cursor.at - start > 2;
                self.other_content |= content;
                self.reasoning |= content && key != b"tool_calls";
            }
            _ => drop(cursor.skip()?),
        }
        Ok(())
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
        _ => match cursor.skip()? {
            Kind::Null => TextField::Missing,
            _ => TextField::Other,
        },
    })
}

pub(super) fn read_usage(cursor: &mut Cursor<'_>) -> Result<Option<UsageField>, NotJson> {
    if cursor.kind()? != Kind::Object {
        cursor.skip()?;
        return Ok(None);
    }
    let mut usage = UsageField::default();
    let mut members = 0;
    cursor.members(|cursor, key| {
        members += 1;
        let field = match key {
            b"prompt_tokens" => &mut usage.prompt_tokens,
            b"completion_tokens" => &mut usage.completion_tokens,
            b"completion_tokens_details" => {
                return cursor.members_if_object(|cursor, key| {
                    if key == b"reasoning_tokens" {
                        usage.reasoning_tokens = cursor.count()?;
                        return Ok(());
                    }
                    cursor.skip().map(drop)
                });
            }
            _ => return cursor.skip().map(drop),
        };
        *field = cursor.count()?;
        Ok(())
    })?;
    Ok((members > 0).then_some(usage))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn tells_reasoning_and_tool_calls_from_empty_deltas() {
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
    fn an_event_without_choices_may_bring_usage_or_an_error() {
        let event = Event::read(br#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3.0}}"#, Shape::Chat);
        let usage = UsageField { prompt_tokens: Some(7), completion_tokens: Some(3), reasoning_tokens: None };
        assert_eq!(event.unwrap().usage, Some(usage));
        assert!(Event::read(br#"{"error":{"message":"m"}}"#, Shape::Chat).unwrap().error.is_some());
        assert!(Event::read(br#"{"error":null}"#, Shape::Chat).unwrap().error.is_none());
    }
}
