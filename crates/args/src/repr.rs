//! Values in the format of Python's `repr`, for error messages and the argument dump.

pub use tacho_core::json::{quoted, repr};

pub fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
