//! Merges small batches when a segment ends. The metadata of a batch takes some kilobytes, which is little for a second
//! of a busy run and much for a second of a quiet one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use arrow_ipc::writer::StreamWriter;

use crate::batch::{batch, rows};
use crate::{Error, Row, segment, stored::Batches};

/// A segment is rewritten if its batches are smaller than this on average.
const SMALL: u64 = 256 << 10;
/// Approximate number of token events per rewritten batch.
const EVENTS: usize = 1 << 17;

/// Rewrites the segment at `path` if that makes it smaller. The file is replaced atomically.
pub(crate) fn compact(path: &Path, batches: usize, size: u64) -> Result<(), Error> {
    if batches < 2 || size / batches as u64 >= SMALL {
        return Ok(());
    }
    let temporary = path.with_extension("tmp");
    let rewritten = rewrite(path, &temporary);
    if rewritten.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    // Small batches are valid, so a failed merge is not reported.
    if let Ok(()) = rewritten {
        fs::rename(&temporary, path).map_err(Error::write(path))?;
        crate::files::sync_directory(path);
    }
    Ok(())
}

fn rewrite(path: &Path, temporary: &Path) -> Result<(), Error> {
    let Some(mut stored) = Batches::open(path)? else { return Err(Error::malformed(path, "it has no schema")) };
    let (schema, origin) = (stored.schema(), stored.origin());
    let file = BufWriter::new(File::create(temporary).map_err(Error::write(temporary))?);
    let mut out = StreamWriter::try_new_with_options(file, &schema, segment::packing()?)?;
    let mut pending: Vec<Row> = Vec::new();
    let mut events = 0;
    let mut write = |rows: &mut Vec<Row>| -> Result<(), Error> {
        let parts: Vec<_> = rows.iter().map(|row| (&row.request, &row.observation)).collect();
        out.write(&batch(schema.clone(), origin, &parts)?)?;
        rows.clear();
        Ok(())
    };
    while let Some(batch) = stored.next_batch()? {
        let batch = rows(&batch, origin).map_err(|reason| Error::malformed(path, reason))?;
        events += batch.iter().map(|row| row.observation.chunks.len() + 8).sum::<usize>();
        pending.extend(batch);
        if events >= EVENTS {
            write(&mut pending)?;
            events = 0;
        }
    }
    if !pending.is_empty() {
        write(&mut pending)?;
    }
    out.finish()?;
    let mut file = out.into_inner()?;
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(Error::write(temporary))
}
