//! What is shown while the run goes on: lines and a bar, the whole screen, a page for a browser on this machine.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tacho_client::watch::{View, Watch};
use tacho_core::{EventSink, RunEvent};
use tacho_report::live::{DeferredStderr, Monitor, Tui, web};
use tacho_report::style::{harmless, harmless_line};
use tacho_report::{Live, Progress, sentence};

use crate::args::live::LiveArgs;
use crate::interrupt::guard_terminal;

/// All views of a run.
pub(crate) struct Screen {
    plain: Option<Live>,
    monitor: Option<Arc<Monitor>>,
    tui: Mutex<Option<Tui>>,
    lines: Lines,
    /// What is printed once the terminal is given back.
    held: Mutex<Vec<String>>,
    over: Arc<AtomicBool>,
    _page: Option<Watch>,
}

/// What becomes of the lines that a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// They are shown. A report follows that says all that a whole screen took away.
    Shown,
    /// They are all that there is to read: what a whole screen took away is printed afterwards.
    Kept,
    /// They are another command's.
    Unwanted,
}

impl Screen {
    /// Opens what the arguments ask for. `quiet` is without lines and bars.
    pub(crate) fn open(live: &LiveArgs, quiet: bool, progress: Progress) -> anyhow::Result<Self> {
        let watched = live.screen || live.http.is_some();
        let monitor = watched.then(|| Arc::new(Monitor::default()));
        let over = Arc::new(AtomicBool::new(false));
        let page = page(live, monitor.as_ref())?;
        let tui = match &monitor {
            Some(monitor) if live.screen => {
                guard_terminal().context("--live")?;
                Tui::start(monitor.clone(), interrupt).context("--live")?
            }
            _ => None,
        };
        if let Some(monitor) = &monitor {
            remember(monitor.clone(), over.clone())?;
        }
        let plain = (!(quiet || tui.is_some())).then(|| Live::new(progress));
        let (tui, held) = (Mutex::new(tui), Mutex::default());
        Ok(Screen { plain, monitor, tui, lines: Lines::Shown, held, over, _page: page })
    }

    /// The same, with other lines.
    pub(crate) fn with(mut self, lines: Lines) -> Self {
        self.lines = lines;
        self
    }

    /// Prints lines on standard output, or once the terminal is given back.
    pub(crate) fn print(&self, lines: &[String]) -> std::io::Result<()> {
        if self.is_whole() {
            if let Some(monitor) = &self.monitor {
                lines.iter().for_each(|line| monitor.say(line));
            }
            self.hold(lines.iter().cloned());
            return Ok(());
        }
        let mut out = tacho_report::out();
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        out.flush()
    }

    /// Gives the terminal back, and prints what waited for that.
    pub(crate) fn close(&self) {
        drop(lock(&self.tui).take());
        let held = std::mem::take(&mut *lock(&self.held));
        // A reader that went away is not a reason to end a run.
        let _ = self.print(&held);
    }

    /// Whether the terminal is taken.
    fn is_whole(&self) -> bool {
        lock(&self.tui).is_some()
    }

    fn hold(&self, lines: impl IntoIterator<Item = String>) {
        lock(&self.held).extend(lines);
    }

    /// Keeps what would be gone with the screen.
    fn keep(&self, event: &RunEvent) {
        match event {
            RunEvent::Status(note) if self.lines == Lines::Kept => self.hold([harmless(&sentence::of(note))]),
            RunEvent::Warning(note) => {
                let _ = writeln!(DeferredStderr, "warning: {}", harmless_line(&sentence::of(note)));
            }
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
        self.over.store(true, Ordering::Release);
    }
}

impl EventSink for Screen {
    fn event(&self, event: RunEvent) {
        if self.lines == Lines::Unwanted && matches!(event, RunEvent::Status(_)) {
            return;
        }
        if self.is_whole() {
            self.keep(&event);
        }
        if let Some(monitor) = &self.monitor {
            monitor.event(event.clone());
        }
        if let Some(plain) = &self.plain {
            plain.event(event);
        }
    }
}

/// The page, and where it is.
fn page(live: &LiveArgs, monitor: Option<&Arc<Monitor>>) -> anyhow::Result<Option<Watch>> {
    let Some((port, monitor)) = live.http.zip(monitor) else { return Ok(None) };
    let watch = Watch::start(port, Arc::new(Page(monitor.clone())))
        .with_context(|| format!("--live-http: cannot listen on 127.0.0.1:{port}"))?;
    let _ = writeln!(std::io::stderr(), "live: {}", watch.url());
    Ok(Some(watch))
}

struct Page(Arc<Monitor>);

impl View for Page {
    fn page(&self) -> String {
        web::page()
    }

    fn event(&self) -> String {
        web::event(&self.0.snapshot())
    }

    fn metrics(&self) -> String {
        web::openmetrics(&self.0.snapshot())
    }
}

/// Keeps the history for every view.
fn remember(monitor: Arc<Monitor>, over: Arc<AtomicBool>) -> anyhow::Result<()> {
    let work = move || {
        while !over.load(Ordering::Acquire) {
            monitor.tick();
            std::thread::sleep(Duration::from_millis(250));
        }
    };
    std::thread::Builder::new().name("live-history".into()).spawn(work)?;
    Ok(())
}

/// What Ctrl-C does where the screen is ours and the key is only a key.
fn interrupt() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}
