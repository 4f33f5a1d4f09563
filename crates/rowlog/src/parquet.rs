//! Writes a table as a Parquet file, for programs that read nothing else.

use std::{borrow::Cow, fs::File, path::Path, sync::Arc};

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::schema::types::{Type, TypePtr};
use parquet::{
    column::writer::ColumnWriter, data_type::ByteArray, errors::ParquetError, file::properties::WriterProperties,
    file::writer::SerializedFileWriter,
};

use crate::Error;

/// The values of a column under construction.
#[derive(Debug, Clone)]
pub enum Values {
    Ints(Vec<Option<i64>>),
    Floats(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
    Lists(Vec<Vec<f64>>),
}

/// Named columns, each with one value per row.
pub type Columns = Vec<(Cow<'static, str>, Values)>;

/// Writes a table to `path` in parts; the first part determines the columns.
pub fn write_parquet(path: &Path, parts: impl Iterator<Item = Columns>) -> Result<(), Error> {
    let file = File::create(path).map_err(Error::write(path))?;
    write(file, parts).map_err(|error| Error::Write { path: path.to_owned(), source: std::io::Error::other(error) })
}

fn write(file: File, parts: impl Iterator<Item = Columns>) -> Result<(), ParquetError> {
    let mut parts = parts.peekable();
    let columns = parts.peek().ok_or_else(|| ParquetError::General("there are no columns".into()))?;
    let fields = columns.iter().map(|(name, values)| field(name, values)).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("requests").with_fields(fields).build()?);
    let packed = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)).build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(packed))?;
    for columns in parts {
        let mut rows = writer.next_row_group()?;
        for (_, values) in &columns {
            let mut column = rows.next_column()?.ok_or_else(|| ParquetError::General("a column is missing".into()))?;
            fill(column.untyped(), values)?;
            column.close()?;
        }
        rows.close()?;
    }
    writer.close().map(drop)
}

fn field(name: &str, values: &Values) -> Result<TypePtr, ParquetError> {
    let primitive = |physical| Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(match values {
        Values::Ints(_) => primitive(Physical::INT64).build()?,
        Values::Floats(_) => primitive(Physical::DOUBLE).build()?,
        Values::Texts(_) => primitive(Physical::BYTE_ARRAY).with_logical_type(Some(LogicalType::String)).build()?,
        Values::Lists(_) => list(name)?,
    }))
}

/// The three-level structure of a list in Parquet.
fn list(name: &str) -> Result<Type, ParquetError> {
    let element = Type::primitive_type_builder("element", Physical::DOUBLE).with_repetition(Repetition::REQUIRED);
    let repeated = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
    let repeated = repeated.with_fields(vec![Arc::new(element.build()?)]).build()?;
    Type::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(repeated)])
        .build()
}

fn fill(column: &mut ColumnWriter<'_>, values: &Values) -> Result<(), ParquetError> {
    match (column, values) {
        (ColumnWriter::Int64ColumnWriter(column), Values::Ints(values)) => {
            let known: Vec<i64> = values.iter().flatten().copied().collect();
            column.write_batch(&known, Some(&definition_levels(values)), None)
        }
        (ColumnWriter::DoubleColumnWriter(column), Values::Floats(values)) => {
            let known: Vec<f64> = values.iter().flatten().copied().collect();
            column.write_batch(&known, Some(&definition_levels(values)), None)
        }
        (ColumnWriter::ByteArrayColumnWriter(column), Values::Texts(values)) => {
            let known: Vec<ByteArray> = values.iter().flatten().map(|text| text.as_str().into()).collect();
            column.write_batch(&known, Some(&definition_levels(values)), None)
        }
        (ColumnWriter::DoubleColumnWriter(column), Values::Lists(lists)) => {
            let (definition, repetition) = levels(lists);
            column.write_batch(&lists.concat(), Some(&definition), Some(&repetition))
        }
        _ => Err(ParquetError::General("a column has another type than its values".into())),
    }
    .map(drop)
}

/// Definition levels: 1 for a value.
fn definition_levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// Definition levels (1 for an entry, 0 for an empty list) and repetition levels (1 to continue a list).
fn levels(lists: &[Vec<f64>]) -> (Vec<i16>, Vec<i16>) {
    let entries = |list: &Vec<f64>| {
        (0..list.len().max(1)).map(|at| (i16::from(!list.is_empty()), i16::from(at > 0))).collect::<Vec<_>>()
    };
    lists.iter().flat_map(entries).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back_in_its_parts() {
        use parquet::file::reader::{FileReader, SerializedFileReader};
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.parquet");
        let part = |first: i64| -> Columns {
            vec![
                ("number".into(), Values::Ints(vec![Some(first), None])),
                ("share".into(), Values::Floats(vec![None, Some(0.5)])),
                ("name".into(), Values::Texts(vec![Some("a".into()), None])),
                ("times".into(), Values::Lists(vec![vec![1.0, 2.0], vec![]])),
            ]
        };
        write_parquet(&path, [part(3), part(4)].into_iter()).expect("written");
        let reader = SerializedFileReader::new(File::open(&path).expect("a file")).expect("a table");
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string());
        let row = |number: i64| {
            [
                format!(r#"{{number: {number}, share: null, name: "a", times: [1.0, 2.0]}}"#),
                r#"{number: null, share: 0.5, name: null, times: []}"#.to_owned(),
            ]
        };
        assert_eq!(rows.collect::<Vec<_>>(), [row(3), row(4)].concat());
        assert!(write_parquet(&path, std::iter::empty()).is_err());
    }

    #[test]
    fn levels_tell_lists_apart() {
        assert_eq!(levels(&[vec![1.0, 2.0], vec![], vec![3.0]]), (vec![1, 1, 0, 1], vec![0, 1, 0, 0]));
        assert_eq!(definition_levels(&[Some(1), None]), [1, 0]);
    }
}
