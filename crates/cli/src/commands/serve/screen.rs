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

use crate::args::serve::ServeArgs;

/// All views of a run.
pub(super) struct Screen {
    plain: Option<Live>,
    monitor: Option<Arc<Monitor>>,
    tui: Mutex<Option<Tui>>,
    over: Arc<AtomicBool>,
    _page: Option<Watch>,
}

impl Screen {
    /// Opens what the arguments ask for.
    pub(super) fn open(args: &ServeArgs) -> anyhow::Result<Self> {
        let watched = args.live.screen || args.live.http.is_some();
        let monitor = watched.then(|| Arc::new(Monitor::default()));
        let over = Arc::new(AtomicBool::new(false));
        let page = page(args, monitor.as_ref())?;
        let tui = match &monitor {
            Some(monitor) if args.live.screen => Tui::start(monitor.clone(), interrupt).context("--live")?,
            _ => None,
        };
        if let Some(monitor) = &monitor {
            remember(monitor.clone(), over.clone())?;
        }
        let quiet = args.own.quiet || args.outputs.owns_stdout() || tui.is_some();
        let progress = if args.report.disable_tqdm { Progress::Hidden } else { Progress::Shown };
        let plain = (!quiet).then(|| Live::new(progress));
        Ok(Screen { plain, monitor, tui: Mutex::new(tui), over, _page: page })
    }

    /// Gives the terminal back, so that the report can be printed.
    pub(super) fn close(&self) {
        drop(self.tui.lock().unwrap_or_else(PoisonError::into_inner).take());
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
fn page(args: &ServeArgs, monitor: Option<&Arc<Monitor>>) -> anyhow::Result<Option<Watch>> {
    let Some((port, monitor)) = args.live.http.zip(monitor) else { return Ok(None) };
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
