//! A file or a directory of sessions, as rows: objects of JSON lines, of one JSON document, or of a table with a
//! header.

use std::path::{Path, PathBuf};

use tacho_core::json::{self, Dict, Value};

use super::error::{Location, TraceError};
use super::{kind::Format, model::Trace, row::Row};
use crate::sources::{arrow, read_text};
use crate::{sources::cell::Cell, sources::csv::Table, sources::layout::unpacked, sources::parquet::ParquetFile};

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) documents: Vec<Document>,
}

#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    /// Objects with their line numbers; a JSON document has none.
    rows: Vec<(Option<usize>, Dict)>,
    /// The JSON document, if the file is one.
    pub(crate) whole: Option<Value>,
    pub(crate) table: Option<Table>,
}

impl Source {
    /// Reads a file, or all files of a directory in the order of their names.
    pub(crate) fn read(path: &Path) -> Result<Self, TraceError> {
        let documents = if path.is_dir() {
            files(path)?.iter().map(|file| Document::read(file)).collect::<Result<Vec<_>, _>>()?
        } else {
            vec![Document::read(path)?]
        };
        Ok(Source { path: path.to_path_buf(), documents })
    }

    /// The file, if only one makes sense.
    pub(crate) fn single(&self) -> Result<&Document, TraceError> {
        match &self.documents[..] {
            [document] => Ok(document),
            [] => Err(self.empty()),
            _ => Err(self.graph("a directory of files, where one file was expected")),
        }
    }

    /// The rows of all files; an error if there are none.
    pub(crate) fn rows(&self) -> Result<Vec<Row<'_>>, TraceError> {
        let rows: Vec<Row<'_>> = self.documents.iter().flat_map(Document::rows).collect();
        if rows.is_empty() { Err(self.empty()) } else { Ok(rows) }
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    pub(crate) fn trace(&self) -> Trace {
        Trace::new(self.name(), Format::Model)
    }

    pub(crate) fn empty(&self) -> TraceError {
        TraceError::Empty { location: Location::file(&self.path) }
    }

    /// An error without a line number.
    pub(crate) fn graph(&self, problem: impl Into<String>) -> TraceError {
        TraceError::Graph { location: Location::file(&self.path), problem: problem.into() }
    }
}

impl Document {
    fn read(path: &Path) -> Result<Self, TraceError> {
        let name = path.to_string_lossy().to_ascii_lowercase();
        if name.ends_with(".parquet") || name.ends_with(".arrow") {
            return Document::of_table(path, name.ends_with(".arrow"));
        }
        let text = read_text(path).map_err(Box::new)?;
        Document::parse(path, text.strip_prefix('\u{feff}').unwrap_or(&text))
    }

    /// The rows of a Parquet or Arrow file, with row numbers as line numbers.
    fn of_table(path: &Path, arrow: bool) -> Result<Self, TraceError> {
        let mut cells = Vec::new();
        if arrow {
            for batch in arrow::read(path).map_err(Box::new)? {
                cells.extend((0..batch.num_rows()).map(|row| arrow::row(&batch, row)));
            }
        } else {
            let file = ParquetFile::open(path).map_err(Box::new)?;
            for group in 0..file.groups().len() {
                cells.extend(file.rows(group, path).map_err(Box::new)?);
            }
        }
        let row = |(index, cell): (usize, Cell)| match cell.to_json() {
            Some(Value::Dict(dict)) => Ok((Some(index + 1), dict)),
            _ => {
                let location = Location { path: path.to_path_buf(), line: Some(index + 1) };
                Err(TraceError::Graph { location, problem: "has a column that is not a text, number or list".into() })
            }
        };
        let rows = cells.into_iter().enumerate().map(row).collect::<Result<Vec<_>, _>>()?;
        Ok(Document { path: path.to_path_buf(), rows, whole: None, table: None })
    }

    /// Parses a text by the file's extension or, failing that, by its start.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, TraceError> {
        let name = unpacked(&path.to_string_lossy()).to_ascii_lowercase();
        let empty = Document { path: path.to_path_buf(), rows: Vec::new(), whole: None, table: None };
        if name.ends_with(".csv") || name.ends_with(".tsv") {
            let separator = if name.ends_with(".tsv") { b'\t' } else { b',' };
            return Ok(Document { table: Some(Table::new(text.to_owned(), separator)), ..empty });
        }
        let named_lines = name.ends_with(".jsonl") || name.ends_with(".ndjson");
        if !named_lines || !looks_like_lines(text) {
            match json::parse(text) {
                Ok(whole) => return Document { whole: Some(whole), ..empty }.with_items(),
                Err(_) if named_lines || looks_like_lines(text) => {}
                Err(_) if text.trim().is_empty() => {}
                Err(source) => return Err(TraceError::NotJson { location: Location::file(path), source }),
            }
        }
        let mut document = empty;
        for (index, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let location = || Location { path: path.to_path_buf(), line: Some(index + 1) };
            let value = json::parse(line).map_err(|source| TraceError::NotJson { location: location(), source })?;
            let Value::Dict(dict) = value else {
                return Err(TraceError::Graph { location: location(), problem: "must be an object".into() });
            };
            document.rows.push((Some(index + 1), dict));
        }
        if let [(_, only)] = &document.rows[..] {
            document.whole = Some(Value::Dict(only.clone()));
        }
        Ok(document)
    }

    /// The objects of a document as rows: the document itself, or the items of its list.
    fn with_items(mut self) -> Result<Self, TraceError> {
        match &self.whole {
            Some(Value::Dict(dict)) => self.rows.push((None, dict.clone())),
            Some(Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    let location = Location::file(&self.path);
                    let problem = || format!("item {index} of the list must be an object");
                    let dict = item.as_dict().ok_or_else(|| TraceError::Graph { location, problem: problem() })?;
                    self.rows.push((None, dict.clone()));
                }
            }
            _ => {
                let problem = "must be an object or a list of objects".into();
                return Err(TraceError::Graph { location: Location::file(&self.path), problem });
            }
        }
        Ok(self)
    }

    /// Its rows. Those of a list are named by their index, because they have no line number.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let listed = matches!(self.whole, Some(Value::List(_)));
        self.rows.iter().enumerate().map(move |(index, (line, dict))| {
            let prefix = if listed { format!("[{index}].") } else { String::new() };
            Row { path: &self.path, line: *line, prefix, dict }
        })
    }
}

/// Whether the first line is a JSON value.
fn looks_like_lines(text: &str) -> bool {
    text.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| json::parse(line).is_ok())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let failed = |source| TraceError::Read { path: directory.to_path_buf(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_file() && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
