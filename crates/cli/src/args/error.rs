//! What can be wrong with a command line. Usage errors read as argparse words them, since scripts know those;
//! everything that vLLM finds out later, during a run, is refused here in one line of our own.

use tacho_args::ConfigError;

mod refusal;

pub(crate) use tacho_args::UsageError;

pub(crate) use refusal::{Refusal, metric_names};

/// A command line that cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgError {
    #[error("{error}")]
    Usage { command: &'static str, error: UsageError },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<tacho_args::Error> for ArgError {
    fn from(error: tacho_args::Error) -> Self {
        match error {
            tacho_args::Error::Usage { command, error } => ArgError::Usage { command, error },
            tacho_args::Error::Config(error) => ArgError::Config(error),
            tacho_args::Error::OutOfBounds(error) => error.into(),
        }
    }
}

impl From<tacho_args::OutOfBounds> for ArgError {
    fn from(error: tacho_args::OutOfBounds) -> Self {
        ArgError::Refused(error.into())
    }
}

impl ArgError {
    /// The text for standard error, without a final line end.
    pub(crate) fn report(&self) -> String {
        match self {
            ArgError::Usage { command, error } => {
                // argparse leaves leftovers to the outermost parser, whose name is the program's alone.
                let program = if matches!(error, UsageError::Unrecognized { .. }) { "tacho" } else { command };
                format!("usage: {command} [options]\n{program}: error: {error}")
            }
            other => format!("error: {other}"),
        }
    }
}
