//! The body of a request as a template over the request.

use std::{borrow::Cow, fmt};

use tacho_core::json::{Dict, Value, write_value};
use tacho_core::yaml::{Node, Tree};
use tacho_core::{Content, Request};

use super::engine::{Compile, Context, Engine, Source, TemplateError};
use super::fields::Problem;
use crate::backends::{PayloadSpec, chat};

/// Maximum number of strings with expressions: each may hold the whole prompt.
const MAX_TEMPLATES: usize = 256;

const VARIABLES: [&str; 17] = [
    "prompt",
    "messages",
    "token_ids",
    "media",
    "max_tokens",
    "prompt_len",
    "model",
    "adapter",
    "logprobs",
    "ignore_eos",
    "extra_body",
    "session",
    "id",
    "labels",
    "class",
    "row",
    "omit",
];

/// A member whose value is an object with members of the body.
const SPREAD: &str = "**";

const FUNCTIONS: [&str; 4] = ["range", "dict", "namespace", "raise"];

pub(super) struct Body {
    form: Form,
    /// The templates that are not just a variable, if there are any.
    engine: Option<Engine>,
    used: Vec<&'static str>,
    named: Vec<&'static str>,
    /// Whether sampling flags, `--extra-body` and the request's own fields are added.
    pub(super) takes_extras: bool,
}

enum Form {
    /// A JSON object; the members that are left out are not known yet.
    Object(Vec<(String, Part)>),
    Json(Part),
    Text(Part),
    None,
}

enum Part {
    Literal(Value),
    Variable(&'static str),
    /// An index into the values of the engine.
    Template(usize),
    List(Vec<Part>),
    Dict(Vec<(String, Part)>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("named", &self.named).finish_non_exhaustive()
    }
}

impl Body {
    /// Compiles the template; `extras` is the setting of the file, if there is one.
    pub(super) fn compile(node: Option<&Node>, extras: Option<bool>, compile: Compile) -> Result<Self, Problem> {
        let mut compiler = Compiler::default();
        let form = match node {
            None => Form::None,
            Some(node) => match compiler.part(node, BODY)? {
                part if matches!(node.tree, Tree::Scalar { .. }) => Form::Text(part),
                Part::Dict(members) => Form::Object(members),
                part => Form::Json(part),
            },
        };
        let is_object = matches!(form, Form::Object(_));
        if let (Some(true), false, Some(node)) = (extras, is_object, node) {
            let problem = "needs a body that is a mapping: leave it out, and use {{ extra_body }} in the body";
            return Err(Problem::in_field(node.line, "request.extras", problem));
        }
        let takes_extras = extras.unwrap_or(is_object);
        let (engine, used) = compiler.compile(compile)?;
        let body = Body { form, engine, used, named: compiler.named, takes_extras };
        body.try_out(node.map_or(1, |node| node.line))?;
        Ok(body)
    }

    pub(super) fn names(&self, variable: &str) -> bool {
        self.named.contains(&variable)
    }

    /// Renders the body for a made-up request, so that unknown filters and endless loops show before a run. What
    /// depends on the request cannot be judged here.
    fn try_out(&self, line: usize) -> Result<(), Problem> {
        let request = Request::text("Hello", 1, 16);
        let payload = PayloadSpec { model: "model".to_owned(), ..PayloadSpec::default() };
        match self.rendered(&payload, &request) {
            Err(Unrendered::Engine(TemplateError { always: true, problem })) => {
                Err(Problem::in_field(line, BODY, problem))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn render(&self, payload: &PayloadSpec, request: &Request) -> Result<Rendered, Cow<'static, str>> {
        self.rendered(payload, request).map_err(|error| match error {
            Unrendered::Unfit(reason) => Cow::Borrowed(reason),
            Unrendered::Engine(error) => Cow::Owned(format!("its body cannot be rendered: {}", error.problem)),
        })
    }

    fn rendered(&self, payload: &PayloadSpec, request: &Request) -> Result<Rendered, Unrendered> {
        let scope = Scope { payload, request };
        let mut values = match &self.engine {
            Some(engine) => engine.values(&scope.context(&self.used)?).map_err(Unrendered::Engine)?,
            None => Vec::new(),
        };
        let (mut text, mut unstreamed) = (Vec::with_capacity(256), false);
        match &self.form {
            Form::None => {}
            Form::Text(part) => {
                let value = scope.value_of(part, &mut values)?;
                text.extend_from_slice(value.as_ref().and_then(Value::as_str).unwrap_or_default().as_bytes());
            }
            Form::Json(part) => {
                write_value(&mut text, &scope.value_of(part, &mut values)?.unwrap_or(Value::Null));
            }
            Form::Object(members) => {
                let mut fields = scope.members(members, &mut values)?;
                if self.takes_extras {
                    payload.merge(&mut fields, request);
                }
                unstreamed = payload.unstreams(&fields, request);
                write_value(&mut text, &Value::Dict(fields));
            }
        }
        Ok(Rendered { text, unstreamed })
    }
}

pub(super) struct Rendered {
    pub(super) text: Vec<u8>,
    /// Whether it asks for a response that is not streamed.
    pub(super) unstreamed: bool,
}

enum Unrendered {
    Unfit(&'static str),
    Engine(TemplateError),
}

impl From<&'static str> for Unrendered {
    fn from(reason: &'static str) -> Self {
        Unrendered::Unfit(reason)
    }
}

/// The name of the only template of a body that is a text.
pub(super) const BODY: &str = "request.body";

/// The expression of a text that is exactly one.
pub(super) fn inside(text: &str) -> Option<&str> {
    text.trim().strip_prefix("{{")?.strip_suffix("}}").map(str::trim)
}

#[derive(Default)]
struct Compiler {
    templates: Vec<Source>,
    lines: Vec<usize>,
    named: Vec<&'static str>,
    count: usize,
}

impl Compiler {
    fn part(&mut self, node: &Node, name: &str) -> Result<Part, Problem> {
        Ok(match &node.tree {
            Tree::Scalar { text, .. } if text.contains("{{") || text.contains("{%") || name == BODY => {
                self.template(text, name, node.line)?
            }
            Tree::Scalar { .. } => Part::Literal(node.value()),
            Tree::List(items) => {
                let parts = items.iter().enumerate().map(|(at, item)| self.part(item, &format!("{name}[{at}]")));
                Part::List(parts.collect::<Result<_, _>>()?)
            }
            Tree::Dict(entries) => {
                let members = entries.iter().map(|(key, node)| {
                    let part = self.part(node, &format!("{name}.{}", key.name))?;
                    Ok((key.name.clone(), part))
                });
                Part::Dict(members.collect::<Result<_, Problem>>()?)
            }
        })
    }

    /// A text with expressions: a variable, or a template for the engine.
    fn template(&mut self, text: &str, name: &str, line: usize) -> Result<Part, Problem> {
        self.count += 1;
        if self.count > MAX_TEMPLATES {
            return Err(Problem::in_field(line, name, format!("the body has more than {MAX_TEMPLATES} expressions")));
        }
        let word = inside(text).filter(|_| name != BODY);
        if let Some(variable) = word.and_then(|word| VARIABLES.iter().find(|known| **known == word)) {
            note(&mut self.named, variable);
            return Ok(Part::Variable(variable));
        }
        self.templates.push((name.to_owned(), text.to_owned()));
        self.lines.push(line);
        Ok(Part::Template(self.templates.len() - 1))
    }

    /// Compiles the templates; returns the variables that they use.
    fn compile(&mut self, compile: Compile) -> Result<(Option<Engine>, Vec<&'static str>), Problem> {
        if self.templates.is_empty() {
            return Ok((None, Vec::new()));
        }
        let fail = |at: usize, problem: String| Problem::in_field(self.lines[at], &self.templates[at].0, problem);
        let (engine, compiled) = compile(&self.templates).map_err(|problem| fail(0, problem))?;
        let mut used = Vec::new();
        for (at, (is_compiled, text)) in compiled.into_iter().enumerate() {
            if !is_compiled {
                return Err(fail(at, text));
            }
            for variable in text.lines().filter(|variable| !FUNCTIONS.contains(variable)) {
                let Some(known) = VARIABLES.iter().find(|known| **known == variable) else {
                    let problem = format!("unknown variable {variable:?}; known are {}", VARIABLES.join(", "));
                    return Err(fail(at, problem));
                };
                note(&mut used, known);
            }
        }
        used.iter().for_each(|known| note(&mut self.named, known));
        Ok((Some(engine), used))
    }
}

fn note(list: &mut Vec<&'static str>, name: &'static str) {
    if !list.contains(&name) {
        list.push(name);
    }
}

struct Scope<'r> {
    payload: &'r PayloadSpec,
    request: &'r Request,
}

impl Scope<'_> {
    fn context(&self, used: &[&'static str]) -> Result<Context, &'static str> {
        let pairs = used.iter().map(|name| Ok(self.value(name)?.map(|value| ((*name).to_owned(), value))));
        pairs.filter_map(Result::transpose).collect()
    }

    fn members(&self, members: &[(String, Part)], values: &mut [Option<Value>]) -> Result<Dict, Unrendered> {
        let mut fields = Dict::new();
        for (name, part) in members {
            match self.value_of(part, values)? {
                Some(Value::Dict(more)) if name == SPREAD => fields.update(&more),
                Some(_) if name == SPREAD => return Err(Unrendered::Unfit("the value of \"**\" is not an object")),
                Some(value) => fields.set(name.as_str(), value),
                None => {}
            }
        }
        Ok(fields)
    }

    /// The value of a part, given those of the templates; `None` to leave it out.
    fn value_of(&self, part: &Part, values: &mut [Option<Value>]) -> Result<Option<Value>, Unrendered> {
        Ok(Some(match part {
            Part::Literal(value) => value.clone(),
            Part::Variable(name) => return Ok(self.value(name)?),
            Part::Template(index) => return Ok(values.get_mut(*index).and_then(Option::take)),
            Part::Dict(members) => self.members(members, values)?.into(),
            Part::List(items) => {
                let values = items.iter().map(|item| self.value_of(item, values));
                Value::List(values.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            }
        }))
    }

    /// The value of a variable; `None` if the request has none.
    fn value(&self, name: &str) -> Result<Option<Value>, &'static str> {
        let Scope { payload, request } = self;
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        Ok(match name {
            "prompt" => Some(request.content.to_json()),
            "messages" => Some(match &request.chat_messages {
                Some(messages) => messages.clone(),
                None => chat::messages(request.content.to_json(), request.media.as_ref(), chat::MediaPlace::AfterText)?,
            }),
            "token_ids" => match &request.content {
                Content::Ids(_) => Some(request.content.to_json()),
                _ => None,
            },
            "media" => request.media.clone(),
            "max_tokens" => Some(Value::Int(request.output_len)),
            "prompt_len" => Some(Value::Int(i64::try_from(request.prompt_len).unwrap_or(i64::MAX))),
            "model" => Some(payload.model_for(request).into()),
            "adapter" => text(&request.lora),
            "logprobs" => Some(payload.logprobs.into()),
            "ignore_eos" => Some(Value::Bool(payload.ignore_eos)),
            "extra_body" => Some(payload.extra_body.clone().into()),
            "session" => text(&request.session),
            "id" => text(&request.id),
            "labels" => {
                let pairs = request.labels.iter().map(|(key, value)| (key.to_owned(), Value::from(value)));
                Some(Value::Dict(pairs.collect()))
            }
            "class" => request.labels.get("class").map(Value::from),
            "row" => request.overrides.clone(),
            _ => None,
        })
    }
}
