//! A process's place among the ranks of a run: which it is, where they meet, what share is its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tacho_core::Secret;

use crate::launcher::{Get, Ranked, seen};
use crate::{Certificate, Error, Meeting, token};

/// Ports that meetings are on unless one is named: beyond those of well-known services, below those the system hands out.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// What the user says of ranks.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `--rank`.
    pub rank: Option<usize>,
    /// `--ranks`.
    pub ranks: Option<usize>,
    /// `--rendezvous`.
    pub rendezvous: Option<String>,
    /// `--rendezvous-cert`.
    pub certificate: Option<PathBuf>,
    /// `--rendezvous-key`.
    pub key: Option<PathBuf>,
    /// What all ranks agree on.
    pub terms: Terms,
}

/// How ranks deal with one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long they wait for one another before the run.
    pub patience: Duration,
    /// What becomes of the run when one is lost.
    pub on_lost: OnLost,
    /// How rows come together.
    pub gather: Gather,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { patience: Duration::from_secs(300), on_lost: OnLost::Finish, gather: Gather::Stream }
    }
}

/// What becomes of a run when a rank is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLost {
    /// The others finish their shares.
    Finish,
    /// They stop.
    Stop,
}

/// How rows come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// They are sent to rank 0 as they come.
    Stream,
    /// They stay in each rank's log, which rank 0 reads at the end.
    Files,
}

/// One of several ranks.
#[derive(Debug, Clone)]
pub struct Place {
    /// Which it is.
    pub rank: usize,
    /// Of how many.
    pub ranks: usize,
    /// Who started it.
    pub launcher: &'static str,
    /// Where rank 0 listens.
    pub host: String,
    /// On which port.
    pub port: u16,
    /// What all ranks know.
    pub(crate) token: Secret,
    /// What makes the connections secret, if anything.
    pub(crate) certificate: Option<Certificate>,
    /// How ranks deal with one another.
    pub terms: Terms,
    /// What others in the environment say to the contrary.
    pub notice: Option<String>,
    /// How long the launcher leaves to a rank that it ends.
    pub grace: Option<Duration>,
    /// The process that started this one, where that is a launcher.
    parent: Option<u32>,
    /// Where the ranks have met already, for several runs.
    pub meeting: Option<Arc<Meeting>>,
    /// Which of these runs this is.
    pub order: u64,
}

impl Place {
    /// This process's place; none when it stands alone. `parent` tells runs of one machine apart.
    pub fn find(asked: &Asked, get: Get<'_>, parent: u32) -> Result<Option<Place>, Error> {
        let seen = seen(get)?;
        let Some(ranked) = asked.over(seen.first())? else { return Ok(None) };
        let (launcher, rank) = (ranked.launcher, ranked.rank);
        let ranks = ranked.ranks.ok_or(Error::NoSize { launcher, rank })?;
        if rank >= ranks {
            return Err(Error::BadRank { rank, ranks });
        }
        if ranks == 1 {
            return Ok(None);
        }
        let token = token::find(get)?;
        let (host, port) = asked.meeting(&ranked, ranks, parent)?;
        if token.is_none() && !is_loopback(&host) {
            return Err(Error::NoToken);
        }
        let notice = seen.iter().skip(1).find(|other| other.ranks.is_some_and(|count| count != ranks));
        let notice = notice.map(|other| {
            let count = other.ranks.unwrap_or(0);
            format!(
                "{launcher} says {ranks} ranks and {} says {count}: {launcher} counts; --ranks decides",
                other.launcher
            )
        });
        let certificate = match (&asked.certificate, &asked.key) {
            (Some(file), Some(key)) => Some(Certificate { file: file.clone(), key: key.clone() }),
            (None, None) => None,
            _ => return Err(Error::HalfCertificate),
        };
        // Who names its ranks itself may start them from a shell that does not stay.
        let parent = (asked.rank.is_none()).then_some(parent);
        Ok(Some(Place {
            rank,
            ranks,
            launcher,
            host,
            port,
            token: token.unwrap_or_default(),
            certificate,
            terms: asked.terms,
            notice,
            grace: ranked.grace,
            parent,
            meeting: None,
            order: 0,
        }))
    }

    /// The same place in one of several runs, for which the ranks have met already or will.
    pub fn in_run(&self, order: u64, meeting: Option<Arc<Meeting>>) -> Place {
        Place { order, meeting, ..self.clone() }
    }

    /// Whether the launcher is gone that should have ended this process first.
    pub fn is_orphaned(&self) -> bool {
        self.parent.is_some_and(|parent| std::os::unix::process::parent_id() != parent)
    }

    /// How many ranks take part: where fewer requests may be under way at once than there are ranks, only as many.
    pub fn active(&self, limit: Option<usize>) -> usize {
        self.ranks.min(limit.unwrap_or(self.ranks)).max(1)
    }

    /// The places of this rank's requests in a workload of so many, which are dealt out in turn to those that take part.
    pub fn share(&self, requests: usize, limit: Option<usize>) -> Vec<usize> {
        let active = self.active(limit);
        if self.rank < active { (self.rank..requests).step_by(active).collect() } else { Vec::new() }
    }

    /// The place of another rank of the same run.
    pub fn of_rank(&self, rank: usize) -> Place {
        Place { rank, ..self.clone() }
    }

    /// This rank's part of a limit that holds for all together.
    pub fn limit(&self, limit: usize) -> usize {
        (limit / self.ranks + usize::from(self.rank < limit % self.ranks)).max(1)
    }
}

impl Asked {
    /// What the flags say, over what the launcher does.
    fn over(&self, found: Option<&Ranked>) -> Result<Option<Ranked>, Error> {
        let flags = |rank, ranks| Ranked {
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
            (None, Some(ranks), Some(found)) => Ok(Some(Ranked { ranks: Some(ranks), ..found.clone() })),
            (None, Some(1), None) => Ok(None),
            (None, Some(_), None) => Err(Error::HalfGiven { given: "--ranks", missing: "--rank" }),
            (Some(_), None, _) => Err(Error::HalfGiven { given: "--rank", missing: "--ranks" }),
            (None, None, found) => Ok(found.cloned()),
        }
    }

    /// Where rank 0 listens.
    fn meeting(&self, ranked: &Ranked, ranks: usize, parent: u32) -> Result<(String, u16), Error> {
        if let Some(text) = &self.rendezvous {
            let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
            let (host, port) =
                parts.filter(|(host, _)| !host.is_empty()).ok_or(Error::BadMeeting { text: text.clone() })?;
            return Ok((host.trim_matches(['[', ']']).to_owned(), port));
        }
        let host = match (&ranked.host, ranked.local) {
            (_, true) => "127.0.0.1".to_owned(),
            (Some(host), false) => host.clone(),
            (None, false) => return Err(Error::NoMeeting { launcher: ranked.launcher, ranks }),
        };
        // Ranks of one machine have one parent, or at least a launcher that names the run.
        let identity = if ranked.identity.is_empty() { parent.to_string() } else { ranked.identity.clone() };
        Ok((host, port_of(&identity)))
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A port for a run: the same at all its ranks, most likely another for the next run.
fn port_of(identity: &str) -> u16 {
    // FNV-1a, which is the same everywhere.
    let hash = identity.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (PORTS.start + hash % (PORTS.end - PORTS.start)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(asked: &Asked, pairs: &[(&str, &str)]) -> Result<Option<Place>, Error> {
        let get = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Place::find(asked, &get, 77)
    }

    const LOCAL: [(&str, &str); 3] =
        [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];

    #[test]
    fn one_process_alone_is_no_rank() {
        assert!(find(&Asked::default(), &[]).unwrap().is_none());
        let alone = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")];
        assert!(find(&Asked::default(), &alone).unwrap().is_none());
    }

    #[test]
    fn ranks_of_one_machine_meet_there_without_a_secret() {
        let place = find(&Asked::default(), &LOCAL).unwrap().unwrap();
        assert_eq!((place.rank, place.ranks, place.host.as_str()), (2, 4, "127.0.0.1"));
        assert!(PORTS.contains(&u32::from(place.port)));
    }

    #[test]
    fn ranks_of_several_machines_need_a_place_and_a_secret() {
        let spread =
            [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")];
        assert!(matches!(find(&Asked::default(), &spread), Err(Error::NoMeeting { .. })));
        let met = Asked { rendezvous: Some("node1:7000".into()), ..Asked::default() };
        assert!(matches!(find(&met, &spread), Err(Error::NoToken)));
        let with_token = [&spread[..], &[("TACHO_RENDEZVOUS_TOKEN", "t")]].concat();
        let place = find(&met, &with_token).unwrap().unwrap();
        assert_eq!((place.host.as_str(), place.port), ("node1", 7000));
        assert!(!format!("{place:?}").contains("\"t\""));
    }

    #[test]
    fn flags_win_over_launchers_and_go_together() {
        let asked = Asked { rank: Some(1), ranks: Some(2), rendezvous: Some("[::1]:7000".into()), ..Asked::default() };
        let place = find(&asked, &LOCAL).unwrap().unwrap();
        assert_eq!((place.rank, place.ranks, place.host.as_str()), (1, 2, "::1"));
        let half = Asked { rank: Some(1), ..Asked::default() };
        assert!(matches!(find(&half, &[]), Err(Error::HalfGiven { .. })));
        let beyond = Asked { rank: Some(2), ranks: Some(2), ..Asked::default() };
        assert!(matches!(find(&beyond, &[]), Err(Error::BadRank { .. })));
        let bad = Asked { rendezvous: Some("node1".into()), ..Asked::default() };
        assert!(matches!(find(&bad, &LOCAL), Err(Error::BadMeeting { .. })));
    }

    #[test]
    fn a_disagreement_is_named() {
        let nested = [&LOCAL[..], &[("SLURM_PROCID", "0"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "1")]].concat();
        let notice = find(&Asked::default(), &nested).unwrap().unwrap().notice.unwrap();
        assert!(notice.contains("Open MPI") && notice.contains("srun") && notice.contains("--ranks"), "{notice}");
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        let places = |ranks| {
            (0..ranks).map(move |rank| Place { rank, ranks, ..find(&Asked::default(), &LOCAL).unwrap().unwrap() })
        };
        for (ranks, count, limit) in [(2, 5, None), (3, 10, Some(8)), (4, 3, Some(2)), (7, 0, None)] {
            let mut all: Vec<usize> = places(ranks).flat_map(|place| place.share(count, limit)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            if let Some(limit) = limit {
                let active = places(ranks).filter(|place| !place.share(count, Some(limit)).is_empty());
                assert!(active.map(|place| place.limit(limit)).sum::<usize>() <= limit);
            }
        }
        assert_eq!(places(3).map(|place| place.limit(8)).collect::<Vec<_>>(), [3, 3, 2]);
    }
}
