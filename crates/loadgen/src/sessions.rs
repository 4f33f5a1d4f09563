//! Sessions: requests that depend on one another. A request is eligible at its own time and once its predecessors have
//! ended. A session stays on one worker, and the successor of a completion is built before its pause is over.

mod active;
mod graph;
mod load_model;
mod plan;

pub(crate) use active::Sessions;
pub use graph::{Graph, Node};
pub use load_model::LoadModel;
pub use plan::{Completion, Completions, OnFailure, Script, SessionPlan};
