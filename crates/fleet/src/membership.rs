//! Membership of a process in a distributed run: its rank, where rank 0 listens, and its share of the requests.

use std::{path::PathBuf, sync::Arc, time::Duration};
use tacho_core::bounded::RankCount;

use tacho_core::Secret;

use crate::launcher::{Get, LauncherInfo, seen};
use crate::{Certificate, Error, Rendezvous, token};

/// Default rendezvous ports: above those of well-known services, below the ephemeral range.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

#[derive(Debug, Clone, Default)]
pub struct RankOptions {
    pub rank: Option<usize>,
    pub ranks: Option<usize>,
    pub rendezvous: Option<String>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// `--rendezvous-plaintext`: connections between machines may be unencrypted.
    pub plaintext: bool,
    pub policy: Policy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long ranks wait for one another before the run.
    pub timeout: Duration,
    /// What the other ranks do when a rank is lost.
    pub on_lost: OnLost,
    pub gather: Gather,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { timeout: Duration::from_secs(300), on_lost: OnLost::Finish, gather: Gather::Stream }
    }
}

/// What the other ranks do when a rank is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    Finish,
    Stop,
}

/// How rows reach rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// Over the network, during the run.
    Stream,
    /// Through each rank's log, which rank 0 reads at the end.
    Files,
}

#[derive(Debug, Clone)]
pub struct Membership {
    /// The rank of this process, from 0.
    pub rank: usize,
    pub ranks: usize,
    pub launcher: &'static str,
    pub host: String,
    pub port: u16,
    /// The shared secret; empty only on the loopback address.
    pub(crate) token: Secret,
    /// Encrypts the connections, if set.
    pub(crate) certificate: Option<Certificate>,
    pub policy: Policy,
    /// A contradiction between launchers, for the user.
    pub notice: Option<String>,
    /// Time from SIGTERM to SIGKILL, if the launcher has such a limit.
    pub grace: Option<Duration>,
    /// The launcher's process ID, if a launcher started this process.
    parent: Option<u32>,
    /// Rank 0's open listener, if it outlives a single run.
    pub rendezvous: Option<Arc<Rendezvous>>,
    /// The index of the run in a sweep; 0 for a single run.
    pub run: u64,
}

impl Membership {
    /// The membership of this process; `None` if it runs alone. `parent` distinguishes runs on one machine.
    pub fn find(options: &RankOptions, get: Get<'_>, parent: u32) -> Result<Option<Membership>, Error> {
        let seen = seen(get)?;
        let Some(found) = options.over(seen.first())? else { return Ok(None) };
        let (launcher, rank) = (found.launcher, found.rank);
        let ranks = found.ranks.ok_or(Error::NoSize { launcher, rank })?;
        RankCount::new("--ranks", ranks as u64)?;
        if rank >= ranks {
            return Err(Error::BadRank { rank, ranks });
        }
        if ranks == 1 {
            return Ok(None);
        }
        let (host, port) = options.address(&found, ranks, parent)?;
        let certificate = match (&options.certificate, &options.key) {
            (Some(file), Some(key)) => Some(Certificate { file: file.clone(), key: key.clone() }),
            (None, None) => None,
            _ => return Err(Error::HalfCertificate),
        };
        let token = token::find(get)?;
        if !is_loopback(&host) {
            if token.is_none() {
                return Err(Error::NoToken);
            }
            if certificate.is_none() && !options.plaintext {
                return Err(Error::Plaintext);
            }
        }
        Ok(Some(Membership {
            rank,
            ranks,
            launcher,
            host,
            port,
            token: token.unwrap_or_default(),
            certificate,
            policy: options.policy,
            notice: contradiction(launcher, ranks, &seen),
            grace: found.grace,
            // Ranks that are named by flags may be started from a shell that exits.
            parent: (options.rank.is_none()).then_some(parent),
            rendezvous: None,
            run: 0,
        }))
    }

    /// The same membership in one run of several, for which rank 0 may already have a listener.
    pub fn in_run(&self, run: u64, rendezvous: Option<Arc<Rendezvous>>) -> Membership {
        Membership { run, rendezvous, ..self.clone() }
    }

    /// Rank 0 with its listener open, which lives until [`Membership::release`].
    pub fn listening(self) -> Result<Membership, Error> {
        if self.rank > 0 {
            return Ok(self);
        }
        let rendezvous = Rendezvous::open(&self)?;
        Ok(Membership { rendezvous: Some(Arc::new(rendezvous)), ..self })
    }

    /// Lets the other ranks exit, because everything is saved.
    pub fn release(&self) {
        if let Some(rendezvous) = &self.rendezvous {
            rendezvous.close();
        }
    }

    /// Whether the launcher has died, which should have ended this process first.
    pub fn is_orphaned(&self) -> bool {
        self.parent.is_some_and(|parent| std::os::unix::process::parent_id() != parent)
    }

    /// Number of ranks that send requests: at most as many as requests may be in flight.
    pub fn active(&self, limit: Option<usize>) -> usize {
        self.ranks.min(limit.unwrap_or(self.ranks)).max(1)
    }

    /// The indices of this rank's requests in a workload, which are distributed round robin to the active ranks.
    pub fn share(&self, requests: usize, limit: Option<usize>) -> Vec<usize> {
        let active = self.active(limit);
        if self.rank < active { (self.rank..requests).step_by(active).collect() } else { Vec::new() }
    }

    /// The membership of another rank of the same run.
    pub fn of_rank(&self, rank: usize) -> Membership {
        Membership { rank, ..self.clone() }
    }

    /// This rank's part of a limit on all ranks.
    pub fn limit(&self, limit: usize) -> usize {
        (limit / self.ranks + usize::from(self.rank < limit % self.ranks)).max(1)
    }
}

/// The contradicting settings of another launcher in the environment.
fn contradiction(launcher: &str, ranks: usize, seen: &[LauncherInfo]) -> Option<String> {
    let other = seen.iter().skip(1).find(|other| other.ranks.is_some_and(|count| count != ranks))?;
    let count = other.ranks?;
    Some(format!("{launcher} says {ranks} ranks and {} says {count}: {launcher} wins; --ranks decides", other.launcher))
}

impl RankOptions {
    /// The flags, which override the launcher.
    fn over(&self, found: Option<&LauncherInfo>) -> Result<Option<LauncherInfo>, Error> {
        let flags = |rank, ranks| LauncherInfo {
            launcher: "the command line",
            rank,
            ranks: Some(ranks),
            host: found.and_then(|found| found.host.clone()),
            local: found.is_some_and(|found| found.local),
            identity: found.map(|found| found.identity.clone()).unwrap_or_default(),
            grace: found.and_then(|found| found.grace),
        };
        match (self.rank, self.ranks, found) {
            (Some(rank), Some(ranks), _) => Ok(Some(flags(rank, ranks))),
            (None, Some(ranks), Some(found)) => Ok(Some(LauncherInfo { ranks: Some(ranks), ..found.clone() })),
            (None, Some(1), None) => Ok(None),
            (None, Some(_), None) => Err(Error::MissingFlag { given: "--ranks", missing: "--rank" }),
            (Some(_), None, _) => Err(Error::MissingFlag { given: "--rank", missing: "--ranks" }),
            (None, None, found) => Ok(found.cloned()),
        }
    }

    /// The address that rank 0 listens on.
    fn address(&self, found: &LauncherInfo, ranks: usize, parent: u32) -> Result<(String, u16), Error> {
        if let Some(text) = &self.rendezvous {
            let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
            let (host, port) =
                parts.filter(|(host, _)| !host.is_empty()).ok_or(Error::BadRendezvous { text: text.clone() })?;
            return Ok((host.trim_matches(['[', ']']).to_owned(), port));
        }
        let host = match (&found.host, found.local) {
            (_, true) => "127.0.0.1".to_owned(),
            (Some(host), false) => host.clone(),
            (None, false) => return Err(Error::NoRendezvous { launcher: found.launcher, ranks }),
        };
        // Ranks on one machine share a parent, or have a launcher that names the run.
        let identity = if found.identity.is_empty() { parent.to_string() } else { found.identity.clone() };
        Ok((host, port_of(&identity)))
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A port for a run: equal at all its ranks, most likely different for the next run.
fn port_of(identity: &str) -> u16 {
    // FNV-1a, which is stable across platforms.
    let hash = identity.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (PORTS.start + hash % (PORTS.end - PORTS.start)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(options: &RankOptions, pairs: &[(&str, &str)]) -> Result<Option<Membership>, Error> {
        let get = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Membership::find(options, &get, 77)
    }

    const LOCAL: [(&str, &str); 3] =
        [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];

    #[test]
    fn a_single_process_is_not_a_rank() {
        assert!(find(&RankOptions::default(), &[]).unwrap().is_none());
        let alone = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
        assert!(find(&RankOptions::default(), &alone).unwrap().is_none());
    }

    #[test]
    fn ranks_on_one_machine_use_loopback_without_a_token() {
        let member = find(&RankOptions::default(), &LOCAL).unwrap().unwrap();
        assert_eq!((member.rank, member.ranks, member.host.as_str()), (2, 4, "127.0.0.1"));
        assert!(PORTS.contains(&u32::from(member.port)));
    }

    #[test]
    fn ranks_on_several_machines_need_a_rendezvous_a_token_and_encryption() {
        let spread =
            [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")];
        assert!(matches!(find(&RankOptions::default(), &spread), Err(Error::NoRendezvous { .. })));
        let met = RankOptions { rendezvous: Some("node1:7000".into()), plaintext: true, ..RankOptions::default() };
        assert!(matches!(find(&met, &spread), Err(Error::NoToken)));
        let with_token = [&spread[..], &[("TACHO_RENDEZVOUS_TOKEN", "t")]].concat();
        let encrypted = RankOptions { plaintext: false, ..met.clone() };
        assert!(matches!(find(&encrypted, &with_token), Err(Error::Plaintext)));
        let files = (Some("cert.pem".into()), Some("key.pem".into()));
        let encrypted = RankOptions { certificate: files.0, key: files.1, ..encrypted };
        assert!(find(&encrypted, &with_token).unwrap().is_some());
        let blank = [&spread[..], &[("TACHO_RENDEZVOUS_TOKEN", " \n")]].concat();
        assert!(matches!(find(&met, &blank), Err(Error::NoToken)));
        let member = find(&met, &with_token).unwrap().unwrap();
        assert_eq!((member.host.as_str(), member.port), ("node1", 7000));
        assert!(!format!("{member:?}").contains("\"t\""));
    }

    #[test]
    fn flags_win_over_launchers_and_go_together() {
        let options = RankOptions {
            rank: Some(1),
            ranks: Some(2),
            rendezvous: Some("[::1]:7000".into()),
            ..RankOptions::default()
        };
        let member = find(&options, &LOCAL).unwrap().unwrap();
        assert_eq!((member.rank, member.ranks, member.host.as_str()), (1, 2, "::1"));
        let half = RankOptions { rank: Some(1), ..RankOptions::default() };
        assert!(matches!(find(&half, &[]), Err(Error::MissingFlag { .. })));
        let beyond = RankOptions { rank: Some(2), ranks: Some(2), ..RankOptions::default() };
        assert!(matches!(find(&beyond, &[]), Err(Error::BadRank { .. })));
        let bad = RankOptions { rendezvous: Some("node1".into()), ..RankOptions::default() };
        assert!(matches!(find(&bad, &LOCAL), Err(Error::BadRendezvous { .. })));
    }

    #[test]
    fn a_disagreement_is_named() {
        let nested = [&LOCAL[..], &[("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "1")]].concat();
        let notice = find(&RankOptions::default(), &nested).unwrap().unwrap().notice.unwrap();
        assert!(notice.contains("Open MPI") && notice.contains("srun") && notice.contains("--ranks"), "{notice}");
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        let members = |ranks| {
            (0..ranks).map(move |rank| Membership {
                rank,
                ranks,
                ..find(&RankOptions::default(), &LOCAL).unwrap().unwrap()
            })
        };
        for (ranks, count, limit) in [(2, 5, None), (3, 10, Some(8)), (4, 3, Some(2)), (7, 0, None)] {
            let mut all: Vec<usize> = members(ranks).flat_map(|member| member.share(count, limit)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            if let Some(limit) = limit {
                let active = members(ranks).filter(|member| !member.share(count, Some(limit)).is_empty());
                assert!(active.map(|member| member.limit(limit)).sum::<usize>() <= limit);
            }
        }
        assert_eq!(members(3).map(|member| member.limit(8)).collect::<Vec<_>>(), [3, 3, 2]);
    }
}
