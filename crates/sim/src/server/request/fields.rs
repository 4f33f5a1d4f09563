//! Fields of a request body: the types that vLLM accepts, and its findings about others.

use tacho_core::json::{self, Dict, Value};

use super::members;
use super::problem::{Invalid, Problem};

/// Most fields and items of a body: parsed, they take many times their size in bytes.
const MAX_MEMBERS: usize = 1 << 22;

#[derive(Debug)]
pub(crate) struct Fields(Dict);

impl Fields {
    pub(crate) fn parse(content_type: Option<&str>, body: &[u8]) -> Result<Fields, Problem> {
        let media = content_type.map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let is_json = |media: &str| {
            media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
        };
        if media.is_some_and(|media| !is_json(&media)) {
            return Err(Problem::invalid(&[Invalid::MediaType]));
        }
        let text = std::str::from_utf8(body).map_err(|_| Problem::unreadable())?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if memchr::memchr_iter(b',', body).count() > MAX_MEMBERS {
            return Err(Problem::bad_request(&format!("the body has more than {MAX_MEMBERS} members and items")));
        }
        if text.is_empty() {
            return Err(Problem::invalid(&[Invalid::member("missing", "", "Field required", &Value::Null)]));
        }
        match json::parse(text) {
            Ok(Value::Dict(dict)) => Ok(Fields(dict)),
            Ok(Value::Null) => Err(Problem::invalid(&[Invalid::member("missing", "", "Field required", &Value::Null)])),
            Ok(other) => {
                let message = "Input should be a valid dictionary or object to extract fields from";
                let finding = Invalid::member("model_attributes_type", "", message, &other);
                Err(Problem::invalid(&[finding]))
            }
            Err(error) => {
                let mut reason = error.message.to_owned();
                reason[..1].make_ascii_uppercase();
                // Python counts characters, not bytes.
                let at = text[..error.at].chars().count();
                Err(Problem::invalid(&[Invalid::Json { at, error: reason }]))
            }
        }
    }

    /// The fields of a form, all strings.
    pub(crate) fn from_texts(texts: impl IntoIterator<Item = (String, String)>) -> Fields {
        Fields(texts.into_iter().map(|(name, text)| (name, Value::Str(text))).collect())
    }

    pub(crate) fn within(&self, name: &str) -> Fields {
        Fields(self.get(name).and_then(Value::as_dict).cloned().unwrap_or_default())
    }

    pub(crate) fn dict(&self) -> &Dict {
        &self.0
    }

    /// A list of integers; empty if absent.
    pub(crate) fn ints(&self, name: &str) -> Result<Vec<i64>, Problem> {
        let items = self.get(name).and_then(Value::as_list).unwrap_or(&[]);
        items.iter().map(|item| int_of(item, name).map(Option::unwrap_or_default)).collect()
    }

    /// A field that is present and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| **value != Value::Null)
    }

    pub(crate) fn required(&self, name: &str) -> Result<&Value, Problem> {
        self.0.get(name).ok_or_else(|| Problem::invalid(&[self.missing(name)]))
    }

    /// The finding that a field is missing.
    pub(crate) fn missing(&self, name: &str) -> Invalid {
        Invalid::member("missing", name, "Field required", &Value::Dict(self.0.clone()))
    }

    /// Returns whether the field is present, null included.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    /// An integer, clamped to 64 bits.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.get(name).map_or(Ok(None), |value| int_of(value, name))
    }

    pub(crate) fn float(&self, name: &str) -> Result<Option<f64>, Problem> {
        const PARSING: &str = "Input should be a valid number, unable to parse string as a number";
        let Some(value) = self.get(name) else { return Ok(None) };
        let (kind, message) = match value {
            Value::Str(text) => match text.trim().parse() {
                Ok(number) => return Ok(Some(number)),
                Err(_) => ("float_parsing", PARSING),
            },
            Value::Bool(flag) => return Ok(Some(f64::from(u8::from(*flag)))),
            other => match other.as_f64() {
                Some(number) => return Ok(Some(number)),
                None => ("float_type", "Input should be a valid number"),
            },
        };
        Err(Problem::invalid(&[Invalid::member(kind, name, message, value)]))
    }

    /// A boolean; false if absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        flag_of(self.get(name), name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(other) => {
                let finding = Invalid::member("string_type", name, "Input should be a valid string", other);
                Err(Problem::invalid(&[finding]))
            }
        }
    }

    /// A text or a list of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, Problem> {
        let wrong = |value: &Value| {
            Problem::invalid(&[Invalid::member("string_type", name, "Input should be a valid string", value)])
        };
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Str(text)) => Ok(vec![text.clone()]),
            Some(Value::List(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item))).collect()
            }
            Some(other) => Err(wrong(other)),
        }
    }

    /// `stream_options`: the flags `include_usage` and `continuous_usage_stats`.
    pub(crate) fn stream_options(&self) -> Result<Option<(bool, bool)>, Problem> {
        let Some(options) = self.get("stream_options") else { return Ok(None) };
        let flag = |name: &str| flag_of(options.get(name), &format!("stream_options.{name}"));
        Ok(Some((flag("include_usage")?, flag("continuous_usage_stats")?)))
    }
}

fn int_of(value: &Value, name: &str) -> Result<Option<i64>, Problem> {
    match members::wrong_int(name, value) {
        Some(finding) => Err(Problem::invalid(&[finding])),
        None => Ok(match value {
            Value::Int(number) => Some(*number),
            Value::Bool(flag) => Some(i64::from(*flag)),
            Value::Float(number) => Some(*number as i64),
            Value::BigInt(digits) => Some(if digits.starts_with('-') { i64::MIN } else { i64::MAX }),
            Value::Str(text) => text.trim().parse().ok(),
            _ => None,
        }),
    }
}

fn flag_of(value: Option<&Value>, name: &str) -> Result<bool, Problem> {
    let Some(value) = value.filter(|value| **value != Value::Null) else { return Ok(false) };
    match members::wrong_bool(name, value) {
        Some(finding) => Err(Problem::invalid(&[finding])),
        None => Ok(match value {
            Value::Str(text) => ["true", "1", "yes", "on", "t", "y"].contains(&text.to_lowercase().as_str()),
            other => other.truthy(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(Some("application/json; charset=utf-8"), text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_and_flags_are_read_as_leniently_as_vllm_reads_them() {
        let body = fields(r#"{"a": "7", "b": 3.0, "c": null, "d": true, "e": [1], "f": "yes"}"#);
        assert_eq!(body.int("a").unwrap(), Some(7));
        assert_eq!(body.int("b").unwrap(), Some(3));
        assert_eq!(body.int("c").unwrap(), None);
        assert!(body.flag("d").unwrap() && body.flag("f").unwrap() && !body.flag("g").unwrap());
        assert!(body.int("e").unwrap_err().body.contains("'type': 'int_type'"));
        assert!(body.flag("e").is_err());
    }

    #[test]
    fn bodies_that_are_not_objects_are_findings() {
        let text = |body: &[u8]| Fields::parse(Some("application/json"), body).unwrap_err().body;
        assert_eq!(
            text(b"[1]"),
            r#"{"error":{"message":"1 validation error:\n  {'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary or object to extract fields from', 'input': '<list of 1 items>'}","type":"Bad Request","param":"body","code":400}}"#
        );
        assert_eq!(
            text(br#"{"model": "tiny", "#),
            r#"{"error":{"message":"1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.18', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting property name enclosed in double quotes'}}","type":"Bad Request","param":"body.18","code":400}}"#
        );
        assert_eq!(
            text(b"{\"prompt\": \"\xff\"}"),
            r#"{"error":{"message":"There was an error parsing the body","type":"Bad Request","param":null,"code":400}}"#
        );
        assert!(text(&[b"[".to_vec(), b"1,".repeat(MAX_MEMBERS + 1), b"1]".to_vec()].concat()).contains("more than"));
        assert!(Fields::parse(Some("text/plain"), b"{}").unwrap_err().body.contains("Unsupported Media Type"));
    }
}
