//! Everything that a file of flags needs: `use tacho_args::declare::*;`.

pub use crate::flag::Kind::{self, *};
pub use crate::flag::Preset::{self, Made, Off, Unset};
pub use crate::flag::{Flag, Group, HELP, MOST_SECONDS, Origin, Reader, Table, group, own, switch, vllm};
pub use crate::typed::{FromFlag, FromWord, Given, named, try_named};
pub use crate::values::{Setting, Values};
pub use crate::{flags, rows};
