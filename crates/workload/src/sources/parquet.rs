//! Parquet files: their row counts, and the rows of one row group at a time.

use std::{fs::File, path::Path};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::{errors::ParquetError, file::metadata::RowGroupMetaData};

use tacho_text::guarded;

use super::cell::Cell;
use crate::Error;
use crate::limits::{MAX_CELL_BYTES, MAX_GROUP_BYTES, MAX_GROUP_ROWS};

pub(crate) struct ParquetFile {
    reader: SerializedFileReader<File>,
}

impl ParquetFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        let opened = guarded(|| SerializedFileReader::new(file)).ok_or_else(|| unreadable(path))?;
        let reader = opened.map_err(|source| broken(path, 1, source))?;
        for group in reader.metadata().row_groups() {
            check_group(group, path)?;
        }
        Ok(ParquetFile { reader })
    }

    /// The column description that the `datasets` library wrote.
    pub(crate) fn description(&self) -> Option<&str> {
        let entries = self.reader.metadata().file_metadata().key_value_metadata()?;
        entries.iter().find(|entry| entry.key == "huggingface")?.value.as_deref()
    }

    pub(crate) fn groups(&self) -> Vec<usize> {
        self.reader.metadata().row_groups().iter().map(|group| group.num_rows() as usize).collect()
    }

    pub(crate) fn rows(&self, group: usize, path: &Path) -> Result<Vec<Cell>, Error> {
        let (first, expected) = (self.groups()[..group].iter().sum::<usize>() + 1, self.groups()[group]);
        let read = || {
            let group = self.reader.get_row_group(group).map_err(|source| broken(path, first, source))?;
            let rows = group.get_row_iter(None).map_err(|source| broken(path, first, source))?;
            let mut available = MAX_GROUP_BYTES;
            let cell = |(index, row): (usize, Result<Row, ParquetError>)| {
                let cell = row.map(cell_of_row).map_err(|source| broken(path, first + index, source))?;
                available = fitting(&cell, available, first + index, path)?;
                Ok(cell)
            };
            rows.enumerate().map(cell).collect::<Result<Vec<Cell>, Error>>()
        };
        let rows = guarded(read).ok_or_else(|| unreadable(path))??;
        // Must match the earlier count.
        if rows.len() == expected { Ok(rows) } else { Err(unreadable(path)) }
    }
}

/// The memory left after a row: one value repeated a million times takes no space in the file.
fn fitting(cell: &Cell, available: u64, row: usize, path: &Path) -> Result<u64, Error> {
    let too_large = |what: String, limit: u64| Err(Error::TooLarge { path: path.to_path_buf(), what, limit });
    let largest = cell.largest();
    if largest > MAX_CELL_BYTES {
        return too_large(format!("row {row} has a value of {largest} bytes"), MAX_CELL_BYTES);
    }
    match available.checked_sub(cell.bytes()) {
        Some(left) => Ok(left),
        None => too_large(format!("the rows up to {row} take more bytes than a group may have"), MAX_GROUP_BYTES),
    }
}

/// Refuses sizes in the footer that exceed the limits.
fn check_group(group: &RowGroupMetaData, path: &Path) -> Result<(), Error> {
    let too_large = |what: String, limit: u64| Err(Error::TooLarge { path: path.to_path_buf(), what, limit });
    let rows = group.num_rows();
    if !usize::try_from(rows).is_ok_and(|rows| rows <= MAX_GROUP_ROWS) {
        return too_large(format!("a group says it has {rows} rows"), MAX_GROUP_ROWS as u64);
    }
    let sizes = group.columns().iter().map(|column| column.uncompressed_size());
    let bytes = sizes.fold(0_i64, |sum, size| sum.saturating_add(if size < 0 { i64::MAX } else { size }));
    if bytes as u64 > MAX_GROUP_BYTES {
        return too_large(format!("a group says it has {bytes} bytes unpacked"), MAX_GROUP_BYTES);
    }
    Ok(())
}

fn unreadable(path: &Path) -> Error {
    Error::Broken { path: path.to_path_buf(), format: "Parquet" }
}

fn broken(path: &Path, row: usize, source: ParquetError) -> Error {
    Error::Parquet { path: path.to_path_buf(), row, source }
}

fn cell_of_row(row: Row) -> Cell {
    Cell::Struct(row.into_columns().into_iter().map(|(name, field)| (name, cell_of(field))).collect())
}

fn cell_of(field: Field) -> Cell {
    match field {
        Field::Null => Cell::Null,
        Field::Bool(flag) => Cell::Bool(flag),
        Field::Byte(number) => Cell::Int(i64::from(number)),
        Field::Short(number) => Cell::Int(i64::from(number)),
        Field::Int(number) => Cell::Int(i64::from(number)),
        Field::Long(number) => Cell::Int(number),
        Field::UByte(number) => Cell::Int(i64::from(number)),
        Field::UShort(number) => Cell::Int(i64::from(number)),
        Field::UInt(number) => Cell::Int(i64::from(number)),
        Field::ULong(number) => Cell::from(number),
        Field::Float(number) => Cell::Float(f64::from(number)),
        Field::Double(number) => Cell::Float(number),
        Field::Str(text) => Cell::Text(text),
        Field::Bytes(bytes) => Cell::Bytes(bytes.data().to_vec()),
        Field::Group(row) => cell_of_row(row),
        Field::ListInternal(list) => Cell::List(list.elements().iter().cloned().map(cell_of).collect()),
        // No dataset uses dates, decimals or maps.
        other => Cell::Text(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_repeated_without_end_is_refused() {
        let path = Path::new("bomb.parquet");
        let row = |text: usize| Cell::Struct(vec![("a".into(), Cell::Text("x".repeat(text)))]);
        let left = fitting(&row(1000), 5000, 1, path).unwrap();
        assert!((3800..4000).contains(&left), "{left}");
        let full = fitting(&row(1000), 900, 7, path).unwrap_err().to_string();
        assert!(
            full.starts_with("bomb.parquet: the rows up to 7 take more bytes") && full.contains("2147483648"),
            "{full}"
        );
        let nested = Cell::List(vec![Cell::Null, Cell::Bytes(vec![0; MAX_CELL_BYTES as usize + 1])]);
        let large = fitting(&nested, u64::MAX, 2, path).unwrap_err().to_string();
        assert!(large.contains("row 2 has a value of 268435457 bytes; at most 268435456 are read"), "{large}");
    }
}
