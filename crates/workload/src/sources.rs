//! Reads rows from files, independent of their use.

pub(crate) mod arrow;
pub(crate) mod card;
pub(crate) mod cell;
pub(crate) mod command;
pub(crate) mod csv;
pub(crate) mod hub;
pub(crate) mod jsonl;
pub(crate) mod layout;
pub(crate) mod mapped;
pub(crate) mod order;
pub(crate) mod parquet;
pub(crate) mod saved;
pub(crate) mod table;

use std::{io::Read, path::Path, string::FromUtf8Error};

use ring::digest::{Context, SHA256};

use self::layout::unpacked;
use crate::Error;
use crate::limits::{MAX_LINE_BYTES, MAX_UNPACKED};

/// Reads a text file like Python's text mode: UTF-8, every kind of line end becomes `\n`. Detects gzip, zstd, UTF-16
/// and a byte order mark from the first bytes.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let bytes = tacho_core::files::read_data(path).map_err(failed)?;
    let bytes = match bytes.as_slice() {
        [0x1f, 0x8b, ..] => unpack(path, flate2::read::MultiGzDecoder::new(&*bytes))?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack(path, zstd::Decoder::new(&*bytes).map_err(failed)?)?,
        _ => bytes,
    };
    let text = decode(bytes).map_err(|source| {
        let before = &source.as_bytes()[..source.utf8_error().valid_up_to()];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::NotUtf8 { path: path.to_path_buf(), line }
    })?;
    if text.contains('\r') { Ok(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Ok(text) }
}

/// Decompresses a file incrementally, so that a decompression bomb is refused before it fills the memory. A JSON
/// document may be one line; in any other file a line is a row.
fn unpack(path: &Path, packed: impl Read) -> Result<Vec<u8>, Error> {
    let is_document = unpacked(&path.to_string_lossy()).ends_with(".json");
    unpack_within(path, packed, MAX_UNPACKED, if is_document { usize::MAX } else { MAX_LINE_BYTES })
}

fn unpack_within(path: &Path, packed: impl Read, limit: u64, line_limit: usize) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::new();
    let mut packed = packed.take(limit + 1);
    let mut line_start = 0;
    loop {
        let before = plain.len();
        let read = packed.by_ref().take(1 << 20).read_to_end(&mut plain);
        read.map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        if plain.len() == before {
            return Ok(plain);
        }
        if plain.len() as u64 > limit {
            return Err(Error::Unpacked { path: path.to_path_buf(), limit });
        }
        line_start =
            plain[before..].iter().rposition(|byte| b"\r\n".contains(byte)).map_or(line_start, |at| before + at + 1);
        if plain.len() - line_start > line_limit {
            let line = plain.iter().filter(|&&byte| byte == b'\n').count() + 1;
            return Err(Error::LongLine { path: path.to_path_buf(), line, limit: line_limit });
        }
    }
}

/// Decodes bytes without the byte order mark. Broken UTF-16 surrogates become U+FFFD.
fn decode(mut bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let units = |word: fn([u8; 2]) -> u16| {
        let pairs = bytes[2..].chunks_exact(2).map(move |pair| word([pair[0], pair[1]]));
        char::decode_utf16(pairs).map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => Ok(units(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Ok(units(u16::from_be_bytes)),
        [0xef, 0xbb, 0xbf, ..] => String::from_utf8(bytes.split_off(3)),
        _ => String::from_utf8(bytes),
    }
}

/// SHA-256 of a file's bytes, in hexadecimal.
pub fn file_digest(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut hash, mut bytes) = (Context::new(&SHA256), vec![0; 1 << 16]);
    loop {
        match file.read(&mut bytes).map_err(failed)? {
            0 => return Ok(hex(hash)),
            count => hash.update(&bytes[..count]),
        }
    }
}

fn hex(hash: Context) -> String {
    hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a text file that must not be empty.
pub(crate) fn read_rows(path: &Path) -> Result<String, Error> {
    let text = read_text(path)?;
    if text.trim().is_empty() { Err(Error::EmptyFile { path: path.to_path_buf() }) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_encodings_are_no_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let wide = |word: fn(u16) -> [u8; 2]| "\u{feff}{\"a\": \"é😀\"}\r\n".encode_utf16().flat_map(word).collect();
        let files: [Vec<u8>; 3] =
            ["\u{feff}{\"a\": \"é😀\"}\r\n".as_bytes().to_vec(), wide(u16::to_le_bytes), wide(u16::to_be_bytes)];
        for bytes in files {
            std::fs::write(file.path(), bytes).unwrap();
            assert_eq!(read_text(file.path()).unwrap(), "{\"a\": \"é😀\"}\n");
        }
    }

    #[test]
    fn a_packed_file_that_grows_without_end_is_refused() {
        let error = unpack_within(Path::new("t.jsonl.gz"), std::io::repeat(b'\n'), 5 << 20, 8).unwrap_err();
        assert!(matches!(error, Error::Unpacked { limit: 5_242_880, .. }), "{error}");
    }

    #[test]
    fn a_packed_line_without_end_is_refused_before_it_is_read() {
        let endless = || (&b"{}\n"[..]).chain(std::io::repeat(b'a'));
        let error = unpack_within(Path::new("t.jsonl.gz"), endless(), MAX_UNPACKED, 3 << 20).unwrap_err();
        assert!(matches!(error, Error::LongLine { line: 2, limit: 3_145_728, .. }), "{error}");
        let rows = "a line\n".repeat(1 << 19);
        let read = unpack_within(Path::new("t.jsonl.gz"), rows.as_bytes(), MAX_UNPACKED, 8).unwrap();
        assert_eq!(read, rows.as_bytes());
    }

    #[test]
    fn a_file_without_rows_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " \n\n").unwrap();
        let error = read_rows(file.path()).unwrap_err().to_string();
        assert_eq!(error, format!("{} is empty: it has no rows", file.path().display()));
        std::fs::write(file.path(), "{}\n").unwrap();
        assert_eq!(read_rows(file.path()).unwrap(), "{}\n");
    }
}
