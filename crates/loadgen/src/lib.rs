//! Schedules, and the event loop that sends requests on schedule and records what happened.
//! Knows no protocol: requests go to a [`Target`].

#![warn(missing_docs)]

mod drive;
mod error;
mod event_loop;
mod feed;
mod run;
pub mod schedule;
mod sessions;
mod start_barrier;
mod stop;
mod supply;
mod target;

pub use drive::Drive;
pub use error::Error;
pub use run::{Driven, MAX_WORKERS, drive, drive_model, drive_sessions};
pub use schedule::{
    ArrivalProcess, Curve, Merged, RampUp, RampUpStrategy, RpsChange, ScheduleSpec, Stage, StageLength, StageLoad,
    Stages, Timeline,
};
pub use sessions::{Completion, Completions, Graph, LoadModel, Node, OnFailure, Script, SessionPlan};
pub use stop::{StopReason, StopSignal};
pub use supply::Supply;
pub use target::{Target, Worker, WorkerStats};
