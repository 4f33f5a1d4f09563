//! The template engine of bodies. The templates of a user's file run in a helper process with limits on memory and
//! time; without one, in tests, they run here, limited in their steps only.

use std::{io, os::unix::net::UnixStream, time::Duration};

use minijinja::value::{Kwargs, Value as Jinja, ValueKind};
use minijinja::{AutoEscape, Environment, Error as JinjaError, ErrorKind, Expression};
use tacho_core::json::{Dict, Value, dumps};
use tacho_core::sandbox::{self, Helper, Sandbox, Service};

/// Steps of one template: far more than a body needs, and less than a second.
const FUEL: u64 = 1_000_000;
const MAX_BYTES: u64 = 256 << 20;
const MAX_TIME: Duration = Duration::from_secs(10);

/// A text with expressions: its name in the file, and itself.
pub(super) type Source = (String, String);

/// Whether a template was compiled, and the variables that it names, one per line, or the problem.
pub(super) type Compiled = (bool, String);

/// [`Engine::sandboxed`] or [`Engine::local`].
pub(super) type Compile = fn(&[Source]) -> Result<(Engine, Vec<Compiled>), String>;

pub(super) type Context = Vec<(String, Value)>;

/// The values of all templates, `None` for undefined ones; or why there are none.
type Reply = (Vec<Option<Value>>, Option<TemplateError>);

tacho_core::packed! {
    #[derive(Debug)]
    pub(super) struct TemplateError {
        /// Whether no request has a body: the fault is in the file.
        pub(super) always: bool,
        pub(super) problem: String,
    }
}

impl From<JinjaError> for TemplateError {
    fn from(error: JinjaError) -> Self {
        use ErrorKind::{OutOfFuel, UnknownFilter, UnknownFunction, UnknownTest};
        let always = matches!(error.kind(), UnknownFilter | UnknownFunction | UnknownTest | OutOfFuel);
        TemplateError { always, problem: one_line(&error) }
    }
}

pub(super) enum Engine {
    Local(Local),
    Helper(Helper),
}

impl Engine {
    /// Compiles the templates of a user's file.
    pub(super) fn sandboxed(sources: &[Source]) -> Result<(Self, Vec<Compiled>), String> {
        match Sandbox::enabled(MAX_BYTES, MAX_TIME) {
            Some(sandbox) => Engine::in_helper(sandbox, sources),
            None => Engine::local(sources),
        }
    }

    pub(super) fn local(sources: &[Source]) -> Result<(Self, Vec<Compiled>), String> {
        let (local, compiled) = Local::new(sources);
        Ok((Engine::Local(local), compiled))
    }

    fn in_helper(sandbox: Sandbox, sources: &[Source]) -> Result<(Self, Vec<Compiled>), String> {
        let helper = Helper::start(sandbox, BODIES.0)?;
        let compiled = helper.exchange(&sources.to_vec())?;
        Ok((Engine::Helper(helper), compiled))
    }

    pub(super) fn values(&self, context: &Context) -> Result<Vec<Option<Value>>, TemplateError> {
        let (values, problem) = match self {
            Engine::Local(local) => return local.values(context),
            Engine::Helper(helper) => helper
                .exchange::<Reply>(context)
                .unwrap_or_else(|problem| (Vec::new(), Some(TemplateError { always: true, problem }))),
        };
        problem.map_or(Ok(values), Err)
    }
}

/// The service of the helper process: compiles the templates of one backend file and renders them.
pub const BODIES: Service = ("body", serve);

fn serve(stream: &mut UnixStream) -> io::Result<()> {
    let (local, compiled) = Local::new(&sandbox::receive::<Vec<Source>>(stream)?);
    sandbox::send(stream, &compiled)?;
    loop {
        let context: Context = sandbox::receive(stream)?;
        let reply: Reply =
            local.values(&context).map_or_else(|error| (Vec::new(), Some(error)), |values| (values, None));
        sandbox::send(stream, &reply)?;
    }
}

pub(super) struct Local {
    environment: &'static Environment<'static>,
    templates: Vec<Template>,
}

/// An expression keeps the type of its value.
enum Template {
    Expression(Box<Expression<'static, 'static>>),
    Text(String),
}

impl Local {
    fn new(sources: &[Source]) -> (Self, Vec<Compiled>) {
        let mut environment = environment();
        let broken: Vec<Option<JinjaError>> = sources
            .iter()
            .map(|(name, text)| environment.add_template_owned(name.clone(), text.clone()).err())
            .collect();
        // A file is read once for a run.
        let environment: &'static Environment<'static> = Box::leak(Box::new(environment));
        let mut templates = Vec::with_capacity(sources.len());
        let compiled = std::iter::zip(sources, broken).map(|((name, text), broken)| {
            let inside = super::body::inside(text).filter(|_| name != super::body::BODY);
            let expression = inside.and_then(|inside| environment.compile_expression_owned(inside.to_owned()).ok());
            let named = match (broken, &expression) {
                (Some(error), _) => return (false, one_line(&error)),
                (None, Some(expression)) => expression.undeclared_variables(false),
                (None, None) => match environment.get_template(name) {
                    Ok(template) => template.undeclared_variables(false),
                    Err(error) => return (false, one_line(&error)),
                },
            };
            templates.push(expression.map_or(Template::Text(name.clone()), |one| Template::Expression(Box::new(one))));
            let mut named: Vec<String> = named.into_iter().collect();
            named.sort();
            (true, named.join("\n"))
        });
        let compiled = compiled.collect();
        (Local { environment, templates }, compiled)
    }

    fn values(&self, context: &Context) -> Result<Vec<Option<Value>>, TemplateError> {
        let context = Jinja::from_pairs(context.iter().map(|(name, value)| (name.as_str(), to_jinja(value))));
        let value = |template: &Template| match template {
            Template::Expression(expression) => from_jinja(&expression.eval(context.clone())?),
            Template::Text(name) => Ok(Some(self.environment.get_template(name)?.render(context.clone())?.into())),
        };
        Ok(self.templates.iter().map(value).collect::<Result<_, JinjaError>>()?)
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", tojson);
    environment.add_function("raise", |message: String| -> Result<Jinja, JinjaError> {
        Err(JinjaError::new(ErrorKind::InvalidOperation, message))
    });
    environment
}

/// `value | tojson`: JSON as the built-in backends write it.
fn tojson(value: Jinja, options: Kwargs) -> Result<Jinja, JinjaError> {
    options.assert_all_used()?;
    Ok(Jinja::from_safe_string(dumps(&from_jinja(&value)?.unwrap_or(Value::Null))))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The helper process of the tests is itself a test.
    const SMALL: Sandbox = Sandbox {
        args: &["--exact", "backends::declared::engine::tests::helper", "--ignored", "--nocapture"],
        bytes: 48 << 20,
        time: Duration::from_secs(20),
    };

    #[test]
    #[ignore = "the helper process of other tests"]
    fn helper() {
        let _ = sandbox::serve(&[BODIES]);
    }

    fn values(sandbox: Option<Sandbox>, text: &str) -> Result<Vec<Option<Value>>, String> {
        let sources = vec![("a".to_owned(), text.to_owned()), ("b".to_owned(), "{{ omit }}".to_owned())];
        let (engine, compiled) = match sandbox {
            Some(sandbox) => Engine::in_helper(sandbox, &sources)?,
            None => Engine::local(&sources)?,
        };
        if let Some((_, problem)) = compiled.into_iter().find(|(is_compiled, _)| !is_compiled) {
            return Err(problem);
        }
        let context: Context = vec![("prompt".to_owned(), "h\u{e9} x".into()), ("n".to_owned(), Value::Float(1.0))];
        // A helper can render many times.
        assert_eq!(engine.values(&context).ok(), engine.values(&context).ok());
        engine.values(&context).map_err(|error| error.problem)
    }

    #[test]
    fn a_helper_renders_as_this_process_does() {
        for text in [
            "{{ [prompt, n, 1, none, {'a': true}] }}",
            "{% for word in prompt.split() %}{{ loop.index }}{{ word }}{% endfor %}",
            "{{ raise('no ' ~ prompt) }}",
            "{{ prompt | shout }}",
            "{{ prompt",
        ] {
            assert_eq!(values(Some(SMALL), text), values(None, text), "{text}");
        }
    }

    #[test]
    fn a_template_cannot_exhaust_the_memory() {
        for text in [
            "{% set ns = namespace(x=prompt) %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
            "{% set a = prompt * 9999 %}{% set b = a * 9999 %}{{ b | length }}",
            "{{ '{:>10000000000}'.format(1) }}",
            "{{ 'x' * 10000000000 }}",
            "{{ [1] * 100000000000 }}",
            "{{ (range(99999) | list) * 99999 }}",
            "{{ prompt.replace('', prompt * 999999).replace('', prompt * 999999) }}",
            "{% set x %}{% for i in range(99999) %}{{ prompt * 9999 }}{% endfor %}{% endset %}{{ x }}",
            "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m(prompt) }}",
            "{% for i in range(99999) %}{{ prompt * 9999 }}{% endfor %}",
        ] {
            let problem = values(Some(SMALL), text).map(|all| all.len()).unwrap_err();
            // Some limits are those of the engine.
            let is_limit = ["limit of a template", "recursion", "too large"].iter().any(|why| problem.contains(why));
            assert!(is_limit && problem.lines().count() == 1, "{text}: {problem}");
        }
    }
}
