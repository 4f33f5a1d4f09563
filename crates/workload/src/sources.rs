//! Rows out of files; nothing here knows what they are for.

pub(crate) mod csv;
pub(crate) mod jsonl;

use std::path::Path;

use crate::Error;

/// A text file as Python's text mode reads it: UTF-8, every kind of line end a `\n`.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if text.contains('\r') { Ok(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Ok(text) }
}
