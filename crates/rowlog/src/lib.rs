//! The request log: a directory with a manifest, one append-only Arrow IPC stream of rows per segment, and a summary.
//! Complete batches can be read however the writer ended, also by other programs.

mod batch;
mod columns;
mod compact;
mod error;
mod files;
mod joined;
mod log;
mod manifest;
mod packed;
mod parquet;
mod segment;
mod stored;
mod stream;
mod sync;
mod written;

pub use batch::Row;
pub use columns::{COLUMNS, Column, Origin};
pub use error::Error;
pub use joined::{Joined, Span};
pub use log::Log;
pub use manifest::{Manifest, this_host};
pub use packed::{pack, unpack};
pub use parquet::{Columns, Values, write_parquet};
pub use stored::{Batches, Segment, Stored};
pub use stream::Tail;
pub use tacho_core::RequestInfo;
pub use written::Written;
