//! Live views of a run: lines with a progress bar, a full-screen view, and a local web page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io::Write, sync::Arc, time::Duration};

use anyhow::Context;
use tacho_core::{EventSink, Mutex, RunEvent};
use tacho_record::RunRecord;
use tacho_report::html::run::{About, write_page};
use tacho_report::live::{DeferredStderr, Monitor, Tui, Watch};
use tacho_report::style::{harmless, harmless_line};
use tacho_report::{Live, Progress, sentence};

use crate::{args::shared::live::LiveArgs, interrupt::guard_terminal};

pub(crate) struct Screen {
    plain: Option<Live>,
    monitor: Option<Arc<Monitor>>,
    tui: Mutex<Option<Tui>>,
    lines: Lines,
    /// Lines to print after the terminal is restored.
    held: Mutex<Vec<String>>,
    over: Arc<AtomicBool>,
    page: Option<Watch>,
}

/// What to do with the lines of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Show them. The report repeats everything that a full-screen view has hidden.
    Shown,
    /// Show them. There is no report: lines hidden by a full-screen view are printed afterwards.
    Kept,
    /// Discard them: they belong to another command.
    Unwanted,
}

impl Screen {
    /// Opens the requested views. `quiet` disables lines and progress bars.
    pub(crate) fn open(live: &LiveArgs, quiet: bool, progress: Progress) -> anyhow::Result<Self> {
        let monitor = live.is_on().then(|| Arc::new(Monitor::default()));
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
        Ok(Screen { plain, monitor, tui, lines: Lines::Shown, held, over, page })
    }

    pub(crate) fn with(mut self, lines: Lines) -> Self {
        self.lines = lines;
        self
    }

    /// Prints lines to standard output, or after the terminal is restored.
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

    /// Hands the report to the page of the live view, which links to it.
    pub(crate) fn link_report(&self, record: &RunRecord) {
        let Some(page) = &self.page else { return };
        let mut report = Vec::new();
        if write_page(record, &About::default(), &mut report).is_ok() {
            page.set_report(String::from_utf8_lossy(&report).into_owned());
        }
    }

    /// Restores the terminal and prints the deferred lines.
    pub(crate) fn close(&self) {
        drop(self.tui.lock().take());
        let held = std::mem::take(&mut *self.held.lock());
        // A closed pipe must not end the run.
        let _ = self.print(&held);
    }

    fn is_whole(&self) -> bool {
        self.tui.lock().is_some()
    }

    fn hold(&self, lines: impl IntoIterator<Item = String>) {
        self.held.lock().extend(lines);
    }

    /// Keeps lines that the full-screen view would hide.
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

fn page(live: &LiveArgs, monitor: Option<&Arc<Monitor>>) -> anyhow::Result<Option<Watch>> {
    let Some((port, monitor)) = live.http.zip(monitor) else { return Ok(None) };
    let watch = Watch::start(port, monitor.clone())
        .with_context(|| format!("--live-http {port}: cannot listen there; leave the port out for a free one"))?;
    let _ = writeln!(std::io::stderr(), "live: {}", watch.url());
    Ok(Some(watch))
}

/// Samples the history for all views.
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

/// Handles Ctrl-C in raw mode, where the key does not raise a signal.
fn interrupt() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}
