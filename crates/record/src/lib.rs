//! Records of runs: the record itself, the catalog of metrics by key, and the only code that reads and writes
//! results.

#![warn(missing_docs)]

pub mod bundle;
pub mod error;
pub mod fields;
pub mod groups;
pub mod history;
pub mod intervals;
pub mod kind;
pub mod logged;
pub mod metric;
pub mod multi_run;
pub mod points;
pub mod provenance;
pub mod record;
pub mod restored;
pub mod stored;
pub mod tools;
pub mod zip;

pub use error::Error;
pub use fields::{ResultFields, StoredCaveat};
pub use groups::Group;
pub use intervals::{Estimate, Intervals};
pub use kind::ResultKind;
pub use multi_run::MultiRun;
pub use provenance::{Provenance, ServerFacts};
pub use record::{Measured, PREDICTED_BY, RunRecord};
pub use stored::{StoredRun, WORKLOAD_VERSION};
