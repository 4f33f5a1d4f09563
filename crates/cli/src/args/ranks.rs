//! Flags of a process that is one of several ranks, for all commands that can be one.

use std::path::PathBuf;
use std::time::Duration;

use tacho_fleet::{Gather, OnLost, Policy, RankOptions};

use super::flag::{Flag, Group, Kind, Preset, own};
use super::typed::typed;

use Kind::{Choice, Int, Seconds, Str, Switch};
use Preset::Unset;

pub(crate) static GROUP: Group = Group {
    title: "rank options",
    vllm_title: "rank options",
    about: "The same command, started several times as one run.",
};

pub(crate) const RANK: Flag = own(
    &["--rank"],
    Int,
    "N",
    Unset,
    &GROUP,
    "Which of several ranks this process is, from 0. Without it, what the launcher says: srun, mpirun, torchrun or an \
     indexed Job of Kubernetes. All ranks run the same command; each sends its share, and rank 0 reports on all.",
);
pub(crate) const RANKS: Flag = own(
    &["--ranks"],
    Int,
    "N",
    Unset,
    &GROUP,
    "How many ranks there are; 1 makes this a run of its own whatever started it.",
);
pub(crate) const RENDEZVOUS: Flag = own(
    &["--rendezvous"],
    Str,
    "HOST:PORT",
    Unset,
    &GROUP,
    "Where rank 0 listens and the others find it. Known without it to srun, torchrun and ranks on one machine. \
     Ranks on several machines need a secret in TACHO_RENDEZVOUS_TOKEN or the file TACHO_RENDEZVOUS_TOKEN_FILE.",
);
pub(crate) const CERTIFICATE: Flag = own(
    &["--rendezvous-cert"],
    Str,
    "FILE",
    Unset,
    &GROUP,
    "Certificate in PEM form that makes the lines between ranks secret. All ranks read it and accept no other.",
);
pub(crate) const KEY: Flag =
    own(&["--rendezvous-key"], Str, "FILE", Unset, &GROUP, "Its key in PEM form, which rank 0 reads.");
pub(crate) const PLAINTEXT: Flag = own(
    &["--rendezvous-plaintext"],
    Switch,
    "",
    Preset::Off,
    &GROUP,
    "Allow unencrypted connections between machines. The token and all rows then cross the network in the clear; prefer \
     --rendezvous-cert and --rendezvous-key.",
);
pub(crate) const TIMEOUT: Flag = own(
    &["--rendezvous-timeout"],
    Seconds,
    "SEC",
    Preset::Float(300.0),
    &GROUP,
    "Seconds that ranks wait for one another before the run.",
)
.positive();
pub(crate) const ON_LOST: Flag = own(
    &["--on-lost-rank"],
    Choice(&["finish", "stop"]),
    "WHAT",
    Preset::Str("finish"),
    &GROUP,
    "What the others do when a rank is lost. The result is saved either way, says who was lost and what is missing, and \
     the exit code is 1.",
);
pub(crate) const GATHER: Flag = own(
    &["--gather"],
    Choice(&["stream", "files"]),
    "HOW",
    Preset::Str("stream"),
    &GROUP,
    "How rows come together. stream: to rank 0 as they come; files: they stay in each rank's log, in a folder that rank 0 \
     sees, and are read at the end.",
);

typed! {
    /// What is said of ranks.
    pub(crate) struct RankArgs {
        pub(crate) rank: Option<i64>,
        pub(crate) ranks: Option<i64>,
        pub(crate) rendezvous: Option<String>,
        pub(crate) rendezvous_cert: Option<String>,
        pub(crate) rendezvous_key: Option<String>,
        pub(crate) rendezvous_plaintext: bool,
        /// Seconds.
        pub(crate) rendezvous_timeout: f64,
        pub(crate) on_lost_rank: String,
        pub(crate) gather: String,
    }
}

impl RankArgs {
    /// The same for the part that makes ranks of processes; a number below 0 is one that no rank has.
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
                timeout: Duration::from_secs_f64(self.rendezvous_timeout),
                on_lost: if self.on_lost_rank == "stop" { OnLost::Stop } else { OnLost::Finish },
                gather: if self.gather == "files" { Gather::Files } else { Gather::Stream },
            },
        }
    }
}
