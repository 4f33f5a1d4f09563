//! Jinja filters and tests that the engine lacks or treats more strictly.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, State, filters, formatting};

use super::python_text::text;

/// The filter name of `%` formatting.
pub(super) const PERCENT: &str = "__percent__";

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("items", items);
    environment.add_filter("int", int);
    environment.add_filter(
        "string",
        |value: Value| if value.kind() == ValueKind::String { value } else { text(&value).into() },
    );
    environment.add_filter("wordcount", |text: &str| text.split_whitespace().count());
    environment.add_filter(PERCENT, percent);
    environment.add_test("sequence", is_sequence);
}

/// `text % value`; a tuple contains several values.
fn percent(format: &str, value: Value) -> Result<String, Error> {
    let values = if value.is_tuple() { value.try_iter()?.collect() } else { vec![value] };
    let printed: Vec<Value> =
        values.into_iter().map(|value| if is_plain(&value) { value } else { text(&value).into() }).collect();
    formatting::format(formatting::FormatStyle::Printf, format, &printed)
}

fn is_plain(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::String | ValueKind::Map)
}

fn default(value: Value, other: Option<Value>, boolean: Option<bool>, options: Kwargs) -> Result<Value, Error> {
    let other = match other {
        Some(other) => Some(other),
        None => options.get("default_value")?,
    };
    let boolean = match boolean {
        Some(boolean) => boolean,
        None => options.get::<Option<bool>>("boolean")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let missing = value.is_undefined() || boolean && !value.is_true();
    Ok(if missing { other.unwrap_or_else(|| Value::from("")) } else { value })
}

fn length(value: Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(&value) }
}

fn items(value: Value) -> Result<Value, Error> {
    if value.is_undefined() { Ok(Value::from(Vec::<Value>::new())) } else { filters::items(&value) }
}

/// Anything but a number becomes the default, 0.
fn int(
    state: &State<'_, '_>,
    value: Value,
    default: Option<Value>,
    base: Option<u32>,
    options: Kwargs,
) -> Result<Value, Error> {
    let given = match &default {
        Some(default) => Some(default.clone()),
        None => options.get::<Option<Value>>("default")?,
    };
    let fallback = given.unwrap_or_else(|| Value::from(0));
    Ok(filters::int(state, &value, default, base, options).unwrap_or(fallback))
}

/// Whether a value has a length and items, including strings and objects.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined() || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
}
