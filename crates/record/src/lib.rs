//! What is kept of a run: its record, the catalog of its metrics by key, and the one place that reads and writes results.

pub mod error;
pub mod fields;
pub mod intervals;
pub mod kind;
pub mod logged;
pub mod multi_run;
pub mod number;
pub mod points;
pub mod provenance;
pub mod record;
pub mod restored;
pub mod stored;

pub use error::Error;
pub use fields::ResultFields;
pub use intervals::{Estimate, Intervals};
pub use kind::ResultKind;
pub use multi_run::MultiRun;
pub use provenance::{Provenance, ServerFacts};
pub use record::{Measured, RunRecord};
pub use stored::StoredRun;
