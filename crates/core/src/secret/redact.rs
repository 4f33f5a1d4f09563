//! Redaction of texts for people and files. Text that cannot be parsed is redacted as a whole.

use std::borrow::Cow;

use super::{REDACTED, Secret, is_secret_name};
use crate::json::{self, Dict, Value};
use crate::percent::decoded_text;

/// The value of header `name`, redacted if it is secret.
pub fn redact_header<'v>(name: &str, value: &'v str) -> Cow<'v, str> {
    if is_secret_name(name) || is_credentials(value) { Cow::Borrowed(REDACTED) } else { Cow::Borrowed(value) }
}

/// A command-line header without its value, whatever its name; used in stored and printed commands.
pub(super) fn hide_header_value(text: &str) -> String {
    match text.find(['=', ':']) {
        Some(at) => format!("{}{REDACTED}", &text[..=at]),
        None => REDACTED.to_owned(),
    }
}

/// A command-line header, `Name=value` or `Name: value`. Anything else may be a bare key and is redacted.
pub fn redact_header_text(text: &str) -> String {
    let Some(at) = text.find(['=', ':']).or_else(|| text.find(char::is_whitespace)) else { return REDACTED.to_owned() };
    let separator = text[at..].chars().next().map_or(1, char::len_utf8);
    let (name, value) = (&text[..at], &text[at + separator..]);
    match redact_header(name.trim(), value.trim()) {
        shown if shown == REDACTED => format!("{}{REDACTED}", &text[..at + separator]),
        _ => text.to_owned(),
    }
}

/// Whether a value is a credential, whatever its header is called.
fn is_credentials(value: &str) -> bool {
    let scheme = value.trim_start().split_once(' ').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("bearer" | "basic" | "digest" | "negotiate"))
}

/// A URL, or its path and query, without user, password and the values of secret parameters. The URL may be invalid:
/// errors show what was typed.
pub fn redact_url(text: &str) -> String {
    let (scheme, rest) = match text.find("://") {
        Some(at) => text.split_at(at + 3),
        None => text.split_at(0),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // An unencoded slash in a password ends the authority too early; what follows is then not a port.
    let typed_badly =
        rest[..end].rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_err() && !port.ends_with(']'));
    let searched = if rest[..end].contains('@') || !typed_badly { end } else { rest.find('?').unwrap_or(rest.len()) };
    match rest[..searched].rfind('@') {
        Some(at) => format!("{scheme}{REDACTED}@{}", redact_query(&rest[at + 1..])),
        None => format!("{scheme}{}", redact_query(rest)),
    }
}

/// Redacts the values of secret parameters after `?` or `#`.
fn redact_query(text: &str) -> String {
    let Some(start) = text.find(['?', '#']) else { return text.to_owned() };
    let mut out = text[..start].to_owned();
    for part in text[start..].split_inclusive(['&', ';', '?', '#']) {
        let (pair, end) = match part.char_indices().next_back() {
            Some((at, '&' | ';' | '?' | '#')) => part.split_at(at),
            _ => (part, ""),
        };
        match pair.split_once('=') {
            Some((name, _)) if is_secret_name(&decoded_text(name)) => out.push_str(&format!("{name}={REDACTED}{end}")),
            _ => out.push_str(part),
        }
    }
    out
}

/// A body with its secret fields redacted at any depth, and the secrets in its URLs.
pub fn redact_json(value: &Value) -> Value {
    match value {
        Value::Dict(dict) => {
            dict.iter().map(|(name, value)| (name.to_owned(), redact_field(name, value))).collect::<Dict>().into()
        }
        Value::List(items) => Value::List(items.iter().map(redact_json).collect()),
        Value::Str(text) if text.contains("://") => Value::Str(redact_url(text)),
        other => other.clone(),
    }
}

/// A body without its secret fields, at any depth: for files that are sent again, where a redacted value would be sent.
pub fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Dict(dict) => {
            let kept = dict.iter().filter(|(name, _)| !is_secret_name(name));
            kept.map(|(name, value)| (name.to_owned(), without_secrets(value))).collect::<Dict>().into()
        }
        Value::List(items) => Value::List(items.iter().map(without_secrets).collect()),
        other => other.clone(),
    }
}

fn redact_field(name: &str, value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        _ if is_secret_name(name) => Value::from(REDACTED),
        _ => redact_json(value),
    }
}

/// Redacts a body given as text. A body that cannot be parsed is redacted if any of its words has the name of a secret.
pub fn redact_json_text(text: &str) -> String {
    match json::parse(text) {
        Ok(value) => {
            let redacted = redact_json(&value);
            if redacted == value { text.to_owned() } else { json::dumps(&redacted) }
        }
        Err(_) => {
            let mut words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
            if words.any(is_secret_name) { REDACTED.to_owned() } else { text.to_owned() }
        }
    }
}

/// The secrets in the query of a URL or path: the values of parameters with the name of a secret.
pub fn secrets_of_url(text: &str) -> impl Iterator<Item = Secret> {
    let pairs = text.split(['?', '#', '&', ';']).skip(1).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| is_secret_name(&decoded_text(name))).map(|(_, value)| Secret::new(decoded_text(value)))
}

/// The secrets in a body: every text and number under the name of a secret, at any depth.
pub fn secrets_of_json(value: &Value) -> Vec<Secret> {
    fn collect(value: &Value, is_secret: bool, found: &mut Vec<Secret>) {
        match value {
            Value::Dict(dict) => {
                dict.iter().for_each(|(name, value)| collect(value, is_secret || is_secret_name(name), found));
            }
            Value::List(items) => items.iter().for_each(|item| collect(item, is_secret, found)),
            Value::Null | Value::Bool(_) => {}
            Value::Str(text) if is_secret => found.push(Secret::new(text.as_str())),
            Value::Str(text) => found.extend(secrets_of_url(text)),
            number if is_secret => found.push(Secret::new(json::dumps(number))),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(value, false, &mut found);
    found
}

/// The secrets in the value of a header that the user has set: the value, and the credential in it. Names that every
/// client sends have ordinary values.
pub fn secrets_of_header(name: &str, value: &str) -> impl Iterator<Item = Secret> {
    const ORDINARY: [&str; 3] = ["content-type", "accept", "user-agent"];
    let name = name.trim().to_ascii_lowercase();
    let is_named = is_secret_name(&name) || is_credentials(value);
    let is_word = value.parse::<f64>().is_ok()
        || matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "none" | "null");
    let whole = (is_named || !ORDINARY.contains(&&*name) && !is_word).then(|| Secret::new(value.trim()));
    let bare = value.trim().split_once(' ').filter(|_| is_named).map(|(_, bare)| Secret::new(bare.trim()));
    whole.into_iter().chain(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_their_names() {
        assert_eq!(redact_header("Authorization", "Bearer abc"), "***");
        assert_eq!(redact_header("X-Who", "bearer abc"), "***");
        assert_eq!(redact_header("X-Team", "basic"), "basic");
        for (typed, shown) in [
            ("Authorization=Bearer abc", "Authorization=***"),
            ("authorization: Bearer abc", "authorization:***"),
            ("X-Api-Key abc", "X-Api-Key ***"),
            ("X-Team=red", "X-Team=red"),
            ("sk-abc", "***"),
            ("", "***"),
        ] {
            assert_eq!(redact_header_text(typed), shown, "{typed}");
        }
    }

    #[test]
    fn urls_lose_users_and_secret_parameters() {
        for (typed, shown) in [
            ("http://user:PW@h:1/v1?x=1", "http://***@h:1/v1?x=1"),
            ("https://TOKEN@h/v1", "https://***@h/v1"),
            ("http://user:p/w@h/v1", "http://***@h/v1"),
            ("user:PW@h:8000/v1", "***@h:8000/v1"),
            ("http://h:80/a@b", "http://h:80/a@b"),
            ("http://[::1]:80/a@b?c=d", "http://[::1]:80/a@b?c=d"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            ("/v1/completions?api-version=1&api-key=K&y", "/v1/completions?api-version=1&api-key=***&y"),
            ("/v1?a%70i_key=K#access_token=T", "/v1?a%70i_key=***#access_token=***"),
            ("http://h?sig=a;token=b?key=c", "http://h?sig=***;token=***?key=***"),
            ("", ""),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(redact_url(typed), shown, "{typed}");
        }
    }

    #[test]
    fn bodies_lose_secret_fields_at_any_depth() {
        let text =
            r#"{"api_key": "K", "max_tokens": 5, "a": [{"Password": 7, "url": "http://u:p@h/"}], "token": null}"#;
        let shown =
            r#"{"api_key": "***", "max_tokens": 5, "a": [{"Password": "***", "url": "http://***@h/"}], "token": null}"#;
        assert_eq!(redact_json_text(text), shown);
        assert_eq!(redact_json_text(r#"{"x":1}"#), r#"{"x":1}"#);
        assert_eq!(redact_json_text(r#"{"api_key": "K","#), "***");
        assert_eq!(redact_json_text(r#"{"temperature": }"#), r#"{"temperature": }"#);
    }

    #[test]
    fn secrets_are_known_by_the_names_they_have() {
        let texts = |secrets: Vec<Secret>| secrets.iter().map(|one| one.expose().to_owned()).collect::<Vec<_>>();
        assert_eq!(texts(secrets_of_url("/v1?a=1&api%2Dkey=K%41&y#token=T").collect()), ["KA", "T"]);
        let body = json::parse(r#"{"api_key": {"v": ["K", 12.5, true]}, "n": 1, "u": "http://h?sig=S"}"#).unwrap();
        assert_eq!(texts(secrets_of_json(&body)), ["K", "12.5", "S"]);
        assert_eq!(json::dumps(&without_secrets(&body)), r#"{"n": 1, "u": "http://h?sig=S"}"#);
        for (name, value, known) in [
            ("Authorization", "Bearer abc", &["Bearer abc", "abc"][..]),
            ("X-Whatever", "a value", &["a value"]),
            ("X-Whatever", "basic xyz", &["basic xyz", "xyz"]),
            ("Content-Type", "text/plain", &[]),
            ("X-Budget", "1000", &[]),
            ("X-Flag", "True", &[]),
            ("X-Token", "1000", &["1000"]),
        ] {
            assert_eq!(texts(secrets_of_header(name, value).collect()), known, "{name}");
        }
    }
}
