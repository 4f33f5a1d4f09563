//! Command-line errors. Usage errors have argparse's wording, which scripts match. Errors that vLLM detects only
//! during a run are reported here, in one line.

mod refusal;

pub(crate) use tacho_args::{Error as ArgError, UsageError};

pub(crate) use refusal::{Refusal, metric_names};

impl From<Refusal> for ArgError {
    fn from(refusal: Refusal) -> Self {
        ArgError::Refused(Box::new(refusal))
    }
}
