//! Files that are written atomically.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use tacho_core::json::{self, Value};

use crate::Error;

/// Writes `path` atomically through a temporary file, and syncs it to disk.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension("tmp");
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&temporary, path)).map_err(|source| {
        // If this fails too, nothing more can be done.
        let _ = fs::remove_file(&temporary);
        Error::write(path)(source)
    })?;
    sync_directory(path);
    Ok(())
}

/// Syncs the directory of `path`, if the file system supports it.
pub(crate) fn sync_directory(path: &Path) {
    if let Some(directory) = path.parent() {
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
}

/// Parses the JSON in `path`, of at most `limit` bytes.
pub(crate) fn read_json(path: &Path, limit: u64) -> Result<Value, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::read(path))?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(Error::read(path))?;
    if bytes.len() as u64 > limit {
        return Err(Error::malformed(path, format!("it is larger than {limit} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| Error::malformed(path, "it is not UTF-8"))?;
    json::parse(&text).map_err(|error| Error::malformed(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.json");
        write_atomically(&path, b"[1, 2]").expect("written");
        assert_eq!(read_json(&path, 6).expect("as long as allowed"), Value::List(vec![Value::Int(1), Value::Int(2)]));
        let error = read_json(&path, 5).expect_err("too long").to_string();
        assert!(error.contains("larger than 5 bytes"), "{error}");
    }
}
