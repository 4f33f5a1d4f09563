//! Benchmark commands of a sweep: third-party clients as processes, tacho's own in this process.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;

use anyhow::bail;
use tacho_core::{EventSink, RunEvent};
use tacho_report::console;
use tacho_report::json::write_whole;
use tacho_run::experiment::{Bench, Failure, Supervised, option};

use super::command::{is_tacho, serve_args};
use super::ranks::Conductor;
use super::simulator::Simulators;
use crate::commands::serve::{is_failed_rule, run_inside};
use crate::exit::Exit;

pub(crate) struct Commands<'a> {
    supervised: Supervised,
    show_stdout: bool,
    simulators: Option<&'a Simulators>,
    sink: &'a dyn EventSink,
    /// Coordinates the ranks, if there are several.
    ranks: Option<Conductor>,
    /// Whether a run failed its conditions.
    broken: Cell<bool>,
    /// Whether the sweep searches for the maximum load, where overload is expected.
    searches: bool,
}

impl<'a> Commands<'a> {
    pub(crate) fn new(
        supervised: Supervised,
        show_stdout: bool,
        simulators: Option<&'a Simulators>,
        sink: &'a dyn EventSink,
    ) -> Self {
        Commands { supervised, show_stdout, simulators, sink, ranks: None, broken: Cell::new(false), searches: false }
    }

    pub(crate) fn with_ranks(self, ranks: Option<Conductor>) -> Self {
        Commands { ranks, ..self }
    }

    /// Sets whether this is a search for the maximum load.
    pub(crate) fn searching(self, searches: bool) -> Self {
        Commands { searches, ..self }
    }

    /// The exit code of a sweep whose runs all completed.
    pub(crate) fn code(&self) -> Exit {
        if self.broken.get() { Exit::Gate } else { Exit::Done }
    }

    /// Rejects a tacho command that does not parse.
    pub(crate) fn check(&self, command: &[String]) -> anyhow::Result<()> {
        if !is_tacho(command) {
            return Ok(());
        }
        if let Some(given) = option(command, "--sim-profile").filter(|_| self.simulators.is_some()) {
            bail!(
                "--bench-cmd: --sim-profile describes the server: pass --serve-cmd 'tacho sim --profile {given}' instead"
            );
        }
        if let Some(given) = option(command, "--sim-args").filter(|_| self.simulators.is_some()) {
            bail!("--bench-cmd: --sim-args describes the server: pass --serve-cmd 'tacho sim {given}' instead");
        }
        serve_args(command).map(drop)
    }

    fn run_inside(&self, command: &[String], log: Option<&Path>) -> anyhow::Result<()> {
        let args = serve_args(command)?;
        let simulator = self.simulators.and_then(Simulators::current);
        let sink = Inside { outer: self.sink, show_lines: self.show_stdout, open: Cell::new(0) };
        let place = self.ranks.as_ref().map(|ranks| ranks.next(command, simulator.as_deref()));
        let (record, exit) = run_inside(&args, command, simulator.as_deref(), place, &sink)?;
        // A search for the maximum load provokes overload.
        let sought = self.searches && record.caveats.iter().any(is_failed_rule);
        self.broken.set(self.broken.get() || (exit == Exit::Gate && !sought));
        if self.show_stdout {
            console::print(&record, console::Shown::default())?;
        }
        if let Some(log) = log {
            write_whole(log, |out| out.write_all(console::vllm_report(&record).as_bytes()))?;
        }
        Ok(())
    }
}

impl Bench for Commands<'_> {
    fn run(&self, command: &[String], _output: &Path, log: Option<&Path>) -> Result<(), Failure> {
        if !is_tacho(command) {
            return self.supervised.run_logged(command, &[], log);
        }
        self.run_inside(command, log).map_err(|error| Failure::new("RuntimeError", format!("{error:#}")))
    }
}

/// Shows the progress bars of a benchmark inside a sweep, and its lines if requested.
struct Inside<'a> {
    outer: &'a dyn EventSink,
    show_lines: bool,
    open: Cell<usize>,
}

impl EventSink for Inside<'_> {
    fn event(&self, event: RunEvent) {
        match &event {
            RunEvent::Status(_) if !self.show_lines => return,
            RunEvent::Started { .. } | RunEvent::Waiting { .. } => self.open.set(self.open.get() + 1),
            RunEvent::Finished => self.open.set(self.open.get().saturating_sub(1)),
            _ => {}
        }
        self.outer.event(event);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // A failed run leaves its progress bar unfinished.
        for _ in 0..self.open.get() {
            self.outer.event(RunEvent::Finished);
        }
    }
}
