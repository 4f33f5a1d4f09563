//! Options of a reader, given as `--option name=value`.

use super::error::TraceError;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(Vec<(String, String)>);

impl Options {
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, TraceError> {
        let pair = |text: &'t str| match text.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(wrong(text, "is not of the form name=value")),
        };
        texts.into_iter().map(pair).collect::<Result<_, _>>().map(Options)
    }

    /// Refuses names that the format does not support.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), TraceError> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(wrong(name, "this format has no options")),
            Some((name, _)) => Err(wrong(name, format!("this format has only the options {}", known.join(", ")))),
        }
    }

    /// The value of an option; the last one given counts.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn positive(&self, name: &str, default: u64) -> Result<u64, TraceError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| wrong(name, format!("must be a whole number of at least 1, not {text:?}")))
    }

    /// One of some words, or the default. Spaces and underscores are equivalent.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)], default: T) -> Result<T, TraceError> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let same = |word: &str| word.eq_ignore_ascii_case(&text.replace('_', " "));
        let found = choices.iter().find(|(word, _)| same(&word.replace('_', " "))).map(|(_, value)| *value);
        let names: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        found.ok_or_else(|| wrong(name, format!("must be {}, not {text:?}", names.join(" or "))))
    }

    pub(crate) fn switch(&self, name: &str, default: bool) -> Result<bool, TraceError> {
        self.choice(name, &[("true", true), ("false", false)], default)
    }
}

fn wrong(name: &str, problem: impl Into<String>) -> TraceError {
    TraceError::Option { name: name.to_owned(), problem: problem.into() }
}
