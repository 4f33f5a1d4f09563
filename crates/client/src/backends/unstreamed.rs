//! Non-streamed text responses: of DeepSpeed-MII, and of all protocols when `stream` is false.

use std::ops::Range;

use tacho_core::{Drafts, ServerTimes};

use super::event::{TextField, UsageField, UsageNames, read_finish, read_metrics, read_text, read_usage};
use super::members::members;
use super::scan::{Cursor, Kind, NotJson};

members! {
    /// The relevant members of such a response, for all protocols.
    pub(super) struct TextResponse {
        pub(super) error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
        pub(super) has_choices: bool,
        /// The text of the first choice: `text`, or `content` of its message.
        pub(super) choice_text: TextField,
        /// The finish reason, if it is an error.
        pub(super) error_finish: Option<Range<usize>>,
        /// The `text` itself (transcriptions), or the first of a list of them (DeepSpeed-MII, the demonstration server).
        pub(super) text: TextField = b"text" => first_text,
        /// The texts of the messages in `output` (responses), or of the blocks in `content` (messages).
        pub(super) output: Vec<TextField> = b"output" => output_texts,
        pub(super) usage: UsageField = b"usage" => read_either_usage,
        pub(super) drafts: Option<Drafts>,
        pub(super) times: ServerTimes,
    } else |response, cursor| {
        b"metrics" | b"timings" => (response.drafts, response.times) = read_metrics(cursor)?,
        b"choices" => {
            response.has_choices = true;
            (response.choice_text, response.error_finish) = first_choice(cursor)?;
        },
        b"content" => push_block_texts(cursor, &mut response.output)?,
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
