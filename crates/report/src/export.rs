//! Results and requests in formats that other tools read.

pub mod otlp;
pub mod pytorch;
pub mod requests;
