//! Fuzzes a reader with mutated valid input: an error or a value, never a panic, an abort, unbounded memory or an
//! endless wait. Each input depends on its number only, so that it can be repeated alone.
//!
//! `TACHO_FUZZ_COUNT` sets the number of inputs per target (a million for a long run), `TACHO_FUZZ_SEED` the sequence,
//! `TACHO_FUZZ_ONLY` the number of a single input to try, `TACHO_FUZZ_THREADS` the number of threads.

mod memory;
mod mutator;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{path::Path, sync::Mutex};

pub use memory::{Counted, peak};
use mutator::Mutator;

/// Inputs of each kind in an ordinary run.
pub const CASES: u64 = 400;
/// Maximum memory for one input: the largest size that a file may claim (a Parquet page states up to 2 GiB, which are
/// reserved and not touched), plus working space.
const MAX_BYTES: usize = (2 << 30) + (256 << 20);
/// Maximum time for one input, in an unoptimized build on a loaded machine.
const MAX_TIME: Duration = Duration::from_secs(60);
/// Inputs that a thread takes at a time.
const BATCH: u64 = 32;
/// Minimum number of inputs for a second thread.
const MIN_PER_THREAD: u64 = 4_000;

pub fn fuzz_count(default: u64) -> u64 {
    number("TACHO_FUZZ_COUNT").unwrap_or(default)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Calls `read` with the valid inputs and with mutations of them, and prints the cost. Panics if the reader panics or
/// needs too much memory, with the number of the input; and if the test binary does not use [`Counted`] as its
/// allocator.
pub fn fuzz(target: &str, good: &[impl AsRef<[u8]>], read: impl Fn(&[u8]) + Sync) {
    let good: Vec<Vec<u8>> = good.iter().map(|one| one.as_ref().to_vec()).collect();
    fuzz_files(target, &good, CASES, |_| {}, |_, bytes| read(bytes));
}

/// Like [`fuzz`], for readers of files: each thread has its own directory, in memory if possible, set up by `prepare`.
/// Panics as [`fuzz`], and if the directory cannot be created.
pub fn fuzz_files(
    target: &str,
    good: &[Vec<u8>],
    default: u64,
    prepare: impl Fn(&Path) + Sync,
    read: impl Fn(&Path, &[u8]) + Sync,
) {
    assert!(memory::is_counted(), "a fuzz target needs `#[global_allocator] static COUNTED: Counted = Counted;`");
    let work = Work::new(good, fuzz_count(default));
    let lane = |run: &Lane| {
        let directory = directory();
        prepare(directory.path());
        work.share(run, &|bytes| read(directory.path(), bytes));
    };
    let begun = Instant::now();
    let lanes: Vec<Lane> = (0..work.threads()).map(|_| Lane::default()).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| watch(target, &lanes, &over));
        let threads: Vec<_> = lanes.iter().map(|run| scope.spawn(|| lane(run))).collect();
        let ends: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
    });
    work.print_cost(target, begun.elapsed());
}

fn directory() -> tempfile::TempDir {
    let in_memory = Path::new("/dev/shm");
    let made = if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a directory can be made")
}

/// The inputs of a target, distributed in batches.
struct Work<'g> {
    good: &'g [Vec<u8>],
    seed: u64,
    only: Option<u64>,
    count: u64,
    next: AtomicU64,
    /// The largest and the slowest input: its cost and its number.
    worst: Mutex<[(u64, u64); 2]>,
}

impl<'g> Work<'g> {
    fn new(good: &'g [Vec<u8>], count: u64) -> Self {
        let seed = number("TACHO_FUZZ_SEED").unwrap_or(1);
        let only = number("TACHO_FUZZ_ONLY");
        Work { good, seed, only, count: count + good.len() as u64, next: AtomicU64::new(0), worst: Mutex::default() }
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = number("TACHO_FUZZ_THREADS").map_or(cores, |threads| (threads as usize).max(1));
        if self.only.is_some() || self.count < MIN_PER_THREAD { 1 } else { wanted }
    }

    fn share(&self, run: &Lane, read: &dyn Fn(&[u8])) {
        if let Some(only) = self.only {
            return self.one(only, run, read);
        }
        loop {
            let start = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if start >= self.count {
                return;
            }
            (start..self.count.min(start + BATCH)).for_each(|input| self.one(input, run, read));
        }
    }

    fn one(&self, input: u64, run: &Lane, read: &dyn Fn(&[u8])) {
        let bytes = match self.good.get(input as usize) {
            Some(whole) => whole.clone(),
            None => Mutator::new(self.seed, input).out_of(self.good),
        };
        run.begin(input);
        let begun = Instant::now();
        let (read, max) = memory::peak(|| catch_unwind(AssertUnwindSafe(|| read(&bytes))));
        let took = begun.elapsed();
        run.end();
        if let Err(panic) = read {
            say(&format!(
                "fuzz: input {input} of {} bytes: {}",
                bytes.len(),
                bytes[..bytes.len().min(2000)].escape_ascii()
            ));
            resume_unwind(panic);
        }
        assert!(max <= MAX_BYTES, "input {input} of {} bytes made the reader take {max} bytes", bytes.len());
        let mut worst = self.worst.lock().expect("the lock is not poisoned");
        worst[0] = worst[0].max((max as u64, input));
        worst[1] = worst[1].max((took.as_micros() as u64, input));
    }

    fn print_cost(&self, target: &str, took: Duration) {
        let [(bytes, largest), (micros, slowest)] = *self.worst.lock().expect("the lock is not poisoned");
        let (mib, ms, count, seconds) = (bytes as f64 / 1048576.0, micros as f64 / 1e3, self.count, took.as_secs_f64());
        say(&format!(
            "fuzz {target:<28} {count:>8} inputs {seconds:>7.1} s   most {mib:>7.1} MiB (input {largest}), {ms:>8.1} ms \
             (input {slowest})"
        ));
    }
}

/// The current input of a thread, for the watchdog.
#[derive(Default)]
struct Lane {
    at: Mutex<Option<(u64, Instant)>>,
}

impl Lane {
    fn begin(&self, input: u64) {
        *self.at.lock().expect("the lock is not poisoned") = Some((input, Instant::now()));
    }

    fn end(&self) {
        *self.at.lock().expect("the lock is not poisoned") = None;
    }

    fn overdue(&self) -> Option<u64> {
        let at = *self.at.lock().expect("the lock is not poisoned");
        at.filter(|(_, begun)| begun.elapsed() > MAX_TIME).map(|(input, _)| input)
    }
}

/// Ends the process if a reader hangs: a thread cannot be ended otherwise.
fn watch(target: &str, lanes: &[Lane], over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        if let Some(input) = lanes.iter().find_map(Lane::overdue) {
            say(&format!("fuzz {target}: input {input} has taken {} s and goes on", MAX_TIME.as_secs()));
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[expect(clippy::print_stdout, reason = "what a test tells")]
fn say(line: &str) {
    println!("{line}");
}
