//! `tacho serve`: prepare the requests and their times, send them, compute the record.

mod align;
mod announce;
mod lora;
mod parts;
mod prepare;
mod probe;
mod profiler;
mod ready;
mod record;
mod rehearse;
mod run;
mod scrape;
mod spot_check;
mod workers;

pub(crate) use prepare::{BUILTIN, load_tokenizer, save_requests};
pub use prepare::{Contact, Prepared, prepare, save_workload};
pub use run::run;
pub use workers::default_workers;
