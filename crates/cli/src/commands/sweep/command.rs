//! The commands of an experiment that call tacho.

use std::path::Path;

use anyhow::{anyhow, bail};
use tacho_args::{Values, flag::Table};
use tacho_core::secret::redact_args;

use crate::args::serve::{ServeArgs, TABLE};
use crate::args::shared::tags::{ONE_RUN, SCREEN};
use crate::args::sim::{self, SimArgs};
use crate::commands::{COMMANDS, values_for};
use crate::{args::error::ArgError, args::help::suggest};

pub(crate) fn is_tacho(command: &[String]) -> bool {
    Path::new(&command[0]).file_name().is_some_and(|name| name == "tacho")
}

pub(super) fn serve_args(command: &[String]) -> anyhow::Result<ServeArgs> {
    let values = tacho_values("--bench-cmd", command, &TABLE, "tacho serve can be swept")?;
    if let Some(flag) = values.first_tagged(ONE_RUN | SCREEN) {
        bail!(
            "--bench-cmd: {flag} is for a single run, and here are several: leave it out, and see tacho report for each"
        );
    }
    ServeArgs::read(values).map_err(|error| invalid("--bench-cmd", command, &error))
}

pub(super) fn sim_args(command: &[String]) -> anyhow::Result<SimArgs> {
    Ok(SimArgs::from(&tacho_values("--serve-cmd", command, &sim::TABLE, "tacho sim is a server")?))
}

/// The arguments of a tacho command; `only` says which command that must be.
fn tacho_values(flag: &str, command: &[String], table: &'static Table, only: &str) -> anyhow::Result<Values> {
    let values = values_for(table, &command[1..]).map_err(|error| invalid(flag, command, &error))?;
    values.ok_or_else(|| anyhow!("{flag} {:?}: only {only}", redact_args(command).join(" ")))
}

fn invalid(flag: &str, command: &[String], error: &ArgError) -> anyhow::Error {
    anyhow!("{flag} {:?}: {error}{}", redact_args(command).join(" "), suggest::advice(COMMANDS, error))
}
