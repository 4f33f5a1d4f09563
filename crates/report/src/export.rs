//! Results and requests in formats of other tools.

pub mod benchmark_report;
pub mod otlp;
pub mod pytorch;
pub mod requests;
