//! Standard output. A missing reader (a closed pipe, a terminal that hung up) is not an error: the verdict and the
//! files that follow still count.

use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::OnceLock;

/// The error of a write to a terminal that has hung up.
const EIO: i32 = 5;

#[derive(Debug)]
pub struct Out {
    stream: Stdout,
}

pub fn out() -> Out {
    was_terminal();
    Out { stream: io::stdout() }
}

/// Returns whether it was a terminal at the first call: one that has hung up no longer reports so.
fn was_terminal() -> bool {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    *TERMINAL.get_or_init(|| io::stdout().is_terminal())
}

impl Out {
    pub fn is_terminal(&self) -> bool {
        self.stream.is_terminal()
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes);
        Ok(heard(written, was_terminal())?.unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stream.flush();
        heard(flushed, was_terminal()).map(drop)
    }
}

/// The result of a write; `None` if no reader is left.
fn heard<T>(written: io::Result<T>, terminal: bool) -> io::Result<Option<T>> {
    match written {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        Err(error) if terminal && error.raw_os_error() == Some(EIO) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_reader_is_not_an_error_but_a_full_disk_is() {
        let failed = |code| Err::<usize, _>(io::Error::from_raw_os_error(code));
        assert_eq!(heard(Ok(3), false).unwrap(), Some(3));
        assert_eq!(heard(failed(32), false).unwrap(), None, "a closed pipe");
        assert_eq!(heard(failed(EIO), true).unwrap(), None, "a closed terminal");
        assert!(heard(failed(EIO), false).is_err(), "a disk that fails");
        let full = heard(failed(28), false).unwrap_err().to_string();
        assert!(full.starts_with("cannot write to standard output: No space left"), "{full}");
    }
}
