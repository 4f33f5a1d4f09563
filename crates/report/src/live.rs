//! What is shown while a run is under way.

mod bar;
mod monitor;
mod reading;
mod screen;
mod tui;
pub mod web;

pub use bar::{Live, Progress};
pub use monitor::{Monitor, Percentiles, Point, Snapshot};
pub use tui::{Aside, Tui, give_back};
