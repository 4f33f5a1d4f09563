//! What is shown while the run goes on: lines and a bar, the whole screen, a page for a browser on this machine.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tacho_client::watch::{View, Watch};
use tacho_core::{EventSink, RunEvent};
use tacho_report::live::{Monitor, Tui, web};
use tacho_report::{Live, Progress};

use crate::args::live::LiveArgs;

/// All views of a run.
pub(crate) struct Screen {
    plain: Option<Live>,
    monitor: Option<Arc<Monitor>>,
    tui: Mutex<Option<Tui>>,
    over: Arc<AtomicBool>,
    _page: Option<Watch>,
}

impl Screen {
    /// Opens what the arguments ask for. `quiet` is without lines and bars.
    pub(crate) fn open(live: &LiveArgs, quiet: bool, progress: Progress) -> anyhow::Result<Self> {
        let watched = live.screen || live.http.is_some();
        let monitor = watched.then(|| Arc::new(Monitor::default()));
        let over = Arc::new(AtomicBool::new(false));
        let page = page(live, monitor.as_ref())?;
        let tui = match &monitor {
            Some(monitor) if live.screen => Tui::start(monitor.clone(), interrupt).context("--live")?,
            _ => None,
        };
        if let Some(monitor) = &monitor {
            remember(monitor.clone(), over.clone())?;
        }
        let plain = (!(quiet || tui.is_some())).then(|| Live::new(progress));
        Ok(Screen { plain, monitor, tui: Mutex::new(tui), over, _page: page })
    }

    /// Gives the terminal back, so that the report can be printed.
    pub(crate) fn close(&self) {
        drop(self.taken());
    }

    /// The same, and prints what was said meanwhile: where lines are all that there is to read afterwards.
    pub(crate) fn close_with_lines(&self) {
        let tui = self.taken();
        if tui.is_some() {
            drop(tui);
            let said = self.monitor.as_ref().map(|monitor| monitor.snapshot().lines).unwrap_or_default();
            let _ = writeln!(std::io::stdout(), "{}", said.join("\n"));
        }
    }

    fn taken(&self) -> Option<Tui> {
        self.tui.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}

impl EventSink for Screen {
    fn event(&self, event: RunEvent) {
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

/// Keeps the history, whoever looks.
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
