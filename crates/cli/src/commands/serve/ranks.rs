//! Ranks of a distributed run: rank and server of this process, and the run of ranks other than 0.

use tacho_fleet::{Gather, Membership};
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, LogStart, prepare, run_share};

use super::{log, plan, simulator};
use crate::exit::{Exit, Misused};
use crate::{args::serve::ServeArgs, args::shared::ranks::RankArgs, interrupt::Interrupt};

/// This process's membership, if it is one of several ranks.
pub(super) fn membership(args: &ServeArgs) -> anyhow::Result<Option<Membership>> {
    if args.tacho.dry_run {
        return Ok(None);
    }
    let membership = found(&args.ranks)?;
    if let Some(membership) = &membership {
        check(args)?;
        if let Some((limit, stage)) = args.stages.smallest_limit().filter(|(limit, _)| *limit < membership.ranks) {
            let ranks = membership.ranks;
            return misused(format!(
                "--stages: stage {stage:?} has a concurrency limit of {limit}, and there are {ranks} ranks: use at least {ranks}"
            ));
        }
    }
    Ok(membership)
}

pub(in crate::commands) fn found(args: &RankArgs) -> anyhow::Result<Option<Membership>> {
    let get = |name: &str| std::env::var(name).ok();
    Ok(Membership::find(&args.options(), &get, std::os::unix::process::parent_id())?)
}

/// Rejects arguments that several ranks do not support.
pub(in crate::commands) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    if args.tacho.resume.is_some() {
        return misused("--resume goes on with one process: start it without a launcher, or with --ranks 1");
    }
    if args.repeats.runs > 1 {
        return misused(
            "--num-runs repeats a run of one process: call all ranks again for each run, or use tacho sweep",
        );
    }
    if args.tacho.cache_salt.as_deref() == Some("random") {
        return misused("--cache-salt random would be another at each rank: pass the same salt to all");
    }
    if args.ranks.gather == "files" {
        if args.tacho.no_log {
            return misused("--gather files reads what ranks log: it does not go with --no-log");
        }
        let stops = &args.stops;
        if stops.until.is_some() || stops.stop_on_failures.is_some() || stops.stop_on_overload {
            return misused(
                "--gather files keeps rows away from rank 0 until the end: rules that look at them need --gather stream",
            );
        }
    }
    Ok(())
}

fn misused<T>(text: impl Into<String>) -> anyhow::Result<T> {
    Err(Misused(text.into()).into())
}

/// Runs the share of a rank other than 0. It prints nothing: rank 0 reports for all.
pub(in crate::commands) fn share(
    args: &ServeArgs,
    membership: &Membership,
    command: &[String],
    interrupt: &Interrupt,
) -> anyhow::Result<Exit> {
    let simulator = simulator::start(args)?;
    let mut log = log::plan(args, command);
    if let Some(log) = log.as_mut().filter(|_| membership.policy.gather == Gather::Files) {
        (log.start, log.required) = (LogStart::AtOnce, true);
    }
    let mut plan = ServePlan { log, ranks: Some(membership.clone()), ..plan::of(args, simulator.as_ref())? };
    if !args.tacho.sim {
        // Rank 0 has already checked and warmed up the server.
        plan.traffic.ready_timeout = std::time::Duration::ZERO;
        (plan.traffic.warmups, plan.traffic.reset_caches) = (0, false);
    }
    plan.traffic.profile = false;
    let prepared = prepare(&plan, Contact::Server, &())?;
    interrupt.measuring();
    let asked = run_share(&plan, prepared, &interrupt.stop, &())?;
    Ok(if asked { Exit::Interrupted } else { Exit::Done })
}
