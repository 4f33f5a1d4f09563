//! Reads files from outside with a limit on their size, so that no path (a device, a wrong file) fills the memory.

use std::io::{self, Read};
use std::{fs::File, path::Path};

/// Maximum size of a file with settings, certificates or secrets.
pub const MAX_SETTINGS: u64 = 16 << 20;

/// Maximum bytes of a pipe or device.
const MAX_STREAM: u64 = 2 << 30;

/// The bytes of a file of at most [`MAX_SETTINGS`]. Fails when it cannot be read or is larger.
pub fn read_settings(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_within(path, MAX_SETTINGS)
}

/// The text of a file of at most [`MAX_SETTINGS`]. Fails when it cannot be read, is larger or is not UTF-8.
pub fn read_settings_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_settings(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The bytes of a regular file of any size, or of a pipe or device of at most 2 GiB. Fails when it cannot be read, or
/// goes on beyond its size.
pub fn read_data(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let size = std::fs::metadata(&path)?.len();
    read_within(path, size.max(MAX_STREAM))
}

fn read_within(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let text = format!("it is larger than {} MiB", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_files_are_refused() {
        let error = read_settings("/dev/zero").unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "it is larger than 16 MiB")
        );
        assert_eq!(read_settings_text("/dev/null").unwrap(), "");
    }
}
