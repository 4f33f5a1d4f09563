//! Runs of `tacho serve` against a scripted server: the record, and the calls that the server saw.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod bench;
mod ends;
mod logs;
mod paces;
mod profiler;
mod replicas;
mod workloads;
