//! `--config FILE.yaml`: a YAML mapping of flags. The command line takes precedence.

use std::path::{Path, PathBuf};

use tacho_core::json::{Value, dumps, float_repr};
use tacho_core::yaml::{self, Node, SyntaxError, Tree};

use super::flag::{Flag, Table};
use super::{entry::Entry, grammar::Values};
use crate::error::ConfigError;

/// A configuration that the value of a flag names: it is read as a `--config` file, before it.
#[derive(Debug, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub version: u32,
    pub text: &'static str,
}

impl Builtin {
    pub fn of(values: &Values) -> Option<&'static Builtin> {
        let named = |flag: &&'static Flag| !flag.configs.is_empty();
        let flag = values.set_flags().find(named)?;
        let name = values.get(flag.names[0]).as_str()?;
        flag.configs.iter().find(|config| config.name == name)
    }

    /// The entries without those that the command refuses, or that a given flag excludes.
    pub(crate) fn entries(&self, values: &Values, table: &'static Table) -> Result<Vec<Entry>, ConfigError> {
        let excluded = |flag: &Flag| {
            let excludes = |one: &Flag, other: &Flag| one.excludes.iter().any(|name| other.names.contains(name));
            flag.has(table.rejected) || values.set_flags().any(|other| excludes(other, flag) || excludes(flag, other))
        };
        let path = || PathBuf::from(self.name);
        let entries = entries(self.text, table);
        let entries =
            entries.map_err(|SyntaxError { line, problem }| ConfigError::Malformed { path: path(), line, problem })?;
        let applies = |args: &[String]| {
            let name = args.first().map(|word| word.split('=').next().unwrap_or(word));
            name.and_then(|name| table.find(name)).is_some_and(|flag| !excluded(flag))
        };
        let location = |line: usize| format!("configuration {}: line {line}", self.name);
        let applied = entries.into_iter().filter(|(_, args)| applies(args));
        Ok(applied.map(|(line, args)| Entry { location: location(line), args }).collect())
    }
}

/// Removes `--config FILE` from the words and returns the path.
pub fn take_path(args: &mut Vec<String>) -> Result<Option<PathBuf>, ConfigError> {
    let mut found = None;
    let mut kept = Vec::with_capacity(args.len());
    let mut rest = std::mem::take(args).into_iter();
    while let Some(arg) = rest.next() {
        let path = if arg == "--config" {
            rest.next().ok_or(ConfigError::NoFile)?
        } else if let Some(path) = arg.strip_prefix("--config=") {
            path.to_owned()
        } else {
            kept.push(arg);
            continue;
        };
        if found.replace(PathBuf::from(path)).is_some() {
            return Err(ConfigError::Several);
        }
    }
    *args = kept;
    Ok(found)
}

pub fn read(path: &Path, table: &Table) -> Result<Vec<Entry>, ConfigError> {
    if !path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
        return Err(ConfigError::NotYaml { path: path.to_owned() });
    }
    let text = tacho_core::files::read_settings_text(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let location = |line: usize| format!("--config {}: line {line}", path.display());
    match entries(&text, table) {
        Ok(entries) => Ok(entries.into_iter().map(|(line, args)| Entry { location: location(line), args }).collect()),
        Err(SyntaxError { line, problem }) => Err(ConfigError::Malformed { path: path.to_owned(), line, problem }),
    }
}

pub fn entries(text: &str, table: &Table) -> Result<Vec<(usize, Vec<String>)>, SyntaxError> {
    let problem = "the file must hold a mapping of flag names to values".to_owned();
    match yaml::document(text)? {
        None => Ok(Vec::new()),
        Some(node) => match &node.tree {
            Tree::Dict(entries) => {
                Ok(entries.iter().map(|(key, node)| (key.line, flag_args(&key.name, node, table))).collect())
            }
            _ if node.value() == Value::Null => Ok(Vec::new()),
            _ => Err(SyntaxError { line: node.line, problem }),
        },
    }
}

/// One entry as words. A value follows `=`, since it may start with a dash.
fn flag_args(key: &str, node: &Node, table: &Table) -> Vec<String> {
    match (&node.tree, node.value()) {
        (Tree::List(items), _) if items.is_empty() => Vec::new(),
        (Tree::List(items), _) => {
            let item = |node: &Node| node.text().map_or_else(|| dumps(&node.value()), str::to_owned);
            std::iter::once(format!("--{key}")).chain(items.iter().map(item)).collect()
        }
        (_, Value::Null) => Vec::new(),
        (_, Value::Bool(true)) => vec![format!("--{key}")],
        (_, Value::Bool(false)) => {
            let off = format!("--no-{}", key.replace('_', "-"));
            // The engine's parser judges flags that have no row.
            let is_unknown = table.find(&format!("--{}", key.replace('_', "-"))).is_none();
            let has_off = table.find(&off).map_or(is_unknown && table.has_engine(), |flag| flag.names.len() == 2);
            has_off.then_some(off).into_iter().collect()
        }
        // YAML's `.inf` is `inf` on the command line.
        (_, Value::Float(number)) if !number.is_finite() => vec![format!("--{key}={}", float_repr(number))],
        (Tree::Scalar { text, .. }, _) => vec![format!("--{key}={text}")],
        (Tree::Dict(_), value) => vec![format!("--{key}={}", dumps(&value))],
    }
}
