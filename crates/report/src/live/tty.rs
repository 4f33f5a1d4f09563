//! The terminal in raw mode with an alternate screen, restored however the program ends.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs::File, time::Duration};
use tacho_core::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};

use super::cells::Grid;

/// Size of a terminal that does not report its own.
const USUAL_SIZE: (usize, usize) = (80, 24);
/// Largest grid, whatever the terminal reports.
const MAX_SIZE: (usize, usize) = (500, 200);

/// Alternate screen on, cursor off, lines not wrapped.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Marks around a frame for terminals that support synchronized output.
const FRAME: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");

/// The modes of the terminal before it was taken; `None` while it is not.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);
/// Whether the terminal is taken, for callers that must not wait for a lock.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether the whole screen has to be drawn again.
static STALE: AtomicBool = AtomicBool::new(false);
/// Messages written while the terminal is taken.
static DEFERRED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The terminal of standard error, and the source of its keys.
pub(super) struct Tty {
    keys: File,
    shown: Grid,
}

/// A key or the end of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Key(u8),
    /// No key within the time.
    Nothing,
    HungUp,
}

impl Tty {
    /// Takes the terminal; `None` if standard error is not one, or belongs to another process group.
    pub(super) fn take(colors: bool) -> io::Result<Option<Self>> {
        let stderr = io::stderr();
        if !stderr.is_terminal() || !is_foreground() {
            return Ok(None);
        }
        let keys = match io::stdin().is_terminal() {
            true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            false => File::open("/dev/tty")?,
        };
        restore_on_panic();
        let before = tcgetattr(&stderr)?;
        enter(&before)?;
        *SAVED.lock() = Some(before);
        TAKEN.store(true, Ordering::Release);
        Ok(Some(Tty { keys, shown: Grid::new(0, 0, colors) }))
    }

    /// Columns and rows now.
    pub(super) fn size(&self) -> (usize, usize) {
        let known = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (width, height) = known.map_or(USUAL_SIZE, |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        (width.min(MAX_SIZE.0), height.min(MAX_SIZE.1))
    }

    pub(super) fn draw(&mut self, grid: Grid) -> io::Result<()> {
        if STALE.swap(false, Ordering::AcqRel) {
            self.shown = Grid::new(0, 0, false);
        }
        let text = grid.difference(&self.shown);
        self.shown = grid;
        if text.is_empty() {
            return Ok(());
        }
        // A panic elsewhere has restored the terminal: nothing is drawn over its message.
        let saved = SAVED.lock();
        if saved.is_some() { write_all(&format!("{}{text}{}", FRAME.0, FRAME.1)) } else { Ok(()) }
    }

    /// The next key, if one is pressed within `patience`.
    pub(super) fn input(&self, patience: Duration) -> Input {
        let stderr = io::stderr();
        let fds: [BorrowedFd<'_>; 2] = [self.keys.as_fd(), stderr.as_fd()];
        let mut polled =
            [PollFd::from_borrowed_fd(fds[0], PollFlags::IN), PollFd::from_borrowed_fd(fds[1], PollFlags::empty())];
        let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        let _ = poll(&mut polled, Some(&patience));
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if polled.iter().any(|fd| fd.revents().intersects(gone)) {
            return Input::HungUp;
        }
        if !polled[0].revents().contains(PollFlags::IN) {
            return Input::Nothing;
        }
        let mut bytes = [0; 32];
        match io::Read::read(&mut &self.keys, &mut bytes) {
            Ok(0) | Err(_) => Input::HungUp,
            // Arrow keys and the like arrive as several bytes and are ignored.
            Ok(_) if bytes[0] == 0x1b => Input::Nothing,
            Ok(_) => Input::Key(bytes[0]),
        }
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

fn write_all(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

/// Raw mode and the alternate screen, for a terminal that was in the modes `before`.
fn enter(before: &Termios) -> io::Result<()> {
    let mut raw = before.clone();
    raw.make_raw();
    tcsetattr(io::stderr(), OptionalActions::Now, &raw)?;
    write_all(ENTER)
}

fn leave(before: &Termios) {
    let _ = tcsetattr(io::stderr(), OptionalActions::Now, before);
    let _ = write_all(LEAVE);
}

/// Whether the terminal is not for another process group to use.
fn is_foreground() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|owner| owner == rustix::process::getpgrp())
}

pub(super) fn is_taken() -> bool {
    TAKEN.load(Ordering::Acquire)
}

/// Restores the terminal if it was taken, and prints deferred messages. Called on every exit path.
pub fn restore() {
    let Some(before) = SAVED.lock().take() else { return };
    leave(&before);
    release();
}

/// Gives the terminal back while `stop` suspends the process, and takes it again afterwards unless the process then runs in
/// the background. Nothing is drawn meanwhile.
pub fn suspended(stop: impl FnOnce()) {
    let mut saved = SAVED.lock();
    let Some(before) = saved.clone() else { return stop() };
    leave(&before);
    stop();
    if is_foreground() && enter(&before).is_ok() {
        STALE.store(true, Ordering::Release);
    } else {
        *saved = None;
        release();
    }
}

fn release() {
    let mut deferred = DEFERRED.lock();
    TAKEN.store(false, Ordering::Release);
    let _ = io::stderr().write_all(&std::mem::take(&mut *deferred));
}

/// Restores the terminal before a panic message is printed.
fn restore_on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

/// Standard error that defers messages while the terminal is taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeferredStderr;

impl Write for DeferredStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut deferred = DEFERRED.lock();
        match is_taken() {
            true => deferred.write(bytes),
            false => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
