//! Serializes rows for another rank of the same run.

use std::{io::Cursor, path::Path, sync::Arc};

use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use tacho_core::{Observation, RequestInfo, Timestamp};

use crate::stream::{Stream, Tail};
use crate::{Origin, Row, batch, segment};

/// Serializes rows without their requests, which the receiver knows.
pub fn pack(rows: &[Observation]) -> Result<Vec<u8>, ArrowError> {
    let origin = Origin { timestamp: Timestamp::ZERO, unix_ns: 0 };
    let schema = Arc::new(segment::schema(0, origin));
    let request = RequestInfo::default();
    let parts: Vec<_> = rows.iter().map(|row| (&request, row)).collect();
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &schema, segment::packing()?)?;
    stream.write(&batch::batch(schema, origin, &parts)?)?;
    stream.into_inner()
}

/// Deserializes rows. The sender is trusted no more than a file.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<Observation>, ArrowError> {
    let wrong = |what: &str| ArrowError::ParseError(what.to_owned());
    let origin = Origin { timestamp: Timestamp::ZERO, unix_ns: 0 };
    let stream = Stream::over(Path::new("rows"), bytes.len() as u64, Box::new(Cursor::new(bytes)));
    let mut stream = stream.ok().flatten().ok_or_else(|| wrong("the bytes are not rows"))?;
    let mut rows = Vec::new();
    while let Some(found) = stream.next_batch().map_err(|error| wrong(&error.to_string()))? {
        let unpacked = batch::rows(&found, origin).map_err(ArrowError::ParseError)?;
        rows.extend(unpacked.into_iter().map(|Row { observation, .. }| observation));
    }
    match stream.tail() {
        Some(Tail::Torn { .. }) => Err(wrong("the rows are truncated")),
        _ => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_journey() {
        let rows: Vec<Observation> = (0..3)
            .map(|index| Observation {
                chunks: vec![Timestamp(5), Timestamp(9)],
                text: b"a\xed\xa0\xbd".to_vec(),
                ..Observation::dispatched(index, Timestamp(1), Timestamp(u64::from(u32::MAX) * 9))
            })
            .collect();
        assert_eq!(unpack(pack(&rows).unwrap()).unwrap(), rows);
        assert!(unpack(pack(&[]).unwrap()).unwrap().is_empty());
        assert!(unpack(b"nonsense".to_vec()).is_err());
        let whole = pack(&rows).unwrap();
        assert!(unpack(whole[..whole.len() - 9].to_vec()).is_err(), "cut off");
        // Whichever byte has a wrong bit, the result is an error or other rows.
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1 << (at % 8);
            let _ = unpack(broken).is_ok();
        }
    }
}
