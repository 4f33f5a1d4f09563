//! Checks before the engine starts, in vLLM's order.

use tacho_core::json::dumps;

use super::{OfflineArgs, OfflineRefusal, WorkerArgs};
use crate::args::error::{ArgError, Refusal, bad_mm_limits};
use crate::args::serve::DatasetFlags;

pub(super) fn refuse_if(holds: bool, refusal: OfflineRefusal) -> Result<(), Refusal> {
    if holds { Err(refusal.into()) } else { Ok(()) }
}

pub(super) fn seed(seed: i64) -> Result<(), Refusal> {
    let allowed = "0 to 4294967295";
    let fits = (0..1 << 32).contains(&seed);
    if fits { Ok(()) } else { Err(Refusal::range("--seed", seed, allowed)) }
}

pub(super) fn worker(args: &WorkerArgs, sim: bool) -> Result<(), Refusal> {
    match (&args.sim_profile, sim) {
        (Some(_), false) => Err(Refusal::Alone { flag: "--sim-profile", other: "the simulated engine" }),
        _ => Ok(()),
    }
}

/// Nsight Systems captures only ranges marked by the profiler.
pub(super) fn nsys(report: Option<&str>, profile: bool) -> Result<(), Refusal> {
    if report.is_some() && !profile { Err(Refusal::Alone { flag: "--nsys", other: "--profile" }) } else { Ok(()) }
}

/// Checks of the commands without `--backend`.
pub(super) fn engine(args: &OfflineArgs, sim: bool, command: &'static str) -> Result<(), ArgError> {
    if sim {
        args.engine.refuse_unknown().map_err(|error| ArgError::Usage { command, error })?;
    }
    worker(&args.worker, sim)?;
    Ok(seed(args.engine.seed)?)
}

/// Media limits must be numbers by modality.
pub(super) fn mm_limits(flags: &DatasetFlags) -> Result<(), Refusal> {
    let limits = &flags.mm_limits;
    let numbers = limits.as_dict().is_some_and(|dict| dict.iter().all(|(_, limit)| limit.as_i64().is_some()));
    if numbers { Ok(()) } else { Err(bad_mm_limits(&dumps(limits))) }
}
