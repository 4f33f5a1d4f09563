//! Non-streamed text responses: of DeepSpeed-MII, and of all protocols when `stream` is false.

use std::ops::Range;

use tacho_core::{Drafts, ServerTimes};

use super::event::{TextField, UsageField, UsageNames, read_finish, read_metrics, read_text, read_usage};
use super::scan::{Cursor, Kind, NotJson, whole};

/// The relevant members of such a response, for all protocols.
#[derive(Debug, Default)]
pub(super) struct TextResponse {
    pub(super) is_object: bool,
    pub(super) error: Option<Range<usize>>,
    pub(super) has_choices: bool,
    /// The text of the first choice: `text`, or `content` of its message.
    pub(super) choice_text: TextField,
    /// The finish reason, if it is an error.
    pub(super) error_finish: Option<Range<usize>>,
    /// The `text` itself (transcriptions), or the first of a list of them (DeepSpeed-MII, the demonstration server).
    pub(super) text: TextField,
    /// The texts of the messages in `output` (responses), or of the blocks in `content` (messages).
    pub(super) output: Vec<TextField>,
    pub(super) usage: UsageField,
    pub(super) drafts: Option<Drafts>,
    pub(super) times: ServerTimes,
}

impl TextResponse {
    pub(super) fn read(body: &[u8]) -> Result<Self, NotJson> {
        whole(body, |cursor| {
            let mut response = TextResponse { is_object: cursor.kind()? == Kind::Object, ..TextResponse::default() };
            cursor.members_if_object(|cursor, key| response.member(cursor, key))?;
            Ok(response)
        })
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8]) -> Result<(), NotJson> {
        match key {
            b"metrics" | b"timings" => (self.drafts, self.times) = read_metrics(cursor)?,
            b"usage" => self.usage = read_either_usage(cursor)?,
            b"error" => self.error = cursor.truthy_span()?,
            b"choices" => {
                self.has_choices = true;
                (self.choice_text, self.error_finish) = first_choice(cursor)?;
            }
            b"text" => self.text = first_text(cursor)?,
            b"output" => self.output = output_texts(cursor)?,
            b"content" => push_block_texts(cursor, &mut self.output)?,
            _ => drop(cursor.skip()?),
        }
        Ok(())
    }
}

/// Parses usage under the names of completions or of responses.
fn read_either_usage(cursor: &mut Cursor<'_>) -> Result<UsageField, NotJson> {
    let start = cursor.at;
    let usage = read_usage(cursor, UsageNames::Choices)?.unwrap_or_default();
    if usage != UsageField::default() {
        return Ok(usage);
    }
    cursor.at = start;
    Ok(read_usage(cursor, UsageNames::Responses)?.unwrap_or_default())
}

/// The text of the first choice, and its finish reason if that is an error.
fn first_choice(cursor: &mut Cursor<'_>) -> Result<(TextField, Option<Range<usize>>), NotJson> {
    let (mut text, mut error_finish) = (TextField::Missing, None);
    each_object(cursor, |cursor, at, key| {
        match key {
            b"text" if at == 0 => text = read_text(cursor)?,
            b"finish_reason" if at == 0 => error_finish = read_finish(cursor)?.1,
            b"message" if at == 0 => cursor.member_if_object(b"content", |cursor| {
                text = read_text(cursor)?;
                Ok(())
            })?,
            _ => drop(cursor.skip()?),
        }
        Ok(())
    })?;
    Ok((text, error_finish))
}

/// The texts in the content of all messages.
fn output_texts(cursor: &mut Cursor<'_>) -> Result<Vec<TextField>, NotJson> {
    let mut texts = Vec::new();
    each_object(cursor, |cursor, _, key| match key {
        b"content" => push_block_texts(cursor, &mut texts),
        _ => cursor.skip().map(drop),
    })?;
    Ok(texts)
}

fn push_block_texts(cursor: &mut Cursor<'_>, texts: &mut Vec<TextField>) -> Result<(), NotJson> {
    each_object(cursor, |cursor, _, key| {
        match key {
            b"text" => texts.push(read_text(cursor)?),
            _ => drop(cursor.skip()?),
        }
        Ok(())
    })
}

/// Visits the members of the objects in a list, with the object's index; does nothing without a list.
fn each_object<'a>(
    cursor: &mut Cursor<'a>,
    mut member: impl FnMut(&mut Cursor<'a>, usize, &[u8]) -> Result<(), NotJson>,
) -> Result<(), NotJson> {
    if cursor.kind()? != Kind::List {
        return cursor.skip().map(drop);
    }
    cursor.items(|cursor, at| cursor.members_if_object(|cursor, key| member(cursor, at, key))).map(drop)
}

/// The string at the cursor, or the first item of the list at the cursor if it is a string.
fn first_text(cursor: &mut Cursor<'_>) -> Result<TextField, NotJson> {
    let mut first = TextField::Missing;
    match cursor.kind()? {
        Kind::Text => first = read_text(cursor)?,
        Kind::List => {
            cursor.items(|cursor, at| {
                match at {
                    0 => first = read_text(cursor)?,
                    _ => drop(cursor.skip()?),
                }
                Ok(())
            })?;
        }
        _ => drop(cursor.skip()?),
    }
    Ok(first)
}
