//! What is done with the outputs of a run.

use std::sync::{Arc, MutexGuard};
use std::{collections::HashMap, path::PathBuf};
use tacho_core::Mutex;

use tacho_client::{BackendKind, EndpointSpec};

use super::grade::GradeRule;

#[derive(Debug, Clone)]
pub struct CheckPlan {
    /// Most distinct requests that have a reference.
    pub requests: usize,
    pub source: ReferenceSource,
    pub known: KnownReferences,
}

/// The references that earlier runs of an experiment made, by the digest of the request.
#[derive(Debug, Clone, Default)]
pub struct KnownReferences(Arc<Mutex<HashMap<String, KnownReference>>>);

#[derive(Debug)]
pub(super) struct KnownReference {
    pub(super) output: Output,
    /// The second one.
    pub(super) alone: Option<Alone>,
}

/// An output of the server of the run, without load.
#[derive(Debug, Clone)]
pub(super) struct Alone {
    /// Whether it differs from the reference.
    pub(super) differs: bool,
    pub(super) start: Vec<u8>,
}

/// The text of a response and its log-probabilities, if it has any.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) text: Vec<u8>,
    pub(super) logprobs: Vec<u8>,
}

impl KnownReferences {
    /// Forgets all: the server is another one.
    pub fn clear(&self) {
        self.lock().clear();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, KnownReference>> {
        self.0.lock()
    }
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

#[derive(Debug, Clone)]
pub enum GradePlan {
    Rule(GradeRule),
    Command(String),
}

/// Whether a backend's responses are texts.
pub fn can_check(backend: BackendKind) -> bool {
    backend.task() == tacho_core::Task::Generation
}
