//! The end of a stack: a thread with a budget sleeps there, and any other ends the process as it did before.
#![expect(unsafe_code, reason = "signals are handled by the system's own calls")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::{is_limited, sleep};

/// What the system sends to a thread that goes beyond its stack.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// What was done before, in the order of the signals.
static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

/// Installs the handler. Every thread of the standard library has a second stack for its handlers.
pub(super) fn watch() {
    BEFORE.get_or_init(|| SIGNALS.map(replace));
}

fn replace(signal: c_int) -> libc::sigaction {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both are plain structures, for which zero is a value; the handler does nothing that one may not do.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = overflowed as Handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const ours, before.as_mut_ptr());
        before.assume_init()
    }
}

extern "C" fn overflowed(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if is_limited() {
        sleep();
    }
    let known = BEFORE.get().and_then(|before| SIGNALS.iter().zip(before).find(|(known, _)| **known == signal));
    let Some((_, before)) = known.filter(|(_, before)| before.sa_sigaction > libc::SIG_IGN) else {
        // SAFETY: what is tried again after this ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    // SAFETY: the handler that was there before ours, with what it would have got.
    unsafe {
        std::mem::transmute::<usize, Handler>(before.sa_sigaction)(signal, info, context);
    }
}
