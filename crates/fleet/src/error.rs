//! Why ranks cannot work together.

use std::io;
use std::path::PathBuf;

/// Why ranks cannot work together.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rank without a size, or beyond it.
    #[error("--rank {rank} and --ranks {ranks} do not fit together: ranks count from 0")]
    BadRank {
        /// What was given.
        rank: usize,
        /// Of how many.
        ranks: usize,
    },
    /// Only one of the two flags.
    #[error("{given} needs {missing} beside it")]
    HalfGiven {
        /// The flag that is there.
        given: &'static str,
        /// The flag that is not.
        missing: &'static str,
    },
    /// A launcher's variable is no number.
    #[error("{launcher} set {name} to {value:?}, which is no number: pass --rank and --ranks")]
    BadVariable {
        /// Who set it.
        launcher: &'static str,
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// The launcher does not say how many there are.
    #[error("{launcher} says that this is rank {rank} but not of how many: pass --ranks")]
    NoSize {
        /// Who started this.
        launcher: &'static str,
        /// The rank.
        rank: usize,
    },
    /// Nobody says where rank 0 is.
    #[error("{launcher} does not say where rank 0 runs: pass --rendezvous HOST:PORT to all {ranks} ranks")]
    NoMeeting {
        /// Who started this.
        launcher: &'static str,
        /// How many there are.
        ranks: usize,
    },
    /// Not an address.
    #[error("--rendezvous {text:?} is not HOST:PORT")]
    BadMeeting {
        /// What was given.
        text: String,
    },
    /// Ranks on several machines need a secret.
    #[error(
        "ranks on several machines need a secret that all of them know: set TACHO_RENDEZVOUS_TOKEN, or \
         TACHO_RENDEZVOUS_TOKEN_FILE to the name of a file that holds it"
    )]
    NoToken,
    /// The file of the token cannot be read.
    #[error("cannot read the token from {path:?}")]
    TokenFile {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A certificate or its key cannot be used.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate without its key, or the other way round.
    #[error("--rendezvous-cert and --rendezvous-key go together: rank 0 needs both, the others know it by the first")]
    HalfCertificate,
    /// Rank 0 cannot listen.
    #[error("rank 0 cannot listen on {address}: pass another --rendezvous")]
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Rank 0 was not found in time.
    #[error("rank {rank} found no rank 0 at {address} within {seconds} s: {reason}")]
    NoHost {
        /// This rank.
        rank: usize,
        /// Where it looked.
        address: String,
        /// For how long.
        seconds: u64,
        /// What happened last.
        reason: String,
    },
    /// Rank 0 does not take this rank.
    #[error("rank 0 refuses rank {rank}: {reason}")]
    Refused {
        /// This rank.
        rank: usize,
        /// Why.
        reason: String,
    },
    /// Rank 0 is gone.
    #[error("rank {rank} has lost rank 0: {reason}")]
    HostLost {
        /// This rank.
        rank: usize,
        /// What happened.
        reason: String,
    },
    /// Ranks never came.
    #[error("{} of {of} ranks came within {seconds} s; missing: {missing}", of - count)]
    Missing {
        /// How many are missing.
        count: usize,
        /// Of how many.
        of: usize,
        /// After how long.
        seconds: u64,
        /// Which.
        missing: String,
    },
    /// A rank with other data, flags or version.
    #[error("{who}: {reason}")]
    Mismatch {
        /// The rank and its machine.
        who: String,
        /// In what it differs.
        reason: String,
    },
    /// A stop was asked for.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Whether the command line or the environment is at fault, rather than what happened.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::BadRank { .. }
                | Error::HalfGiven { .. }
                | Error::BadVariable { .. }
                | Error::NoSize { .. }
                | Error::NoMeeting { .. }
                | Error::BadMeeting { .. }
                | Error::NoToken
                | Error::TokenFile { .. }
                | Error::Certificate { .. }
                | Error::HalfCertificate
        )
    }
}
