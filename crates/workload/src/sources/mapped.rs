//! Rows of any source by the names of fields: a command, or a file whose columns are mapped.

use std::path::Path;

use tacho_core::json::{self, Value, float_repr};

use super::command::{NAME, Printed};
use super::{cell::Cell, csv, jsonl::Lines, layout::kind_of, table::Table};
use crate::Error;

pub(crate) const FIELDS: [&str; 13] = [
    "prompt",
    "messages",
    "output_len",
    "output_tokens",
    "image",
    "media",
    "session_id",
    "labels",
    "overrides",
    "lora",
    "priority",
    "timestamp",
    "answer",
];
/// Fields whose members can be mapped one by one.
const OBJECTS: [&str; 2] = ["labels", "overrides"];

/// The columns of fields. An empty map takes the fields by their own names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldMap(Vec<(String, String)>);

impl FieldMap {
    /// Parses entries of the form `FIELD=COLUMN`. Fails if an entry has another form, or its field is unknown or given
    /// twice.
    pub fn parse(entries: &[String]) -> Result<Self, Error> {
        let mut map = FieldMap::default();
        for entry in entries {
            let invalid = |problem: String| usage!("--map {entry}: {problem}");
            let (field, column) = entry.split_once('=').unwrap_or((entry, ""));
            let member = OBJECTS.iter().any(|object| {
                let key = field.strip_prefix(object).and_then(|rest| rest.strip_prefix('.'));
                key.is_some_and(|key| !key.is_empty())
            });
            if !(member || FIELDS.contains(&field)) {
                let known = FIELDS.join(", ");
                return Err(invalid(format!("no such field: use {known}, labels.NAME or overrides.NAME")));
            }
            if column.is_empty() {
                return Err(invalid("write FIELD=COLUMN, such as prompt=question".to_owned()));
            }
            if map.0.iter().any(|(known, _)| known == field) {
                return Err(invalid("the field is mapped twice".to_owned()));
            }
            map.0.push((field.to_owned(), column.to_owned()));
        }
        Ok(map)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn column<'m>(&'m self, field: &'m str) -> Option<&'m str> {
        if self.is_empty() {
            return Some(field);
        }
        self.0.iter().find(|(known, _)| known == field).map(|(_, column)| column.as_str())
    }

    /// The members of an object that are mapped one by one: their names, fields and columns.
    fn members<'m>(&'m self, object: &'m str) -> impl Iterator<Item = (&'m str, &'m str, &'m str)> {
        self.0.iter().filter_map(move |(field, column)| {
            let name = field.strip_prefix(object)?.strip_prefix('.')?;
            Some((name, field.as_str(), column.as_str()))
        })
    }
}

/// A row and its line or number.
#[derive(Debug, Clone)]
pub(crate) struct MappedRow {
    position: usize,
    cells: Cell,
}

pub(crate) struct MappedRows<'m> {
    map: &'m FieldMap,
    origin: String,
    word: &'static str,
    /// Whether all values are texts.
    untyped: bool,
    pub(crate) rows: Vec<MappedRow>,
}

impl<'m> MappedRows<'m> {
    /// The rows of a file, by the extension of its name.
    pub(crate) fn of_file(path: &Path, map: &'m FieldMap) -> Result<Self, Error> {
        let name = path.to_string_lossy().into_owned();
        let kind = kind_of(&name);
        let (word, rows) = match kind {
            Some("csv") => ("line", csv_rows(path)?),
            Some("parquet" | "arrow") => ("row", table(path)?),
            Some("json") if super::layout::unpacked(&name).ends_with(".jsonl") => {
                let row = |line: &super::jsonl::Line| (line.number, Cell::from(Value::Dict(line.object.clone())));
                ("line", Lines::read(path)?.rows().iter().map(row).collect())
            }
            Some("json") => ("row", table(path)?),
            _ => {
                let endings = ".jsonl, .json, .csv, .tsv, .parquet or .arrow, or one of these and .gz or .zst";
                return Err(data!("{}: its name must end in {endings}", path.display()));
            }
        };
        let rows = rows.into_iter().map(|(position, cells)| MappedRow { position, cells }).collect();
        MappedRows { map, origin: name, word, untyped: kind == Some("csv"), rows }.checked()
    }

    pub(crate) fn of_command(printed: Printed, map: &'m FieldMap) -> Result<Self, Error> {
        let row =
            |line: super::jsonl::Line| MappedRow { position: line.number, cells: Value::Dict(line.object).into() };
        let rows = printed.lines.into_iter().map(row).collect();
        MappedRows { map, origin: NAME.to_owned(), word: "line", untyped: false, rows }.checked()
    }

    /// Refuses a map with a column that no row has.
    fn checked(self) -> Result<Self, Error> {
        let unknown = |(_, column): &&(String, String)| !self.rows.iter().any(|row| row.cells.at(column).is_some());
        match self.map.0.iter().find(unknown).filter(|_| !self.rows.is_empty()) {
            Some((field, column)) => {
                let found: Vec<String> = self.rows[0].cells.names().map(|name| format!("{name:?}")).collect();
                let (origin, found) = (self.origin, found.join(", "));
                Err(data!("{origin} has no column {column:?}, mapped to {field}: it has {found}"))
            }
            None => Ok(self),
        }
    }

    /// Names of fields that are not used.
    pub(crate) fn unused(&self) -> Vec<&str> {
        let mut unused: Vec<&str> = Vec::new();
        for name in self.rows.iter().flat_map(|row| row.cells.names()).filter(|_| self.map.is_empty()) {
            if !FIELDS.contains(&name) && !unused.contains(&name) {
                unused.push(name);
            }
        }
        unused
    }

    pub(crate) fn fields<'r>(&'r self, row: &'r MappedRow) -> Fields<'r> {
        Fields { rows: self, row }
    }
}

fn csv_rows(path: &Path) -> Result<Vec<(usize, Cell)>, Error> {
    let table = csv::Table::read(path)?;
    let header = &table.header;
    // Spreadsheets write rows of empty cells.
    let filled = table.rows().filter(|(_, fields)| fields.iter().any(|field| !field.is_empty()));
    let row = |(line, fields): (usize, Vec<String>)| {
        let (path, found, expected) = (path.display(), fields.len(), header.len());
        if found != expected {
            return Err(data!("{path}, line {line}: {found} fields, where the header has {expected}"));
        }
        let cell = |text: String| if text.is_empty() { Cell::Null } else { Cell::Text(text) };
        Ok((line, Cell::Struct(header.iter().cloned().zip(fields.into_iter().map(cell)).collect())))
    };
    filled.map(row).collect()
}

fn table(path: &Path) -> Result<Vec<(usize, Cell)>, Error> {
    let mut table = Table::open(vec![path.to_owned()])?;
    (0..table.lens()[0]).map(|at| Ok((at + 1, table.row((0, at))?.into_cells()))).collect()
}

#[derive(Clone, Copy)]
pub(crate) struct Fields<'r> {
    rows: &'r MappedRows<'r>,
    row: &'r MappedRow,
}

impl Fields<'_> {
    pub(crate) fn wrong(&self, field: &str, expected: &'static str) -> Error {
        self.wrong_column(field, self.rows.map.column(field).unwrap_or(field), expected)
    }

    fn wrong_column(&self, field: &str, column: &str, expected: &'static str) -> Error {
        let mapped = if column == field { String::new() } else { format!(", mapped to {field},") };
        data!("{}: {column:?}{mapped} must be {expected}", self.position())
    }

    /// The source and the line or number of the row.
    pub(crate) fn position(&self) -> String {
        format!("{}, {} {}", self.rows.origin, self.rows.word, self.row.position)
    }

    fn cell(&self, field: &str) -> Option<&Cell> {
        self.row.cells.at(self.rows.map.column(field)?).filter(|cell| **cell != Cell::Null)
    }

    /// A field as JSON. In a file of texts, other values than texts are written as JSON.
    pub(crate) fn json(&self, field: &str) -> Result<Option<Value>, Error> {
        self.cell(field).map(|cell| self.parsed(cell).ok_or_else(|| self.wrong(field, "JSON"))).transpose()
    }

    fn parsed(&self, cell: &Cell) -> Option<Value> {
        match cell {
            Cell::Text(text) if self.rows.untyped => Some(json::parse(text).unwrap_or(Value::from(text.as_str()))),
            cell => cell.to_json(),
        }
    }

    pub(crate) fn text(&self, field: &str) -> Result<Option<String>, Error> {
        let text = |cell: &Cell| cell.text().map(str::to_owned).ok_or_else(|| self.wrong(field, "a text"));
        self.cell(field).map(text).transpose()
    }

    /// A prompt: texts of a file without types stay texts.
    pub(crate) fn prompt(&self) -> Result<Option<Value>, Error> {
        match self.cell("prompt") {
            Some(Cell::Text(text)) => Ok(Some(Value::from(text.as_str()))),
            Some(cell @ Cell::List(_)) => {
                Ok(Some(cell.to_json().ok_or_else(|| self.wrong("prompt", "a text or a list"))?))
            }
            Some(_) => Err(self.wrong("prompt", "a text, a list of texts or a list of token IDs")),
            None => Ok(None),
        }
    }

    /// A field that is a number, or a text of one.
    pub(crate) fn number(&self, field: &str, expected: &'static str) -> Result<Option<f64>, Error> {
        let number = |cell: &Cell| match cell {
            Cell::Text(text) => text.trim().parse().ok(),
            cell => cell.number(),
        };
        let read = |cell| number(cell).filter(|number| number.is_finite()).ok_or_else(|| self.wrong(field, expected));
        self.cell(field).map(read).transpose()
    }

    pub(crate) fn whole(&self, field: &str, expected: &'static str) -> Result<Option<i64>, Error> {
        match self.number(field, expected)? {
            Some(number) if number.fract() != 0.0 || number.abs() >= 9e15 => Err(self.wrong(field, expected)),
            number => Ok(number.map(|number| number as i64)),
        }
    }

    /// The members of an object, those mapped one by one after its own.
    pub(crate) fn members(&self, object: &'static str) -> Result<Vec<(String, Value)>, Error> {
        let mut members = match self.json(object)? {
            None => Vec::new(),
            Some(Value::Dict(dict)) => dict.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            Some(_) => return Err(self.wrong(object, "an object")),
        };
        for (name, field, column) in self.rows.map.members(object) {
            if let Some(cell) = self.row.cells.at(column).filter(|cell| **cell != Cell::Null) {
                let value = self.parsed(cell).ok_or_else(|| self.wrong_column(field, column, "JSON"))?;
                members.push((name.to_owned(), value));
            }
        }
        Ok(members)
    }

    /// Labels: texts, or scalars that become texts.
    pub(crate) fn labels(&self) -> Result<Vec<(String, String)>, Error> {
        let text = |value: Value| match value {
            Value::Str(text) => Some(text),
            Value::Int(number) => Some(number.to_string()),
            Value::Float(number) => Some(float_repr(number)),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        };
        let label = |(name, value)| Some((name, text(value)?));
        let all: Option<Vec<_>> = self.members("labels")?.into_iter().map(label).collect();
        all.ok_or_else(|| self.wrong("labels", "an object of texts"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[&str]) -> Result<FieldMap, Error> {
        FieldMap::parse(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn maps_name_known_fields_once() {
        assert!(map(&["prompt=q", "labels.topic=t", "overrides.temperature=x.y", "output_len=a=b"]).is_ok());
        for (entries, expected) in [
            (&["promt=q"][..], "--map promt=q: no such field: use prompt,"),
            (&["labels.=q"], "no such field"),
            (&["prompt"], "write FIELD=COLUMN"),
            (&["prompt="], "write FIELD=COLUMN"),
            (&["prompt=a", "prompt=b"], "mapped twice"),
        ] {
            let invalid = map(entries).unwrap_err().to_string();
            assert!(invalid.contains(expected), "{invalid}");
        }
    }

    #[test]
    fn a_spreadsheet_has_texts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        let text = "\u{feff}Frage;x,len,meta.temp,tags\r\n\"a, \"\"b\"\"\r\nc\",12,0.5,\"{\"\"k\"\": \"\"v\"\"}\"\r\n007,,,\r\n,,,\r\n";
        std::fs::write(&path, text).unwrap();
        let map = map(&["prompt=Frage;x", "output_len=len", "overrides.temperature=meta.temp", "labels=tags"]).unwrap();
        let rows = MappedRows::of_file(&path, &map).unwrap();
        assert_eq!(rows.rows.len(), 2, "rows of empty cells are left out");
        let first = rows.fields(&rows.rows[0]);
        assert_eq!(first.prompt().unwrap(), Some(Value::from("a, \"b\"\nc")));
        assert_eq!(first.whole("output_len", "").unwrap(), Some(12));
        assert_eq!(first.members("overrides").unwrap(), [("temperature".to_owned(), Value::Float(0.5))]);
        assert_eq!(first.labels().unwrap(), [("k".to_owned(), "v".to_owned())]);
        let second = rows.fields(&rows.rows[1]);
        assert_eq!(second.prompt().unwrap(), Some(Value::from("007")), "a number in a column of texts is a text");
        assert_eq!(
            (second.whole("output_len", "").unwrap(), second.position().ends_with("t.csv, line 4")),
            (None, true)
        );
    }

    #[test]
    fn errors_name_file_place_and_column() {
        let directory = tempfile::tempdir().unwrap();
        let failed = |name: &str, text: &str, entries: &[&str]| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            let map = map(entries).unwrap();
            let read = MappedRows::of_file(&path, &map).and_then(|rows| {
                rows.rows.iter().try_for_each(|row| rows.fields(row).whole("output_len", "a whole number").map(drop))
            });
            read.unwrap_err().to_string()
        };
        for (name, text, entries, expected) in [
            (
                "a.csv",
                "q,n\nx,1\ny,1.5\n",
                &["output_len=n"][..],
                "a.csv, line 3: \"n\", mapped to output_len, must be a whole number",
            ),
            (
                "b.jsonl",
                "{\"n\": 1}\n\n{\"n\": [1]}\n",
                &["output_len=n"],
                "b.jsonl, line 3: \"n\", mapped to output_len, must be",
            ),
            ("c.jsonl", "{\"output_len\": \"many\"}\n", &[], "c.jsonl, line 1: \"output_len\" must be a whole number"),
            ("d.json", "[{\"n\": true}]", &["output_len=n"], "d.json, row 1: \"n\""),
            ("e.csv", "q,n\nx,1\ny\n", &["prompt=q"], "e.csv, line 3: 1 fields, where the header has 2"),
            ("f.csv", "q;n\nx;1\n", &["prompt=q"], "f.csv has no column \"q\", mapped to prompt: it has \"q;n\""),
            ("g.txt", "x", &["prompt=q"], "g.txt: its name must end in"),
            ("h.csv", "", &["prompt=q"], "h.csv is empty"),
            ("i.parquet", "PAR1", &["prompt=q"], "i.parquet"),
        ] {
            let message = failed(name, text, entries);
            assert!(message.contains(expected), "{message}");
        }
    }
}
