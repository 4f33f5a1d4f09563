//! Shared flags of `tacho throughput`, `latency`, `startup`, and `mm-processor`.

mod check;
mod dataset;
pub(crate) mod latency;
pub(crate) mod mm_processor;
mod namespace;
pub(super) mod refusal;
pub(crate) mod rows;
pub(crate) mod startup;
pub(crate) mod throughput;
mod throughput_check;

pub(crate) use super::shared::engine::EngineArgs;
pub(crate) use namespace::namespace;
pub(crate) use refusal::OfflineRefusal;
pub(crate) use rows::WorkerArgs;

use tacho_args::Values;

use super::shared::live::LiveArgs;

/// Shared arguments of the offline commands.
#[derive(Debug, Clone)]
pub(crate) struct OfflineArgs {
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    pub(crate) live: LiveArgs,
    pub(crate) values: Values,
}

impl From<&Values> for OfflineArgs {
    fn from(v: &Values) -> Self {
        OfflineArgs { engine: v.into(), worker: v.into(), live: v.into(), values: v.clone() }
    }
}
