//! A sweep on several ranks. Rank 0 sweeps: it has the servers, chooses the points and keeps the results. The others take
//! part in each of its runs, whose commands they are given.

use std::sync::Arc;

use anyhow::bail;
use tacho_fleet::{Follower, Meeting, Place};
use tacho_run::sweep::SweepPlan;
use tacho_sim::Server;

use super::command::{is_tacho, serve_args};
use crate::args::sweep::SweepArgs;
use crate::commands::serve::ranks::{check, found, share};
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// This process's place among several ranks, if it is one of them.
pub(super) fn place(args: &SweepArgs) -> anyhow::Result<Option<Place>> {
    if args.place.dry_run { Ok(None) } else { found(&args.ranks) }
}

/// Rank 0's side.
pub(crate) struct Conductor {
    place: Place,
    meeting: Arc<Meeting>,
}

/// Listens, where there are several ranks.
pub(super) fn conduct(place: Option<Place>, plan: &SweepPlan) -> anyhow::Result<Option<Conductor>> {
    let Some(place) = place else { return Ok(None) };
    if !is_tacho(&plan.bench_cmd) {
        bail!("--bench-cmd {:?}: on several ranks only tacho serve can be swept", plan.bench_cmd.join(" "));
    }
    check(&serve_args(&plan.bench_cmd)?)?;
    let meeting = Arc::new(Meeting::open(&place)?);
    Ok(Some(Conductor { place, meeting }))
}

impl Conductor {
    /// Calls all ranks to a run; rank 0's place in it. Where the server is a simulator of rank 0's, the others are told its
    /// address.
    pub(super) fn next(&self, command: &[String], simulator: Option<&Server>) -> Place {
        let mut words = command.to_vec();
        if let Some(server) = simulator {
            words.extend(["--base-url".to_owned(), format!("http://{}", server.addr())]);
            if !command.iter().any(|word| word.starts_with("--tokenizer") || word == "--skip-tokenizer-init") {
                words.extend(["--tokenizer".to_owned(), "gpt2".to_owned()]);
            }
        }
        self.place.in_run(self.meeting.order(&words), Some(self.meeting.clone()))
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.meeting.close();
    }
}

/// The sweep of a rank other than 0: run after run, until rank 0 has no more. A run that fails here has failed there.
pub(super) fn follow(place: &Place, interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let gone = || interrupt.stop.draining() || place.is_orphaned();
    let mut follower = Follower::join(place, &gone)?;
    while let Some(order) = follower.next(&gone)? {
        let args = serve_args(&order.words)?;
        let place = place.in_run(order.number, None);
        match share(&args, &place, &order.words, interrupt) {
            Ok(Exit::Interrupted) => return Ok(Exit::Interrupted),
            Ok(_) => {}
            Err(error) if follower.is_superseded() => tracing::warn!("rank {}: {error:#}", place.rank),
            Err(error) => return Err(error),
        }
    }
    Ok(Exit::Done)
}
