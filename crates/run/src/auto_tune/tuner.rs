//! Auto-tuning in progress: the memory fraction, each candidate in turn, and the profiled run of the best.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value};
use tacho_core::{RunEvent, Work, event::Note};
use tacho_decide::search::load_value;

use super::answer::{Accepted, Answers, TuneReport};
use super::plan::{Candidate, Profiling, TunePlan};
use crate::experiment::{Error, Failure, ParamSet, Report, Session, Slot, Style, Tools, apply};

/// Prompts of the profiled run: a longer trace is too large to inspect.
const PROFILED_PROMPTS: u64 = 100;

/// With fewer prompts than this, fewer than ten are beyond the 99th percentile.
const ENOUGH_PROMPTS: u64 = 1000;

pub(super) type Tuner<'a> = Session<'a, TunePlan>;

/// Runs auto-tuning. A candidate whose server fails is skipped and reported.
pub fn auto_tune(plan: &TunePlan, tools: Tools<'_>) -> Result<TuneReport, Error> {
    let candidates = plan.candidates();
    for candidate in &candidates {
        plan.server_command(candidate, None)?;
    }
    plan.bench_command(f64::INFINITY)?;
    let mut tuner = Tuner::prepare(plan, tools);
    if plan.dry_run {
        tuner.show(&candidates)?;
        return Ok(TuneReport::default());
    }
    if plan.num_prompts < ENOUGH_PROMPTS && plan.criteria.iter().any(|one| one.metric.starts_with("p99")) {
        let (prompts, beyond) = (plan.num_prompts, (plan.num_prompts / 100).max(1));
        tuner.warn(format!("the 99th percentile of {prompts} prompts rests on {beyond} of them: use 1000 or more"));
    }
    tuner.run(&candidates)
}

impl Tuner<'_> {
    fn show(&self, candidates: &[Candidate]) -> Result<(), Error> {
        for candidate in candidates {
            let share = self.plan.memory_shares.first().map(String::as_str);
            self.say(Note::Command("Server command: ".to_owned(), self.plan.server_command(candidate, share)?));
            self.say(Note::Command("Benchmark command: ".to_owned(), self.plan.bench_command(f64::INFINITY)?));
        }
        self.say(format!("Results will be saved in: {}", self.plan.directory.display()));
        Ok(())
    }

    fn run(&mut self, candidates: &[Candidate]) -> Result<TuneReport, Error> {
        let stored = self.stored()?;
        let share = self.memory_share(candidates, stored.as_ref())?;
        let share = share.as_deref();
        let mut answers = Answers::default();
        self.store(&answers, share, false)?;
        self.start(Work::Settings, candidates.len());
        for (at, candidate) in candidates.iter().enumerate() {
            self.say(format!("[{}/{}] {}", at + 1, candidates.len(), candidate.title()));
            let command = self.plan.server_command(candidate, share)?;
            let log = self.plan.directory.join(format!("vllm_log_{}.txt", candidate.name()));
            let mut slot = Slot::new(command, self.plan.variables.clone(), log);
            let found = self.search(candidate, &mut slot);
            match found.and_then(|found| answers.measured(self.plan, candidate, &found)) {
                Ok(line) => {
                    self.report.results += 1;
                    self.say(line);
                }
                Err(failure) => {
                    self.warn(format!("{}: {failure}; see {}", candidate.title(), slot.log().display()));
                    answers.failed(candidate, &failure);
                    self.failed(format!("{}: {failure}", candidate.title()));
                }
            }
            drop(slot);
            self.count();
            self.store(&answers, share, false)?;
        }
        self.tools.sink.event(RunEvent::Finished);
        let best = answers.best().cloned();
        if let Some(best) = &best {
            answers.profile = self.profile(best, share);
        }
        self.store(&answers, share, true)?;
        self.conclude(&answers);
        let Report { results: measured, failures, .. } = std::mem::take(&mut self.report);
        Ok(TuneReport { best, measured, failures })
    }

    fn conclude(&self, answers: &Answers) {
        let Some(best) = answers.best() else {
            self.say("no settings meet the limit");
            return;
        };
        self.say(format!("best: {}", best.sentence(&self.plan.criteria)));
        for other in answers.accepted.iter().filter(|other| *other != best && best.overlaps(other)) {
            let (title, throughput) = (other.candidate.title(), other.throughput.0);
            self.say(format!("no clear difference from {title}: {throughput:.2} requests/s"));
        }
    }

    /// The results of an earlier attempt; one with other commands must not be mixed with this.
    fn stored(&self) -> Result<Option<Dict>, Error> {
        let path = self.plan.directory.join("auto_tune.json");
        let Some(stored) = self.tools.archive.result(&path) else { return Ok(None) };
        let theirs = stored.get("made_with").and_then(Value::as_dict).cloned().unwrap_or_default();
        let ours = self.plan.description();
        let other = ours.iter().find(|(key, value)| theirs.get(key) != Some(*value)).map(|(key, _)| key.to_owned());
        match other {
            Some(key) => Err(Error::file(
                &path,
                format!("it was made with another {key}: use the same, or start again without --resume"),
            )),
            None => Ok(Some(stored)),
        }
    }

    fn store(&self, answers: &Answers, share: Option<&str>, done: bool) -> Result<(), Error> {
        let directory = &self.plan.directory;
        let json = answers.json(self.plan, share, done);
        self.tools.archive.text(&directory.join("result.txt"), &answers.text(self.plan, done)).map_err(Error::Ended)?;
        self.tools.archive.keep(&directory.join("auto_tune.json"), &json, Style::Result).map_err(Error::Ended)
    }

    /// The largest memory fraction with which the most demanding server starts.
    fn memory_share(&self, candidates: &[Candidate], stored: Option<&Dict>) -> Result<Option<String>, Error> {
        let known = stored.and_then(|stored| stored.text("gpu_memory_utilization").map(str::to_owned));
        let Some(last) = candidates.last().filter(|_| !self.plan.memory_shares.is_empty()) else { return Ok(None) };
        if known.is_some() {
            return Ok(known);
        }
        let log = |share: &str| self.plan.directory.join(format!("vllm_log_gpu_memory_utilization_{share}.log"));
        for share in &self.plan.memory_shares {
            let command = self.plan.server_command(last, Some(share))?;
            self.say(format!("trying gpu_memory_utilization {share}"));
            let mut slot = Slot::new(command, self.plan.variables.clone(), log(share));
            match slot.ensure(self.tools) {
                Ok(_) => {
                    self.say(format!("using gpu_memory_utilization {share}"));
                    return Ok(Some(share.clone()));
                }
                Err(failure) => self.warn(format!("gpu_memory_utilization {share}: {failure}")),
            }
        }
        let last = self.plan.memory_shares.last().map(|share| log(share)).unwrap_or_default();
        Err(Error::NoMemoryShare { log: last })
    }

    /// Makes the profiled run of the best settings and returns the profile's path; a failure loses no result.
    fn profile(&self, best: &Accepted, share: Option<&str>) -> Option<PathBuf> {
        let output = self.plan.directory.join("bm_log_BEST_PROFILE.json");
        if self.plan.profiling == Profiling::Skipped {
            return None;
        }
        if self.tools.archive.result(&output).is_none() {
            self.say(format!("profiling {}", best.candidate.title()));
            if let Err(failure) = self.try_profile(best, share, &output) {
                self.warn(format!("the profiled run failed: {failure}"));
                return None;
            }
        }
        (self.plan.profiling == Profiling::Torch).then(|| self.plan.profile_directory())
    }

    fn try_profile(&self, best: &Accepted, share: Option<&str>, output: &Path) -> Result<(), Failure> {
        let wrong = |error: Error| Failure::new("ValueError", error.to_string());
        let mut server = self.plan.server_command(&best.candidate, share).map_err(wrong)?;
        if self.plan.profiling == Profiling::Torch {
            let config = tacho_core::dict! {
                "profiler": "torch",
                "torch_profiler_dir": self.plan.profile_directory().display().to_string(),
            };
            let set = ParamSet::default().with("profiler_config", config);
            server = apply("--serve-cmd", &server, &set).map_err(wrong)?;
        }
        let log = self.plan.directory.join("vllm_log_BEST_PROFILE.txt");
        let mut slot = Slot::new(server, self.plan.variables.clone(), log);
        let set = ParamSet::default()
            .with("request_rate", load_value(best.level))
            .with("num_prompts", self.plan.num_prompts.min(PROFILED_PROMPTS))
            .with("profile", true);
        let command = apply("--bench-cmd", &self.plan.bench_cmd, &set).map_err(wrong)?;
        let keys = best.candidate.overrides().values().clone();
        self.measure_level(&mut slot, command, output, &keys, &|_| Ok(())).map(drop)
    }
}
