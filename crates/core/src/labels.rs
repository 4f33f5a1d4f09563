//! Labels of a request: the stage, class, replica or adapter it belongs to.

use std::{collections::HashSet, sync::Arc};

use crate::json::{self, Dict, Value};
use crate::packed::{Pack, pack_bytes, unpack_bytes};
use crate::shown::{harmless_line, is_harmful};

/// The label of the requests of a model other than the run's.
pub const MODEL: &str = "model";

/// The labels of a request, each a key with a value. A clone shares them. Control characters are escaped: labels come
/// from datasets, servers and logs of others.
///
/// ```
/// use tacho_core::Labels;
///
/// let labels = Labels::default().with("class", "chat").with("stage", "peak");
/// assert_eq!(labels.get("class"), Some("chat"));
/// assert_eq!(labels.to_json(), r#"{"class": "chat", "stage": "peak"}"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<Vec<Label>>>);

/// A key and its value.
type Label = (Box<str>, Box<str>);

impl Labels {
    /// No labels.
    pub const NONE: Labels = Labels(None);

    /// Adds a label, or replaces its value.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Labels {
        let others = self.iter().filter(|(other, _)| *other != key);
        others.chain([(key, value)]).collect()
    }

    /// Adds other labels, whose values take precedence.
    #[must_use]
    pub fn merged(&self, other: &Labels) -> Labels {
        match (self.is_empty(), other.is_empty()) {
            (_, true) => self.clone(),
            (true, false) => other.clone(),
            (false, false) => other.iter().fold(self.clone(), |all, (key, value)| all.with(key, value)),
        }
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All labels in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|labels| labels.iter()).map(|(key, value)| (&**key, &**value))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The labels as a JSON object.
    pub fn to_json(&self) -> String {
        let mut dict = Dict::new();
        self.iter().for_each(|(key, value)| dict.set(key, value));
        json::dumps(&Value::Dict(dict))
    }

    /// Parses a JSON object of strings; `None` if it is none.
    pub fn from_json(text: &str) -> Option<Labels> {
        let parsed = json::parse(text).ok()?;
        parsed.as_dict()?.iter().map(|(key, value)| Some((key, value.as_str()?))).collect()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(labels: T) -> Self {
        let safe = |text: &str| if text.chars().any(is_harmful) { harmless_line(text).into() } else { text.into() };
        let all: Vec<Label> = labels.into_iter().map(|(key, value)| (safe(key), safe(value))).collect();
        Labels((!all.is_empty()).then(|| Arc::new(all)))
    }
}

impl Pack for Labels {
    fn pack(&self, out: &mut Vec<u8>) {
        self.iter().count().pack(out);
        self.iter().for_each(|(key, value)| {
            pack_bytes(out, key.as_bytes());
            pack_bytes(out, value.as_bytes());
        });
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let count = usize::unpack(from)?;
        let mut text = || str::from_utf8(unpack_bytes(from)?).ok();
        (0..count).map(|_| Some((text()?, text()?))).collect()
    }
}

/// Shares equal labels, so that those of a million requests take the memory of a few.
#[derive(Debug, Default)]
pub struct LabelPool(HashSet<Labels>);

impl LabelPool {
    /// Most label sets that are shared; more only occur if a label is unique to each request.
    const MAX_LABELS: usize = 4096;

    /// The shared labels that equal `labels`.
    pub fn share(&mut self, labels: Labels) -> Labels {
        match self.0.get(&labels) {
            _ if labels.is_empty() => labels,
            Some(known) => known.clone(),
            None => {
                if self.0.len() < LabelPool::MAX_LABELS {
                    self.0.insert(labels.clone());
                }
                labels
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_values_take_precedence() {
        let planned = Labels::default().with("class", "chat").with("replica", "a");
        let seen = Labels::default().with("replica", "b");
        let all: Vec<(String, String)> =
            planned.merged(&seen).iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        assert_eq!(all, [("class".to_owned(), "chat".to_owned()), ("replica".to_owned(), "b".to_owned())]);
        assert_eq!(planned.merged(&Labels::NONE), planned);
        assert_eq!(Labels::NONE.merged(&seen), seen);
        assert_eq!(size_of::<Labels>(), 8);
    }

    #[test]
    fn labels_come_back() {
        let labels = Labels::default().with("class", "ä\"\n").with("", "");
        assert_eq!(Labels::from_json(&labels.to_json()), Some(labels.clone()));
        let mut packed = Vec::new();
        [&labels, &Labels::NONE].iter().for_each(|one| one.pack(&mut packed));
        let mut from = packed.as_slice();
        assert_eq!(Labels::unpack(&mut from), Some(labels));
        assert_eq!((Labels::unpack(&mut from), from.len()), (Some(Labels::NONE), 0));
        for text in ["[]", "{\"a\": 1}", "{"] {
            assert_eq!(Labels::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn equal_labels_share_memory() {
        let mut pool = LabelPool::default();
        let make = || Labels::default().with("class", "chat");
        let (one, two) = (pool.share(make()), pool.share(make()));
        assert!(one.0.zip(two.0).is_some_and(|(one, two)| Arc::ptr_eq(&one, &two)));
    }
}
