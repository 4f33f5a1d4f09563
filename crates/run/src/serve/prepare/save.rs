//! The workload as a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use tacho_core::Request;
use tacho_workload::sessions::Format;
use tacho_workload::write_jsonl;

use crate::Error;
use crate::serve::prepare::Prepared;

/// Writes the requests and their scheduled times atomically.
pub fn save_workload(prepared: &Prepared, path: &Path) -> Result<(), Error> {
    if let Some(sessions) = &prepared.sessions {
        let failed = |source| Error::SaveWorkload { path: path.to_owned(), source };
        let partial = path.with_extension("partial");
        std::fs::write(&partial, sessions.saved().written_as(Format::Model)?).map_err(failed)?;
        return std::fs::rename(&partial, path).map_err(failed);
    }
    let due = prepared.timeline.scheduled();
    save(path, |out| {
        prepared.requests.each(|place, request| {
            let due = due.get(place..).unwrap_or_default();
            Ok(write_jsonl(out, place, std::slice::from_ref(request), due)?)
        })
    })
}

/// Writes requests without a schedule atomically.
pub fn save_requests(requests: &[Request], path: &Path) -> Result<(), Error> {
    save(path, |out| Ok(write_jsonl(out, 0, requests, &[])?))
}

fn save(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Error>) -> Result<(), Error> {
    let failed = |source| Error::SaveWorkload { path: path.to_owned(), source };
    let partial = path.with_extension("partial");
    let mut out = BufWriter::new(File::create(&partial).map_err(failed)?);
    write(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    std::fs::rename(&partial, path).map_err(failed)
}
