//! Runs parsers of external formats so that a panic on a broken file does not end the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, mpsc};
use std::{cell::Cell, thread, time::Duration};

/// The panic payload of work that cannot continue and whose caller expects no failure: a one-line message.
#[derive(Debug)]
pub struct Aborted(pub String);

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The parser's result, or `None` if it panicked; nothing is printed.
pub fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let made = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(outer);
    made.ok()
}

/// As large as the main thread's stack.
const STACK: usize = 8 << 20;

/// Runs the parser on another thread, which is abandoned if it takes longer than `limit`.
pub(crate) fn guarded_within<T: Send + 'static>(
    limit: Duration,
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (made, wait) = mpsc::channel();
    let work = move || {
        let _ = made.send(guarded(read));
    };
    thread::Builder::new().stack_size(STACK).spawn(work).ok()?;
    wait.recv_timeout(limit).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_nothing() {
        assert_eq!(guarded(|| 1), Some(1));
        assert_eq!(guarded(|| -> i32 { panic!("broken") }), None);
        assert!(!GUARDED.get());
    }

    #[test]
    fn what_never_ends_is_left_behind() {
        assert_eq!(guarded_within(Duration::from_secs(60), || 1), Some(1));
        assert_eq!(guarded_within(Duration::from_secs(60), || -> i32 { panic!("broken") }), None);
        let never = || loop {
            thread::park();
        };
        assert_eq!(guarded_within::<()>(Duration::from_millis(1), never), None);
    }
}
