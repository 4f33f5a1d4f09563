//! Everything a person, a file or a CI job reads of a run. Works from finished records, and from events while a run
//! is under way; the only library that prints.

pub mod compare;
pub mod console;
pub mod dashboard;
pub mod describe;
pub mod error;
mod escape;
pub mod fitted;
pub mod hash;
mod headings;
pub mod html;
pub mod json;
pub mod live;
pub mod markdown;
pub mod multi_run;
pub mod multi_turn;
pub mod names;
pub mod offline;
pub mod otlp;
mod out;
mod over;
pub mod plots;
pub mod points;
pub mod pytorch;
pub mod requests;
pub mod results;
pub mod sentence;
mod settings;
mod steady_state;
pub mod structured;
pub mod style;
pub mod sweep_table;
pub mod workbook;

pub use error::Error;
pub use live::{Live, Progress};
pub use out::{Out, out};
