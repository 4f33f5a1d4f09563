//! `--live`: a run on the whole screen. A thread of its own draws four times a second what the monitor knows; the screen
//! is given back whatever ends the program.

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::monitor::Monitor;
use super::screen;

/// Between two pictures; keys are waited for meanwhile.
const PERIOD: Duration = Duration::from_millis(250);

/// The screen while it is ours.
pub struct Tui {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tui {
    /// Takes the screen, where standard error is one. `quit` is called for q and Ctrl-C.
    pub fn start(monitor: Arc<Monitor>, quit: impl Fn() + Send + 'static) -> io::Result<Option<Self>> {
        if !io::stderr().is_terminal() {
            return Ok(None);
        }
        give_back_on_panic();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::Release);
        execute!(io::stderr(), EnterAlternateScreen)?;
        let mut terminal = Terminal::new(CrosstermBackend::new(io::stderr()))?;
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let work = move || {
            let mut frozen = None;
            // A panic elsewhere has given the screen back, and nothing more is drawn over its words.
            while !told.load(Ordering::Acquire) && TAKEN.load(Ordering::Acquire) {
                monitor.tick();
                let shown = frozen.clone().unwrap_or_else(|| monitor.snapshot());
                if draw(&mut terminal, |frame| screen::draw(frame, &shown, frozen.is_some())).is_err() {
                    break;
                }
                match heard() {
                    Heard::Quit => quit(),
                    Heard::Freeze => frozen = if frozen.is_some() { None } else { Some(shown) },
                    Heard::Nothing => {}
                    Heard::HungUp => break,
                }
            }
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
        give_back();
    }
}

fn draw(terminal: &mut Terminal<CrosstermBackend<Stderr>>, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
    terminal.draw(picture).map(drop)
}

enum Heard {
    Nothing,
    Quit,
    Freeze,
    /// The terminal is closed.
    HungUp,
}

/// The next key that means something, if one is pressed soon. Whoever reads keys of a terminal that is closed never comes
/// back, so it is asked first.
fn heard() -> Heard {
    let stderr = io::stderr();
    let mut terminal = [PollFd::new(&stderr, PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: PERIOD.subsec_nanos().into() };
    let ready = rustix::event::poll(&mut terminal, Some(&patience)).unwrap_or(0) > 0;
    let found = terminal[0].revents();
    if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Heard::HungUp;
    }
    if ready && event::poll(Duration::ZERO).unwrap_or(false) { key() } else { Heard::Nothing }
}

fn key() -> Heard {
    let Ok(Event::Key(key)) = event::read() else { return Heard::Nothing };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind != KeyEventKind::Press => Heard::Nothing,
        KeyCode::Char('c') if control => Heard::Quit,
        KeyCode::Char('q') => Heard::Quit,
        KeyCode::Char('p' | ' ') => Heard::Freeze,
        _ => Heard::Nothing,
    }
}

/// Whether the screen is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives the screen back, if it was taken: for whoever ends the program without a farewell.
pub fn give_back() {
    let mut said = said();
    if TAKEN.swap(false, Ordering::AcqRel) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stderr(), LeaveAlternateScreen);
        let _ = io::stderr().write_all(&std::mem::take(&mut *said));
    }
}

/// What was said while the screen was taken, and waits until it can be read.
static SAID: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn said() -> MutexGuard<'static, Vec<u8>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard error for whoever may speak while the screen is taken: the words come once it is given back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aside;

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut said = said();
        match TAKEN.load(Ordering::Acquire) {
            true => said.write(bytes),
            false => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A panic is told on a screen that can be read.
fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Run by the test below, on a terminal of its own.
    #[test]
    #[ignore = "takes the screen and panics"]
    fn panics_on_a_taken_screen() {
        let _tui = Tui::start(Arc::default(), || {}).unwrap().expect("there is a terminal");
        writeln!(Aside, "said meanwhile").unwrap();
        std::thread::sleep(2 * PERIOD);
        let _ = std::thread::spawn(|| panic!("forced")).join();
        std::thread::sleep(2 * PERIOD);
        eprintln!("raw: {}", ratatui::crossterm::terminal::is_raw_mode_enabled().unwrap());
    }

    #[test]
    fn a_panic_is_told_on_a_screen_that_can_be_read() {
        let this = std::env::current_exe().unwrap();
        let words =
            format!("{} --ignored --exact live::tui::tests::panics_on_a_taken_screen --nocapture", this.display());
        let mut script = Command::new("timeout");
        script.args(["60", "script", "-qefc", &words, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
        let Ok(output) = script.output() else {
            eprintln!("skipped: there is no program `script` to lend a terminal");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is missing in {text:?}"));
        let left = at("\x1b[?1049l");
        assert!(at("\x1b[?1049h") < left && left < at("said meanwhile") && left < at("forced"), "{text:?}");
        assert!(text.contains("raw: false"), "{text:?}");
        assert!(!text[left..].contains("elapsed"), "nothing is drawn over it: {text:?}");
    }
}
