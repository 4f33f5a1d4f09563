//! Rows out of files; nothing here knows what they are for.

pub(crate) mod card;
pub(crate) mod cell;
pub(crate) mod csv;
pub(crate) mod hub;
pub(crate) mod jsonl;
pub(crate) mod layout;
pub(crate) mod order;
pub(crate) mod parquet;
pub(crate) mod table;

use std::io::Read;
use std::path::Path;

use crate::Error;

/// A text file as Python's text mode reads it: UTF-8, every kind of line end a `\n`.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut text = String::new();
    let mut file = std::fs::File::open(path).map_err(failed)?;
    if path.extension().is_some_and(|extension| extension == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).map_err(failed)?;
    } else {
        file.read_to_string(&mut text).map_err(failed)?;
    }
    if text.contains('\r') { Ok(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Ok(text) }
}
