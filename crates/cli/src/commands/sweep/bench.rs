//! The benchmark commands of a sweep: those of others as processes, our own inside this program.

use std::cell::Cell;
use std::path::Path;

use anyhow::bail;
use tacho_core::{EventSink, RunEvent};
use tacho_report::console;
use tacho_run::sweep::{Bench, Failure, Supervised, SweepPlan};

use super::simulator::Simulators;
use crate::args::serve::ServeArgs;
use crate::args::{Invocation, parse};
use crate::commands::serve::run_inside;

/// Whether a command calls this program.
pub(super) fn is_tacho(command: &[String]) -> bool {
    Path::new(&command[0]).file_name().is_some_and(|name| name == "tacho")
}

/// Runs client commands.
pub(super) struct Commands<'a> {
    supervised: Supervised,
    show_stdout: bool,
    simulators: Option<&'a Simulators>,
    sink: &'a dyn EventSink,
}

impl<'a> Commands<'a> {
    pub(super) fn new(
        plan: &SweepPlan,
        show_stdout: bool,
        simulators: Option<&'a Simulators>,
        sink: &'a dyn EventSink,
    ) -> Self {
        Commands { supervised: plan.supervised.clone(), show_stdout, simulators, sink }
    }

    /// Refuses a command of ours that cannot be read.
    pub(super) fn check(&self, command: &[String]) -> anyhow::Result<()> {
        if is_tacho(command) {
            serve_args(command)?;
        }
        Ok(())
    }

    fn run_inside(&self, command: &[String]) -> anyhow::Result<()> {
        let args = serve_args(command)?;
        let simulator = self.simulators.and_then(Simulators::current);
        let sink = Inside { outer: self.sink, show_lines: self.show_stdout, open: Cell::new(0) };
        let record = run_inside(&args, simulator.as_deref(), &sink)?;
        if self.show_stdout {
            console::print(&record)?;
        }
        Ok(())
    }
}

impl Bench for Commands<'_> {
    fn run(&self, command: &[String], _output: &Path) -> Result<(), Failure> {
        if !is_tacho(command) {
            return self.supervised.run(command);
        }
        self.run_inside(command).map_err(|error| Failure::new("RuntimeError", format!("{error:#}")))
    }
}

fn serve_args(command: &[String]) -> anyhow::Result<Box<ServeArgs>> {
    match parse(command[1..].iter().map(Into::into)) {
        Ok(Invocation::Serve(args)) => Ok(args),
        Ok(_) => bail!("--bench-cmd {:?}: only tacho serve can be swept", command.join(" ")),
        Err(error) => bail!("--bench-cmd {:?}: {error}", command.join(" ")),
    }
}

/// Runs start-up benchmarks.
pub(super) struct StartupCommand {
    pub(super) supervised: Supervised,
    /// Whether this program stands in for the one named.
    pub(super) by_us: bool,
}

impl Bench for StartupCommand {
    fn run(&self, command: &[String], _output: &Path) -> Result<(), Failure> {
        if !self.by_us {
            return self.supervised.run(command);
        }
        let mut ours = command.to_vec();
        ours[0] = self.supervised.supervisor[0].to_string_lossy().into_owned();
        self.supervised.run(&ours)
    }
}

/// Shows what a benchmark inside a sweep does: its bars, and its lines where they are wanted.
struct Inside<'a> {
    outer: &'a dyn EventSink,
    show_lines: bool,
    /// Bars begun and not yet finished.
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
        // A run that failed half-way leaves its bar behind.
        for _ in 0..self.open.get() {
            self.outer.event(RunEvent::Finished);
        }
    }
}
