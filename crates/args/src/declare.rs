//! Everything that a file of flags needs: `use tacho_args::declare::*;`.

pub use crate::flag::DefaultValue::{self, Made, Off, Unset};
pub use crate::flag::Kind::{self, *};
pub use crate::flag::{Flag, Group, HELP, MAX_SECONDS, Origin, Reader, Table, group, switch, tacho, vllm};
pub use crate::typed::{FlagValue, FromFlag, FromWord, named, try_named};
pub use crate::values::{Setting, Values};
pub use crate::{flags, rows};
