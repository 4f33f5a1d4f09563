//! Values as Python's `repr` prints them: in messages about bad values, and in the argument dump.

pub use tacho_core::json::{quoted, repr};

/// The parts with `, ` between them.
pub fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
