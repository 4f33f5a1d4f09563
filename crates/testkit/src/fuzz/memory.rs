//! Peak memory of a piece of work, counted per thread. The only unsafe code here.
#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with counters: the global allocator of test binaries with fuzz targets.
pub struct Counted;

thread_local! {
    /// Bytes that this thread has allocated minus those it has freed; negative if it frees memory of other threads.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note(change: isize) {
    // A thread that is ending has no counters any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + change);
        let _ = PEAK.try_with(|max| max.set(max.get().max(live.get())));
    });
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches two cells and allocates
// nothing.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Runs the work; returns its result and its peak memory on this thread, if the process uses [`Counted`].
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let done = work();
    (done, (PEAK.get() - before).max(0) as usize)
}

pub(super) fn is_counted() -> bool {
    peak(|| std::hint::black_box(Vec::<u8>::with_capacity(4096)).capacity()).1 >= 4096
}
