//! `--live`: a thread draws the monitor's state on the whole terminal four times per second and reads keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, sync::Arc, thread::JoinHandle, time::Duration};

use rustix::process::{Signal, kill_current_process_group};

use super::monitor::{Monitor, Snapshot};
use super::screen::{self, View};
use super::tty::{Input, Tty, is_taken, restore};

/// Interval between two frames; also the timeout for keys.
const PERIOD: Duration = Duration::from_millis(250);
/// Ctrl-C as a byte.
const INTERRUPT: u8 = 3;
/// Ctrl-Z as a byte.
const SUSPEND: u8 = 0x1a;
/// Ctrl-\ as a byte.
const QUIT: u8 = 0x1c;

/// The live view; dropping it restores the terminal.
pub struct Tui {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tui {
    /// Takes the terminal of standard error, if there is one. `quit` is called for q and Ctrl-C.
    pub fn start(monitor: Arc<Monitor>, quit: impl Fn() + Send + 'static) -> io::Result<Option<Self>> {
        let colors = crate::style::colors();
        let Some(tty) = Tty::take(colors)? else { return Ok(None) };
        let over = Arc::new(AtomicBool::new(false));
        let mut session = Session { monitor, tty, colors, view: View::default(), frozen: None };
        let ended = over.clone();
        let work = move || {
            while !ended.load(Ordering::Acquire) && is_taken() && session.step(&quit).is_ok() {}
        };
        let thread = std::thread::Builder::new().name("live".into()).spawn(work)?;
        Ok(Some(Tui { over, thread: Some(thread) }))
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        restore();
    }
}

struct Session {
    monitor: Arc<Monitor>,
    tty: Tty,
    colors: bool,
    view: View,
    frozen: Option<Snapshot>,
}

impl Session {
    /// Draws a frame and reacts to a key.
    fn step(&mut self, quit: &impl Fn()) -> io::Result<()> {
        self.monitor.tick();
        let shown = self.frozen.clone().unwrap_or_else(|| self.monitor.snapshot());
        self.view.frozen = self.frozen.is_some();
        self.tty.draw(screen::draw(&shown, self.view, self.tty.size(), self.colors))?;
        match self.tty.input(PERIOD) {
            Input::Key(b'q' | INTERRUPT) => quit(),
            Input::Key(key @ (SUSPEND | QUIT)) => {
                let signal = if key == SUSPEND { Signal::TSTP } else { Signal::QUIT };
                kill_current_process_group(signal)?;
            }
            Input::Key(b'p' | b' ') => self.frozen = if self.frozen.is_some() { None } else { Some(shown) },
            Input::Key(key) => self.view.key(key),
            Input::Nothing => {}
            Input::HungUp => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tty::DeferredStderr;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Run by the test below, on a separate terminal.
    #[test]
    #[ignore = "takes the terminal and panics"]
    fn panics_on_a_taken_terminal() {
        let _tui = Tui::start(Arc::default(), || {}).unwrap().expect("there is a terminal");
        writeln!(DeferredStderr, "deferred message").unwrap();
        std::thread::sleep(2 * PERIOD);
        let _ = std::thread::spawn(|| panic!("forced")).join();
        std::thread::sleep(2 * PERIOD);
        let modes = rustix::termios::tcgetattr(io::stderr()).unwrap();
        eprintln!("echo: {}", modes.local_modes.contains(rustix::termios::LocalModes::ECHO));
    }

    #[test]
    fn a_panic_message_is_on_a_restored_terminal() {
        let this = std::env::current_exe().unwrap();
        let words =
            format!("{} --ignored --exact live::tui::tests::panics_on_a_taken_terminal --nocapture", this.display());
        let mut script = Command::new("timeout");
        script.args(["60", "script", "-qefc", &words, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
        let Ok(output) = script.output() else {
            eprintln!("skipped: there is no program `script` that lends a terminal");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is missing in {text:?}"));
        let left = at("\x1b[?1049l");
        assert!(at("\x1b[?1049h") < left && left < at("deferred message") && left < at("forced"), "{text:?}");
        assert!(text.contains("echo: true"), "{text:?}");
        assert!(!text[left..].contains("\x1b[?2026h"), "nothing is drawn over it: {text:?}");
    }
}
