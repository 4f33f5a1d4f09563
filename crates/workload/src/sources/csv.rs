//! CSV or TSV with a header, as in RFC 4180 and pandas: quoted fields may contain separators, line ends and doubled
//! quotes.

use std::path::Path;

use super::{layout::unpacked, read_rows};
use crate::Error;

/// A table whose records are parsed one by one, so that a large one is never in memory as fields.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    text: String,
    separator: u8,
    pub(crate) header: Vec<String>,
    /// The offset of the records, and their first line.
    body: (usize, usize),
}

impl Table {
    /// Reads a file that must not be empty; its name says what separates fields.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let tabs = unpacked(&path.to_string_lossy()).ends_with(".tsv");
        Ok(Table::new(read_rows(path)?, if tabs { b'\t' } else { b',' }))
    }

    pub(crate) fn new(text: String, separator: u8) -> Self {
        let mut scanner = Scanner { text: text.as_bytes(), separator, at: 0, line: 1 };
        let header = scanner.rows().next().map(|(_, fields)| fields).unwrap_or_default();
        let body = (scanner.at, scanner.line);
        Table { text, separator, header, body }
    }

    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|known| known == name)
    }

    /// The first line of each record, from 1, and its fields. Blank lines are skipped.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, Vec<String>)> {
        let (at, line) = self.body;
        let mut scanner = Scanner { text: self.text.as_bytes(), separator: self.separator, at, line };
        std::iter::from_fn(move || scanner.rows().next())
    }
}

struct Scanner<'t> {
    text: &'t [u8],
    separator: u8,
    at: usize,
    line: usize,
}

impl Scanner<'_> {
    fn rows(&mut self) -> impl Iterator<Item = (usize, Vec<String>)> {
        std::iter::from_fn(|| self.record()).filter(|(_, fields)| !matches!(&fields[..], [only] if only.is_empty()))
    }

    fn record(&mut self) -> Option<(usize, Vec<String>)> {
        if self.at >= self.text.len() {
            return None;
        }
        let (start, mut fields) = (self.line, Vec::new());
        loop {
            fields.push(self.field());
            let end = self.text.get(self.at).copied();
            self.at += 1;
            if end != Some(self.separator) {
                self.line += 1;
                return Some((start, fields));
            }
        }
    }

    /// One field; stops at the separator or line end after it.
    fn field(&mut self) -> String {
        let mut bytes = Vec::new();
        let mut quoted = false;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'"' if quoted && self.text.get(self.at + 1) == Some(&b'"') => {
                    bytes.push(b'"');
                    self.at += 1;
                }
                b'"' if quoted || bytes.is_empty() => quoted = !quoted,
                byte if !quoted && (byte == b'\n' || byte == self.separator) => break,
                byte => {
                    self.line += usize::from(byte == b'\n');
                    bytes.push(byte);
                }
            }
            self.at += 1;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_anything() {
        let table = Table::new("a,\"b c\"\n\n1,\"x, \"\"y\"\"\nz\"\n,2\n".into(), b',');
        assert_eq!((table.column("a"), table.column("b c")), (Some(0), Some(1)));
        let expected: Vec<(usize, Vec<String>)> =
            vec![(3, vec!["1".into(), "x, \"y\"\nz".into()]), (5, vec![String::new(), "2".into()])];
        assert_eq!(table.rows().collect::<Vec<_>>(), expected);
    }
}
