//! Backends from files: a YAML file describes the request and how its response is read. It is compiled before a run,
//! so that a request costs what it costs with a built-in backend.

mod body;
mod decode;
mod engine;
mod fields;
mod files;
mod path;
mod program;
mod spec;
mod trace;

use std::{borrow::Cow, path::Path};

use ring::digest::{SHA256, digest};
use tacho_core::yaml::{self, Node, Tree};
use tacho_core::{Content, Mutex, Request, Task, json::Value};

use super::format::{Origin, ResponseFormat, Sequences};
use super::{BackendKind, Encoded, Expected, PayloadSpec, kind::Row};
use body::{Body, Rendered};
pub(super) use decode::DeclaredDecoder;
pub use engine::BODIES;
use engine::{Compile, Engine};
use fields::{Fields, Problem};
pub use files::{BUILT_IN_FILES, built_in_file};
use path::Step;
use spec::ResponseSpec;
pub(super) use spec::{Framing, Prefix};
pub use trace::{Trace, TraceEvent};

const MAX_FILE: u64 = 1 << 20;
/// Hexadecimal digits of a file's digest.
const DIGITS: usize = 16;

#[derive(Debug)]
pub struct Declared {
    pub(super) row: Row,
    digest: String,
    body: Body,
    response: ResponseSpec,
    /// How a response is read whose request has `stream: false`.
    unstreamed: Option<ResponseSpec>,
    models: Option<(String, Vec<Step>)>,
    ready: Option<String>,
    trace: Trace,
}

impl PartialEq for Declared {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.digest == other.digest
    }
}

impl Eq for Declared {}

/// A file that does not describe a backend, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FileError(String);

/// All files that were read, each of which stays in memory.
static READ: Mutex<Vec<&'static Declared>> = Mutex::new(Vec::new());

impl BackendKind {
    pub const FILE_ENDINGS: &'static [&'static str] = &[".yaml", ".yml", ".json"];

    /// Reads a backend from a file. Fails if the file cannot be read, or does not describe a backend; the message names
    /// file, line and field.
    pub fn from_file(path: &Path) -> Result<BackendKind, FileError> {
        let shown = path.display();
        let fail = |problem: String| FileError(format!("{shown}: {problem}"));
        let size = std::fs::metadata(path).map_err(|error| fail(format!("cannot be read: {error}")))?.len();
        if size > MAX_FILE {
            return Err(fail(format!("is larger than {} KiB: is it a backend file?", MAX_FILE >> 10)));
        }
        let text =
            tacho_core::files::read_settings_text(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
        let stem = path.file_stem().map_or_else(|| "backend".into(), |stem| stem.to_string_lossy());
        BackendKind::from_text(&text, &stem).map_err(|FileError(problem)| fail(problem))
    }

    /// Reads a backend from the text of a file; `name` applies if the file has none. Fails if the text does not
    /// describe a backend.
    pub fn from_text(text: &str, name: &str) -> Result<BackendKind, FileError> {
        let declared = Declared::read(text, name, Engine::sandboxed)
            .map_err(|Problem { line, problem }| FileError(format!("line {line}: {problem}")))?;
        let mut known = READ.lock();
        if let Some(known) = known.iter().find(|known| ***known == declared) {
            return Ok(BackendKind::Declared(known));
        }
        let declared: &'static Declared = Box::leak(Box::new(declared));
        known.push(declared);
        Ok(BackendKind::Declared(declared))
    }

    /// The description, if the backend comes from a file of the user.
    pub(crate) fn declared(self) -> Option<&'static Declared> {
        match self {
            BackendKind::Declared(declared) => Some(declared),
            _ => None,
        }
    }

    /// The description, if it alone says what is sent and how responses are read.
    pub(super) fn description(self) -> Option<&'static Declared> {
        match self {
            BackendKind::Declared(declared) => Some(declared),
            built_in if built_in.row().format == ResponseFormat::Declared => files::description(built_in.name()),
            _ => None,
        }
    }

    /// The digest of its file, if it comes from one. It determines what is sent and how responses are read.
    pub fn file_digest(self) -> Option<&'static str> {
        self.declared().map(|declared| declared.digest.as_str())
    }

    pub fn sends_logprobs(self) -> bool {
        match self {
            BackendKind::Declared(declared) => declared.body.names("logprobs"),
            built_in => built_in.row().format == ResponseFormat::Completions,
        }
    }

    pub fn answers_whole(self) -> bool {
        match self {
            BackendKind::Declared(declared) => declared.framing() == Framing::Whole,
            built_in => built_in.row().format == ResponseFormat::Whole,
        }
    }

    pub fn ready_path(self) -> Option<&'static str> {
        self.declared()?.ready.as_deref()
    }

    /// What the file's selectors found, if the backend comes from a file and [`Trace::start`] was called.
    pub fn trace(self) -> Option<&'static Trace> {
        self.declared().map(|declared| &declared.trace)
    }

    /// The selectors of the file, as pairs of field and path, if the backend comes from a file.
    pub fn selectors(self) -> Vec<(&'static str, String)> {
        let all = self.declared().map(|declared| &declared.response.selectors[..]).unwrap_or_default();
        all.iter().map(|selector| (selector.what.name(), selector.shown().into_owned())).collect()
    }

    pub fn has_end_mark(self) -> bool {
        self.declared().is_none_or(|declared| declared.response.has_end_mark)
    }

    /// Events that end a response, byte for byte, if the file names any.
    pub fn end_events(self) -> &'static [String] {
        self.declared().map(|declared| &declared.response.done_data[..]).unwrap_or_default()
    }
}

impl Declared {
    fn read(text: &str, name: &str, compile: Compile) -> Result<Declared, Problem> {
        let empty = "the file is empty: see `tacho backend init openai` for an example";
        let document = yaml::document(text)?.ok_or_else(|| Problem::at(1, empty))?;
        if let Some(key) = document.repeated_key() {
            return Err(Problem::at(key.line, format!("{:?} is there twice: keep one", key.name)));
        }
        let fields = Fields::of(&document, "", &["name", "task", "request", "response", "models", "ready"])?;
        let name = fields.text("name")?.unwrap_or(name);
        if name.is_empty() || name.chars().any(|c| c.is_control() || c == '/') {
            return Err(fields.problem("name", "must be a word without slashes"));
        }
        let task = fields.word("task", &[("generation", Task::Generation), ("pooling", Task::Pooling)])?;
        let example = "a mapping with path and body";
        let request = RequestPart::read(fields.required("request", example)?, compile)?;
        let (response, unstreamed) =
            spec::read(fields.required("response", "a mapping with framing and text")?, task == Task::Pooling)?;
        let samples = request.body.takes_extras || request.body.names("extra_body");
        let row = Row {
            name: leak(name),
            suffixes: &[""],
            endpoint: leak(&request.path),
            task,
            origin: Origin::Tacho,
            format: ResponseFormat::Declared,
            sequences: request.sequences,
            samples: samples && task == Task::Generation,
            takes_ignore_eos: request.body.names("ignore_eos"),
            takes_extras: request.body.takes_extras,
            sends_messages: request.body.names("messages"),
            sends_media: request.body.names("messages") || request.body.names("media"),
            id: request.id,
            keys: request.keys,
            headers: request.headers,
            method: request.method,
            ..Row::BASE
        };
        let digest = digest(&SHA256, text.as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Declared {
            row,
            digest: digest[..DIGITS].to_owned(),
            body: request.body,
            response,
            unstreamed,
            models: fields.get("models").map(models).transpose()?,
            ready: fields.get("ready").map(ready).transpose()?,
            trace: Trace::default(),
        })
    }

    pub(super) fn encode(&self, payload: &PayloadSpec, request: &Request) -> Result<Encoded, Cow<'static, str>> {
        let Rendered { text: body, unstreamed } = self.body.render(payload, request)?;
        let expected = Expected { unstreamed: unstreamed && self.unstreamed.is_some(), ..Expected::of(request) };
        let expected = if self.response.echoes_prompt { expected.repeating(echoed_prompt(request)?) } else { expected };
        Ok(Encoded { body, expected })
    }

    pub(super) fn framing(&self) -> Framing {
        self.response.framing
    }

    pub(super) fn accepts(&self, status: u16) -> bool {
        self.response.statuses.contains(&status)
    }

    pub(crate) fn models_path(&self) -> Option<&str> {
        self.models.as_ref().map(|(path, _)| path.as_str())
    }

    pub(crate) fn model_names<'v>(&self, list: &'v Value) -> Vec<&'v str> {
        let mut found = vec![list];
        for step in self.models.iter().flat_map(|(_, steps)| steps) {
            found = found.into_iter().flat_map(|value| below(value, step)).collect();
        }
        found.into_iter().filter_map(Value::as_str).collect()
    }
}

/// The prompt, which must be text because responses echo it.
fn echoed_prompt(request: &Request) -> Result<&str, &'static str> {
    match &request.content {
        Content::Text(prompt) => Ok(prompt),
        _ => Err("its prompt is not a text"),
    }
}

fn below<'v>(value: &'v Value, step: &Step) -> Vec<&'v Value> {
    let item = |index: usize| value.as_list().and_then(|items| items.get(index));
    match step {
        Step::Key(name) => value.get(&String::from_utf8_lossy(name)).into_iter().collect(),
        Step::Index(index) => item(*index).into_iter().collect(),
        Step::Either(index) => item(*index).or_else(|| value.get(&index.to_string())).into_iter().collect(),
        Step::Each => value.as_list().unwrap_or_default().iter().collect(),
    }
}

struct RequestPart {
    method: &'static str,
    path: String,
    headers: &'static [(&'static str, &'static str)],
    id: Option<&'static str>,
    keys: &'static [(&'static str, &'static str)],
    sequences: Sequences,
    body: Body,
}

impl RequestPart {
    fn read(node: &Node, compile: Compile) -> Result<Self, Problem> {
        let known = ["method", "path", "headers", "request_id", "api_key", "body", "extras", "sequences"];
        let fields = Fields::of(node, "request", &known)?;
        fields.required("path", "path: /v1/generate")?;
        let path = fields.text("path")?.unwrap_or_default().to_owned();
        if !path.starts_with('/') || path.contains([' ', '#']) {
            return Err(fields.problem("path", format!("is {path:?}: it must begin with / and have no spaces")));
        }
        let left = path.replace("{model}", "");
        if left.contains(['{', '}']) {
            return Err(fields.problem("path", format!("is {path:?}: only {{model}} can be filled in")));
        }
        let words = ["POST", "PUT", "PATCH", "GET"].map(|word| (word, word));
        let method = fields.word("method", &words)?;
        let extras = fields.get("extras").map(|_| fields.truth("extras", true)).transpose()?;
        let body = fields.get("body");
        if method != "GET" && body.is_none() {
            fields.required("body", "body: {prompt: \"{{ prompt }}\"}")?;
        }
        Ok(RequestPart {
            method,
            path,
            headers: headers(&fields)?,
            id: header_name(&fields, "request_id")?,
            keys: keys(&fields)?,
            sequences: fields.word(
                "sequences",
                &[("one", Sequences::One), ("prompt", Sequences::Prompt), ("documents", Sequences::Documents)],
            )?,
            body: Body::compile(body, extras, compile)?,
        })
    }
}

type Pairs = &'static [(&'static str, &'static str)];

fn headers(fields: &Fields<'_>) -> Result<Pairs, Problem> {
    let Some(node) = fields.get("headers") else { return Ok(&[]) };
    let own = Fields::open(node, &fields.name("headers"))?;
    let mut checked = crate::Headers::default();
    let mut all = Vec::new();
    for (key, value) in own.iter() {
        let Tree::Scalar { text, .. } = &value.tree else {
            return Err(own.problem(&key.name, format!("must be a text, not {}", value.kind())));
        };
        checked.set(&key.name, text);
        checked.check().map_err(|_| own.problem(&key.name, "holds a character that HTTP does not allow"))?;
        all.push((leak(&key.name), leak(text)));
    }
    Ok(Vec::leak(all))
}

fn header_name(fields: &Fields<'_>, key: &str) -> Result<Option<&'static str>, Problem> {
    let Some(name) = fields.text(key)? else { return Ok(None) };
    let mut checked = crate::Headers::default();
    checked.set(name, "");
    checked.check().map_err(|_| fields.problem(key, "holds a character that HTTP does not allow"))?;
    Ok(Some(leak(name)))
}

/// The headers of the API key and what precedes it there.
fn keys(fields: &Fields<'_>) -> Result<Pairs, Problem> {
    let Some(node) = fields.get("api_key") else { return Ok(Row::BASE.keys) };
    match node.value() {
        Value::Bool(false) => return Ok(&[]),
        Value::Bool(true) => return Ok(Row::BASE.keys),
        _ => {}
    }
    let keys = fields.each("api_key").iter().map(|node| match &node.tree {
        Tree::Dict(_) => {
            let own = Fields::of(node, &fields.name("api_key"), &["header", "prefix"])?;
            own.required("header", "header: x-api-key")?;
            let header = header_name(&own, "header")?.unwrap_or_default();
            let default = if header.eq_ignore_ascii_case("authorization") { "Bearer " } else { "" };
            Ok((header, leak(own.text("prefix")?.unwrap_or(default))))
        }
        _ => Err(fields.problem("api_key", "must be true, false or {header: NAME, prefix: TEXT}")),
    });
    Ok(Vec::leak(keys.collect::<Result<_, _>>()?))
}

fn models(node: &Node) -> Result<(String, Vec<Step>), Problem> {
    let fields = Fields::of(node, "models", &["path", "names"])?;
    let path = absolute(&fields)?;
    let names = fields.text("names")?.unwrap_or("data[*].id");
    Ok((path, path::parse(names).map_err(|problem| fields.problem("names", problem))?))
}

fn ready(node: &Node) -> Result<String, Problem> {
    absolute(&Fields::of(node, "ready", &["path"])?)
}

fn absolute(fields: &Fields<'_>) -> Result<String, Problem> {
    fields.required("path", "path: /health")?;
    let path = fields.text("path")?.unwrap_or_default();
    if path.starts_with('/') { Ok(path.to_owned()) } else { Err(fields.problem("path", "must begin with /")) }
}

/// A text that lives as long as the process: a file is read once for a run.
fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}
