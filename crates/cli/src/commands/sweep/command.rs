//! A benchmark command of a sweep.

use std::path::Path;

use anyhow::bail;
use tacho_core::secret::redact_words;

use crate::args::help::suggest;
use crate::args::serve::{ServeArgs, TABLE};
use crate::args::shared::tags::ONE_RUN;
use crate::commands::{COMMANDS, values_for};

/// Whether a command calls this program.
pub(crate) fn is_tacho(command: &[String]) -> bool {
    Path::new(&command[0]).file_name().is_some_and(|name| name == "tacho")
}

/// Parses the arguments of a tacho command.
pub(super) fn serve_args(command: &[String]) -> anyhow::Result<ServeArgs> {
    let values = values_for(&TABLE, &command[1..]);
    if let Ok(Some(values)) = &values
        && let Some(flag) = values.first_tagged(ONE_RUN)
    {
        bail!(
            "--bench-cmd: {flag} is for a single run, and here are several: leave it out, and see tacho report for each"
        );
    }
    let args = values.and_then(|values| values.map(ServeArgs::read).transpose());
    match args {
        Ok(Some(args)) => Ok(args),
        Ok(None) => bail!("--bench-cmd {:?}: only tacho serve can be swept", redact_words(command).join(" ")),
        Err(error) => {
            let hint = suggest::hints(COMMANDS, &error).iter().map(|hint| format!(" ({hint})")).collect::<String>();
            bail!("--bench-cmd {:?}: {error}{hint}", redact_words(command).join(" "))
        }
    }
}
