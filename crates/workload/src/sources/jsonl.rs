//! JSON lines: one value per line, with its line number.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tacho_core::json::{self, Dict, Value};

use super::read_rows;
use crate::error::{Error, ImageProblem};
use crate::{media::links::shown, parallel};

/// The objects of a file and their positions.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    path: PathBuf,
    rows: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Line number, from 1.
    pub(crate) number: usize,
    pub(crate) object: Dict,
}

impl Lines {
    /// Reads all non-blank lines; each must be an object.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = read_rows(path)?;
        let lines: Vec<(usize, &str)> =
            text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
        let rows = parallel::try_map(&lines, |(_, &(index, line))| parse_object(path, index + 1, line))?;
        Ok(Lines { path: path.to_path_buf(), rows })
    }

    pub(crate) fn rows(&self) -> &[Line] {
        &self.rows
    }

    pub(crate) fn rows_mut(&mut self) -> &mut Vec<Line> {
        &mut self.rows
    }

    pub(crate) fn has_field(&self, field: &str) -> bool {
        self.rows.iter().any(|row| row.object.get(field).is_some())
    }

    pub(crate) fn wrong(&self, row: &Line, field: &str, expected: &'static str) -> Error {
        Error::LineField { path: self.path.clone(), line: row.number, field: field.to_owned(), expected }
    }

    /// The error for an image of a row that cannot be loaded.
    pub(crate) fn bad_image(&self, row: &Line, url: &str, source: ImageProblem) -> Error {
        Error::ImageUrl { path: self.path.clone(), line: row.number, url: shown(url).into_owned(), source }
    }

    /// The error for a file named in a row that cannot be used.
    pub(crate) fn bad_file(&self, row: &Line, field: &'static str, source: Error) -> Error {
        Error::LineFile { path: self.path.clone(), line: row.number, field, source: Box::new(source) }
    }

    /// The error for a category without rows, with the existing categories.
    pub(crate) fn no_category(&self, category: &str) -> Error {
        let all = self.rows.iter().filter_map(|row| row.object.text("category"));
        let found: BTreeSet<&str> = all.collect();
        let found: Vec<String> = found.into_iter().map(|name| format!("{name:?}")).collect();
        let found = if found.is_empty() { "none at all".to_owned() } else { found.join(", ") };
        usage!("{} has no question of the category {category:?}: it has {found}", self.path.display())
    }

    /// The error for a field that no row has.
    pub(crate) fn no_column(&self, column: &'static str) -> Error {
        let columns = self.rows.first().into_iter().flat_map(|row| row.object.iter().take(MAX_NAMES));
        let names: Vec<&str> = columns.map(|(name, _)| name).collect();
        let advice = names.first().map_or_else(String::new, |first| {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            format!(" (it has {}): use --map {column}={first}", names.join(", "))
        });
        data!("{} has no column {column:?}{advice}", self.path.display())
    }
}

/// Most columns that an error names.
const MAX_NAMES: usize = 8;

pub(crate) fn parse_object(path: &Path, number: usize, line: &str) -> Result<Line, Error> {
    match json::parse(line) {
        Ok(Value::Dict(object)) => Ok(Line { number, object }),
        Ok(_) => Err(data!("{}, line {number}: must be a JSON object", path.display())),
        Err(source) => Err(Error::LineNotJson { path: path.to_path_buf(), line: number, source }),
    }
}
