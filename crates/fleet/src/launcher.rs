//! Detects the launcher of this process and its rank: one table row per launcher, the innermost first.

use std::time::Duration;

use crate::{Error, hostlist};

pub(crate) type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherInfo {
    pub launcher: &'static str,
    pub rank: usize,
    pub ranks: Option<usize>,
    pub host: Option<String>,
    /// Whether all ranks are known to run on this machine.
    pub local: bool,
    /// Distinguishes this run from others on the same machines.
    pub identity: String,
    /// Time from SIGTERM to SIGKILL.
    pub grace: Option<Duration>,
}

struct Row {
    name: &'static str,
    /// Variables that are all set in its ranks, and together nowhere else.
    marks: &'static [&'static str],
    rank: &'static str,
    /// The first variable that is set.
    ranks: &'static [&'static str],
    /// Ranks on this machine, or the number of machines, which is 1 if all ranks are on this one.
    local: Local,
    host: fn(Get<'_>) -> Option<String>,
    identity: &'static [&'static str],
    /// Default seconds from SIGTERM to SIGKILL, if there is such a limit.
    grace: Option<u64>,
}

enum Local {
    Ranks(&'static str),
    Machines(&'static str),
    Unknown,
}

fn nowhere(_: Get<'_>) -> Option<String> {
    None
}

/// The innermost first: Open MPI within a batch job sets SLURM_PROCID to 0 at every rank.
static LAUNCHERS: [Row; 5] = [
    Row {
        name: "torchrun",
        marks: &["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"],
        rank: "RANK",
        ranks: &["WORLD_SIZE"],
        local: Local::Ranks("LOCAL_WORLD_SIZE"),
        host: |get| get("MASTER_ADDR"),
        // Its own store listens on MASTER_PORT.
        identity: &["TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"],
        grace: Some(30),
    },
    Row {
        name: "Open MPI",
        marks: &["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: &["OMPI_COMM_WORLD_SIZE"],
        local: Local::Ranks("OMPI_COMM_WORLD_LOCAL_SIZE"),
        host: nowhere,
        identity: &["PMIX_NAMESPACE"],
        grace: Some(1),
    },
    Row {
        name: "MPICH",
        marks: &["PMI_RANK", "PMI_SIZE"],
        rank: "PMI_RANK",
        ranks: &["PMI_SIZE"],
        local: Local::Ranks("MPI_LOCALNRANKS"),
        host: nowhere,
        identity: &["PMI_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID"],
        grace: None,
    },
    Row {
        // A batch script has all variables but the step: it is not a rank.
        name: "srun",
        marks: &["SLURM_STEP_ID", "SLURM_PROCID"],
        rank: "SLURM_PROCID",
        ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        local: Local::Machines("SLURM_STEP_NUM_NODES"),
        host: |get| get("SLURM_STEP_NODELIST").map(|list| hostlist::first(&list)),
        identity: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        grace: Some(30),
    },
    Row {
        name: "Kubernetes",
        marks: &["JOB_COMPLETION_INDEX"],
        rank: "JOB_COMPLETION_INDEX",
        ranks: &["TACHO_RANKS"],
        local: Local::Unknown,
        host: nowhere,
        identity: &[],
        grace: Some(30),
    },
];

/// The launchers found in the environment, the innermost first.
pub(crate) fn seen(get: Get<'_>) -> Result<Vec<LauncherInfo>, Error> {
    LAUNCHERS.iter().filter(|row| row.marks.iter().all(|mark| get(mark).is_some())).map(|row| row.read(get)).collect()
}

impl Row {
    fn read(&self, get: Get<'_>) -> Result<LauncherInfo, Error> {
        let number = |name: &str| -> Result<Option<usize>, Error> {
            let Some(value) = get(name) else { return Ok(None) };
            let bad = || Error::BadVariable { launcher: self.name, name: name.to_owned(), value: value.clone() };
            value.trim().parse().map(Some).map_err(|_| bad())
        };
        let ranks = self.ranks.iter().find(|name| get(name).is_some()).map(|name| number(name)).transpose()?.flatten();
        let local = match self.local {
            Local::Ranks(name) => ranks.is_some() && number(name)? == ranks,
            Local::Machines(name) => number(name)? == Some(1),
            Local::Unknown => false,
        };
        Ok(LauncherInfo {
            launcher: self.name,
            rank: number(self.rank)?.unwrap_or(0),
            ranks,
            host: (self.host)(get),
            local,
            identity: self.identity.iter().filter_map(|name| get(name)).collect::<Vec<_>>().join("/"),
            grace: self.grace.map(Duration::from_secs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Vec<LauncherInfo> {
        seen(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())).unwrap()
    }

    type Found = (&'static str, usize, Option<usize>, Option<String>, bool);

    fn first(pairs: &[(&str, &str)]) -> Option<Found> {
        let ranked = found(pairs).into_iter().next()?;
        Some((ranked.launcher, ranked.rank, ranked.ranks, ranked.host, ranked.local))
    }

    const SRUN: [(&str, &str); 6] = [
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NODELIST", "node[1-2]"),
        ("SLURM_STEP_NUM_NODES", "2"),
    ];

    #[test]
    fn each_launchers_variables_are_understood() {
        assert_eq!(first(&[]), None);
        assert_eq!(first(&SRUN), Some(("srun", 3, Some(4), Some("node1".into()), false)));
        let mpi = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "1")];
        assert_eq!(first(&mpi), Some(("Open MPI", 2, Some(4), None, false)));
        let here = [("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4")];
        assert_eq!(first(&here), Some(("MPICH", 1, Some(4), None, true)));
        let torch = [
            ("RANK", "3"),
            ("WORLD_SIZE", "4"),
            ("MASTER_ADDR", "node1"),
            ("MASTER_PORT", "29500"),
            ("LOCAL_WORLD_SIZE", "2"),
        ];
        assert_eq!(first(&torch), Some(("torchrun", 3, Some(4), Some("node1".into()), false)));
        assert_eq!(first(&torch[..2]), None, "two plain names are not enough");
        assert_eq!(first(&[("JOB_COMPLETION_INDEX", "1")]), Some(("Kubernetes", 1, None, None, false)));
    }

    #[test]
    fn a_batch_script_is_not_a_rank() {
        assert_eq!(first(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "3")]), None);
    }

    #[test]
    fn the_innermost_launcher_wins() {
        // Open MPI in a batch job: on the second node its daemon was started by srun.
        let nested = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_STEP_ID", "0"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ];
        assert_eq!(first(&nested), Some(("Open MPI", 3, Some(4), None, false)));
        assert_eq!(found(&nested).len(), 2);
    }

    #[test]
    fn nonsense_is_named() {
        let bad = |name: &str| match name {
            "PMI_RANK" => Some("x".to_owned()),
            "PMI_SIZE" => Some("4".to_owned()),
            _ => None,
        };
        let error = seen(&bad).unwrap_err().to_string();
        assert!(error.contains("MPICH") && error.contains("PMI_RANK") && error.contains("\"x\""), "{error}");
    }
}
