//! Live views of a running benchmark: lines and bars, the whole terminal, a page for a browser.

mod bar;
mod cells;
mod monitor;
mod reading;
mod screen;
mod server;
mod tty;
mod tui;
mod web;

pub use bar::{Live, Progress};
pub use monitor::{Monitor, Percentiles, Point, Snapshot};
pub(crate) use screen::charts_of_run;
pub use screen::{Page, View, text};
pub use server::Watch;
pub use tty::{DeferredStderr, restore, suspended};
pub use tui::Tui;
