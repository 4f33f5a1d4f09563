//! Chat templates, rendered as Hugging Face's library renders them: Jinja with trimmed blocks, Python's methods on
//! texts and objects, Python's JSON. Knows no clock: the caller passes the time that a template may print.

mod filters;
mod globals;
mod json_filter;
mod methods;
mod percent;
mod python_text;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error as JinjaError, ErrorKind};
use tacho_core::json::{Dict, Value as Json};

use crate::Error;
use crate::budget::{Budget, Spent};
pub use json_filter::unicode_text;

/// What a template is rendered with.
#[derive(Debug, Clone, Copy)]
pub struct ChatInput<'i> {
    /// The list of messages.
    pub messages: &'i Json,
    /// Tool descriptions, if the request has some.
    pub tools: Option<&'i Json>,
    /// Further variables, which win over all others.
    pub variables: Option<&'i Dict>,
    /// What `strftime_now` takes for the present.
    pub now: DateTime,
}

/// The templates of a tokenizer by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Templates {
    sources: Vec<(String, String)>,
}

impl Templates {
    /// Adds one; a later one of the same name wins.
    pub(crate) fn add(&mut self, name: impl Into<String>, source: impl Into<String>) {
        let name = name.into();
        self.sources.retain(|(known, _)| *known != name);
        self.sources.push((name, source.into()));
    }

    /// The one for a request with or without tools.
    fn choose(&self, with_tools: bool) -> Option<&str> {
        let find = |name: &str| self.sources.iter().find(|(known, _)| known == name).map(|(_, source)| source.as_str());
        with_tools.then(|| find("tool_use")).flatten().or_else(|| find("default"))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Compiles the template for requests with or without tools.
    pub(crate) fn compile(&self, with_tools: bool, named: &[(String, String)]) -> Result<ChatTemplate, Error> {
        self.compile_within(BUDGET, with_tools, named)
    }

    /// The same, where compiling and each rendering may take so much.
    pub(crate) fn compile_within(
        &self,
        budget: Budget,
        with_tools: bool,
        named: &[(String, String)],
    ) -> Result<ChatTemplate, Error> {
        let source = percent::as_filter(&without_generation_marks(self.choose(with_tools).ok_or(Error::NoTemplate)?));
        // What is constant is computed here already.
        let environment = within(budget, move || environment(source))?;
        let named = named.iter().filter(|(attribute, _)| !attribute.is_empty()).cloned().collect();
        Ok(ChatTemplate { environment: Arc::new(environment), named, budget })
    }
}

/// The engine as Hugging Face's library sets it up, with one template.
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

/// What compiling or rendering a template may take: far more than any conversation needs.
const BUDGET: Budget = Budget { bytes: 512 << 20, time: Duration::from_secs(30) };

/// Lets the engine work; it must not take the process down, whatever a template makes it do.
fn within<T: Send + 'static>(
    budget: Budget,
    work: impl FnOnce() -> Result<T, JinjaError> + Send + 'static,
) -> Result<T, Error> {
    let refused = |why: String| Err(JinjaError::new(ErrorKind::InvalidOperation, why));
    let made = budget.spend(work).unwrap_or_else(|spent| match spent {
        Spent::Memory => refused(format!(
            "it takes more than {} MiB of memory or nests deeper than the stack, the most there may be",
            budget.bytes >> 20
        )),
        Spent::Time => refused(format!("it takes longer than {} s, the most there may be", budget.time.as_secs())),
        Spent::Broken => refused("the template engine cannot follow it".to_owned()),
    });
    made.map_err(|source| Error::Template { source })
}

/// Steps that one rendering may take: far more than any conversation needs, and less than a minute.
const MAX_STEPS: u64 = 50_000_000;

/// A template ready to be rendered many times, from any thread.
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    named: Vec<(String, String)>,
    budget: Budget,
}

impl ChatTemplate {
    /// The text of the messages with the prompt for an answer behind them.
    ///
    /// # Errors
    /// When the template refuses the messages, or has a mistake in it.
    pub fn render(&self, input: &ChatInput<'_>) -> Result<String, Error> {
        let mut variables: Vec<(String, Value)> = Vec::with_capacity(self.named.len() + 8);
        variables.extend(self.named.iter().map(|(name, token)| (name.clone(), Value::from(token.as_str()))));
        variables.push(("messages".into(), to_jinja(input.messages)));
        variables.push(("tools".into(), input.tools.map_or(Value::from(()), to_jinja)));
        variables.push(("documents".into(), Value::from(())));
        variables.push(("add_generation_prompt".into(), Value::from(true)));
        let now = input.now;
        let strftime = Value::from_function(move |format: String| -> Result<String, JinjaError> {
            jiff::fmt::strtime::format(&format, now)
                .map_err(|error| JinjaError::new(ErrorKind::InvalidOperation, error.to_string()))
        });
        variables.push(("strftime_now".into(), strftime));
        if let Some(more) = input.variables {
            variables.retain(|(name, _)| more.get(name).is_none());
            variables.extend(more.iter().map(|(name, value)| (name.to_owned(), to_jinja(value))));
        }
        let environment = self.environment.clone();
        within(self.budget, move || environment.get_template("chat")?.render(Value::from_pairs(variables)))
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("named", &self.named).finish_non_exhaustive()
    }
}

/// Marks of what the assistant wrote change nothing in the text and are not part of Jinja itself.
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
