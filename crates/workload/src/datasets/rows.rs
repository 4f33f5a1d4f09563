//! Rows of the user's own: printed by a command, or read from a file whose columns are mapped to fields.

use std::path::PathBuf;

use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Request, bounded::TokenCount};
use tacho_text::Tokenizer;

use super::{custom_image::image_content, openai::prompt_len};
use crate::requests::carrier::{Carrier, Need};
use crate::sampling::chat::{Chat, multimodal_chat};
use crate::sources::mapped::{FieldMap, Fields, MappedRow, MappedRows};
use crate::{
    Error, limits::LENGTH, media::links::Links, requests::file::content, sampling::context::SampleContext,
    sampling::sampled::Sampled, sampling::selection::Selection, scenarios::with_priority,
    sources::command::CommandSpec, sources::file_digest,
};

#[derive(Debug, Clone, PartialEq)]
pub enum RowSource {
    /// A command prints them, in the order in which they are sent.
    Command(CommandSpec),
    /// A file: JSON, JSON lines, CSV, TSV, Parquet or Arrow.
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RowsSpec {
    pub source: RowSource,
    pub map: FieldMap,
    /// The selected rows; those of a command are not shuffled.
    pub selection: Selection,
    /// Output tokens of all rows, instead of their own.
    pub output_len: Option<i64>,
    /// Output tokens of rows without their own.
    pub default_output_len: Option<i64>,
    /// Whether prompts use the tokenizer's chat template, unless the backend sends them as chat messages.
    pub chat_template: bool,
    pub template_variables: Option<Dict>,
    /// Whether a prompt with media becomes a chat message that contains them.
    pub multimodal_chat: bool,
    /// Whether images are read by the client and sent inside the request.
    pub client_side_data: bool,
    /// Factor on the rows' times; `None` if a schedule determines them.
    pub time_scale: Option<f64>,
    pub carrier: Carrier,
}

pub(crate) fn sample(spec: &RowsSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let (mut rows, digest) = spec.read()?;
    spec.order().arrange(&mut rows.rows, context.globals);
    let tokenizer = context.tokenizer;
    let links = Links::default();
    let templated = tokenizer.filter(|tokenizer| spec.chat_template && tokenizer.has_chat_template());
    let chat = templated.map(|tokenizer| Chat::new(tokenizer, spec.template_variables.as_ref())).transpose()?;
    let maker = Maker { spec, tokenizer, chat, links: &links };
    let request = |row: &MappedRow| maker.request(&rows.fields(row));
    let mut make = || spec.selection.requests(rows.rows.iter(), spec.time_scale, context, request);
    let requests = if spec.client_side_data { links.at_once(make)? } else { make()? };
    let notices = spec.notices(&rows);
    Ok(Sampled { requests, notices, digests: vec![digest] })
}

impl RowsSpec {
    /// The rows, and the digest of what was read.
    fn read(&self) -> Result<(MappedRows<'_>, String), Error> {
        match &self.source {
            RowSource::Command(command) => {
                let wanted = usize::try_from(self.selection.num_prompts).ok().filter(|wanted| *wanted > 0);
                let printed = command.rows(self.selection.seed, wanted)?;
                let digest = printed.digest.clone();
                Ok((MappedRows::of_command(printed, &self.map)?, digest))
            }
            RowSource::File(path) => Ok((MappedRows::of_file(path, &self.map)?, file_digest(path)?)),
        }
    }

    /// The selection, without a shuffle where the order of the rows has a meaning.
    fn order(&self) -> Selection {
        let shuffle = self.selection.shuffle && self.time_scale.is_none() && matches!(self.source, RowSource::File(_));
        Selection { shuffle, ..self.selection.clone() }
    }

    fn notices(&self, rows: &MappedRows<'_>) -> Vec<String> {
        let wanted = self.selection.wanted_or_all(rows.rows.len());
        let unused = rows.unused().join(", ");
        let unused = (!unused.is_empty()).then(|| format!("fields of the rows that are not used: {unused}"));
        let found = rows.rows.len();
        let is_command = matches!(self.source, RowSource::Command(_));
        let repeats = is_command && found < wanted && self.selection.oversample && self.time_scale.is_none();
        let repeats =
            repeats.then(|| format!("--dataset-command printed {found} rows for {wanted} requests: they are repeated"));
        unused.into_iter().chain(repeats).collect()
    }
}

struct Maker<'s> {
    spec: &'s RowsSpec,
    tokenizer: Option<&'s Tokenizer>,
    chat: Option<Chat<'s>>,
    links: &'s Links,
}

impl Maker<'_> {
    fn request(&self, fields: &Fields<'_>) -> Result<Request, Error> {
        let output_len = self.output_len(fields)?;
        let request = match (fields.json("messages")?, fields.prompt()?) {
            (Some(_), Some(_)) => return Err(fields.wrong("messages", "left out if there is a prompt")),
            (Some(messages), None) => self.messages(fields, messages, output_len)?,
            (None, Some(prompt)) => self.prompt(fields, prompt, output_len)?,
            (None, None) => return Err(fields.wrong("prompt", "given, or messages")),
        };
        let overrides: Dict = fields.members("overrides")?.into_iter().collect();
        let request = Request {
            overrides: Some(Value::Dict(overrides)).filter(Value::truthy),
            session: fields.text("session_id")?,
            lora: fields.text("lora")?,
            labels: fields.labels()?.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            timestamp: self.timestamp(fields)?,
            answer: fields.json("answer")?,
            ..request
        };
        let priority = fields.whole("priority", "a whole number, lower ones served first")?;
        Ok(match priority {
            Some(priority) => with_priority(request, priority),
            None => request,
        })
    }

    fn output_len(&self, fields: &Fields<'_>) -> Result<i64, Error> {
        let own = match fields.whole("output_len", LENGTH)? {
            Some(own) => Some(own),
            None => fields.whole("output_tokens", LENGTH)?,
        };
        if own.is_some_and(|own| !TokenCount::holds(own)) {
            return Err(fields.wrong("output_len", LENGTH));
        }
        let len = self.spec.output_len.or(own).or(self.spec.default_output_len);
        len.ok_or_else(|| fields.wrong("output_len", "given, or --custom-output-len"))
    }

    fn timestamp(&self, fields: &Fields<'_>) -> Result<Option<f64>, Error> {
        let seconds = fields.number("timestamp", "a number of seconds")?;
        match (self.spec.time_scale, seconds) {
            (Some(_), None) => Err(fields.wrong("timestamp", "given, in seconds, for --self-timed")),
            (Some(_), seconds) => Ok(seconds),
            (None, _) => Ok(None),
        }
    }

    fn messages(&self, fields: &Fields<'_>, messages: Value, output_len: i64) -> Result<Request, Error> {
        let is_message = |message: &Value| message.text("role").is_some();
        let list = messages.as_list().filter(|list| !list.is_empty() && list.iter().all(is_message));
        let Some(last) = list.and_then(<[Value]>::last) else {
            return Err(fields.wrong("messages", "a list of messages, each with a role"));
        };
        self.needs(fields, Need::Chat, "messages")?;
        let text = last.text("content").unwrap_or_default().to_owned();
        let len = self.tokenizer.map_or(1, |tokenizer| prompt_len(tokenizer, self.chat.as_ref(), &messages, None));
        Ok(Request { chat_messages: Some(messages), ..Request::text(text, len, output_len) })
    }

    fn prompt(&self, fields: &Fields<'_>, prompt: Value, output_len: i64) -> Result<Request, Error> {
        let media = self.media(fields)?;
        let count = |text: &str| self.tokenizer.map_or(1, |tokenizer| tokenizer.count(text, true) as u64);
        let (content, len) = match (content(prompt), &media) {
            (Content::Text(text), Some(media)) if self.spec.multimodal_chat => {
                (multimodal_chat(&text, Some(media)), count(&text))
            }
            (Content::Text(text), Some(_)) => (Content::Text(text.clone()), count(&text)),
            (Content::Text(text), None) => self.text(text, count)?,
            (Content::Texts(texts), None) => {
                let len = texts.iter().map(|text| count(text)).sum();
                (Content::Texts(texts), len)
            }
            (Content::Ids(ids), None) => {
                self.needs(fields, Need::TokenIds, "prompt")?;
                let len = ids.len() as u64;
                (Content::Ids(ids), len)
            }
            (Content::Json(_), None) => {
                return Err(fields.wrong("prompt", "a text, a list of texts or a list of token IDs"));
            }
            (_, Some(_)) => return Err(fields.wrong("prompt", "a text, since there are media")),
        };
        Ok(Request { content, media, ..Request::text("", len, output_len) })
    }

    /// A text as it is sent, and its tokens. A chat backend sends it as a message, which the server renders.
    fn text(&self, text: String, count: impl Fn(&str) -> u64) -> Result<(Content, u64), Error> {
        let rendered = self.chat.as_ref().map(|chat| chat.user(&text)).transpose()?;
        let len = count(rendered.as_ref().unwrap_or(&text));
        let is_chat = self.spec.carrier.carries(Need::Chat);
        Ok((Content::Text(rendered.filter(|_| !is_chat).unwrap_or(text)), len))
    }

    /// The media of a row: one image or several, and ready-made content parts.
    fn media(&self, fields: &Fields<'_>) -> Result<Option<Value>, Error> {
        let images = match fields.json("image")? {
            None => Vec::new(),
            Some(Value::List(images)) => images,
            Some(image) => vec![image],
        };
        let mut parts = Vec::new();
        for one in &images {
            let url = one.as_str().ok_or_else(|| fields.wrong("image", "the path or URL of an image, or a list"))?;
            let part = image_content(url, self.spec.client_side_data.then_some(self.links));
            parts.push(part.map_err(|source| Error::FieldImage {
                at: fields.position(),
                url: crate::media::links::shown(url).into_owned(),
                source,
            })?);
        }
        match fields.json("media")? {
            None => {}
            Some(Value::List(more)) if more.iter().all(is_part) => parts.extend(more),
            Some(one) if is_part(&one) => parts.push(one),
            Some(_) => return Err(fields.wrong("media", "a list of content parts, each with a type")),
        }
        if parts.is_empty() {
            return Ok(None);
        }
        if !self.spec.carrier.takes_media() {
            return Err(Error::NotMultimodal { backend: self.spec.carrier.name.to_owned() });
        }
        Ok(Some(if parts.len() == 1 { parts.remove(0) } else { Value::List(parts) }))
    }

    fn needs(&self, fields: &Fields<'_>, need: Need, field: &'static str) -> Result<(), Error> {
        if self.spec.carrier.carries(need) {
            return Ok(());
        }
        let (at, backend) = (fields.position(), self.spec.carrier.name);
        let (what, remedy) = match need {
            Need::TokenIds => ("token IDs", "openai or vllm"),
            _ => ("messages", "openai-chat, openai-responses or anthropic-messages"),
        };
        Err(data!("{at}: {field:?} has {what}, which the backend {backend} does not send: use --backend {remedy}"))
    }
}

/// Whether a value is an OpenAI content part.
fn is_part(value: &Value) -> bool {
    value.text("type").is_some()
}

#[cfg(test)]
mod tests;
