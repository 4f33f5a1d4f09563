//! Decisions about results: comparisons, regression gates, thresholds, and the search for the highest load that meets
//! its SLOs. Pure functions of records.

#![warn(missing_docs)]

pub mod agreement;
pub mod compare;
pub mod gate;
mod operator;
pub mod outputs;
pub mod search;
pub mod threshold;
pub mod trend;
pub mod verify;
