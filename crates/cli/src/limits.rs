//! Process limits: address space, threads, core files.

use std::{io, os::unix::process::CommandExt, process::Command, sync::mpsc};

use anyhow::Context;
use rustix::process::{Resource, getrlimit};

/// Below this limit, the allocator's reservations of 64 MiB per thread are too large.
const SMALL_ADDRESS_SPACE: u64 = 2 << 30;
/// Address space of a short run in addition to that of the program.
const NEEDED_BYTES: u64 = 48 << 20;
/// Threads of a run in addition to worker threads.
const OTHER_THREADS: usize = 8;
/// The glibc setting for the number of malloc arenas.
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Restarts this program with a single malloc arena if the address space is limited (`ulimit -v`): every further
/// arena reserves 64 MiB. Returns if that is not necessary or not possible.
pub(crate) fn share_one_arena() {
    let limit = getrlimit(Resource::As).current;
    if limit.is_none_or(|limit| limit >= SMALL_ADDRESS_SPACE) || std::env::var_os(ARENAS).is_some() {
        return;
    }
    let Ok(program) = tacho_core::sandbox::program() else { return };
    let mut args = std::env::args_os();
    let mut again = Command::new(program);
    again.arg0(args.next().unwrap_or_default()).args(args).env(ARENAS, "1");
    let error = again.exec();
    tracing::debug!(%error, "the program keeps several memory arenas");
}

/// Rejects limits under which a run would fail midway.
pub(crate) fn check() -> anyhow::Result<()> {
    check_address_space()?;
    let compute = std::thread::available_parallelism().map_or(1, usize::from);
    let count = 2 * compute + OTHER_THREADS;
    start_threads(count).with_context(|| {
        format!(
            "cannot start {count} threads: raise the limit of processes (ulimit -u, pids of the container) or memory"
        )
    })
}

fn check_address_space() -> anyhow::Result<()> {
    let used = tacho_core::sandbox::address_space().unwrap_or_default();
    let limit = getrlimit(Resource::As).current;
    if let Some(limit) = limit.filter(|limit| *limit < used + NEEDED_BYTES) {
        let megabytes = |bytes: u64| bytes / 1_000_000;
        anyhow::bail!(
            "the address space is limited to {} MB, and tacho needs at least {} MB: raise the limit (ulimit -v)",
            megabytes(limit),
            megabytes(used + NEEDED_BYTES)
        );
    }
    Ok(())
}

/// Checks that the threads of a run can be started. Dependencies panic if a thread cannot be started.
fn start_threads(count: usize) -> io::Result<()> {
    let (hold, held) = mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let start = |_| {
        let held = held.clone();
        std::thread::Builder::new().spawn(move || _ = held.lock().map(|held| held.recv()))
    };
    let started: io::Result<Vec<_>> = (0..count).map(start).collect();
    drop(hold);
    started?.into_iter().for_each(|thread| _ = thread.join());
    Ok(())
}

/// Disables core files: the memory of this process holds API keys.
pub(crate) fn refuse_core_files() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::debug!(%error, "a core file would hold keys");
    }
}
