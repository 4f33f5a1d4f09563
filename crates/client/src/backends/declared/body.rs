//! The body of a request as a template over the request.

use std::borrow::Cow;
use std::fmt;

use minijinja::value::{Kwargs, Value as Jinja, ValueKind};
use minijinja::{AutoEscape, Environment, Error as JinjaError, ErrorKind, Expression};
use tacho_core::json::{Dict, Value, dumps, write_value};
use tacho_core::{Content, Request};

use super::Problem;
use crate::backends::{PayloadSpec, chat};
use tacho_core::yaml::{Node, Tree};

/// Steps of one expression: far more than a body needs, and less than a second.
const FUEL: u64 = 1_000_000;

/// What an expression may name.
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

/// Functions of the engine.
const FUNCTIONS: [&str; 4] = ["range", "dict", "namespace", "raise"];

pub(super) struct Body {
    form: Form,
    environment: &'static Environment<'static>,
    /// The variables that the engine needs.
    used: Vec<&'static str>,
    /// All variables of the template.
    named: Vec<&'static str>,
    /// Whether sampling flags, `--extra-body` and the request's own fields are added.
    pub(super) takes_extras: bool,
}

enum Form {
    /// A JSON object; the members that are left out are not known yet.
    Object(Vec<(String, Part)>),
    Json(Part),
    Text,
    None,
}

enum Part {
    Literal(Value),
    Variable(&'static str),
    Expression(Box<Expression<'static, 'static>>),
    Template(String),
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
    pub(super) fn compile(node: Option<&Node>, extras: Option<bool>) -> Result<Self, Problem> {
        let mut templates = Vec::new();
        if let Some(node) = node {
            collect(node, "request.body", &mut templates);
        }
        let environment = environment(&templates)?;
        let mut compiler =
            Compiler { environment, templates: templates.into_iter(), used: Vec::new(), named: Vec::new() };
        let form = match node {
            None => Form::None,
            Some(Node { tree: Tree::Scalar { .. }, .. }) => {
                compiler.template()?;
                Form::Text
            }
            Some(node) => match compiler.part(node)? {
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
        let Compiler { used, named, .. } = compiler;
        let body = Body { form, environment, used, named, takes_extras };
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
            Err(Unrendered::Engine(error))
                if matches!(
                    error.kind(),
                    ErrorKind::UnknownFilter
                        | ErrorKind::UnknownFunction
                        | ErrorKind::UnknownTest
                        | ErrorKind::OutOfFuel
                ) =>
            {
                Err(Problem::in_field(line, "request.body", one_line(&error)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn render(&self, payload: &PayloadSpec, request: &Request) -> Result<Rendered, Cow<'static, str>> {
        self.rendered(payload, request).map_err(|error| match error {
            Unrendered::Unfit(reason) => Cow::Borrowed(reason),
            Unrendered::Engine(error) => Cow::Owned(format!("its body cannot be rendered: {}", one_line(&error))),
        })
    }

    fn rendered(&self, payload: &PayloadSpec, request: &Request) -> Result<Rendered, Unrendered> {
        let scope = Scope { payload, request };
        let context = scope.context(&self.used)?;
        let (mut text, mut unstreamed) = (Vec::with_capacity(256), false);
        match &self.form {
            Form::None => {}
            Form::Text => {
                text.extend_from_slice(self.environment.get_template(BODY)?.render(context)?.as_bytes());
            }
            Form::Json(part) => {
                write_value(&mut text, &self.value(part, &scope, &context)?.unwrap_or(Value::Null));
            }
            Form::Object(members) => {
                let mut fields = self.members(members, &scope, &context)?;
                if self.takes_extras {
                    payload.merge(&mut fields, request);
                }
                unstreamed = payload.unstreams(&fields, request);
                write_value(&mut text, &Value::Dict(fields));
            }
        }
        Ok(Rendered { text, unstreamed })
    }

    fn members(&self, members: &[(String, Part)], scope: &Scope<'_>, context: &Jinja) -> Result<Dict, Unrendered> {
        let mut fields = Dict::new();
        for (name, part) in members {
            match self.value(part, scope, context)? {
                Some(Value::Dict(more)) if name == SPREAD => fields.update(&more),
                Some(_) if name == SPREAD => return Err(Unrendered::Unfit("the value of \"**\" is not an object")),
                Some(value) => fields.set(name.as_str(), value),
                None => {}
            }
        }
        Ok(fields)
    }

    /// The value of a part; `None` to leave it out.
    fn value(&self, part: &Part, scope: &Scope<'_>, context: &Jinja) -> Result<Option<Value>, Unrendered> {
        Ok(Some(match part {
            Part::Literal(value) => value.clone(),
            Part::Variable(name) => return Ok(scope.value(name)?),
            Part::Expression(expression) => return Ok(from_jinja(&expression.eval(context.clone())?)?),
            Part::Template(name) => self.environment.get_template(name)?.render(context.clone())?.into(),
            Part::Dict(members) => self.members(members, scope, context)?.into(),
            Part::List(items) => {
                let values = items.iter().map(|item| self.value(item, scope, context));
                Value::List(values.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            }
        }))
    }
}

pub(super) struct Rendered {
    pub(super) text: Vec<u8>,
    /// Whether it asks for a response that is not streamed.
    pub(super) unstreamed: bool,
}

/// Why a request has no body.
enum Unrendered {
    Unfit(&'static str),
    Engine(JinjaError),
}

impl From<JinjaError> for Unrendered {
    fn from(error: JinjaError) -> Self {
        Unrendered::Engine(error)
    }
}

impl From<&'static str> for Unrendered {
    fn from(reason: &'static str) -> Self {
        Unrendered::Unfit(reason)
    }
}

/// The name of the only template of a body that is a text.
const BODY: &str = "request.body";

/// A text with expressions: its name, its line, and itself.
type Source = (String, usize, String);

/// Collects all texts with expressions in the order of compilation.
fn collect(node: &Node, name: &str, out: &mut Vec<Source>) {
    match &node.tree {
        Tree::Scalar { text, .. } if is_template(text) || name == BODY => {
            out.push((name.to_owned(), node.line, text.clone()));
        }
        Tree::Scalar { .. } => {}
        Tree::List(items) => {
            items.iter().enumerate().for_each(|(at, item)| collect(item, &format!("{name}[{at}]"), out));
        }
        Tree::Dict(entries) => {
            entries.iter().for_each(|(key, node)| collect(node, &format!("{name}.{}", key.name), out));
        }
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn environment(templates: &[Source]) -> Result<&'static Environment<'static>, Problem> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise", |message: String| -> Result<Jinja, JinjaError> {
        Err(JinjaError::new(ErrorKind::InvalidOperation, message))
    });
    for (name, line, text) in templates {
        let broken = |error: JinjaError| Problem::in_field(*line, name, one_line(&error));
        environment.add_template_owned(name.clone(), text.clone()).map_err(broken)?;
    }
    // A file is read once for a run.
    Ok(Box::leak(Box::new(environment)))
}

/// `value | tojson`: JSON as the built-in backends write it.
fn tojson(value: Jinja, options: Kwargs) -> Result<Jinja, JinjaError> {
    options.assert_all_used()?;
    Ok(Jinja::from_safe_string(dumps(&from_jinja(&value)?.unwrap_or(Value::Null))))
}

struct Compiler {
    environment: &'static Environment<'static>,
    templates: std::vec::IntoIter<Source>,
    used: Vec<&'static str>,
    named: Vec<&'static str>,
}

impl Compiler {
    fn part(&mut self, node: &Node) -> Result<Part, Problem> {
        Ok(match &node.tree {
            Tree::Scalar { text, .. } if is_template(text) => self.template()?,
            Tree::Scalar { .. } => Part::Literal(node.value()),
            Tree::List(items) => Part::List(items.iter().map(|item| self.part(item)).collect::<Result<_, _>>()?),
            Tree::Dict(entries) => {
                let member = |(key, node): &(tacho_core::yaml::Key, Node)| Ok((key.name.clone(), self.part(node)?));
                Part::Dict(entries.iter().map(member).collect::<Result<_, Problem>>()?)
            }
        })
    }

    /// The next text: a variable or an expression, which keep the type of their value, or a template.
    fn template(&mut self) -> Result<Part, Problem> {
        let Some((name, line, text)) = self.templates.next() else {
            return Err(Problem::at(1, "the body cannot be read"));
        };
        let inside = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let inside = inside.filter(|_| name != BODY);
        if let Some(variable) = inside.and_then(|word| VARIABLES.iter().find(|known| **known == word)) {
            note(&mut self.named, variable);
            return Ok(Part::Variable(variable));
        }
        let expression = inside.and_then(|inside| self.environment.compile_expression_owned(inside.to_owned()).ok());
        let variables = match &expression {
            Some(expression) => expression.undeclared_variables(false),
            None => {
                let broken = |error: JinjaError| Problem::in_field(line, &name, one_line(&error));
                self.environment.get_template(&name).map_err(broken)?.undeclared_variables(false)
            }
        };
        let mut variables: Vec<String> = variables.into_iter().collect();
        variables.sort();
        for variable in variables.iter().filter(|variable| !FUNCTIONS.contains(&variable.as_str())) {
            let Some(known) = VARIABLES.iter().find(|known| *known == variable) else {
                let problem = format!("unknown variable {variable:?}; known are {}", VARIABLES.join(", "));
                return Err(Problem::in_field(line, &name, problem));
            };
            note(&mut self.named, known);
            note(&mut self.used, known);
        }
        Ok(expression.map_or(Part::Template(name), |expression| Part::Expression(Box::new(expression))))
    }
}

fn note(list: &mut Vec<&'static str>, name: &'static str) {
    if !list.contains(&name) {
        list.push(name);
    }
}

/// The variables of one request.
struct Scope<'r> {
    payload: &'r PayloadSpec,
    request: &'r Request,
}

impl Scope<'_> {
    fn context(&self, used: &[&'static str]) -> Result<Jinja, &'static str> {
        let pairs =
            used.iter().map(|name| Ok((*name, self.value(name)?.map_or(Jinja::UNDEFINED, |value| to_jinja(&value)))));
        Ok(Jinja::from_pairs(pairs.collect::<Result<Vec<_>, &'static str>>()?))
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

fn to_jinja(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(flag) => Jinja::from(*flag),
        Value::Int(number) => Jinja::from(*number),
        Value::BigInt(digits) => digits.parse::<i128>().map_or_else(|_| Jinja::from(digits.as_str()), Jinja::from),
        Value::Float(number) => Jinja::from(*number),
        Value::Str(text) => Jinja::from(text.as_str()),
        Value::List(items) => items.iter().map(to_jinja).collect::<Vec<Jinja>>().into(),
        Value::Dict(dict) => Jinja::from_pairs(dict.iter().map(|(key, item)| (key.to_owned(), to_jinja(item)))),
    }
}

/// The JSON of a value of the engine; `None` if it is undefined.
fn from_jinja(value: &Jinja) -> Result<Option<Value>, JinjaError> {
    Ok(Some(match value.kind() {
        ValueKind::Undefined => return Ok(None),
        ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => {
            value.as_i64().map_or_else(|| Value::BigInt(value.to_string()), Value::Int)
        }
        ValueKind::Number => Value::Float(f64::try_from(value.clone())?),
        ValueKind::String => Value::from(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.map(|item| from_jinja(&item));
            Value::List(items.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        }
        ValueKind::Map => {
            let mut dict = Dict::new();
            for key in value.try_iter()? {
                if let Some(item) = from_jinja(&value.get_item(&key)?)? {
                    dict.set(key.to_string(), item);
                }
            }
            dict.into()
        }
        other => return Err(JinjaError::new(ErrorKind::InvalidOperation, format!("{other} is not JSON"))),
    }))
}

/// The message of the engine and its cause.
fn one_line(error: &JinjaError) -> String {
    let mut text =
        error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    if let Some(cause) = std::error::Error::source(error) {
        text += &format!(": {cause}");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
