//! Memory within a budget.
#![expect(unsafe_code, reason = "an allocator is unsafe to write")]

use std::alloc::{GlobalAlloc, Layout, System};

use super::{LEFT, sleep};

/// An allocator that keeps budgets: the global one of a program that reads what strangers wrote. Without it there is a limit of
/// stack and time alone.
pub struct Budgeted<A = System>(pub A);

fn take(bytes: isize) {
    // A thread that is ending has no budget any more.
    let left = LEFT.try_with(|left| left.get()).ok().flatten();
    let Some(left) = left.map(|left| left - bytes) else { return };
    LEFT.set(Some(left));
    if left < 0 {
        sleep();
    }
}

// SAFETY: every call is handed to the allocator inside as it came; counting touches a cell and allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Budgeted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size() as isize);
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size() as isize);
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        take(-(layout.size() as isize));
        unsafe { self.0.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size as isize - layout.size() as isize);
        unsafe { self.0.realloc(memory, layout, size) }
    }
}
