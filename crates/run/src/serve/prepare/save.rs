//! Saves the workload to a file.

use std::io::{self, BufWriter, Write};
use std::{fs::File, path::Path};

use tacho_core::{Request, dict, json::Dict};
use tacho_workload::{sessions::Format, write_jsonl, write_settings};

use crate::{
    Error, plan::ServePlan, serve::drive::supply::is_endless, serve::prepare::Prepared,
    serve::prepare::identity::workload_digest,
};

pub const SAVED_VERSION: i64 = 2;

/// Writes the requests and their scheduled times atomically, after `settings` and the digest.
pub fn save_workload(plan: &ServePlan, prepared: &Prepared, settings: Dict, path: &Path) -> Result<(), Error> {
    if is_endless(plan, prepared) {
        return Err(Error::EndlessWorkload);
    }
    let settings = dict! { ..settings, "version": SAVED_VERSION, "digest": workload_digest(plan, prepared)? };
    if let Some(sessions) = &prepared.sessions {
        let text = sessions.saved().written_as(Format::Model)?;
        return save(path, |out| {
            write_settings(out, settings, true)?;
            out.write_all(text.trim_start_matches('{').trim_start().as_ref()).map_err(|source| failed(path, source))
        });
    }
    let due = prepared.timeline.scheduled();
    save(path, |out| {
        write_settings(out, settings, false)?;
        prepared.requests.each(|index, request| {
            let due = due.get(index..).unwrap_or_default();
            Ok(write_jsonl(out, index, std::slice::from_ref(request), due)?)
        })
    })
}

/// Writes requests without a schedule atomically.
pub fn save_requests(requests: &[Request], path: &Path) -> Result<(), Error> {
    save(path, |out| Ok(write_jsonl(out, 0, requests, &[])?))
}

fn save(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>) -> Result<(), Error> {
    let failed = |source| failed(path, source);
    let fill = |to: &Path| {
        let mut out = BufWriter::new(File::create(to).map_err(failed)?);
        write(&mut out)?;
        out.flush().map_err(failed)
    };
    // A pipe or a device is not replaced.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return fill(path);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = fill(&partial).and_then(|()| std::fs::rename(&partial, path).map_err(failed));
    written.inspect_err(|_| _ = std::fs::remove_file(&partial))
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::SaveWorkload { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("w.jsonl");
        save(&path, |out| out.write_all(b"old").map_err(|source| failed(&path, source))).unwrap();
        let full = |out: &mut BufWriter<File>| {
            out.write_all(b"new").and_then(|()| out.flush()).map_err(|source| failed(&path, source))?;
            Err(failed(&path, io::ErrorKind::StorageFull.into()))
        };
        assert!(matches!(save(&path, full), Err(Error::SaveWorkload { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let names: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["w.jsonl"]);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let error =
            save(Path::new("/dev/full"), |out| out.write_all(b"x").map_err(|source| failed(Path::new(""), source)));
        assert!(matches!(error, Err(Error::SaveWorkload { .. })));
        assert!(!std::fs::metadata("/dev/full").unwrap().is_file());
    }
}
