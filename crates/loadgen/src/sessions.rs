//! The second source of releases: a request goes when its own time has come and the requests it waits for have ended. A
//! session stays on one worker, and what follows from an answer is made ready before its pause is over.

mod graph;
mod plan;
mod under_way;

pub use graph::{Graph, Node};
pub use plan::{Answers, OnFailure, Said, Script, SessionPlan};
pub(crate) use under_way::Sessions;
