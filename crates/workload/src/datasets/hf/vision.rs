//! Questions about images and videos: VisionArena, MMStar, MMVU.

use tacho_core::{Content, Request, json::Value};

use super::Context;
use crate::media::reference::{image_part, image_reference, video_reference};
use crate::{Error, media::Rgb, sampling::chat::multimodal_chat, sources::cell::Cell, sources::table::Row};

/// VisionArena: the first message of the first turn, and the first image.
pub(super) fn arena(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let column = if context.name == "lmarena-ai/VisionArena-Chat" { "conversation" } else { "turns" };
    let first = row.get(column).and_then(|turns| turns.item(0)).and_then(|turn| turn.item(0));
    let prompt = first.and_then(|message| message.get("content")).and_then(Cell::text);
    let prompt = prompt.ok_or_else(|| row.wrong(column, "turns of messages with a text 'content'"))?;
    let picked = row.get("images").and_then(|images| images.item(0));
    let picked = picked.ok_or_else(|| row.wrong("images", "a list with an image"))?;
    let media = image(row, "images", picked)?;
    asked(context, prompt, media, Keep::Both)
}

/// MMStar: the question without its options.
pub(super) fn mm_star(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let question = row.text("question")?;
    // Python counts four file and record separators as white space.
    let is_space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    let prompt = question.split("Options:").next().unwrap_or_default().trim_matches(is_space);
    let picked = row.get("image").ok_or_else(|| row.wrong("image", "an image"))?;
    let media = image(row, "image", picked)?;
    asked(context, prompt, media, Keep::One)
}

/// MMVU: the question with its choices, and a video from the dataset's repository.
pub(super) fn mmvu(context: &Context<'_>, row: &Row) -> Result<Request, Error> {
    let Some(Cell::Struct(choices)) = row.get("choices") else {
        return Err(row.wrong("choices", "an object"));
    };
    let choices: Vec<String> = choices
        .iter()
        .map(|(key, value)| Some(format!("{key}.{}", value.python_str()?)))
        .collect::<Option<_>>()
        .ok_or_else(|| row.wrong("choices", "an object of texts"))?;
    let prompt = format!("{} {}", row.text("question")?, choices.join(" "));
    let remote = format!("https://huggingface.co/datasets/{}/resolve/main", context.name);
    let video = row.text("video")?.replace(&remote, &context.directory.to_string_lossy());
    let media = video_reference(&Value::Str(video)).ok_or_else(|| row.wrong("video", "a path or a URL"))?;
    asked(context, &prompt, media, Keep::Both)
}

/// Whether media of a chat message are also kept in a separate field.
#[derive(PartialEq)]
enum Keep {
    Both,
    One,
}

fn asked(context: &Context<'_>, prompt: &str, media: Value, keep: Keep) -> Result<Request, Error> {
    let len = context.tokenizer.count(prompt, true) as u64;
    let request = Request::text(prompt, len, context.output_len(128));
    if !context.spec.multimodal_chat {
        return Ok(Request { media: Some(media), ..request });
    }
    let content: Content = multimodal_chat(prompt, Some(&media));
    Ok(Request { content, media: (keep == Keep::Both).then_some(media), ..request })
}

/// The content part of an image column: a file's bytes or a path.
pub(super) fn image(row: &Row, column: &str, cell: &Cell) -> Result<Value, Error> {
    let expected =
        "an image of at most 178956970 pixels: a PNG, JPEG or WebP file, a path or a URL; convert others to PNG";
    let wrong = || row.wrong(column, expected);
    match cell {
        Cell::Text(text) => image_reference(&Value::from(text.as_str())).ok_or_else(wrong),
        Cell::Bytes(file) => decoded(file).ok_or_else(wrong),
        Cell::Struct(_) => match (cell.get("bytes"), cell.get("path")) {
            (Some(Cell::Bytes(file)), _) if !row.holds_images(column) => {
                Rgb::decode_as_stored(file).map(part).ok_or_else(wrong)
            }
            (Some(Cell::Bytes(file)), _) => decoded(file).ok_or_else(wrong),
            (_, Some(Cell::Text(path))) => std::fs::read(path).ok().and_then(|file| decoded(&file)).ok_or_else(wrong),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn decoded(file: &[u8]) -> Option<Value> {
    Rgb::decode(file).map(part)
}

fn part(image: Rgb) -> Value {
    image_part(&image.to_jpeg_url())
}
