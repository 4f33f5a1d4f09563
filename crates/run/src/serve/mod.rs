//! `tacho serve`: prepare the requests and their times, send them, compute the record.

mod align;
mod announce;
mod asked;
mod ended;
mod journal;
mod log;
mod lora;
mod more;
mod parts;
mod predicted;
mod prepare;
mod probe;
mod profiler;
mod ranks;
mod ready;
mod record;
mod rehearse;
mod resume;
mod run;
mod scrape;
mod sessions;
mod spot_check;
mod stops;
mod store;
mod warm_cache;
mod workers;

pub use log::{LogPlan, LogStart};
pub use predicted::predicted;
pub(crate) use prepare::{BUILTIN, load_tokenizer};
pub use prepare::{Contact, Prepared, prepare, save_requests, save_workload};
pub use ranks::run_share;
pub use run::run;
pub use sessions::{Dialogue, SessionStart, SessionsPlan};
pub use workers::default_workers;
