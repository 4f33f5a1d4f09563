//! Field types, validated as by vLLM's models: all findings at once, in the same words.

use tacho_core::json::{Dict, Value};

use super::problem::{Invalid, MAX_FINDINGS};

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Bool,
    Int,
    /// An integer of at least this value that fits into 64 bits.
    IntFrom(i64),
    /// An integer that fits into 64 bits.
    Int64,
    Float,
    Text,
    Dict,
    Literal(&'static [&'static str]),
    /// A list of integers.
    Ints,
    Texts,
    /// A string, or a list of at most this many.
    TextOrTexts(usize),
    Numbers,
    Labels,
    /// Lists of [`Kind::Labels`].
    LabelLists,
    Dicts,
    /// A list of strings, each one of these.
    Literals(&'static [&'static str]),
    /// A list, validated elsewhere.
    List,
    /// Strings, numbers or lists of them by name.
    Extras,
}

/// A known field of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether null means absent.
    pub(crate) null: bool,
}

pub(crate) const fn maybe(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, null: true }
}

/// A field that is never null.
pub(crate) const fn always(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, null: false }
}

/// All findings about the fields in `table`; others are not checked.
pub(crate) fn findings(table: &[&[Member]], body: &Dict) -> Vec<Invalid> {
    let mut found = Vec::new();
    for member in table.iter().copied().flatten() {
        match body.get(member.name) {
            None => {}
            Some(Value::Null) if member.null => {}
            Some(value) => look(member.kind, member.name, value, &mut found),
        }
    }
    found
}

fn look(kind: Kind, loc: &str, value: &Value, found: &mut Vec<Invalid>) {
    match kind {
        Kind::Bool => found.extend(wrong_bool(loc, value)),
        Kind::Int => found.extend(wrong_int(loc, value)),
        Kind::Int64 => found.extend(wrong_int(loc, value).or_else(|| out_of_range(loc, value, i64::MIN))),
        Kind::IntFrom(least) => found.extend(wrong_int(loc, value).or_else(|| out_of_range(loc, value, least))),
        Kind::Float => found.extend(wrong_float(loc, value)),
        Kind::Text => found.extend(wrong_text(loc, value)),
        Kind::Literal(names) => found.extend(wrong_literal(loc, value, names)),
        Kind::Ints => each(loc, value, found, |loc, item, found| found.extend(wrong_int(loc, item))),
        Kind::Texts => each(loc, value, found, |loc, item, found| found.extend(wrong_text(loc, item))),
        Kind::TextOrTexts(most) => text_or_texts(loc, value, most, found),
        Kind::Literals(names) => {
            each(loc, value, found, |loc, item, found| found.extend(wrong_literal(loc, item, names)))
        }
        Kind::LabelLists => each(loc, value, found, |loc, item, found| look(Kind::Labels, loc, item, found)),
        Kind::List => found.extend(wrong_list(loc, value)),
        Kind::Dict => found.extend(wrong_dict(loc, value)),
        Kind::Numbers => by_name(loc, value, found, |loc, item, found| found.extend(wrong_float(loc, item))),
        Kind::Labels => by_name(loc, value, found, |loc, item, found| found.extend(wrong_text(loc, item))),
        Kind::Dicts => by_name(loc, value, found, |loc, item, found| found.extend(wrong_dict(loc, item))),
        Kind::Extras => by_name(loc, value, found, |loc, item, found| {
            if matches!(item, Value::Dict(_) | Value::Null) {
                found.extend(
                    [wrong_text(loc, item), wrong_int(loc, item), wrong_float(loc, item), wrong_list(loc, item)]
                        .into_iter()
                        .flatten(),
                );
            }
        }),
    }
}

type Look<'a> = &'a dyn Fn(&str, &Value, &mut Vec<Invalid>);

fn each(loc: &str, value: &Value, found: &mut Vec<Invalid>, look: impl Fn(&str, &Value, &mut Vec<Invalid>)) {
    each_of(loc, value, found, &look);
}

fn each_of(loc: &str, value: &Value, found: &mut Vec<Invalid>, look: Look<'_>) {
    match value {
        Value::List(items) => {
            for (at, item) in items.iter().enumerate() {
                if found.len() >= MAX_FINDINGS {
                    break;
                }
                look(&format!("{loc}.{at}"), item, found);
            }
        }
        other => found.extend(wrong_list(loc, other)),
    }
}

fn by_name(loc: &str, value: &Value, found: &mut Vec<Invalid>, look: impl Fn(&str, &Value, &mut Vec<Invalid>)) {
    match value {
        Value::Dict(dict) => dict.iter().for_each(|(name, item)| look(&format!("{loc}.{name}"), item, found)),
        other => found.extend(wrong_dict(loc, other)),
    }
}

fn text_or_texts(loc: &str, value: &Value, most: usize, found: &mut Vec<Invalid>) {
    let Some(no_text) = wrong_text(loc, value) else { return };
    let mut others = Vec::new();
    match value {
        Value::List(items) if items.len() > most => {
            let message = format!("List should have at most {most} items after validation, not {}", items.len());
            let ctx = format!("{{'field_type': 'List', 'max_length': {most}, 'actual_length': {}}}", items.len());
            others.push(Invalid::member("too_long", loc, &message, value).with(ctx));
        }
        _ => look(Kind::Texts, loc, value, &mut others),
    }
    if !others.is_empty() {
        found.push(no_text);
        found.append(&mut others);
    }
}

pub(crate) fn wrong_list(loc: &str, value: &Value) -> Option<Invalid> {
    let wrong = !matches!(value, Value::List(_));
    wrong.then(|| Invalid::member("list_type", loc, "Input should be a valid list", value))
}

pub(crate) fn wrong_dict(loc: &str, value: &Value) -> Option<Invalid> {
    let wrong = !matches!(value, Value::Dict(_));
    wrong.then(|| Invalid::member("dict_type", loc, "Input should be a valid dictionary", value))
}

/// The finding that a value is not an object.
pub(crate) fn wrong_model(loc: &str, value: &Value) -> Option<Invalid> {
    let message = "Input should be a valid dictionary or object to extract fields from";
    let wrong = !matches!(value, Value::Dict(_));
    wrong.then(|| Invalid::member("model_attributes_type", loc, message, value))
}

pub(crate) fn wrong_text(loc: &str, value: &Value) -> Option<Invalid> {
    let wrong = !matches!(value, Value::Str(_));
    wrong.then(|| Invalid::member("string_type", loc, "Input should be a valid string", value))
}

pub(crate) fn wrong_bool(loc: &str, value: &Value) -> Option<Invalid> {
    const WORDS: [&str; 12] = ["true", "1", "yes", "on", "t", "y", "false", "0", "no", "off", "f", "n"];
    const PARSING: &str = "Input should be a valid boolean, unable to interpret input";
    let (kind, message) = match value {
        Value::Bool(_) | Value::Int(0 | 1) => return None,
        Value::Float(number) if *number == 0.0 || *number == 1.0 => return None,
        Value::Str(text) if WORDS.contains(&text.to_lowercase().as_str()) => return None,
        Value::Str(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => ("bool_parsing", PARSING),
        _ => ("bool_type", "Input should be a valid boolean"),
    };
    Some(Invalid::member(kind, loc, message, value))
}

pub(crate) fn wrong_int(loc: &str, value: &Value) -> Option<Invalid> {
    const PARSING: &str = "Input should be a valid integer, unable to parse string as an integer";
    const FRACTION: &str = "Input should be a valid integer, got a number with a fractional part";
    let (kind, message) = match value {
        Value::Int(_) | Value::BigInt(_) | Value::Bool(_) => return None,
        Value::Float(number) if number.is_finite() && number.fract() == 0.0 => return None,
        Value::Float(number) if !number.is_finite() => ("finite_number", "Input should be a finite number"),
        Value::Float(_) => ("int_from_float", FRACTION),
        Value::Str(text) if text.trim().parse::<i64>().is_ok() => return None,
        Value::Str(_) => ("int_parsing", PARSING),
        _ => ("int_type", "Input should be a valid integer"),
    };
    Some(Invalid::member(kind, loc, message, value))
}

fn wrong_float(loc: &str, value: &Value) -> Option<Invalid> {
    const PARSING: &str = "Input should be a valid number, unable to parse string as a number";
    let (kind, message) = match value {
        Value::Str(text) if text.trim().parse::<f64>().is_ok() => return None,
        Value::Str(_) => ("float_parsing", PARSING),
        Value::Bool(_) => return None,
        other if other.as_f64().is_some() => return None,
        _ => ("float_type", "Input should be a valid number"),
    };
    Some(Invalid::member(kind, loc, message, value))
}

pub(crate) fn wrong_literal(loc: &str, value: &Value, names: &[&str]) -> Option<Invalid> {
    if value.as_str().is_some_and(|name| names.contains(&name)) {
        return None;
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let expected = match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    let ctx = format!("{{'expected': {}}}", super::problem::python_repr(&expected));
    Some(Invalid::member("literal_error", loc, &format!("Input should be {expected}"), value).with(ctx))
}

/// An integer below `least` or beyond 64 bits.
pub(crate) fn out_of_range(loc: &str, value: &Value, least: i64) -> Option<Invalid> {
    let number = match value {
        Value::Str(text) => text.trim().parse().ok()?,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Int(number) if *number >= least => return None,
        other => other.as_f64()?,
    };
    let below = match value {
        Value::Int(number) => *number < least,
        Value::BigInt(digits) => digits.starts_with('-'),
        _ => number < least as f64,
    };
    let (kind, message, ctx) = if below {
        ("greater_than_equal", format!("greater than or equal to {least}"), format!("{{'ge': {least}}}"))
    } else if number >= -(i64::MIN as f64) {
        let most = i64::MAX;
        ("less_than_equal", format!("less than or equal to {most}"), format!("{{'le': {most}}}"))
    } else {
        return None;
    };
    Some(Invalid::member(kind, loc, &format!("Input should be {message}"), value).with(ctx))
}
