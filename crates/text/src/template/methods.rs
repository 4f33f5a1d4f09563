//! Python's string and list methods that the engine lacks.

use minijinja::value::{Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// Calls a method; falls back to the engine's.
pub(super) fn call(state: &mut State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match (value.kind(), value.as_str()) {
        (_, Some(text)) => text_method(text, method, args)?,
        (ValueKind::Seq, None) if method == "index" => Some(position(value, args)?),
        _ => None,
    };
    own.map_or_else(|| pycompat::unknown_method_callback(state, value, method, args), Ok)
}

fn text_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let one = || from_args::<(&str,)>(args).map(|(part,)| part);
    Ok(Some(match method {
        "removeprefix" => Value::from(one().map(|part| text.strip_prefix(part).unwrap_or(text))?),
        "removesuffix" => Value::from(one().map(|part| text.strip_suffix(part).unwrap_or(text))?),
        "partition" => {
            let part = one()?;
            parts(text.split_once(part).map_or([text, "", ""], |(before, after)| [before, part, after]))
        }
        "rpartition" => {
            let part = one()?;
            parts(text.rsplit_once(part).map_or(["", "", text], |(before, after)| [before, part, after]))
        }
        "index" => found(text, text.find(one()?))?,
        "rindex" => found(text, text.rfind(one()?))?,
        "rsplit" => {
            let (separator, limit) = from_args::<(Option<&str>, Option<i64>)>(args)?;
            Value::from(rsplit(text, separator, limit.and_then(|limit| usize::try_from(limit).ok())))
        }
        "ljust" | "rjust" | "center" => {
            let (width, fill) = from_args::<(usize, Option<char>)>(args)?;
            Value::from(justified(text, method, width, fill.unwrap_or(' ')))
        }
        "zfill" => {
            let (width,) = from_args::<(usize,)>(args)?;
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            Value::from(format!("{sign}{}", justified(digits, "rjust", width.saturating_sub(sign.len()), '0')))
        }
        "swapcase" => Value::from(text.chars().map(swapped).collect::<String>()),
        "title" => Value::from(titled(text)),
        _ => return Ok(None),
    }))
}

fn parts(parts: [&str; 3]) -> Value {
    Value::from(Tuple::from(parts.map(Value::from).to_vec()))
}

/// A position in characters.
fn found(text: &str, at: Option<usize>) -> Result<Value, Error> {
    let at = at.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
    Ok(Value::from(text[..at].chars().count()))
}

fn position(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (wanted,) = from_args::<(Value,)>(args)?;
    let at = list.try_iter()?.position(|item| item == wanted);
    at.map(Value::from).ok_or_else(|| Error::new(ErrorKind::InvalidOperation, format!("{wanted} is not in list")))
}

/// Splits from the right, at most `limit` times.
fn rsplit(text: &str, separator: Option<&str>, limit: Option<usize>) -> Vec<String> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut pieces = Vec::new();
    let mut rest = if separator.is_none() { text.trim_end() } else { text };
    while pieces.len() < limit {
        let cut = match separator {
            Some(separator) => rest.rsplit_once(separator),
            None => rest.rsplit_once(char::is_whitespace).map(|(before, after)| (before.trim_end(), after)),
        };
        let Some((before, after)) = cut else { break };
        pieces.push(after.to_owned());
        rest = before;
    }
    if separator.is_some() || !rest.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces.reverse();
    pieces
}

fn justified(text: &str, method: &str, width: usize, fill: char) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let left = match method {
        "ljust" => 0,
        "rjust" => missing,
        // CPython's choice of the side that gets the odd one.
        _ => missing / 2 + (missing & width & 1),
    };
    let padding = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", padding(left), padding(missing - left))
}

fn swapped(c: char) -> String {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// Upper-cases every letter that follows a non-letter, as Python does even after an apostrophe.
fn titled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
        inside = c.is_alphabetic();
    }
    out
}
