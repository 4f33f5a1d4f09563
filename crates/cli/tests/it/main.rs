//! Black-box tests of the binary: exit codes, streams, files, traffic.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod backend_files;
mod backends;
mod classes;
mod convert;
mod data_guide;
mod docs;
#[path = "../../../workload/tests/fake_hub/mod.rs"]
mod fake_hub;
mod fit;
mod hints;
mod hosts;
mod http2;
mod hub;
mod labels;
mod limits;
mod loads;
mod logs;
mod media;
mod memory;
mod named;
mod own_data;
mod packaging;
mod rank_ends;
mod ranks;
mod recorded;
mod replicas;
mod rescue;
mod result_schema;
mod rust_client;
mod scripted;
mod secrets;
mod secure;
mod serve;
mod sessions;
mod shell;
mod sign_in;
mod signals;
mod simulator;
mod stages;
mod streams;
mod structured;
mod tacho;
mod talk_tables;
mod talks;
mod tokenizers;
