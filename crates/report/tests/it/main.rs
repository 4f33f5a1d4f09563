//! Recorded runs of vLLM: the same outcomes must give the same report and the same result file. Also tests of tacho's
//! own block after vLLM's report.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod browser;
mod figures;
mod file_names;
mod fuzz;
mod given;
mod live;
mod offline;
mod otlp;
mod outcomes;
mod own_block;
mod page;
mod pytorch;
mod saved_runs;
mod timeline;
mod whole_runs;
