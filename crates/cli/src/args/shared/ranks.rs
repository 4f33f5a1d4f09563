//! Flags of distributed load generation, for all commands that can run on several ranks.

use std::{path::PathBuf, time::Duration};

use tacho_args::declare::*;
use tacho_fleet::{Gather, OnLost, Policy, RankOptions};

use crate::args::shared::tags::{NEEDS_SERVER, ONE_RUN};

pub(crate) static GROUP: Group = group(
    "rank options",
    "rank options",
    "Distributed load generation: the same command, started several times as one run.",
)
.tagged(NEEDS_SERVER);

flags! {
    RankArgs {
        FLAGS [
            rank: Option<i64> = tacho(&["--rank"], Int, "N", Unset, &GROUP,
                "Rank of this process, from 0 (default: from srun, mpirun, torchrun or an indexed Kubernetes Job). All ranks run \
                 the same command; each sends its part of the requests, and rank 0 reports on all.").tagged(ONE_RUN);
            ranks: Option<i64> = tacho(&["--ranks"], Int, "N", Unset, &GROUP,
                "Number of ranks. 1 makes an independent run, whatever started it.");
            rendezvous: Option<String> = tacho(&["--rendezvous"], Str, "HOST:PORT", Unset, &GROUP,
                "Address of rank 0. Not needed with srun, torchrun or on one machine. Ranks on several machines need a secret in \
                 TACHO_RENDEZVOUS_TOKEN or in the file TACHO_RENDEZVOUS_TOKEN_FILE.");
            rendezvous_cert: Option<String> = tacho(&["--rendezvous-cert"], Str, "FILE", Unset, &GROUP,
                "TLS certificate (PEM) for the connections between ranks. All ranks read it and accept no other.");
            rendezvous_key: Option<String> = tacho(&["--rendezvous-key"], Str, "FILE", Unset, &GROUP,
                "Private key (PEM) of the certificate, read by rank 0.");
            rendezvous_plaintext: bool = switch(&["--rendezvous-plaintext"], &GROUP,
                "Allow unencrypted connections between machines. The token and all rows then cross the network in the clear; prefer \
                 --rendezvous-cert and --rendezvous-key.");
            rendezvous_timeout: Duration = tacho(&["--rendezvous-timeout"], Seconds, "SEC", DefaultValue::Float(300.0), &GROUP,
                "Seconds that ranks wait for each other before the run.").positive();
            on_lost_rank: String = tacho(&["--on-lost-rank"], Choice(&["finish", "stop"]), "WHAT", DefaultValue::Str("finish"), &GROUP,
                "What the others do if a rank is lost. The result is saved either way and names what is missing; exit code 1.");
            gather: String = tacho(&["--gather"], Choice(&["stream", "files"]), "HOW", DefaultValue::Str("stream"), &GROUP,
                "How rows reach rank 0. stream: during the run; files: at the end, from each rank's log in a shared directory.");
        ]
    }
}

impl RankArgs {
    /// The options for the rendezvous; a negative number becomes one that no rank has.
    pub(crate) fn options(&self) -> RankOptions {
        let number = |value: Option<i64>| value.map(|value| usize::try_from(value).unwrap_or(usize::MAX));
        RankOptions {
            rank: number(self.rank),
            ranks: number(self.ranks),
            rendezvous: self.rendezvous.clone(),
            certificate: self.rendezvous_cert.as_ref().map(PathBuf::from),
            key: self.rendezvous_key.as_ref().map(PathBuf::from),
            plaintext: self.rendezvous_plaintext,
            policy: Policy {
                timeout: self.rendezvous_timeout,
                on_lost: if self.on_lost_rank == "stop" { OnLost::Stop } else { OnLost::Finish },
                gather: if self.gather == "files" { Gather::Files } else { Gather::Stream },
            },
        }
    }
}
