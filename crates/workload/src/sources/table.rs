//! The rows of several files as one table, read when they are asked for.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tacho_core::json;

use super::cell::{Cell, unify};
use super::csv::Records;
use super::jsonl::parse_object;
use super::layout::kind_of;
use super::order::Place;
use super::parquet::ParquetFile;
use super::read_text;
use crate::Error;

/// Rows of files of one kind.
pub(crate) struct Table {
    files: Vec<DataFile>,
}

/// A row and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    path: PathBuf,
    /// From 1.
    number: usize,
    cells: Cell,
}

enum Rows {
    Whole(Vec<Cell>),
    Groups { file: ParquetFile, lens: Vec<usize>, read: Vec<Option<Vec<Cell>>> },
}

struct DataFile {
    path: PathBuf,
    rows: Rows,
}

impl Table {
    /// Opens files.
    pub(crate) fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let files = paths.into_iter().map(DataFile::open).collect::<Result<_, _>>()?;
        Ok(Table { files })
    }

    /// The number of rows of each file.
    pub(crate) fn lens(&self) -> Vec<usize> {
        self.files.iter().map(DataFile::len).collect()
    }

    /// A row.
    pub(crate) fn row(&mut self, (file, row): Place) -> Result<Row, Error> {
        let file = &mut self.files[file];
        Ok(Row { cells: file.cell(row)?, path: file.path.clone(), number: row + 1 })
    }
}

impl DataFile {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let name = path.to_string_lossy().into_owned();
        let rows = match kind_of(&name) {
            Some("parquet") => {
                let file = ParquetFile::open(&path)?;
                let lens = file.groups();
                Rows::Groups { file, read: lens.iter().map(|_| None).collect(), lens }
            }
            Some("csv") => Rows::Whole(csv_rows(&path)?),
            _ => Rows::Whole(json_rows(&path)?),
        };
        Ok(DataFile { path, rows })
    }

    fn len(&self) -> usize {
        match &self.rows {
            Rows::Whole(rows) => rows.len(),
            Rows::Groups { lens, .. } => lens.iter().sum(),
        }
    }

    fn cell(&mut self, mut row: usize) -> Result<Cell, Error> {
        match &mut self.rows {
            Rows::Whole(rows) => Ok(rows[row].clone()),
            Rows::Groups { file, lens, read } => {
                let mut group = 0;
                while row >= lens[group] {
                    row -= lens[group];
                    group += 1;
                }
                let rows = match read[group].take() {
                    Some(rows) => rows,
                    None => file.rows(group, &self.path)?,
                };
                Ok(read[group].insert(rows)[row].clone())
            }
        }
    }
}

/// JSON lines, or one list of objects.
fn json_rows(path: &Path) -> Result<Vec<Cell>, Error> {
    let text = read_text(path)?;
    let mut rows: Vec<Cell> = if text.trim_start().starts_with('[') {
        let list = json::parse(&text).map_err(|source| Error::FileNotJson { path: path.to_path_buf(), source })?;
        match list {
            json::Value::List(rows) => rows.into_iter().map(Cell::from).collect(),
            _ => Vec::new(),
        }
    } else {
        let lines: Vec<(usize, &str)> =
            text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
        let row = |&(index, line): &(usize, &str)| {
            parse_object(path, index + 1, line).map(|line| Cell::from(json::Value::Dict(line.object)))
        };
        lines.par_iter().map(row).collect::<Result<_, _>>()?
    };
    unify(&mut rows);
    Ok(rows)
}

/// Columns in which everything is a number hold numbers; an empty field is null.
fn csv_rows(path: &Path) -> Result<Vec<Cell>, Error> {
    let records = Records::read(path)?;
    let field = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let numeric: Vec<bool> = (0..records.header.len())
        .map(|column| {
            records.rows.iter().all(|(_, row)| {
                let text = field(row, column);
                text.is_empty() || text.parse::<f64>().is_ok()
            })
        })
        .collect();
    let cell = |row: &[String], column: usize| {
        let text = field(row, column);
        match (text.is_empty(), numeric[column]) {
            (true, _) => Cell::Null,
            (false, true) => {
                text.parse().map(Cell::Int).or_else(|_| text.parse().map(Cell::Float)).unwrap_or(Cell::Null)
            }
            (false, false) => Cell::Text(text),
        }
    };
    let names = records.header.iter().enumerate();
    let row = |row: &[String]| names.clone().map(|(column, name)| (name.clone(), cell(row, column))).collect();
    Ok(records.rows.iter().map(|(_, fields)| Cell::Struct(row(fields))).collect())
}

impl Row {
    /// A column.
    pub(crate) fn get(&self, column: &str) -> Option<&Cell> {
        self.cells.get(column)
    }

    /// A column that must be a text.
    pub(crate) fn text(&self, column: &str) -> Result<&str, Error> {
        self.get(column).and_then(Cell::text).ok_or_else(|| self.wrong(column, "a text"))
    }

    /// A column that must be a number.
    pub(crate) fn number(&self, column: &str) -> Result<f64, Error> {
        self.get(column).and_then(Cell::number).ok_or_else(|| self.wrong(column, "a number"))
    }

    /// The complaint that a column is not what it should be.
    pub(crate) fn wrong(&self, column: &str, expected: &'static str) -> Error {
        Error::RowField { path: self.path.clone(), row: self.number, field: column.to_owned(), expected }
    }
}
