//! What is tuned, and where its files lie.

use std::path::PathBuf;

use tacho_core::json::{Dict, Value};
use tacho_core::secret::redact_words;
use tacho_decide::search::Criterion;

use crate::experiment::{AfterBench, Error, ParamSet, Supervised, UNLIMITED, apply, load_value};

/// How the best settings are profiled at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiling {
    /// Not at all.
    Skipped,
    /// The server profiles with torch.
    Torch,
    /// The server's profiler is started and stopped; it knows itself where to write.
    Calls,
}

/// A tuning.
#[derive(Debug, Clone)]
pub struct TunePlan {
    /// The words of the server command, without what is tuned.
    pub serve_cmd: Vec<String>,
    /// The words of the client command, without load, number of prompts and place of the result.
    pub bench_cmd: Vec<String>,
    /// What to do after each run.
    pub after: AfterBench,
    /// How commands are started.
    pub supervised: Supervised,
    /// Further environment variables of the server.
    pub variables: Vec<(String, String)>,
    /// Values of `max_num_seqs`.
    pub num_seqs: Vec<u64>,
    /// Values of `max_num_batched_tokens`.
    pub num_batched_tokens: Vec<u64>,
    /// Further settings to combine with each pair.
    pub sets: Vec<ParamSet>,
    /// Shares of the device's memory to try, largest first; none when the server has no such setting.
    pub memory_shares: Vec<String>,
    /// What a level must meet.
    pub criteria: Vec<Criterion>,
    /// The latency limit as result lines write it.
    pub limit: String,
    /// The kind of machine, noted in the results.
    pub system: String,
    /// Prompts of every measured run.
    pub num_prompts: u64,
    /// Runs of the level that is chosen.
    pub num_runs: usize,
    /// The share of the answer by which it may be too low.
    pub tolerance: f64,
    /// What is done with the best settings.
    pub profiling: Profiling,
    /// The revision that result files name.
    pub hash: String,
    /// Where everything is written.
    pub directory: PathBuf,
    /// Whether to say what would be done, and do nothing.
    pub dry_run: bool,
}

/// Settings to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// `max_num_seqs`.
    pub num_seqs: u64,
    /// `max_num_batched_tokens`.
    pub num_batched_tokens: u64,
    /// Further settings.
    pub set: ParamSet,
}

impl Candidate {
    /// Part of file names.
    pub(super) fn name(&self) -> String {
        let pair = format!("{}_{}", self.num_seqs, self.num_batched_tokens);
        if self.set.is_empty() { pair } else { format!("{pair}_{}", crate::experiment::clean(&self.set.name())) }
    }

    /// The pair as result lines begin, and the further settings.
    pub(super) fn title(&self) -> String {
        let pair = format!("max_num_seqs: {}, max_num_batched_tokens: {}", self.num_seqs, self.num_batched_tokens);
        if self.set.is_empty() { pair } else { format!("{pair}, {}", self.set.name()) }
    }

    /// All settings.
    pub(super) fn overrides(&self) -> ParamSet {
        let mut values = Dict::new();
        values.set("max_num_seqs", self.num_seqs);
        values.set("max_num_batched_tokens", self.num_batched_tokens);
        values.update(self.set.values());
        ParamSet::new(values)
    }
}

impl TunePlan {
    /// Where the server writes the profile of the best settings.
    pub(super) fn profile_directory(&self) -> PathBuf {
        self.directory.join("profile")
    }

    /// All settings to try; `max_num_seqs` varies slowest of the two.
    pub fn candidates(&self) -> Vec<Candidate> {
        let pairs = self.num_seqs.iter().flat_map(|a| self.num_batched_tokens.iter().map(move |b| (*a, *b)));
        let with_sets = pairs.flat_map(|(num_seqs, num_batched_tokens)| {
            self.sets.iter().map(move |set| Candidate { num_seqs, num_batched_tokens, set: set.clone() })
        });
        with_sets.collect()
    }

    /// The server of a candidate.
    pub fn server_command(&self, candidate: &Candidate, share: Option<&str>) -> Result<Vec<String>, Error> {
        let mut set = ParamSet::default();
        if let Some(share) = share {
            set = set.with("gpu_memory_utilization", share);
        }
        apply("--serve-cmd", &apply("--serve-cmd", &self.serve_cmd, &set)?, &candidate.overrides())
    }

    /// The client at a level.
    pub fn bench_command(&self, level: f64) -> Result<Vec<String>, Error> {
        let set = ParamSet::default().with("request_rate", rate(level)).with("num_prompts", self.num_prompts);
        apply("--bench-cmd", &self.bench_cmd, &set)
    }

    /// The files of a run; `what` is the candidate's name.
    pub(super) fn run_file(&self, what: &str, level: f64, number: usize) -> PathBuf {
        let again = if number == 0 { String::new() } else { format!(".run{number}") };
        self.directory.join(format!("bm_log_{what}_requestrate_{}{again}.json", rate_text(level)))
    }

    /// What must be the same when a tuning is taken up again.
    pub(super) fn description(&self) -> Dict {
        let words = |words: &[String]| Value::List(redact_words(words).into_iter().map(Value::from).collect());
        let mut made_with = Dict::new();
        made_with.set("serve_cmd", words(&self.serve_cmd));
        made_with.set("bench_cmd", words(&self.bench_cmd));
        made_with.set("num_prompts", self.num_prompts);
        made_with.set("criteria", words(&self.criteria.iter().map(Criterion::to_string).collect::<Vec<_>>()));
        made_with
    }
}

/// The request rate of a level.
pub(super) fn rate(level: f64) -> Value {
    if level == UNLIMITED { Value::from("inf") } else { load_value(level) }
}

/// The same as text.
pub(super) fn rate_text(level: f64) -> String {
    tacho_core::json::python_str(&rate(level))
}
