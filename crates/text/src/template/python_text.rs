//! Values as Python prints them where the engine differs: floats, alone or inside lists and objects.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, Output, State, escape_formatter};
use tacho_core::json::{float_repr, quoted};

/// Prints the value of a `{{ … }}` expression.
pub(super) fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if holds_float(value) {
        return out.write_str(&text(value)).map_err(Error::from);
    }
    escape_formatter(out, state, value)
}

pub(super) fn text(value: &Value) -> String {
    if holds_float(value) { repr(value) } else { value.to_string() }
}

fn holds_float(value: &Value) -> bool {
    let inside = |value: &Value| value.try_iter().is_ok_and(|mut items| items.any(|item| holds_float(&item)));
    match value.kind() {
        ValueKind::Number => !value.is_integer(),
        ValueKind::Seq => inside(value),
        ValueKind::Map => pairs(value).iter().any(|(_, item)| holds_float(item)),
        _ => false,
    }
}

fn repr(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => float(value),
        ValueKind::Seq => {
            let items: Vec<String> =
                value.try_iter().map(|items| items.map(|item| repr(&item)).collect()).unwrap_or_default();
            match items.as_slice() {
                [one] if value.is_tuple() => format!("({one},)"),
                items if value.is_tuple() => format!("({})", items.join(", ")),
                items => format!("[{}]", items.join(", ")),
            }
        }
        ValueKind::Map => {
            let items: Vec<String> =
                pairs(value).iter().map(|(key, item)| format!("{}: {}", repr(key), repr(item))).collect();
            format!("{{{}}}", items.join(", "))
        }
        _ => value.to_string(),
    }
}

fn float(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => "nan".to_owned(),
        Ok(number) if number.is_finite() => float_repr(number),
        _ => value.to_string(),
    }
}

fn pairs(value: &Value) -> Vec<(Value, Value)> {
    let keys = value.try_iter().into_iter().flatten();
    keys.map(|key| (key.clone(), value.get_item(&key).unwrap_or_default())).collect()
}
