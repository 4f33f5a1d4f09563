//! Commands of an experiment: tacho's own clients and simulators in this process, other programs as processes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::{path::Path, time::Duration};

use anyhow::bail;
use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, RunEvent};
use tacho_metrics::long_run::long_run;
use tacho_report::{console, json::write_text};
use tacho_run::experiment::{Bench, Failure, Host, ProcessHost, Running, Supervised, Tools, option, program_exists};
use tacho_run::serve::KnownReferences;
use tacho_sim::Server;

use super::command::{is_tacho, serve_args, sim_args};
use super::{files::Files, ranks::Conductor};
use crate::commands::serve::{is_failed_rule, result, run_inside};
use crate::{commands::sim::spec, exit::Exit};

pub(crate) struct Commands<'a> {
    processes: ProcessHost,
    simulator: Option<RefCell<Weak<Server>>>,
    sink: &'a dyn EventSink,
    /// Coordinates the ranks, if there are several.
    pub(super) ranks: Option<Conductor>,
    /// Reference outputs of the server that runs now.
    references: KnownReferences,
    /// Warnings of earlier runs, which are not repeated.
    warned: RefCell<BTreeSet<String>>,
    /// Whether a run failed its conditions.
    broken: Cell<bool>,
    /// Whether the sweep searches for the maximum load, where overload is expected.
    pub(super) searches: bool,
}

impl<'a> Commands<'a> {
    pub(crate) fn new(supervised: &Supervised, ready_timeout: u64, simulated: bool, sink: &'a dyn EventSink) -> Self {
        let processes =
            ProcessHost { supervised: supervised.clone(), ready_timeout: Duration::from_secs(ready_timeout) };
        let simulator = simulated.then(RefCell::default);
        let (references, warned, broken) = Default::default();
        Commands { processes, simulator, sink, ranks: None, references, warned, broken, searches: false }
    }

    /// The clients of a search on a server that runs already, or on this simulator.
    pub(in crate::commands) fn searching(
        supervised: &Supervised,
        simulator: Option<&Rc<Server>>,
        sink: &'a dyn EventSink,
    ) -> Self {
        let simulator = simulator.map(|server| RefCell::new(Rc::downgrade(server)));
        Commands { simulator, searches: true, ..Commands::new(supervised, 0, false, sink) }
    }

    pub(crate) fn tools(&'a self, archive: &'a Files) -> Tools<'a> {
        Tools { archive, bench: self, host: self, sink: self.sink }
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
        for (flag, other) in [("--sim-profile", "--profile "), ("--sim-args", "")] {
            if let Some(given) = option(command, flag).filter(|_| self.simulator.is_some()) {
                bail!("--bench-cmd: {flag} describes the server: pass --serve-cmd 'tacho sim {other}{given}' instead");
            }
        }
        serve_args(command).map(drop)
    }

    /// Rejects the command of a simulator that does not parse.
    pub(crate) fn check_server(&self, command: &[String]) -> anyhow::Result<()> {
        if self.simulator.is_some() { spec(&sim_args(command)?).map(drop) } else { Ok(()) }
    }

    /// Rejects a third-party client that does not exist or cannot know the server's address.
    pub(crate) fn check_client(&self, bench_cmd: &[String], serve_cmd: &[String]) -> anyhow::Result<()> {
        let program = &bench_cmd[0];
        if is_tacho(bench_cmd) {
            return Ok(());
        }
        if !program_exists(program) {
            bail!("--bench-cmd: no program {program:?}: check its name and PATH");
        }
        if self.simulator.is_some() && option(serve_cmd, "--port").is_none() {
            bail!(
                "--bench-cmd {program:?} cannot know where the simulator listens: pass --serve-cmd 'tacho sim --port PORT'"
            );
        }
        Ok(())
    }

    fn run_inside(&self, command: &[String], log: Option<&Path>) -> anyhow::Result<Dict> {
        let mut args = serve_args(command)?;
        args.references = self.references.clone();
        let show_lines = self.processes.supervised.show_stdout;
        let simulator = self.simulator.as_ref().and_then(|current| current.borrow().upgrade());
        let sink = Inside { outer: self.sink, warned: &self.warned, show_lines, open: Cell::new(0) };
        let rank = self.ranks.as_ref().map(|ranks| ranks.next(command, simulator.as_deref()));
        let (record, exit) = run_inside(&args, command, simulator.as_deref(), rank, false, &sink)?;
        // A search for the maximum load provokes overload.
        let sought = self.searches && record.caveats.iter().any(is_failed_rule);
        self.broken.set(self.broken.get() || (exit == Exit::Gate && !sought));
        if show_lines {
            console::print(&record, console::Shown::default())?;
        }
        if let Some(log) = log {
            write_text(log, &console::vllm_report(&record))?;
        }
        let mut result = result(&args, &record);
        if let Some(mut own) = result.get("tacho").and_then(Value::as_dict).filter(|_| self.searches).cloned() {
            own.set("long_run", long_run(&record.setup, &record.measured.samples));
            result.set("tacho", own);
        }
        Ok(result)
    }
}

impl Bench for Commands<'_> {
    fn run(&self, command: &[String], _output: &Path, log: Option<&Path>) -> Result<Option<Dict>, Failure> {
        if !is_tacho(command) {
            return self.processes.supervised.run_logged(command, &[], log).map(|()| None);
        }
        self.run_inside(command, log).map(Some).map_err(failure)
    }
}

impl Host for Commands<'_> {
    fn start(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: &Path,
        sink: &dyn EventSink,
    ) -> Result<Running, Failure> {
        self.references.clear();
        let Some(current) = &self.simulator else { return self.processes.start(command, variables, log, sink) };
        let server = Rc::new(start_simulator(command).map_err(failure)?);
        *current.borrow_mut() = Rc::downgrade(&server);
        let address = format!("http://{}", server.addr());
        Ok(Running::inside(server, address))
    }
}

fn start_simulator(command: &[String]) -> anyhow::Result<Server> {
    let mut spec = spec(&sim_args(command)?)?;
    if option(command, "--port").is_none() {
        spec.port = 0;
    }
    Ok(Server::start(spec)?)
}

fn failure(error: anyhow::Error) -> Failure {
    Failure::new("RuntimeError", format!("{error:#}"))
}

/// Shows the progress bars of a benchmark inside a sweep, and its lines if requested.
struct Inside<'a> {
    outer: &'a dyn EventSink,
    warned: &'a RefCell<BTreeSet<String>>,
    show_lines: bool,
    open: Cell<usize>,
}

impl EventSink for Inside<'_> {
    fn event(&self, event: RunEvent) {
        match &event {
            RunEvent::Status(_) if !self.show_lines => return,
            RunEvent::Warning(note) if !self.warned.borrow_mut().insert(note.text().unwrap_or_default().to_owned()) => {
                return;
            }
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
