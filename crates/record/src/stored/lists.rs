//! The lists of a result with one entry per request.

use tacho_core::Labels;
use tacho_core::json::{Dict, FieldError, Value};

use crate::Error;

/// The lists of a result; all that it has are as long as that of latencies.
pub(crate) struct Lists<'a> {
    result: &'a Dict,
    pub(crate) latencies: Vec<f64>,
}

/// Numbers of requests; empty if the file lacks the list.
pub(crate) struct Column(Vec<f64>);

impl Column {
    pub(crate) fn at(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Lists<'a> {
    pub(crate) fn of(result: &'a Dict) -> Result<Self, Error> {
        let lists = Lists { result, latencies: Vec::new() };
        let latencies = lists.read("latencies", number_of, "a list of numbers")?;
        Ok(Lists { latencies, ..lists })
    }

    /// The list under a key, which may be one of tacho's part; empty if the file lacks it.
    fn read<T>(&self, key: &str, read: impl Fn(&Value) -> Option<T>, expected: &'static str) -> Result<Vec<T>, Error> {
        let found = match key.strip_prefix("tacho.") {
            Some(tacho) => self.result.get("tacho").and_then(|part| part.get(tacho)),
            None => self.result.get(key),
        };
        let wrong = || Error::from(FieldError::new(expected).at(key));
        let Some(value) = found else { return Ok(Vec::new()) };
        value.as_list().ok_or_else(wrong)?.iter().map(|item| read(item).ok_or_else(wrong)).collect()
    }

    fn checked<T>(&self, key: &str, list: Vec<T>) -> Result<Vec<T>, Error> {
        match (list.len(), self.latencies.len()) {
            (found, expected) if found > 0 && found != expected => {
                Err(Error::Length { key: key.to_owned(), found, expected })
            }
            _ => Ok(list),
        }
    }

    pub(crate) fn numbers(&self, key: &str) -> Result<Column, Error> {
        self.checked(key, self.read(key, number_of, "a list of numbers")?).map(Column)
    }

    /// Texts, which may be fewer than the requests.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, Error> {
        self.read(key, |value| value.as_str().map(str::to_owned), "a list of texts")
    }

    pub(crate) fn gaps(&self) -> Result<Vec<Vec<f64>>, Error> {
        let gaps = |value: &Value| value.as_list()?.iter().map(number_of).collect();
        self.checked("itls", self.read("itls", gaps, "a list of lists of numbers")?)
    }

    pub(crate) fn labels(&self) -> Result<Vec<Labels>, Error> {
        let labels = |value: &Value| value.as_dict()?.iter().map(|(key, value)| Some((key, value.as_str()?))).collect();
        self.checked("tacho.labels", self.read("tacho.labels", labels, "a list of objects of texts")?)
    }
}

pub(crate) fn number_of(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}
