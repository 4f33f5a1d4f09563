//! `custom_image`: user-supplied prompts with images, one JSON object per line.

use std::{path::PathBuf, sync::Arc};

use tacho_core::{Content, Request, json::Value, percent::decoded_text};
use tacho_text::Tokenizer;

use crate::error::{Error, ImageProblem};
use crate::media::links::{Links, is_link};
use crate::media::reference::{image_part, image_url};
use crate::sampling::chat::{message, multimodal_chat, object};
use crate::sources::jsonl::{Line, Lines};
use crate::{
    media::Rgb, sampling::context::SampleContext, sampling::sampled::Sampled, sampling::selection::Selection,
    sources::layout::unpacked,
};

#[derive(Debug, Clone, PartialEq)]
pub struct CustomImageSpec {
    pub path: PathBuf,
    pub selection: Selection,
    /// Output tokens, including -1; the rows' values are ignored.
    pub output_len: i64,
    /// Whether the prompt becomes a chat message that contains its images.
    pub multimodal_chat: bool,
    /// Whether images are read by the client and sent inside the request.
    pub client_side_data: bool,
}

/// Generates the requests; the shuffle or the repetition advances Python's global generator.
pub(crate) fn sample(spec: &CustomImageSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    if !unpacked(&spec.path.to_string_lossy()).ends_with(".jsonl") {
        return Err(Error::NotJsonl { path: spec.path.clone() });
    }
    let mut lines = Lines::read(&spec.path)?;
    for row in lines.rows() {
        let given = |field| row.object.get(field).is_some();
        if !(given("content") || given("prompt") && given("image_files")) {
            return Err(lines.wrong(row, "content", "given, or 'prompt' and 'image_files'"));
        }
    }
    spec.selection.arrange(lines.rows_mut(), context.globals);
    let links = Links::default();
    let reader = RowReader { lines: &lines, spec, tokenizer: context.tokenizer, links: &links };
    let request = |row: &Line| {
        let (content, media, len) = match row.object.get("content") {
            Some(parts) => reader.parts(row, parts)?,
            None => reader.files(row)?,
        };
        Ok(Request { content, media, ..Request::text("", len, spec.output_len) })
    };
    let mut make = || spec.selection.requests(lines.rows().iter(), None, context, request);
    Ok(Sampled::of(if spec.client_side_data { links.at_once(make)? } else { make()? }))
}

type Made = (Content, Option<Value>, u64);

struct RowReader<'r> {
    lines: &'r Lines,
    spec: &'r CustomImageSpec,
    tokenizer: Option<&'r Tokenizer>,
    links: &'r Links,
}

impl RowReader<'_> {
    /// A prompt with a list of images.
    fn files(&self, row: &Line) -> Result<Made, Error> {
        let files = row.object.get("image_files").and_then(Value::as_list).filter(|files| !files.is_empty());
        let files = files.ok_or_else(|| self.lines.wrong(row, "image_files", "a list with at least one image"))?;
        let prompt = row.object.text("prompt");
        let prompt = prompt.ok_or_else(|| self.lines.wrong(row, "prompt", "a text"))?;
        let mut parts =
            files.iter().map(|file| self.image(row, "image_files", file)).collect::<Result<Vec<Value>, Error>>()?;
        let media = if parts.len() == 1 { parts.remove(0) } else { Value::List(parts) };
        let content = if self.spec.multimodal_chat {
            multimodal_chat(prompt, Some(&media))
        } else {
            Content::Text(prompt.to_owned())
        };
        Ok((content, Some(media), self.count(prompt)))
    }

    /// Content parts: texts and images in any order.
    fn parts(&self, row: &Line, parts: &Value) -> Result<Made, Error> {
        let parts = parts.as_list().filter(|parts| !parts.is_empty());
        let parts = parts.ok_or_else(|| self.lines.wrong(row, "content", "a list with at least one part"))?;
        let (mut made, mut text) = (Vec::with_capacity(parts.len()), String::new());
        for part in parts {
            made.push(self.part(row, part, &mut text)?);
        }
        let content = if self.spec.multimodal_chat {
            Value::List(vec![message("user", Value::List(made))])
        } else {
            Value::List(made)
        };
        Ok((Content::Json(content), None, self.count(&text)))
    }

    fn part(&self, row: &Line, part: &Value, text: &mut String) -> Result<Value, Error> {
        let wrong = |expected| self.lines.wrong(row, "content", expected);
        match part.text("type") {
            Some("text") => {
                let words = part.text("text").ok_or_else(|| wrong("parts with a 'text'"))?;
                text.push_str(words);
                Ok(object([("type", Value::from("text")), ("text", Value::from(words))]))
            }
            Some("image") => {
                let image = part.get("image").ok_or_else(|| wrong("image parts with an 'image'"))?;
                self.image(row, "content", image)
            }
            Some("image_url") => match part.get("image_url") {
                Some(Value::Dict(given)) => {
                    let url = given.get("url").ok_or_else(|| wrong("image_url parts with a 'url'"))?;
                    let mut made = self.image(row, "content", url)?;
                    if let Value::Dict(made) = &mut made
                        && let Some(Value::Dict(mut inner)) = made.remove("image_url")
                    {
                        given.iter().filter(|(key, _)| *key != "url").for_each(|(key, value)| {
                            inner.set(key, value.clone());
                        });
                        made.set("image_url", inner);
                    }
                    Ok(made)
                }
                Some(url @ Value::Str(_)) => self.image(row, "content", url),
                _ => Err(wrong("image_url parts with a URL")),
            },
            _ => Err(wrong("parts of type 'text', 'image' or 'image_url'")),
        }
    }

    fn image(&self, row: &Line, field: &str, image: &Value) -> Result<Value, Error> {
        let text = image.as_str().ok_or_else(|| self.lines.wrong(row, field, "paths or URLs of images"))?;
        let part = image_content(text, self.spec.client_side_data.then_some(self.links));
        part.map_err(|problem| self.lines.bad_image(row, &image_url(text), problem))
    }

    fn count(&self, text: &str) -> u64 {
        self.tokenizer.map_or(1, |tokenizer| tokenizer.count(text, true) as u64)
    }
}

/// The content part of an image given as a path or a URL. With `links`, the image itself is sent as PNG.
pub(super) fn image_content(text: &str, links: Option<&Links>) -> Result<Value, ImageProblem> {
    let url = image_url(text);
    let Some(links) = links.filter(|_| !url.starts_with("data:image/")) else { return Ok(image_part(&url)) };
    let file = if is_link(&url) { links.fetch(&url) } else { read_file(&url) }?;
    let png = Rgb::decode(&file).and_then(|image| image.to_png_url());
    png.map(|png| image_part(&png)).ok_or(ImageProblem::Undecodable)
}

fn read_file(url: &str) -> Result<Arc<[u8]>, ImageProblem> {
    let path = decoded_text(url.strip_prefix("file://").unwrap_or(url));
    let unreadable = |source: std::io::Error| ImageProblem::Unreadable { reason: source.to_string() };
    tacho_core::files::read_data(path).map(Arc::from).map_err(unreadable)
}
