//! Rows as bytes, for another process of the same run.

use std::io::Cursor;
use std::sync::Arc;

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use tacho_core::{Observation, Stamp};

use crate::packing::packing;
use crate::{Asked, Origin, Row, batch, segment};

/// Packs rows; what was asked is known at the other end.
pub fn pack(rows: &[Observation]) -> Result<Vec<u8>, ArrowError> {
    let origin = Origin { stamp: Stamp::ZERO, unix_ns: 0 };
    let schema = Arc::new(segment::schema(0, origin));
    let asked = Asked::default();
    let parts: Vec<_> = rows.iter().map(|row| (&asked, row)).collect();
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, packing()?)?;
    stream.write(&batch::batch(schema, origin, &parts)?)?;
    stream.into_inner()
}

/// Unpacks them.
pub fn unpack(bytes: &[u8]) -> Result<Vec<Observation>, ArrowError> {
    let origin = Origin { stamp: Stamp::ZERO, unix_ns: 0 };
    let mut rows = Vec::new();
    for found in StreamReader::try_new(Cursor::new(bytes), None)? {
        let unpacked = batch::rows(&found?, origin).map_err(ArrowError::ParseError)?;
        rows.extend(unpacked.into_iter().map(|Row { observation, .. }| observation));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_journey() {
        let rows: Vec<Observation> = (0..3)
            .map(|index| Observation {
                chunks: vec![Stamp(5), Stamp(9)],
                text: b"a\xed\xa0\xbd".to_vec(),
                ..Observation::released(index, Stamp(1), Stamp(u64::from(u32::MAX) * 9))
            })
            .collect();
        assert_eq!(unpack(&pack(&rows).unwrap()).unwrap(), rows);
        assert!(unpack(&pack(&[]).unwrap()).unwrap().is_empty());
        assert!(unpack(b"nonsense").is_err());
    }
}
