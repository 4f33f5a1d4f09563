//! Work on what strangers wrote, within a budget of memory, stack and time. A template may ask for more than there is, and memory or
//! stack that cannot be had ends the process: a thread that asks for more than its budget is put to sleep for good instead,
//! before it gets it, and the caller gets an error.

mod allocator;
mod overflow;

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use crate::guard::guarded;
pub use allocator::Budgeted;

/// What a piece of work may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
}

/// Why the work has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    /// Of the heap or the stack.
    Memory,
    Time,
    /// It panicked.
    Broken,
}

thread_local! {
    /// What is left to this thread; nothing where it has no budget.
    static LEFT: Cell<Option<isize>> = const { Cell::new(None) };
    /// What says that it asked for more.
    static SPENT: Cell<*const AtomicBool> = const { Cell::new(ptr::null()) };
}

/// How often it is looked whether a thread sleeps.
const LOOK: Duration = Duration::from_millis(5);
/// As large as that of the main thread.
const STACK: usize = 8 << 20;

/// A thread that works within budgets.
struct Helper {
    work: Sender<Box<dyn FnOnce() + Send>>,
}

thread_local! {
    /// The helper of this thread, unless it is busy.
    static HELPER: Cell<Option<Helper>> = const { Cell::new(None) };
}

impl Helper {
    fn start() -> Result<Helper, Spent> {
        overflow::watch();
        let (work, waiting) = channel::<Box<dyn FnOnce() + Send>>();
        let serve = move || waiting.into_iter().for_each(|work| work());
        thread::Builder::new().stack_size(STACK).spawn(serve).map_err(|_| Spent::Memory)?;
        Ok(Helper { work })
    }
}

impl Budget {
    /// Does the work on a helper thread, which the next work of the same caller reuses.
    pub(crate) fn spend<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Spent> {
        let helper = HELPER.take().map_or_else(Helper::start, Ok)?;
        let made = self.spend_on(&helper, work);
        // A thread that exceeded its budget sleeps, or is still busy: it is abandoned.
        if matches!(made, Ok(_) | Err(Spent::Broken)) {
            HELPER.set(Some(helper));
        }
        made
    }

    fn spend_on<T: Send + 'static>(
        self,
        helper: &Helper,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Spent> {
        let spent = Arc::new(AtomicBool::new(false));
        let (give, take) = sync_channel(1);
        let seen = spent.clone();
        let limited = move || {
            SPENT.set(Arc::as_ptr(&seen));
            LEFT.set(Some(self.bytes as isize));
            let made = guarded(work);
            LEFT.set(None);
            SPENT.set(ptr::null());
            let _ = give.send(made);
        };
        helper.work.send(Box::new(limited)).map_err(|_| Spent::Broken)?;
        for _ in 0..self.time.div_duration_f64(LOOK) as u64 {
            match take.recv_timeout(LOOK) {
                Ok(made) => return made.ok_or(Spent::Broken),
                Err(RecvTimeoutError::Disconnected) => return Err(Spent::Broken),
                Err(RecvTimeoutError::Timeout) if spent.load(Ordering::Acquire) => return Err(Spent::Memory),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Err(Spent::Time)
    }
}

/// Whether this thread works within a budget.
fn is_limited() -> bool {
    // A thread that is ending has none any more.
    LEFT.try_with(Cell::get).ok().flatten().is_some()
}

/// Ends what this thread does without unwinding, which neither an allocator nor a signal's handler may. Allocates nothing.
fn sleep() -> ! {
    LEFT.set(None);
    let spent = SPENT.get();
    #[expect(unsafe_code, reason = "a signal's handler has no other way to it")]
    // SAFETY: it is set with a budget alone, to what the thread's own `Arc` holds, which never ends from here on.
    if let Some(spent) = unsafe { spent.as_ref() } {
        spent.store(true, Ordering::Release);
    }
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Budget = Budget { bytes: 1 << 20, time: Duration::from_secs(20) };

    #[test]
    fn work_within_its_budget_is_done() {
        assert_eq!(SMALL.spend(|| vec![1_u8; 1000].len()), Ok(1000));
        // What is given back counts no more.
        assert_eq!(SMALL.spend(|| (0..100).map(|_| vec![1_u8; 100_000].len()).sum::<usize>()), Ok(10_000_000));
        assert_eq!(SMALL.spend(|| -> u8 { panic!("broken") }), Err(Spent::Broken));
    }

    #[test]
    fn what_asks_for_more_is_stopped_before_it_gets_it() {
        assert_eq!(SMALL.spend(|| vec![1_u8; 2 << 20].len()), Err(Spent::Memory));
        assert_eq!(SMALL.spend(|| String::with_capacity(usize::MAX >> 2).len()), Err(Spent::Memory));
        let doubled = || (0..60).fold("ab".to_owned(), |text, _| text.clone() + &text).len();
        assert_eq!(SMALL.spend(doubled), Err(Spent::Memory));
        // Others are not held up by a thread that sleeps.
        assert_eq!(SMALL.spend(|| vec![1_u8; 1000].len()), Ok(1000));
    }

    #[test]
    fn what_goes_down_too_far_is_stopped() {
        fn down(depth: u64) -> u64 {
            if std::hint::black_box(depth) == u64::MAX { 0 } else { 1 + std::hint::black_box(down(depth + 1)) }
        }
        assert_eq!(SMALL.spend(|| down(0)), Err(Spent::Memory));
        assert_eq!(SMALL.spend(|| 1), Ok(1));
    }

    #[test]
    fn what_takes_too_long_is_left() {
        let brief = Budget { time: Duration::from_millis(30), ..SMALL };
        assert_eq!(brief.spend(|| thread::sleep(Duration::from_secs(5))), Err(Spent::Time));
    }
}
