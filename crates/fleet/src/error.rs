//! Errors of distributed runs.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--rank {rank} and --ranks {ranks} do not fit together: ranks count from 0")]
    BadRank { rank: usize, ranks: usize },
    #[error("{0}: use fewer processes")]
    TooMany(#[from] tacho_core::bounded::OutOfRange),
    #[error("{given} needs {missing}")]
    MissingFlag { given: &'static str, missing: &'static str },
    #[error("{launcher} set {name} to {value:?}, which is not a number: pass --rank and --ranks")]
    BadVariable { launcher: &'static str, name: String, value: String },
    #[error("{launcher} says that this is rank {rank} but not of how many: pass --ranks")]
    NoSize { launcher: &'static str, rank: usize },
    #[error("{launcher} does not say where rank 0 runs: pass --rendezvous HOST:PORT to all {ranks} ranks")]
    NoRendezvous { launcher: &'static str, ranks: usize },
    #[error("--rendezvous {text:?} is not HOST:PORT")]
    BadRendezvous { text: String },
    #[error(
        "ranks on several machines need a shared secret: set TACHO_RENDEZVOUS_TOKEN, or TACHO_RENDEZVOUS_TOKEN_FILE to \
         the name of a file that holds it"
    )]
    NoToken,
    #[error("the rendezvous token file {path:?} is empty: write the shared secret into it")]
    EmptyToken { path: String },
    #[error("cannot read the rendezvous token from {path:?}")]
    TokenFile { path: String, source: io::Error },
    #[error(
        "ranks on several machines need encryption: pass --rendezvous-cert and --rendezvous-key, or \
         --rendezvous-plaintext to send the token and all rows in the clear"
    )]
    Plaintext,
    #[error("{}: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error("--rendezvous-cert and --rendezvous-key go together: rank 0 reads both, the others pin the certificate")]
    HalfCertificate,
    #[error("rank 0 cannot listen on {address}: pass another --rendezvous")]
    Listen { address: String, source: io::Error },
    #[error("rank {rank} found no rank 0 at {address} within {seconds} s: {reason}")]
    Unreachable { rank: usize, address: String, seconds: u64, reason: String },
    #[error("rank 0 refuses rank {rank}: {reason}")]
    Refused { rank: usize, reason: String },
    #[error("rank {rank} has lost rank 0: {reason}")]
    CoordinatorLost { rank: usize, reason: String },
    #[error("{} of {of} ranks joined within {seconds} s; missing: {missing}", of - count)]
    MissingRanks { count: usize, of: usize, seconds: u64, missing: String },
    #[error("{who}: {reason}")]
    Mismatch { who: String, reason: String },
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Whether the command line or the environment is at fault.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Error::Listen { .. }
                | Error::Unreachable { .. }
                | Error::Refused { .. }
                | Error::CoordinatorLost { .. }
                | Error::MissingRanks { .. }
                | Error::Mismatch { .. }
                | Error::Stopped
        )
    }
}
