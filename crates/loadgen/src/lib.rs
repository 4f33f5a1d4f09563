//! When requests are due, and the one loop that sends them on time and records what happened.
//! Knows no protocol: what a request is sent to is a [`Target`].

mod dispatch;
mod error;
mod feed;
pub mod schedule;
mod stop;
mod target;

pub use dispatch::{Drive, Driven, drive};
pub use error::Error;
pub use schedule::{RampUp, RampUpStrategy, RpsChange, ScheduleSpec, Timeline};
pub use stop::StopSignal;
pub use target::{Target, Worker, WorkerStats};
