//! What is done with the outputs of a run.

use std::path::PathBuf;

use tacho_client::{BackendKind, EndpointSpec};

use super::grade::GradeRule;

#[derive(Debug, Clone)]
pub struct CheckPlan {
    /// Most distinct requests that have a reference.
    pub requests: usize,
    pub source: ReferenceSource,
}

#[derive(Debug, Clone)]
pub enum ReferenceSource {
    /// The server of the run, one request at a time.
    Server,
    /// Another server, one request at a time.
    Other(Box<EndpointSpec>),
    /// The detailed result of another run with the same requests.
    File(PathBuf),
}

/// How outputs are graded.
#[derive(Debug, Clone)]
pub enum GradePlan {
    Rule(GradeRule),
    /// A command that gets the outputs after the run.
    Command(String),
}

/// Whether a backend's responses are texts.
pub fn can_check(backend: BackendKind) -> bool {
    backend.task() == tacho_core::Task::Generation
}
