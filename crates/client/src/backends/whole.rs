//! Non-streamed responses: embeddings, scores and texts.

use std::ops::Range;

use tacho_core::{Failure, FailureKind, Media, Observation, Outcome, Task};

use super::declared::DeclaredDecoder;
use super::event::{TextField, UsageField, UsageNames, read_usage};
use super::expected::Encoding;
use super::members::object;
use super::row::{check_finish, error_in_stream, excerpt, malformed, push_text};
use super::scan::{Cursor, Kind, NotJson, whole};
use super::unstreamed::TextResponse;
use super::{BackendKind, Expected, Rules, charset, reply};

/// Bytes after which a response that does not start like JSON is abandoned.
const MAX_NON_JSON: usize = 64 << 10;
/// Maximum length of a response: a longer one is broken or hostile.
const MAX_BODY: usize = 512 << 20;

/// Collects one response and decodes it when it is complete.
#[derive(Debug)]
pub(super) struct WholeDecoder {
    rules: Rules,
    text: bool,
    declared: Option<Box<DeclaredDecoder>>,
    images: bool,
    encoding: Encoding,
    prompt_len: u64,
    keeps_reply: bool,
    content_type: String,
    metadata: Option<String>,
    body: Vec<u8>,
}

impl WholeDecoder {
    pub(super) fn new(backend: BackendKind, rules: Rules, expected: &Expected) -> Self {
        WholeDecoder {
            rules,
            text: backend.task() == Task::Generation,
            declared: backend.description().map(|declared| Box::new(DeclaredDecoder::new(declared, expected))),
            images: backend.task() == Task::Media,
            encoding: expected.encoding,
            prompt_len: expected.prompt_len,
            keeps_reply: expected.keeps_reply,
            content_type: String::new(),
            metadata: None,
            body: Vec::new(),
        }
    }

    pub(super) fn accepts(&self, status: u16) -> bool {
        self.declared.as_ref().map_or(status == 200, |declared| declared.accepts(status))
    }

    /// Takes the headers that determine how to read the body.
    pub(super) fn head(&mut self, content_type: Option<&str>, metadata: Option<&str>) {
        self.content_type = content_type.unwrap_or_default().to_owned();
        self.metadata = metadata.map(str::to_owned);
    }

    /// Whether the response is binary; then any length may be complete.
    pub(super) fn is_bytes(&self) -> bool {
        !self.text && self.encoding != Encoding::Json
    }

    /// Collects bytes, unless they are too many or cannot become a valid response.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.body.extend_from_slice(bytes);
        if self.body.len() > MAX_BODY {
            let message = format!("the response is longer than {} MiB", MAX_BODY >> 20);
            return Err(Failure { kind: FailureKind::Malformed, message });
        }
        let is_not_json = self.rules == Rules::Standard
            && self.body.len() > MAX_NON_JSON
            && !self.is_bytes()
            && self.body.trim_ascii_start().first() != Some(&b'{');
        if is_not_json { Err(malformed("the response is not JSON", &self.body)) } else { Ok(()) }
    }

    /// The outcome, after the body has ended as framed.
    pub(super) fn finish(&mut self, row: &mut Observation) -> Outcome {
        let body = std::mem::take(&mut self.body);
        let body = if self.is_bytes() { body } else { charset::to_utf8(&self.content_type, body) };
        let read = match (self.text, self.encoding) {
            _ if self.declared.is_some() => self.read_declared(&body, row),
            (true, _) => self.read_text(&body, row),
            (false, Encoding::Json) => self.read_json(&body, row),
            (false, Encoding::Bytes) => self.read_described(&body, row),
            (false, Encoding::BytesOnly) => self.not_empty(&body).map(|()| {
                row.usage.prompt_tokens = Some(self.prompt_len);
            }),
        };
        match read {
            Ok(()) => Outcome::Complete,
            Err(failure) => Outcome::Failed(failure),
        }
    }

    fn read_declared(&mut self, body: &[u8], row: &mut Observation) -> Result<(), Failure> {
        self.check_body(body)?;
        self.declared.as_mut().map_or(Ok(()), |declared| declared.whole(body, row))
    }

    fn read_json(&self, body: &[u8], row: &mut Observation) -> Result<(), Failure> {
        let response = self.parse(body)?;
        if self.rules == Rules::Standard {
            error_in_stream(response.error.clone(), body)?;
            if !response.has_data {
                return Err(empty(format!("the response has no data: {}", excerpt(body))));
            }
        }
        if self.images {
            row.media = Some(Media::Images(u32::try_from(response.items).unwrap_or(u32::MAX)));
            // Its counts are not those of text.
            return Ok(());
        }
        self.note_usage(&response, row)
    }

    /// Decodes bytes that the `metadata` header describes.
    fn read_described(&self, body: &[u8], row: &mut Observation) -> Result<(), Failure> {
        let Some(metadata) = self.metadata.as_deref() else {
            let message = match self.rules {
                Rules::Vllm => "'metadata'",
                Rules::Standard => "the response is bytes without a metadata header",
            };
            return Err(Failure { kind: FailureKind::Malformed, message: message.into() });
        };
        let response = WholeResponse::read(metadata.as_bytes())
            .map_err(|_| malformed("metadata is not JSON", metadata.as_bytes()))?;
        self.must_be_object(&response, metadata.as_bytes())?;
        self.not_empty(body)?;
        self.note_usage(&response, row)
    }

    /// Decodes a generated text. Reasoning or tool calls alone count as a response, as the token count shows.
    fn read_text(&self, body: &[u8], row: &mut Observation) -> Result<(), Failure> {
        self.check_body(body)?;
        let (response, _): (TextResponse, _) = object("the response", body)?;
        if self.rules == Rules::Standard {
            error_in_stream(response.error.clone(), body)?;
            check_finish(response.error_finish.clone(), body)?;
            response.usage.note(row);
            (row.usage.drafts, row.times) = (response.drafts, response.times);
        }
        let text = if response.has_choices { &response.choice_text } else { &response.text };
        push_text(text, body, row)?;
        for text in &response.output {
            push_text(text, body, row)?;
        }
        if self.keeps_reply {
            reply::whole(body, row);
        }
        match (row.text.is_empty(), self.rules) {
            (false, _) => Ok(()),
            // Upstream prints an error and counts a success.
            (true, Rules::Vllm) if !response.has_choices || *text != TextField::Missing => Ok(()),
            (true, Rules::Standard) if response.usage.completion_tokens.unwrap_or(0) > 0 => Ok(()),
            (true, _) => Err(empty(format!("the response has no text: {}", excerpt(body)))),
        }
    }

    fn parse(&self, body: &[u8]) -> Result<WholeResponse, Failure> {
        self.check_body(body)?;
        let response = WholeResponse::read(body).map_err(|_| malformed("the response is not JSON", body))?;
        self.must_be_object(&response, body)?;
        Ok(response)
    }

    fn check_body(&self, body: &[u8]) -> Result<(), Failure> {
        if self.rules == Rules::Vllm {
            if !is_json_type(&self.content_type) {
                let message =
                    format!("200, message='Attempt to decode JSON with unexpected mimetype: {}'", self.content_type);
                return Err(Failure { kind: FailureKind::Malformed, message });
            }
            if body.trim_ascii().is_empty() {
                return Err(no_attribute("NoneType"));
            }
        }
        self.not_empty(body.trim_ascii())
    }

    fn must_be_object(&self, response: &WholeResponse, text: &[u8]) -> Result<(), Failure> {
        match (response.kind, self.rules) {
            (Kind::Object, _) => Ok(()),
            (kind, Rules::Vllm) => Err(no_attribute(python_type(kind))),
            (_, Rules::Standard) => Err(malformed("the response is not an object", text)),
        }
    }

    fn not_empty(&self, body: &[u8]) -> Result<(), Failure> {
        if self.rules == Rules::Standard && body.is_empty() {
            return Err(empty("the response has no body".into()));
        }
        Ok(())
    }

    fn note_usage(&self, response: &WholeResponse, row: &mut Observation) -> Result<(), Failure> {
        match (response.usage_kind, self.rules) {
            (Kind::Object, _) | (_, Rules::Standard) => {
                if let Some(usage) = response.usage {
                    row.usage.prompt_tokens = usage.prompt_tokens;
                    usage.note_details(row);
                }
                Ok(())
            }
            (kind, Rules::Vllm) => Err(no_attribute(python_type(kind))),
        }
    }
}

fn empty(message: String) -> Failure {
    Failure { kind: FailureKind::Empty, message }
}

/// Python's error for a value that should have been an object.
fn no_attribute(python_type: &str) -> Failure {
    Failure { kind: FailureKind::Malformed, message: format!("'{python_type}' object has no attribute 'get'") }
}

fn python_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "NoneType",
        Kind::False | Kind::True => "bool",
        Kind::Number => "int",
        Kind::Text => "str",
        Kind::List => "list",
        Kind::Object => "dict",
    }
}

/// Whether a content type is JSON, by aiohttp's rule.
fn is_json_type(content_type: &str) -> bool {
    let mime = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    mime == "application/json" || (mime.contains('/') && mime.ends_with("+json"))
}

/// The relevant members of a non-streamed response.
#[derive(Debug)]
struct WholeResponse {
    kind: Kind,
    usage: Option<UsageField>,
    usage_kind: Kind,
    error: Option<Range<usize>>,
    /// Whether `data` or `results` have any items.
    has_data: bool,
    items: usize,
}

impl WholeResponse {
    fn read(body: &[u8]) -> Result<Self, NotJson> {
        whole(body, |cursor| {
            let mut response = WholeResponse {
                kind: cursor.kind()?,
                usage: None,
                // A missing usage is treated like an empty one.
                usage_kind: Kind::Object,
                error: None,
                has_data: false,
                items: 0,
            };
            cursor.members_if_object(|cursor, key| response.member(cursor, key))?;
            Ok(response)
        })
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8]) -> Result<(), NotJson> {
        match key {
            b"usage" => {
                self.usage_kind = cursor.kind()?;
                self.usage = read_usage(cursor, UsageNames::Choices)?;
            }
            b"error" => self.error = cursor.truthy_span()?,
            b"data" | b"results" if cursor.kind()? == Kind::List => {
                self.items = cursor.items(|cursor, _| cursor.skip().map(drop))?;
                self.has_data |= self.items > 0;
            }
            b"data" | b"results" => self.has_data |= cursor.truthy_span()?.is_some(),
            _ => drop(cursor.skip()?),
        }
        Ok(())
    }
}
