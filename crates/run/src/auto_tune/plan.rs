//! The settings of auto-tuning, and its file layout.

use std::path::PathBuf;

use tacho_core::json::{Dict, Value};
use tacho_core::{dict, secret::redact_args};
use tacho_decide::search::{Criterion, load_value};

use crate::experiment::{AfterBench, Error, ParamSet, Supervised, apply};

/// How the best settings are profiled at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiling {
    Skipped,
    Torch,
    /// The server's profiler is started and stopped; the server decides where to write.
    Calls,
}

#[derive(Debug, Clone)]
pub struct TunePlan {
    /// The server command, without the tuned settings.
    pub serve_cmd: Vec<String>,
    /// The client command, without load, number of prompts and output file.
    pub bench_cmd: Vec<String>,
    pub after: AfterBench,
    pub supervised: Supervised,
    pub variables: Vec<(String, String)>,
    pub num_seqs: Vec<u64>,
    pub num_batched_tokens: Vec<u64>,
    /// Additional settings to combine with each pair.
    pub sets: Vec<ParamSet>,
    /// Memory fractions to try, largest first; empty if the server has no such setting.
    pub memory_shares: Vec<String>,
    pub criteria: Vec<Criterion>,
    /// The latency limit as in result lines.
    pub limit: String,
    /// The kind of machine, for the results.
    pub system: String,
    pub num_prompts: u64,
    /// Number of runs at the selected level.
    pub num_runs: usize,
    /// Largest relative error of the result.
    pub tolerance: f64,
    pub profiling: Profiling,
    /// The revision in result files.
    pub hash: String,
    pub directory: PathBuf,
    pub dry_run: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub num_seqs: u64,
    pub num_batched_tokens: u64,
    pub set: ParamSet,
}

impl Candidate {
    /// Its part of file names.
    pub(super) fn name(&self) -> String {
        let pair = format!("{}_{}", self.num_seqs, self.num_batched_tokens);
        if self.set.is_empty() { pair } else { format!("{pair}_{}", crate::experiment::clean(&self.set.name())) }
    }

    /// The pair as at the start of result lines, and the additional settings.
    pub(super) fn title(&self) -> String {
        let pair = format!("max_num_seqs: {}, max_num_batched_tokens: {}", self.num_seqs, self.num_batched_tokens);
        if self.set.is_empty() { pair } else { format!("{pair}, {}", self.set.name()) }
    }

    pub(super) fn overrides(&self) -> ParamSet {
        let mut values = dict! { "max_num_seqs": self.num_seqs, "max_num_batched_tokens": self.num_batched_tokens };
        values.update(self.set.values());
        ParamSet::new(values)
    }
}

impl TunePlan {
    pub(super) fn profile_directory(&self) -> PathBuf {
        self.directory.join("profile")
    }

    /// All settings to try; `max_num_seqs` varies slowest.
    pub fn candidates(&self) -> Vec<Candidate> {
        let pairs = self.num_seqs.iter().flat_map(|a| self.num_batched_tokens.iter().map(move |b| (*a, *b)));
        let with_sets = pairs.flat_map(|(num_seqs, num_batched_tokens)| {
            self.sets.iter().map(move |set| Candidate { num_seqs, num_batched_tokens, set: set.clone() })
        });
        with_sets.collect()
    }

    pub fn server_command(&self, candidate: &Candidate, share: Option<&str>) -> Result<Vec<String>, Error> {
        let mut set = ParamSet::default();
        if let Some(share) = share {
            set = set.with("gpu_memory_utilization", share);
        }
        apply("--serve-cmd", &apply("--serve-cmd", &self.serve_cmd, &set)?, &candidate.overrides())
    }

    pub fn bench_command(&self, level: f64) -> Result<Vec<String>, Error> {
        let set = ParamSet::default().with("request_rate", load_value(level)).with("num_prompts", self.num_prompts);
        apply("--bench-cmd", &self.bench_cmd, &set)
    }

    /// The files of a run; `what` is the candidate's name.
    pub(super) fn run_file(&self, what: &str, level: f64, number: usize) -> PathBuf {
        let again = if number == 0 { String::new() } else { format!(".run{number}") };
        self.directory.join(format!("bm_log_{what}_requestrate_{}{again}.json", rate_text(level)))
    }

    /// The settings that must be equal when auto-tuning is resumed.
    pub(super) fn description(&self) -> Dict {
        let args = |args: &[String]| Value::List(redact_args(args).into_iter().map(Value::from).collect());
        dict! {
            "serve_cmd": args(&self.serve_cmd),
            "bench_cmd": args(&self.bench_cmd),
            "num_prompts": self.num_prompts,
            "criteria": args(&self.criteria.iter().map(Criterion::to_string).collect::<Vec<_>>()),
        }
    }
}

pub(super) fn rate_text(level: f64) -> String {
    tacho_core::json::python_str(&load_value(level))
}
