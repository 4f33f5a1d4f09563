//! All output of a run for people, files and CI: terminal, HTML pages, plots, JSON and other formats. It is made from
//! finished records, and from events during a run. The only library that prints.

pub mod attribution;
pub mod card;
pub mod compare;
pub mod console;
pub mod dashboard;
mod distinct;
pub mod error;
pub mod export;
mod failures;
pub mod fitted;
mod groups;
pub mod history;
pub mod html;
pub mod inputs;
pub mod json;
pub mod live;
pub mod multi_run;
pub mod multi_turn;
pub mod names;
pub mod offline;
mod out;
mod outputs;
pub mod plots;
pub mod results;
pub mod scenario;
pub mod sentence;
mod series;
mod sessions;
pub mod style;
pub mod tables;
pub mod verdict;

pub use error::Error;
pub use live::{Live, Progress};
pub use out::{Out, out};
