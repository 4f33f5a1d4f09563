//! Result files on disk, written atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_record::RunRecord;

use super::{Detail, ResultFile};
use crate::Error;

/// What to do if the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveMode {
    Overwrite,
    Append,
    /// Fail, and leave it unchanged.
    New,
}

pub fn save(record: &RunRecord, path: &Path, detail: Detail, mode: SaveMode) -> Result<(), Error> {
    let file = ResultFile::new(record, detail);
    match mode {
        SaveMode::Overwrite => write_whole(path, |out| file.write_to(out)),
        SaveMode::Append => append(path, |out| file.write_to(out)),
        SaveMode::New => write_new(path, |out| file.write_to(out)),
    }
}

/// How long to wait for a reader of a pipe.
const READER: Duration = Duration::from_secs(2);

type Out = BufWriter<File>;

/// Writes `path` through a temporary file next to it that is renamed when complete. Special files (a pipe, a
/// terminal) are written directly.
pub fn write_whole(path: &Path, content: impl FnOnce(&mut Out) -> io::Result<()>) -> Result<(), Error> {
    // A symbolic link is kept: the file behind it is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        let file = open_special(&target).map_err(|source| open_error(path, source))?;
        return fill(file, content).map_err(|source| write_error(path, source));
    }
    let temporary = temporary(&target);
    // A leftover of an earlier process with the same id, or of someone else.
    let _ = fs::remove_file(&temporary);
    let file = create_new(&temporary).map_err(|source| open_error(path, source))?;
    fill(file, content).and_then(|()| fs::rename(&temporary, &target)).map_err(|source| {
        // If this fails too, nothing more can be done.
        let _ = fs::remove_file(&temporary);
        write_error(path, source)
    })
}

/// Writes a text as a whole file; see [`write_whole`].
pub fn write_text(path: &Path, text: &str) -> Result<(), Error> {
    write_whole(path, |out| out.write_all(text.as_bytes()))
}

/// Opens a pipe or a device. Without a reader, a blocking open of a pipe would never return.
fn open_special(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().write(true).open(path);
    if !fs::metadata(path)?.file_type().is_fifo() {
        return open();
    }
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let deadline = Instant::now() + READER;
    loop {
        match OpenOptions::new().write(true).custom_flags(nonblocking).open(path) {
            // There is a reader: now a blocking open returns at once.
            Ok(_held) => return open(),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return Err(io::Error::other("it is a pipe without a reader")),
        }
    }
}

/// Writes a file that must not exist; a symbolic link counts as existing, wherever it points.
fn write_new(path: &Path, content: impl FnOnce(&mut Out) -> io::Result<()>) -> Result<(), Error> {
    let file = create_new(path).map_err(|source| open_error(path, source))?;
    fill(file, content).map_err(|source| {
        let _ = fs::remove_file(path);
        write_error(path, source)
    })
}

/// Checks that files can be created in a directory.
pub fn try_writing(directory: &Path) -> io::Result<()> {
    let trial = directory.join(format!(".tacho-{}", std::process::id()));
    drop(create_new(&trial)?);
    fs::remove_file(&trial)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Appends a line to `path`, and removes it if it cannot be completed.
fn append(path: &Path, content: impl FnOnce(&mut Out) -> io::Result<()>) -> Result<(), Error> {
    let is_new = fs::symlink_metadata(path).is_err();
    let file = open_locked(path).map_err(|source| open_error(path, source))?;
    let before = file.metadata().map_err(|source| open_error(path, source))?.len();
    let kept = file.try_clone().map_err(|source| open_error(path, source))?;
    let line = |out: &mut Out| {
        if before > 0 {
            out.write_all(b"\n")?;
        }
        content(out)
    };
    fill(file, line).map_err(|source| {
        let _ = kept.set_len(before);
        if is_new && before == 0 {
            let _ = fs::remove_file(path);
        }
        write_error(path, source)
    })
}

/// Opens a file to append to, for one process at a time; where a file system has no locks, for all.
fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let _ = file.lock();
        // The process that held the lock may have removed the file.
        if fs::metadata(path).is_ok_and(|found| file.metadata().is_ok_and(|mine| mine.ino() == found.ino())) {
            return Ok(file);
        }
    }
}

fn fill(file: File, content: impl FnOnce(&mut Out) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    content(&mut out)?;
    out.flush()
}

/// A name in the same directory, so that renaming stays within one file system.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn open_error(path: &Path, source: io::Error) -> Error {
    Error::Open { path: path.to_owned(), source }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(out: &mut Out) -> io::Result<()> {
        out.write_all(b"half")?;
        out.flush()?;
        Err(io::Error::other("disk full"))
    }

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = write_whole(&path, |out| out.write_all(b"{}")).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("a pipe without a reader"), "{cause}");
        let reader = std::thread::spawn(move || fs::read_to_string(path).unwrap());
        write_whole(&directory.path().join("pipe"), |out| out.write_all(b"{}")).unwrap();
        assert_eq!(reader.join().unwrap(), "{}");
    }

    #[test]
    fn concurrent_appends_do_not_mix() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.jsonl");
        let line = "x".repeat(300_000);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| append(&path, |out| out.write_all(line.as_bytes())).unwrap());
            }
        });
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.lines().count() == 8 && written.lines().all(|found| found == line));
    }

    #[test]
    fn failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        write_whole(&path, |out| out.write_all(b"old")).unwrap();
        assert!(matches!(write_whole(&path, broken), Err(Error::Write { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["r.json"]);
    }

    #[test]
    fn failed_append_takes_its_part_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        assert!(matches!(append(&path, broken), Err(Error::Write { .. })));
        assert!(names(directory.path()).is_empty(), "a file that was not there before");
        append(&path, |out| out.write_all(b"one")).unwrap();
        assert!(matches!(append(&path, broken), Err(Error::Write { .. })));
        append(&path, |out| out.write_all(b"two")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo");
    }

    #[test]
    fn missing_directory_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let error = write_whole(&directory.path().join("missing/r.json"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("missing/r.json"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_takes_nobodys_place() {
        let directory = tempfile::tempdir().unwrap();
        let (taken, link, target) =
            (directory.path().join("r.json"), directory.path().join("l.json"), directory.path().join("t"));
        fs::write(&taken, "theirs").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [&taken, &link] {
            assert!(write_new(path, |out| out.write_all(b"ours")).is_err(), "{}", path.display());
        }
        assert_eq!(fs::read(&taken).unwrap(), b"theirs");
        assert!(!target.exists());
        assert!(write_new(&directory.path().join("n.json"), broken).is_err());
        assert!(!directory.path().join("n.json").exists());
        try_writing(directory.path()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn link_and_device_stay_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real.json"), directory.path().join("link.json"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_whole(&link, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        write_whole(Path::new("/dev/null"), |out| out.write_all(b"new")).unwrap();
    }
}
