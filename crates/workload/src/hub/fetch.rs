//! Downloads a repository's files into the cache: missing ones only, several at a time, resuming interrupted downloads.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{sync::Arc, time::Duration};

use ring::digest::{Context, SHA256};
use tacho_core::{Counters, EventSink, RunEvent, Work};

use super::wire::{Meta, Wire};
use super::{CARD, Chooser, Hub, HubError, Kind, Repo, store::Store};

const WIDTH: usize = 8;
/// Number of retries of a download without progress.
const MAX_RETRIES: u32 = 4;

impl Hub {
    /// Downloads the selected files that are missing, and returns their directory.
    pub(super) fn download(
        &self,
        repo: &Repo<'_>,
        store: &Store,
        sink: &dyn EventSink,
        files: &Chooser<'_>,
    ) -> Result<PathBuf, HubError> {
        let wire = Wire::new(self);
        let listing = wire.listing(repo)?;
        let directory = store.snapshot(&listing.commit);
        let job = Job { wire: &wire, repo, store, commit: &listing.commit };
        let mut card = String::new();
        if repo.kind == Kind::Dataset && listing.files.iter().any(|name| name == CARD) {
            job.bring(&[CARD.to_owned()], &())?;
            card = fs::read_to_string(directory.join(CARD)).unwrap_or_default();
        }
        job.bring(&files(&card, &listing.files)?, sink)?;
        store.point(&listing.commit)?;
        Ok(directory)
    }
}

struct Job<'j> {
    wire: &'j Wire<'j>,
    repo: &'j Repo<'j>,
    store: &'j Store,
    commit: &'j str,
}

impl Job<'_> {
    /// Downloads the missing ones of these files.
    fn bring(&self, names: &[String], sink: &dyn EventSink) -> Result<(), HubError> {
        let directory = self.store.snapshot(self.commit);
        let missing: Vec<&String> = names.iter().filter(|name| !directory.join(name).exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let metas = at_once(&missing, |name| self.wire.meta(self.repo, self.commit, name))?;
        let files: Vec<(&String, Meta)> = missing.into_iter().zip(metas).collect();
        let total = files.iter().filter_map(|(_, meta)| meta.size).sum();
        let counters = Arc::new(Counters::default());
        sink.event(RunEvent::Started { work: Work::Downloading, total, counters: Arc::clone(&counters) });
        let done = at_once(&files, |(name, meta)| self.save(name, meta, &counters));
        sink.event(RunEvent::Finished);
        done.map(|_| ())
    }

    fn save(&self, name: &str, meta: &Meta, counters: &Counters) -> Result<(), HubError> {
        let _lock = self.store.lock(&meta.etag)?;
        let blob = self.store.blob(&meta.etag);
        if !blob.exists() {
            let incomplete = self.store.incomplete(&meta.etag);
            self.load(name, meta, &incomplete, counters)?;
            if !is_whole(&incomplete, &meta.etag).map_err(|source| cache_error(&incomplete, source))? {
                let _ = fs::remove_file(&incomplete);
                return Err(HubError::Damaged { file: name.to_owned(), id: self.repo.id.to_owned() });
            }
            fs::rename(&incomplete, &blob).map_err(|source| cache_error(&blob, source))?;
        }
        self.store.link(self.commit, name, &meta.etag)
    }

    /// Downloads the rest of a file, after the bytes that an earlier attempt left.
    fn load(&self, name: &str, meta: &Meta, path: &Path, counters: &Counters) -> Result<(), HubError> {
        let failed = |source| cache_error(path, source);
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(path).map_err(failed)?;
        let mut have = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if meta.size.is_none_or(|size| have > size) {
            have = 0;
        }
        counters.finished.fetch_add(have, Ordering::Relaxed);
        let mut tries = 0;
        while meta.size.is_none_or(|size| have < size) {
            let before = have;
            match self.piece(meta, &mut file, &mut have, counters).map_err(failed)? {
                Ended::Whole if meta.size.is_none() => break,
                Ended::Failed(error) if tries + 1 >= MAX_RETRIES => return Err(error),
                _ => {}
            }
            tries = if have > before { 0 } else { tries + 1 };
            let size = meta.size.unwrap_or(have);
            if tries >= MAX_RETRIES {
                return Err(HubError::Broken { file: name.to_owned(), id: self.repo.id.to_owned(), got: have, size });
            }
            if have < size {
                std::thread::sleep(Duration::from_millis(200) * 2_u32.pow(tries));
            }
        }
        file.set_len(have).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// One request; an interruption leaves `have` at the bytes received.
    fn piece(&self, meta: &Meta, file: &mut File, have: &mut u64, counters: &Counters) -> std::io::Result<Ended> {
        let (continued, mut body) = match self.wire.body(self.repo, meta, *have) {
            Ok(body) => body,
            Err(error) => return Ok(Ended::Failed(error)),
        };
        if !continued {
            counters.finished.fetch_sub(*have, Ordering::Relaxed);
            *have = 0;
        }
        file.seek(SeekFrom::Start(*have))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match body.read(&mut buffer) {
                Ok(0) => return Ok(Ended::Whole),
                Ok(count) => {
                    file.write_all(&buffer[..count])?;
                    *have += count as u64;
                    counters.finished.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(_) => return Ok(Ended::Cut),
            }
        }
    }
}

enum Ended {
    Whole,
    Cut,
    Failed(HubError),
}

/// Whether the content is complete. The etag of a large file is its SHA-256; others cannot be checked.
fn is_whole(path: &Path, etag: &str) -> std::io::Result<bool> {
    if etag.len() != 64 || !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(true);
    }
    let mut hash = Context::new(&SHA256);
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    let sum: String = hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(sum.eq_ignore_ascii_case(etag))
}

fn cache_error(path: &Path, source: std::io::Error) -> HubError {
    HubError::Cache { path: path.to_path_buf(), source }
}

/// Processes items several at a time, in order; returns the first failure.
fn at_once<I: Sync, O: Send>(items: &[I], work: impl Fn(&I) -> Result<O, HubError> + Sync) -> Result<Vec<O>, HubError> {
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, Result<O, HubError>)> = std::thread::scope(|scope| {
        let worker = || {
            let mut mine = Vec::new();
            while let Some((at, item)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
            {
                let result = work(item);
                let failed = result.is_err();
                mine.push((at, result));
                if failed {
                    next.store(items.len(), Ordering::Relaxed);
                }
            }
            mine
        };
        let threads: Vec<_> = (0..WIDTH.min(items.len())).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a download does not panic")).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
