//! The rows of several files as one table, read on demand.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use tacho_core::json;

use tacho_text::guarded;

use super::cell::{Cell, unify};
use super::layout::{kind_of, unpacked};
use super::{arrow, csv, jsonl::parse_object, order::Place, parquet::ParquetFile, read_text};
use crate::{Error, limits::MAX_ROWS, parallel};

pub(crate) struct Table {
    files: Vec<DataFile>,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    path: PathBuf,
    /// Row number, from 1.
    number: usize,
    cells: Cell,
    /// Columns that the library decodes to images.
    images: Arc<[String]>,
}

enum Rows {
    Whole(Vec<Cell>),
    Batches(Vec<RecordBatch>),
    Groups { file: ParquetFile, lens: Vec<usize>, read: Vec<Option<Vec<Cell>>> },
}

struct DataFile {
    path: PathBuf,
    rows: Rows,
    images: Arc<[String]>,
}

impl Table {
    pub(crate) fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let files: Vec<DataFile> = paths.into_iter().map(DataFile::open).collect::<Result<_, _>>()?;
        let mut rows = 0_usize;
        for file in &files {
            rows = rows.saturating_add(file.len());
            if rows > MAX_ROWS {
                let (path, what) = (file.path.clone(), format!("the dataset says it has {rows} rows"));
                return Err(Error::TooLarge { path, what, limit: MAX_ROWS as u64 });
            }
        }
        Ok(Table { files })
    }

    pub(crate) fn lens(&self) -> Vec<usize> {
        self.files.iter().map(DataFile::len).collect()
    }

    pub(crate) fn row(&mut self, (file, row): Place) -> Result<Row, Error> {
        let file = &mut self.files[file];
        Ok(Row { cells: file.cell(row)?, path: file.path.clone(), number: row + 1, images: file.images.clone() })
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
            Some("arrow") => Rows::Batches(arrow::read(&path)?),
            Some("csv") => Rows::Whole(csv_rows(&path)?),
            _ => Rows::Whole(json_rows(&path)?),
        };
        let description = match &rows {
            Rows::Groups { file, .. } => file.description(),
            Rows::Batches(batches) => {
                let schema = batches.first().map(RecordBatch::schema_ref);
                schema.and_then(|schema| schema.metadata().get("huggingface")).map(String::as_str)
            }
            Rows::Whole(_) => None,
        };
        let images = description.map(image_columns).unwrap_or_default().into();
        Ok(DataFile { path, rows, images })
    }

    fn len(&self) -> usize {
        match &self.rows {
            Rows::Whole(rows) => rows.len(),
            Rows::Batches(batches) => batches.iter().map(RecordBatch::num_rows).fold(0, usize::saturating_add),
            Rows::Groups { lens, .. } => lens.iter().copied().fold(0, usize::saturating_add),
        }
    }

    fn cell(&mut self, mut row: usize) -> Result<Cell, Error> {
        match &mut self.rows {
            Rows::Whole(rows) => Ok(rows[row].clone()),
            Rows::Batches(batches) => {
                let mut batches = batches.iter();
                let batch = batches.find(|batch| {
                    row < batch.num_rows() || {
                        row -= batch.num_rows();
                        false
                    }
                });
                let batch = batch.expect("rows are counted over all batches");
                let broken = || Error::Broken { path: self.path.clone(), format: "Arrow" };
                guarded(|| arrow::row(batch, row)).ok_or_else(broken)
            }
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

/// The columns that the library's description declares as images, or lists of them.
fn image_columns(description: &str) -> Vec<String> {
    let Ok(description) = json::parse(description) else { return Vec::new() };
    let features = description.get("info").and_then(|info| info.get("features")).and_then(json::Value::as_dict);
    let image = |feature: &json::Value| json::dumps(feature).contains(r#""_type": "Image""#);
    let columns = features.into_iter().flat_map(|features| features.iter());
    columns.filter(|(_, feature)| image(feature)).map(|(name, _)| name.to_owned()).collect()
}

/// JSON lines, one list of objects, or an object that contains one.
fn json_rows(path: &Path) -> Result<Vec<Cell>, Error> {
    let text = read_text(path)?;
    let first = text.trim_start().lines().next().unwrap_or_default();
    // JSON lines are always rows; an object that is a whole file may contain the rows.
    let lines = unpacked(&path.to_string_lossy()).ends_with(".jsonl");
    let single = || {
        !lines && text.trim() == first.trim_end() && json::parse(first).is_ok_and(|value| row_lists(&value).len() == 1)
    };
    let spread = || json::parse(first).is_err() && json::parse(&text).is_ok_and(|value| value.as_dict().is_some());
    let mut rows: Vec<Cell> = if first.starts_with('[') || first.starts_with('{') && (single() || spread()) {
        let whole = json::parse(&text).map_err(|source| Error::FileNotJson { path: path.to_path_buf(), source })?;
        listed_rows(path, whole)?
    } else {
        let lines: Vec<(usize, &str)> =
            text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
        let row = |(_, &(index, line)): (usize, &(usize, &str))| {
            parse_object(path, index + 1, line).map(|line| Cell::from(json::Value::Dict(line.object)))
        };
        parallel::try_map(&lines, row)?
    };
    unify(&mut rows);
    Ok(rows)
}

/// The members of an object that are lists of rows.
fn row_lists(value: &json::Value) -> Vec<&json::Value> {
    let is_rows = |value: &&json::Value| {
        value.as_list().is_some_and(|items| !items.is_empty() && items.iter().all(|item| item.as_dict().is_some()))
    };
    value.as_dict().into_iter().flat_map(|dict| dict.iter().map(|(_, member)| member).filter(is_rows)).collect()
}

/// The rows of a file that is one JSON value.
fn listed_rows(path: &Path, value: json::Value) -> Result<Vec<Cell>, Error> {
    let lists = if value.as_dict().is_some() { row_lists(&value) } else { vec![&value] };
    match lists[..] {
        [list] => Ok(list.as_list().unwrap_or_default().iter().cloned().map(Cell::from).collect()),
        _ => {
            let keys = value.as_dict().into_iter().flat_map(|dict| dict.iter());
            let (path, keys) = (path.display(), keys.map(|(key, _)| format!("{key:?}")).collect::<Vec<_>>().join(", "));
            Err(data!("{path}: an object with {keys}, where a list of rows was expected: use JSON lines, or one list"))
        }
    }
}

/// Columns with only numeric fields are numbers; an empty field is null.
fn csv_rows(path: &Path) -> Result<Vec<Cell>, Error> {
    let table = csv::Table::read(path)?;
    let mut numeric = vec![true; table.header.len()];
    for (_, fields) in table.rows() {
        for (numeric, field) in numeric.iter_mut().zip(&fields) {
            *numeric &= field.is_empty() || field.parse::<f64>().is_ok();
        }
    }
    let cell = |text: &str, numeric: bool| match (text.is_empty(), numeric) {
        (true, _) => Cell::Null,
        (false, true) => {
            let number = text.parse().map(Cell::Int).or_else(|_| text.parse::<u64>().map(Cell::from));
            number.or_else(|_| text.parse().map(Cell::Float)).unwrap_or(Cell::Null)
        }
        (false, false) => Cell::Text(text.to_owned()),
    };
    let row = |fields: Vec<String>| {
        let columns = table.header.iter().zip(&numeric).enumerate();
        let field = |column: usize| fields.get(column).map_or("", String::as_str);
        Cell::Struct(columns.map(|(at, (name, numeric))| (name.clone(), cell(field(at), *numeric))).collect())
    };
    Ok(table.rows().map(|(_, fields)| row(fields)).collect())
}

impl Row {
    /// All its values, as a struct.
    pub(crate) fn into_cells(self) -> Cell {
        self.cells
    }

    /// The value of a column, which may be nested.
    pub(crate) fn at(&self, column: &str) -> Option<&Cell> {
        self.cells.at(column)
    }

    pub(crate) fn get(&self, column: &str) -> Option<&Cell> {
        self.cells.get(column)
    }

    /// Whether the `datasets` library decodes a column to images in display orientation. Other columns stay as stored.
    pub(crate) fn holds_images(&self, column: &str) -> bool {
        self.images.iter().any(|known| known == column)
    }

    pub(crate) fn text(&self, column: &str) -> Result<&str, Error> {
        self.get(column).and_then(Cell::text).ok_or_else(|| self.wrong(column, "a text"))
    }

    pub(crate) fn number(&self, column: &str) -> Result<f64, Error> {
        self.get(column).and_then(Cell::number).ok_or_else(|| self.wrong(column, "a number"))
    }

    pub(crate) fn no_text(&self, column: &str) -> Error {
        let columns: Vec<String> = match &self.cells {
            Cell::Struct(members) => members.iter().map(|(name, cell)| format!("{name} ({})", cell.kind())).collect(),
            _ => Vec::new(),
        };
        data!(
            "{}, row {}: no text in column {column:?}; it has {}: pass another --hf-text-column, such as \
             conversations.0.value for nested ones",
            self.path.display(),
            self.number,
            columns.join(", ")
        )
    }

    pub(crate) fn wrong(&self, column: &str, expected: &'static str) -> Error {
        Error::RowField { path: self.path.clone(), row: self.number, field: column.to_owned(), expected }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn table(name: &str, bytes: &[u8]) -> Result<Vec<Cell>, Error> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut table = Table::open(vec![path])?;
        (0..table.lens()[0]).map(|row| table.row((0, row)).map(|row| row.cells)).collect()
    }

    fn texts(rows: &[Cell]) -> Vec<&str> {
        rows.iter().filter_map(|row| row.get("a")?.text()).collect()
    }

    #[test]
    fn every_kind_of_file_gives_the_same_rows() {
        let lines = "{\"a\": \"x\"}\n{\"a\": \"y\"}\n";
        let zstd = zstd::encode_all(lines.as_bytes(), 0).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(lines.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let files: [(&str, &[u8]); 8] = [
            ("t.json", br#"{"version": 1, "data": [{"a": "x"}, {"a": "y"}]}"#),
            ("t.jsonl", lines.as_bytes()),
            ("t.jsonl.zst", &zstd),
            ("t.jsonl.gz", &gzip),
            ("t.json", br#"[{"a": "x"}, {"a": "y"}]"#),
            ("t.json", b"{\n \"version\": 1,\n \"data\": [{\"a\": \"x\"}, {\"a\": \"y\"}]\n}"),
            ("t.csv", b"a,b\nx,1\ny,2\n"),
            ("t.tsv", b"b\ta\n1,5\tx\n2\ty\n"),
        ];
        for (name, bytes) in files {
            assert_eq!(texts(&table(name, bytes).unwrap()), ["x", "y"], "{name}");
        }
    }

    #[test]
    fn a_line_of_rows_stays_a_row() {
        let rows = table("t.jsonl", br#"{"a": "x", "chat": [{"role": "user"}]}"#).unwrap();
        assert_eq!(texts(&rows), ["x"]);
    }

    #[test]
    fn broken_files_are_named_with_the_place() {
        let files: [(&str, &[u8], &str); 6] = [
            ("t.jsonl", b"{\"a\": 1}\n{\"a\": \n", "line 2"),
            ("t.jsonl", b"{\"a\": 1}\n\xff\n", "line 2: not UTF-8"),
            ("t.json", b"{\n\"p\": [{\"a\": 1}],\n\"q\": [{\"a\": 1}]\n}", "\"p\", \"q\""),
            ("t.json", b"[{\"a\": 1}, {\"a\"", "t.json"),
            ("t.jsonl.gz", b"\x1f\x8b\x08\0\0\0", "t.jsonl.gz"),
            ("t.parquet", b"PAR1 and no more", "t.parquet"),
        ];
        for (name, bytes, fragment) in files {
            let error = table(name, bytes).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(fragment), "{error}");
        }
    }
}
