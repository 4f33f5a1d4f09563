//! Rows out of files; nothing here knows what they are for.

pub(crate) mod arrow;
pub(crate) mod card;
pub(crate) mod cell;
pub(crate) mod csv;
pub(crate) mod hub;
pub(crate) mod jsonl;
pub(crate) mod layout;
pub(crate) mod order;
pub(crate) mod parquet;
pub(crate) mod saved;
pub(crate) mod table;

use std::io::Read;
use std::path::Path;

use crate::Error;

/// A text file as Python's text mode reads it: UTF-8, every kind of line end a `\n`. Files packed with gzip or zstd are
/// known by their first bytes.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
    let bytes = match bytes.as_slice() {
        [0x1f, 0x8b, ..] => {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut plain).map_err(failed)?;
            plain
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd::decode_all(&*bytes).map_err(failed)?,
        _ => bytes,
    };
    let text = String::from_utf8(bytes).map_err(|source| {
        let before = &source.as_bytes()[..source.utf8_error().valid_up_to()];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::NotUtf8 { path: path.to_path_buf(), line }
    })?;
    if text.contains('\r') { Ok(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Ok(text) }
}

/// The same of a file that must have rows.
pub(crate) fn read_rows(path: &Path) -> Result<String, Error> {
    let text = read_text(path)?;
    if text.trim().is_empty() { Err(Error::EmptyFile { path: path.to_path_buf() }) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_rows_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " \n\n").unwrap();
        let said = read_rows(file.path()).unwrap_err().to_string();
        assert_eq!(said, format!("{} is empty: there is no row to make a request of", file.path().display()));
        std::fs::write(file.path(), "{}\n").unwrap();
        assert_eq!(read_rows(file.path()).unwrap(), "{}\n");
    }
}
