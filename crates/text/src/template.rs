//! Chat templates, rendered as in Hugging Face's library: Jinja with trimmed blocks, Python's string and dict methods,
//! Python's JSON. Reads no clock: the caller passes the time that a template may print.

mod filters;
mod globals;
mod json_filter;
mod methods;
mod percent;
mod python_text;
#[cfg(test)]
pub(crate) mod tests;

use std::{io, os::unix::net::UnixStream, time::Duration};

use jiff::civil::DateTime;
use minijinja::{Environment, Error as JinjaError, ErrorKind, syntax::SyntaxConfig, value::Value};
use tacho_core::json::{Dict, Value as Json};
use tacho_core::packed::Pack;
use tacho_core::sandbox::{self, Helper, Sandbox, Service};

use crate::{Error, error::TemplateError, guard::guarded};
pub use json_filter::unicode_text;

#[derive(Debug, Clone, Copy)]
pub struct ChatInput<'i> {
    pub messages: &'i Json,
    /// Tool descriptions, if the request has any.
    pub tools: Option<&'i Json>,
    /// Further variables, which override all others.
    pub variables: Option<&'i Dict>,
    /// The current time for `strftime_now`.
    pub now: DateTime,
}

/// The templates of a tokenizer by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Templates {
    sources: Vec<(String, String)>,
}

impl Templates {
    /// Adds a template; a later one of the same name replaces an earlier one.
    pub(crate) fn add(&mut self, name: impl Into<String>, source: impl Into<String>) {
        let name = name.into();
        self.sources.retain(|(known, _)| *known != name);
        self.sources.push((name, source.into()));
    }

    /// The template for a request with or without tools.
    fn choose(&self, with_tools: bool) -> Option<&str> {
        let find = |name: &str| self.sources.iter().find(|(known, _)| known == name).map(|(_, source)| source.as_str());
        with_tools.then(|| find("tool_use")).flatten().or_else(|| find("default"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Compiles the template for requests with or without tools.
    pub(crate) fn compile(&self, with_tools: bool, named: &[(String, String)]) -> Result<ChatTemplate, Error> {
        self.compile_in(Sandbox::enabled(MAX_BYTES, MAX_TIME), with_tools, named)
    }

    /// Compiles in a helper process, or in this one.
    pub(crate) fn compile_in(
        &self,
        sandbox: Option<Sandbox>,
        with_tools: bool,
        named: &[(String, String)],
    ) -> Result<ChatTemplate, Error> {
        let source = percent::as_filter(&without_generation_marks(self.choose(with_tools).ok_or(Error::NoTemplate)?));
        let engine = match sandbox {
            Some(sandbox) => Engine::helper(sandbox, source),
            None => Local::new(source).map(|local| Engine::Local(Box::new(local))),
        };
        let named = named.iter().filter(|(attribute, _)| !attribute.is_empty()).cloned().collect();
        Ok(ChatTemplate { engine: engine.map_err(|source| Error::Template { source })?, named })
    }
}

/// The engine with one template, configured as in Hugging Face's library.
fn environment(source: String) -> Result<Environment<'static>, JinjaError> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_STEPS));
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build()?);
    environment.set_unknown_method_callback(methods::call);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(python_text::print);
    filters::add(&mut environment);
    environment.add_filter("tojson", json_filter::tojson);
    environment.add_function("cycler", globals::cycler);
    environment.add_function("joiner", globals::joiner);
    environment.add_function("raise_exception", |message: String| -> Result<Value, JinjaError> {
        Err(JinjaError::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_template_owned("chat", source)?;
    Ok(environment)
}

/// Maximum steps of a rendering: far more than any conversation needs, and less than a minute.
const MAX_STEPS: u64 = 10_000_000;

/// Limits of a helper: far above the needs of any conversation.
const MAX_BYTES: u64 = 512 << 20;
const MAX_TIME: Duration = Duration::from_secs(30);

/// The time that a template may print, and its variables by name.
pub(crate) type Variables = (String, Vec<(String, Json)>);

/// A template in this process, limited in its steps only.
pub(crate) struct Local(Environment<'static>);

impl Local {
    pub(crate) fn new(source: String) -> Result<Self, TemplateError> {
        understood(guarded(|| environment(source))).map(Local)
    }

    pub(crate) fn render(&self, (now, variables): &Variables) -> Result<String, TemplateError> {
        let now: DateTime = now.parse().map_err(|error| TemplateError(format!("{error}")))?;
        let strftime = Value::from_function(move |format: String| -> Result<String, JinjaError> {
            jiff::fmt::strtime::format(&format, now)
                .map_err(|error| JinjaError::new(ErrorKind::InvalidOperation, error.to_string()))
        });
        let variables = variables.iter().map(|(name, value)| (name.as_str(), to_jinja(value)));
        // The function comes first, so that a variable of the same name overrides it.
        let all = Value::from_pairs(std::iter::once(("strftime_now", strftime)).chain(variables));
        understood(guarded(|| self.0.get_template("chat")?.render(all)))
    }
}

/// The engine's result, unless it panicked.
fn understood<T>(made: Option<Result<T, JinjaError>>) -> Result<T, TemplateError> {
    let made = made
        .ok_or_else(|| TemplateError("it exceeds what the engine can represent, the limit of a template".to_owned()))?;
    made.map_err(|error| {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            text += &format!(": {next}");
            cause = next.source();
        }
        TemplateError(text)
    })
}

/// A compiled template that can be rendered many times, from any thread.
pub struct ChatTemplate {
    engine: Engine,
    named: Vec<(String, String)>,
}

enum Engine {
    Local(Box<Local>),
    Helper(Helper),
}

/// Whether the template was compiled or rendered, and its text or the error.
type Reply = (bool, String);

impl Engine {
    /// Starts a helper and compiles the template there.
    fn helper(sandbox: Sandbox, source: String) -> Result<Self, TemplateError> {
        let helper = Helper::start(sandbox, TEMPLATES.0).map_err(TemplateError)?;
        exchange(&helper, &source).map(|_| Engine::Helper(helper))
    }

    fn render(&self, variables: &Variables) -> Result<String, TemplateError> {
        match self {
            Engine::Local(local) => local.render(variables),
            Engine::Helper(helper) => exchange(helper, variables),
        }
    }
}

fn exchange(helper: &Helper, message: &impl Pack) -> Result<String, TemplateError> {
    match helper.exchange::<Reply>(message).map_err(TemplateError)? {
        (true, text) => Ok(text),
        (false, problem) => Err(TemplateError(problem)),
    }
}

/// The service of the helper process: compiles one chat template and renders it.
pub const TEMPLATES: Service = ("chat", serve);

fn serve(stream: &mut UnixStream) -> io::Result<()> {
    let reply = |made: Result<String, TemplateError>| -> Reply {
        made.map_or_else(|TemplateError(problem)| (false, problem), |text| (true, text))
    };
    let local = match Local::new(sandbox::receive(stream)?) {
        Ok(local) => local,
        Err(error) => return sandbox::send(stream, &reply(Err(error))),
    };
    sandbox::send(stream, &reply(Ok(String::new())))?;
    loop {
        let variables: Variables = sandbox::receive(stream)?;
        sandbox::send(stream, &reply(local.render(&variables)))?;
    }
}

impl ChatTemplate {
    /// Renders the messages, followed by the generation prompt.
    pub fn render(&self, input: &ChatInput<'_>) -> Result<String, Error> {
        let mut variables: Vec<(String, Json)> = Vec::with_capacity(self.named.len() + 8);
        variables.extend(self.named.iter().map(|(name, token)| (name.clone(), Json::from(token.as_str()))));
        variables.push(("messages".into(), input.messages.clone()));
        variables.push(("tools".into(), input.tools.map_or(Json::Null, Json::clone)));
        variables.push(("documents".into(), Json::Null));
        variables.push(("add_generation_prompt".into(), Json::Bool(true)));
        if let Some(more) = input.variables {
            variables.retain(|(name, _)| more.get(name).is_none());
            variables.extend(more.iter().map(|(name, value)| (name.to_owned(), value.clone())));
        }
        let variables = (input.now.to_string(), variables);
        self.engine.render(&variables).map_err(|source| Error::Template { source })
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("named", &self.named).finish_non_exhaustive()
    }
}

/// Removes `generation` marks, which do not change the text and are not part of Jinja itself.
fn without_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let inside = tag[2..].get(..end.saturating_sub(4)).unwrap_or_default();
        let (open, word) = inside.strip_prefix(['-', '+']).map_or(("", inside), |word| (&inside[..1], word));
        let (close, word) = match word.strip_suffix(['-', '+']) {
            Some(shorter) => (&word[shorter.len()..], shorter),
            None => ("", word),
        };
        if matches!(word.trim(), "generation" | "endgeneration") {
            out.push_str(&format!("{{%{open} if true %}}{{% endif {close}%}}"));
        } else {
            out.push_str(&tag[..end]);
        }
        rest = &tag[end..];
    }
    out + rest
}

fn to_jinja(value: &Json) -> Value {
    match value {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Int(number) => Value::from(*number),
        Json::BigInt(digits) => digits.parse::<i128>().map_or_else(|_| Value::from(digits.as_str()), Value::from),
        Json::Float(number) => Value::from(*number),
        Json::Str(text) => Value::from(text.as_str()),
        Json::List(items) => items.iter().map(to_jinja).collect::<Vec<Value>>().into(),
        Json::Dict(dict) => Value::from_pairs(dict.iter().map(|(key, item)| (key.to_owned(), to_jinja(item)))),
    }
}
