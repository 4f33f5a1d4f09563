//! Declaration, parsing, and help of command lines by the rules of Python's argparse as `vllm bench` uses it. No Rust
//! crate follows these rules closely enough. One row of a table is one flag: the parser, the typed field, help,
//! completions, manual pages, and the names in files and environment variables derive from it. This crate does not
//! depend on the meaning of any flag or command.

pub mod command;
pub mod complete;
pub mod config;
pub mod declare;
mod entry;
mod error;
pub mod flag;
pub mod grammar;
pub mod help;
pub mod man;
pub mod near;
pub mod number;
pub mod reference;
pub mod repr;
pub mod shown;
mod tokens;
pub mod typed;
pub mod values;
pub mod variables;

pub use error::{ArgumentError, ConfigError, Error, UsageError};
pub use grammar::Parsed;
pub use values::Values;
