//! Command-line errors. Usage errors have argparse's wording, which scripts match. Errors that vLLM detects only
//! during a run are reported here, in one line.

use tacho_args::ConfigError;

mod refusal;

pub(crate) use tacho_args::UsageError;

pub(crate) use refusal::{Refusal, metric_names};

/// An invalid command line.
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
    /// The message for standard error, without a trailing newline.
    pub(crate) fn report(&self) -> String {
        match self {
            ArgError::Usage { command, error } => {
                // argparse reports unrecognized arguments by the outermost parser, which is named after the program
                // alone.
                let program = if matches!(error, UsageError::Unrecognized { .. }) { "tacho" } else { command };
                format!("usage: {command} [options]\n{program}: error: {error}")
            }
            other => format!("error: {other}"),
        }
    }
}
