//! Calls of the server that a run can do without.

use std::{sync::mpsc, time::Duration};

use tacho_core::{EventSink, RunEvent};

/// A call that takes longer is announced.
const SLOW: Duration = Duration::from_secs(1);

/// The result of a call of `path`; says what is waited for if that takes long.
pub(crate) fn side_call<T: Send>(path: &str, sink: &dyn EventSink, call: impl Fn() -> T + Sync) -> T {
    let call = &call;
    std::thread::scope(|scope| {
        let (done, waiting) = mpsc::channel();
        let work = move || {
            let result = call();
            _ = done.send(());
            result
        };
        let Ok(working) = std::thread::Builder::new().spawn_scoped(scope, work) else { return call() };
        if waiting.recv_timeout(SLOW) == Err(mpsc::RecvTimeoutError::Timeout) {
            sink.event(RunEvent::status(format!("waiting for the server's {path}, a few seconds at most")));
        }
        working.join().expect("a call does not panic")
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Heard(Cell<usize>);

    impl EventSink for Heard {
        fn event(&self, _event: RunEvent) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn only_a_slow_call_is_announced() {
        let heard = Heard::default();
        let after = |time: Duration| side_call("/metrics", &heard, || std::thread::sleep(time));
        after(Duration::ZERO);
        assert_eq!(heard.0.get(), 0);
        after(SLOW * 2);
        assert_eq!(heard.0.get(), 1);
    }
}
