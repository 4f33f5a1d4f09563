//! A sweep on several ranks. Rank 0 owns the servers, chooses the points, and keeps the results. The other ranks take
//! part in each run. Rank 0 sends them its command without secrets; each rank has these on its own command line.

use std::sync::Arc;

use anyhow::bail;
use tacho_core::secret::{REDACTED, redact_args};
use tacho_fleet::{Membership, Rendezvous, SweepWorker};
use tacho_run::sweep::SweepPlan;
use tacho_sim::Server;

use super::command::{is_tacho, serve_args};
use crate::commands::serve::ranks::{check, found, share};
use crate::{args::sweep::SweepArgs, exit::Exit, interrupt::Interrupt};

/// This process's membership, if it is one of several ranks.
pub(super) fn membership(args: &SweepArgs) -> anyhow::Result<Option<Membership>> {
    if args.flags.output.dry_run { Ok(None) } else { found(&args.flags.ranks) }
}

pub(crate) struct Conductor {
    member: Membership,
    rendezvous: Arc<Rendezvous>,
}

/// Listens for the other ranks, if there are several.
pub(super) fn conduct(membership: Option<Membership>, plan: &SweepPlan) -> anyhow::Result<Option<Conductor>> {
    let Some(member) = membership else { return Ok(None) };
    if !is_tacho(&plan.bench_cmd) {
        bail!("--bench-cmd {:?}: on several ranks only tacho serve can be swept", plan.bench_cmd.join(" "));
    }
    check(&serve_args(&plan.bench_cmd)?)?;
    let rendezvous = Arc::new(Rendezvous::open(&member)?);
    Ok(Some(Conductor { member, rendezvous }))
}

impl Conductor {
    /// Assigns a run, with the address of rank 0's simulator, to all ranks. Returns rank 0's membership in it.
    pub(super) fn next(&self, command: &[String], simulator: Option<&Server>) -> Membership {
        let mut args = command.to_vec();
        if let Some(server) = simulator {
            args.extend(["--base-url".to_owned(), format!("http://{}", server.addr())]);
            if !command.iter().any(|word| word.starts_with("--tokenizer") || word == "--skip-tokenizer-init") {
                args.extend(["--tokenizer".to_owned(), "gpt2".to_owned()]);
            }
        }
        let run = self.rendezvous.assign(&redact_args(&args));
        self.member.in_run(run, Some(self.rendezvous.clone()))
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.rendezvous.close();
    }
}

/// Runs the sweep of a rank other than 0 until rank 0 has no more runs. A run that fails here has failed on rank 0
/// too.
pub(super) fn follow(member: &Membership, bench_cmd: &[String], interrupt: &Interrupt) -> anyhow::Result<Exit> {
    let gone = || interrupt.stop.draining() || member.is_orphaned();
    let mut worker = SweepWorker::join(member, &gone)?;
    while let Some(assignment) = worker.next(&gone)? {
        let argv = with_secrets(assignment.args, bench_cmd)?;
        let args = serve_args(&argv)?;
        let member = member.in_run(assignment.number, None);
        match share(&args, &member, &argv, interrupt) {
            Ok(Exit::Interrupted) => return Ok(Exit::Interrupted),
            Ok(_) => {}
            Err(error) if worker.is_superseded() => tracing::warn!("rank {}: {error:#}", member.rank),
            Err(error) => return Err(error),
        }
    }
    Ok(Exit::Done)
}

/// Fills in the secrets of a command from this rank's own command line.
fn with_secrets(args: Vec<String>, own: &[String]) -> anyhow::Result<Vec<String>> {
    let redacted = redact_args(own);
    let fill = |(at, word): (usize, String)| match redacted.get(at) {
        Some(hidden) if *hidden == word => Ok(own[at].clone()),
        _ if word.contains(REDACTED) => {
            bail!(
                "rank 0 sends no secrets, and this rank's --bench-cmd has none for {word:?}: pass all ranks the same one"
            )
        }
        _ => Ok(word),
    };
    args.into_iter().enumerate().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn secrets_come_from_the_ranks_own_command() {
        let own = args("tacho serve --header Authorization=sk-1 --model m");
        let sent = redact_args(&[own.clone(), args("--request-rate 4")].concat());
        assert!(!sent.join(" ").contains("sk-1"), "{sent:?}");
        let filled = with_secrets(sent.clone(), &own).unwrap();
        assert_eq!(filled, [own, args("--request-rate 4")].concat());
        assert!(with_secrets(sent, &args("tacho serve --model m")).is_err());
    }
}
