//! Runs the binary in a temporary directory.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use tacho_testkit::place::{stderr, stdout};

/// A directory with the golden files, as the recorded command lines expect.
pub(crate) struct Place(tacho_testkit::place::Place);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tacho_testkit::place::Place::new(env!("CARGO_BIN_EXE_tacho")))
    }
}

impl Deref for Place {
    type Target = tacho_testkit::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Checks all items, a few at a time: a command waits more than it computes.
pub(crate) fn each<T: Sync>(items: &[T], check: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(item);
                }
            });
        }
    });
}

/// Results of runs that do not disturb each other, all at once: they wait more than they compute.
pub(crate) fn at_once<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let runs: Vec<_> = items.iter().map(|item| scope.spawn(|| run(item))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}
