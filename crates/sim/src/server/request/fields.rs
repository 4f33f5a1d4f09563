//! The fields of a request body.

use hyper::StatusCode;
use tacho_core::json::{self, Dict, Value};

use super::problem::Problem;
use super::types::{Kind, as_bool, as_float, as_int};

/// Most fields and items of a body: parsed, they take many times their size in bytes.
const MAX_MEMBERS: usize = 1 << 22;

#[derive(Debug)]
pub(crate) struct Fields(Dict);

impl Fields {
    pub(crate) fn parse(content_type: Option<&str>, body: &[u8]) -> Result<Fields, Problem> {
        let broken = |message: &str| Problem::new(StatusCode::BAD_REQUEST, "Bad Request", message, None);
        let media = content_type.map(|value| value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let is_json = |media: &str| {
            media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
        };
        if media.is_some_and(|media| !is_json(&media)) {
            return Err(broken("Unsupported Media Type: Only 'application/json' is allowed"));
        }
        let text = std::str::from_utf8(body).map_err(|_| broken("There was an error parsing the body"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if memchr::memchr_iter(b',', body).count() > MAX_MEMBERS {
            return Err(Problem::bad_request(&format!("the body has more than {MAX_MEMBERS} members and items")));
        }
        match json::parse(text) {
            Ok(Value::Dict(dict)) => Ok(Fields(dict)),
            Ok(_) => Err(broken("body: expected an object")),
            // Python counts characters, not bytes.
            Err(error) => Err(Problem::wrong_type(
                &format!("body.{}", text[..error.at].chars().count()),
                &format!("expected JSON: {}", error.message),
            )),
        }
    }

    pub(crate) fn from_texts(texts: impl IntoIterator<Item = (String, String)>) -> Fields {
        Fields(texts.into_iter().map(|(name, text)| (name, Value::Str(text))).collect())
    }

    /// The fields of an object in the body; none if it is absent.
    pub(crate) fn within(&self, name: &str) -> Fields {
        Fields(self.get(name).and_then(Value::as_dict).cloned().unwrap_or_default())
    }

    pub(crate) fn dict(&self) -> &Dict {
        &self.0
    }

    /// A field that is present and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| **value != Value::Null)
    }

    pub(crate) fn truthy(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::truthy)
    }

    fn typed<'a, T>(
        &'a self,
        name: &str,
        kind: Kind,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(|value| read(value).ok_or_else(|| kind.problem(name, Some(value)))).transpose()
    }

    /// An integer, clamped to 64 bits.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Problem> {
        self.typed(name, Kind::Int, as_int)
    }

    pub(crate) fn float(&self, name: &str) -> Result<Option<f64>, Problem> {
        self.typed(name, Kind::Float, as_float)
    }

    /// A boolean; false if absent.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.typed(name, Kind::Bool, as_bool)?.unwrap_or(false))
    }

    /// A boolean; true if absent.
    pub(crate) fn flag_or_true(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.typed(name, Kind::Bool, as_bool)?.unwrap_or(true))
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        self.typed(name, Kind::Text, Value::as_str)
    }

    pub(crate) fn required_text(&self, name: &str) -> Result<String, Problem> {
        let text = self.text(name)?.ok_or_else(|| Kind::Text.problem(name, self.0.get(name)))?;
        Ok(text.to_owned())
    }

    /// The name of a model, unless it is empty.
    pub(crate) fn model(&self) -> Result<Option<String>, Problem> {
        Ok(self.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned))
    }

    pub(crate) fn seed(&self, name: &str) -> Result<Option<u64>, Problem> {
        Ok(self.int(name)?.map(|seed| seed as u64))
    }

    /// A count; zero if it is absent or negative.
    pub(crate) fn count(&self, name: &str) -> Result<usize, Problem> {
        Ok(self.int(name)?.and_then(|count| usize::try_from(count).ok()).unwrap_or(0))
    }

    /// A text or a list of texts; empty if absent.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, Problem> {
        let read = |value: &Value| match value {
            Value::Str(text) => Some(vec![text.clone()]),
            value => value.as_list()?.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        };
        Ok(self.typed(name, Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]), read)?.unwrap_or_default())
    }

    /// A list of integers; empty if absent.
    pub(crate) fn ints(&self, name: &str) -> Result<Vec<i64>, Problem> {
        let read = |value: &Value| value.as_list()?.iter().map(as_int).collect();
        Ok(self.typed(name, Kind::List(&Kind::Int), read)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_flags_are_read_as_leniently_as_vllm_reads_them() {
        let text = r#"{"a": "7", "b": 3.0, "c": null, "d": true, "e": [1], "f": "yes"}"#;
        let body = Fields::parse(Some("application/json; charset=utf-8"), text.as_bytes()).unwrap();
        assert_eq!(body.int("a").unwrap(), Some(7));
        assert_eq!(body.int("b").unwrap(), Some(3));
        assert_eq!(body.int("c").unwrap(), None);
        assert!(body.flag("d").unwrap() && body.flag("f").unwrap() && !body.flag("g").unwrap());
        assert_eq!(body.int("e").unwrap_err().message, "body.e: expected an integer, got a list of 1");
        assert!(body.flag("e").is_err());
    }

    #[test]
    fn bodies_that_are_not_json_are_refused() {
        let text = |body: &[u8]| Fields::parse(Some("application/json"), body).unwrap_err().body();
        assert!(text("{\"é\": 1, ".as_bytes()).contains(r#""param":"body.9""#));
        assert!(text(b"{\"prompt\": \"\xff\"}").contains("error parsing the body"));
        assert!(text(&[b"[".to_vec(), b"1,".repeat(MAX_MEMBERS + 1), b"1]".to_vec()].concat()).contains("more than"));
    }
}
