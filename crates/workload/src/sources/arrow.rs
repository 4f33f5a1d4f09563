//! Arrow tables in the formats of the `datasets` library: streams, or files with a footer.

mod bounds;

use std::{fs::File, io::BufReader, path::Path};

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch, cast::AsArray};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType};

use tacho_text::guarded;

use super::cell::Cell;
use crate::Error;

/// Magic bytes of a file with a footer.
const MAGIC: &[u8] = b"ARROW1";

pub(crate) fn read(path: &Path) -> Result<Vec<RecordBatch>, Error> {
    let broken = || Error::Broken { path: path.to_path_buf(), format: "Arrow" };
    let batches = guarded(|| read_batches(path)).ok_or_else(broken)??;
    match batches.iter().flat_map(RecordBatch::columns).all(|column| is_bounded(column.data_type())) {
        true => Ok(batches),
        false => Err(broken()),
    }
}

/// Whether values of a type take no more memory than they have bytes in the file: lists of null can have any length.
fn is_bounded(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) | DataType::LargeList(item) => !item.data_type().is_null() && is_bounded(item.data_type()),
        DataType::FixedSizeList(item, _) => !item.data_type().is_null() && is_bounded(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_bounded(field.data_type())),
        _ => true,
    }
}

fn read_batches(path: &Path) -> Result<Vec<RecordBatch>, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut head = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(failed)?;
    let known = std::io::Read::read(&mut file, &mut head).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let mut file = BufReader::new(file);
    if !bounds::within(&mut file, len, head[..known] == *MAGIC).map_err(failed)? {
        return Err(Error::Broken { path: path.to_path_buf(), format: "Arrow" });
    }
    std::io::Seek::rewind(&mut file).map_err(failed)?;
    let mut batches = Vec::new();
    let broken = |row: usize, source: ArrowError| Error::Arrow { path: path.to_path_buf(), row: row + 1, source };
    let mut take = |batch: Result<RecordBatch, ArrowError>| {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        batches.push(batch.map_err(|source| broken(rows, source))?);
        Ok(())
    };
    if head[..known] == *MAGIC {
        FileReader::try_new(file, None).map_err(|source| broken(0, source))?.try_for_each(&mut take)?;
    } else {
        StreamReader::try_new(file, None).map_err(|source| broken(0, source))?.try_for_each(&mut take)?;
    }
    Ok(batches)
}

pub(crate) fn row(batch: &RecordBatch, row: usize) -> Cell {
    let names = batch.schema_ref().fields().iter().map(|field| field.name().clone());
    Cell::Struct(names.zip(batch.columns()).map(|(name, column)| (name, cell(column, row))).collect())
}

fn cell(array: &dyn Array, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    macro_rules! whole {
        ($kind:ty) => {
            Cell::Int(i64::from(array.as_primitive::<$kind>().value(row)))
        };
    }
    match array.data_type() {
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => Cell::from(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => Cell::Float(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row).to_owned()),
        DataType::Utf8View => Cell::Text(array.as_string_view().value(row).to_owned()),
        DataType::Binary => Cell::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::LargeBinary => Cell::Bytes(array.as_binary::<i64>().value(row).to_vec()),
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let members = fields.iter().zip(columns).map(|(field, column)| (field.name().clone(), cell(column, row)));
            Cell::Struct(members.collect())
        }
        // No dataset uses dates, decimals, maps or categories.
        _ => Cell::Null,
    }
}

fn list(items: &dyn Array) -> Cell {
    Cell::List((0..items.len()).map(|item| cell(items, item)).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray, StructArray};
    use arrow_ipc::writer::{FileWriter, StreamWriter};
    use arrow_schema::Field;

    use super::*;

    fn batch() -> RecordBatch {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let field = Arc::new(Field::new("n", DataType::Int64, true));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, numbers)]));
        RecordBatch::try_from_iter(vec![("text", texts), ("nested", nested)]).unwrap()
    }

    #[test]
    fn lengths_beyond_the_file_are_refused_before_memory_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), batch().schema_ref()).unwrap();
        writer.write(&batch()).unwrap();
        let good = writer.into_inner().unwrap();
        let schema = 8 + u32::from_le_bytes(good[4..8].try_into().unwrap()) as usize;
        let path = directory.path().join("t.arrow");
        for at in [4, schema + 4] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&0x7fff_fff0_u32.to_le_bytes());
            std::fs::write(&path, &bad).unwrap();
            assert!(read(&path).is_err(), "{at}");
        }
        // The length of a body is somewhere in its message: whatever it is set to, nothing of that size is allocated.
        for at in schema + 8..schema + 200 {
            let mut bad = good.clone();
            bad[at..at + 8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
            std::fs::write(&path, &bad).unwrap();
            let _ = read(&path);
        }
    }

    #[test]
    fn both_forms_give_rows() {
        let directory = tempfile::tempdir().unwrap();
        let (stream, file) = (directory.path().join("s.arrow"), directory.path().join("f.arrow"));
        let mut writer = StreamWriter::try_new(File::create(&stream).unwrap(), batch().schema_ref()).unwrap();
        writer.write(&batch()).unwrap();
        writer.finish().unwrap();
        let mut writer = FileWriter::try_new(File::create(&file).unwrap(), batch().schema_ref()).unwrap();
        writer.write(&batch()).unwrap();
        writer.finish().unwrap();
        for path in [&stream, &file] {
            let batches = read(path).unwrap();
            let first = row(&batches[0], 0);
            assert_eq!(first.get("text"), Some(&Cell::Text("a".to_owned())));
            assert_eq!(first.get("nested").and_then(|nested| nested.get("n")), Some(&Cell::Int(1)));
            assert_eq!(row(&batches[0], 1).get("text"), Some(&Cell::Null));
        }
        let whole = std::fs::read(&stream).unwrap();
        std::fs::write(&stream, &whole[..whole.len() - 60]).unwrap();
        let error = read(&stream).unwrap_err().to_string();
        assert!(error.contains("s.arrow") && error.contains("row 1"), "{error}");
    }
}
