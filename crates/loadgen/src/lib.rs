//! When requests are due, and the one loop that sends them on time and records what happened.
//! Knows no protocol: what a request is sent to is a [`Target`].

mod dispatch;
mod drive;
mod error;
mod feed;
mod gate;
pub mod schedule;
mod sessions;
mod stop;
mod supply;
mod target;
mod turn;

pub use dispatch::{Driven, MOST_WORKERS, drive, drive_sessions};
pub use drive::Drive;
pub use error::Error;
pub use schedule::{Pace, RampUp, RampUpStrategy, RpsChange, ScheduleSpec, Timeline};
pub use sessions::{Answers, Graph, Node, OnFailure, Said, Script, SessionPlan};
pub use stop::{StopReason, StopSignal};
pub use supply::Supply;
pub use target::{Target, Worker, WorkerStats};
