//! Types that all crates of tacho share. No I/O except by [`SpillFile`], [`files`],
//! [`command`] and [`sandbox`], no async, no clock reads except by [`Clock`].

#![warn(missing_docs)]

pub mod base64;
pub mod bounded;
pub mod clock;
pub mod command;
pub mod event;
pub mod files;
pub mod host;
pub mod json;
pub mod labels;
pub mod live;
mod mutex;
pub mod observation;
pub mod outcome;
pub mod outputs;
pub mod packed;
pub mod percent;
pub mod rare;
pub mod reply;
pub mod request;
pub mod rows;
pub mod sandbox;
pub mod secret;
pub mod shard;
pub mod shown;
pub mod spill;
pub mod stage;
pub mod wav;
pub mod yaml;

pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use event::{Counters, EventSink, Note, RunEvent, Work};
pub use host::Host;
pub use labels::{LabelPool, Labels};
pub use mutex::Mutex;
pub use observation::{AudioFormat, Drafts, Media, Observation, ServerTimes, TokenCountSource, Usage};
pub use outcome::{Failure, FailureKind, Outcome};
pub use outputs::{Flaw, Judged, OutputCheck};
pub use reply::{Reply, ToolCall};
pub use request::{Content, Request, Task};
pub use rows::{Fan, Kept, RequestInfo, RowSink, Watcher};
pub use secret::Secret;
pub use shard::Shard;
pub use spill::{SpillFile, SpillList};
pub use stage::StageSpan;
