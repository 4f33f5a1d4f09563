//! The simulator as the server of a sweep: a new in-process instance per server set.

use std::cell::RefCell;
use std::path::Path;
use std::rc::{Rc, Weak};

use anyhow::bail;
use tacho_core::secret::redact_words;
use tacho_run::experiment::{Failure, Host, Resident, Running, option};
use tacho_sim::Server;

use crate::args::help::suggest;
use crate::args::sim::{SimArgs, TABLE};
use crate::commands::sim::spec;
use crate::commands::{COMMANDS, values_for};

/// Starts simulators and tracks the running one.
#[derive(Default)]
pub(crate) struct Simulators {
    current: RefCell<Weak<Server>>,
}

impl Simulators {
    pub(crate) fn current(&self) -> Option<Rc<Server>> {
        self.current.borrow().upgrade()
    }

    /// Rejects a command that does not parse.
    pub(crate) fn check(&self, command: &[String]) -> anyhow::Result<()> {
        spec(&sim_args(command)?).map(drop)
    }

    fn start_one(&self, command: &[String]) -> anyhow::Result<Rc<Server>> {
        let mut spec = spec(&sim_args(command)?)?;
        if option(command, "--port").is_none() {
            spec.port = 0;
        }
        let server = Rc::new(Server::start(spec)?);
        *self.current.borrow_mut() = Rc::downgrade(&server);
        Ok(server)
    }
}

impl Host for Simulators {
    fn start(
        &self,
        command: &[String],
        _variables: &[(String, String)],
        _log: &Path,
    ) -> Result<Box<dyn Running>, Failure> {
        let server = self.start_one(command).map_err(|error| Failure::new("RuntimeError", format!("{error:#}")))?;
        let address = format!("http://{}", server.addr());
        Ok(Box::new(Resident { server, address }))
    }
}

fn sim_args(command: &[String]) -> anyhow::Result<SimArgs> {
    let args = values_for(&TABLE, &command[1..]).map(|values| values.map(|values| SimArgs::from(&values)));
    match args {
        Ok(Some(args)) => Ok(args),
        Ok(None) => bail!("--serve-cmd {:?}: only tacho sim is a server", redact_words(command).join(" ")),
        Err(error) => {
            let hint = suggest::hints(COMMANDS, &error).iter().map(|hint| format!(" ({hint})")).collect::<String>();
            bail!("--serve-cmd {:?}: {error}{hint}", redact_words(command).join(" "))
        }
    }
}
