//! The result of auto-tuning: the lines of `result.txt`, the same as JSON, and its certainty.

use std::path::PathBuf;

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_decide::search::{Criterion, Estimate, load_value};
use tacho_metrics::{interval::half_width, statistics::mean};

use super::plan::{Candidate, TunePlan, rate_text};
use crate::experiment::{Failure, Level, required};

#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub candidate: Candidate,
    /// The request rate, as a level.
    pub(super) level: f64,
    /// Mean requests per second, and the half-width of its 95% confidence interval.
    pub throughput: (f64, f64),
}

impl Accepted {
    pub fn sentence(&self, criteria: &[Criterion]) -> String {
        let (value, half) = self.throughput;
        let described: Vec<String> = criteria.iter().map(Criterion::described).collect();
        let range = if half.is_finite() {
            format!(" ({:.2}–{:.2})", (value - half).max(0.0), value + half)
        } else {
            String::new()
        };
        let (title, rate) = (self.candidate.title(), rate_text(self.level));
        format!("{title}: {value:.2} requests/s{range} at request_rate {rate} meets {}", described.join(" and "))
    }

    /// Returns whether the confidence intervals of the two overlap.
    pub(super) fn overlaps(&self, other: &Accepted) -> bool {
        let spread = |half: f64| if half.is_finite() { half } else { 0.0 };
        (self.throughput.0 - other.throughput.0).abs() <= spread(self.throughput.1) + spread(other.throughput.1)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TuneReport {
    pub best: Option<Accepted>,
    pub measured: usize,
    pub failures: Vec<String>,
}

/// What became of a candidate.
pub(super) struct Found {
    pub(super) levels: Vec<Level>,
    pub(super) accepted: Option<f64>,
    /// The load at which the criteria are just met.
    pub(super) estimate: Option<Estimate>,
}

#[derive(Default)]
pub(super) struct Answers {
    lines: Vec<String>,
    entries: Vec<Value>,
    pub(super) accepted: Vec<Accepted>,
    /// Path of the best settings' profile, if it was written.
    pub(super) profile: Option<PathBuf>,
}

impl Answers {
    /// Adds a measured candidate; returns its line.
    pub(super) fn measured(
        &mut self,
        plan: &TunePlan,
        candidate: &Candidate,
        found: &Found,
    ) -> Result<String, Failure> {
        let chosen = found.levels.iter().find(|level| Some(level.level) == found.accepted);
        let chosen = chosen.map(|level| Ok((level, spread(level)?))).transpose()?;
        let line = match chosen {
            Some((level, _)) => accepted_line(candidate, level),
            None => format!("{} does not meet latency requirement {}", candidate.title(), plan.limit),
        };
        self.lines.push(line.clone());
        self.entries.push(Value::Dict(entry(candidate, found, chosen)));
        self.accepted.extend(chosen.map(|(level, throughput)| Accepted {
            candidate: candidate.clone(),
            level: level.level,
            throughput,
        }));
        Ok(line)
    }

    /// Adds a candidate whose server or benchmark failed.
    pub(super) fn failed(&mut self, candidate: &Candidate, failure: &Failure) {
        self.lines.push(format!("{} failed: {failure}", candidate.title()).replace('\n', " "));
        let entry = dict! {
            "settings": candidate.overrides().values().clone(),
            "verdict": "failed",
            "error": failure.to_string(),
        };
        self.entries.push(Value::Dict(entry));
    }

    /// The settings with the highest throughput, the first of equals.
    pub(super) fn best(&self) -> Option<&Accepted> {
        self.accepted.iter().reduce(|best, next| if next.throughput.0 > best.throughput.0 { next } else { best })
    }

    /// `result.txt`; with its last line once all candidates are measured.
    pub(super) fn text(&self, plan: &TunePlan, done: bool) -> String {
        let mut out = format!("hash:{}\n", plan.hash);
        for line in &self.lines {
            out += &format!("{line}\n");
        }
        if done {
            let (seqs, tokens, throughput) = self.best().map_or((0, 0, "0".to_owned()), |best| {
                let Candidate { num_seqs, num_batched_tokens, .. } = &best.candidate;
                (*num_seqs, *num_batched_tokens, format!("{:.2}", best.throughput.0))
            });
            let place = self.profile.as_ref().map_or("none".to_owned(), |place| place.display().to_string());
            out += &format!(
                "best_max_num_seqs: {seqs}, best_num_batched_tokens: {tokens}, best_throughput: {throughput}, \
                 profile saved in: {place}\n"
            );
        }
        out
    }

    pub(super) fn json(&self, plan: &TunePlan, share: Option<&str>, done: bool) -> Value {
        let best = self.best().filter(|_| done).map(|best| {
            let equals = self.accepted.iter().filter(|other| *other != best && best.overlaps(other));
            dict! {
                "settings": best.candidate.overrides().values().clone(),
                "request_rate": load_value(best.level),
                ..throughput(best.throughput),
                "no_clear_difference_from":
                    equals.map(|other| other.candidate.overrides().values().clone()).collect::<Value>(),
            }
        });
        let all = dict! {
            "version": 1_i64,
            "system": plan.system.as_str(),
            "made_with": plan.description(),
            "gpu_memory_utilization": share,
            "candidates": Value::List(self.entries.clone()),
            "complete": done,
            "best": best,
        };
        Value::Dict(all)
    }
}

fn accepted_line(candidate: &Candidate, level: &Level) -> String {
    let two = |key: &str| level.mean(key).map_or_else(|| "nan".to_owned(), |value| format!("{value:.2}"));
    format!(
        "{}, request_rate: {}, e2el: {}, throughput: {}, goodput: {}",
        candidate.title(),
        rate_text(level.level),
        two("p99_e2el_ms"),
        two("request_throughput"),
        two("request_goodput"),
    )
}

/// Mean request throughput and the half-width of its interval.
fn spread(level: &Level) -> Result<(f64, f64), Failure> {
    const KEY: &str = "request_throughput";
    let values =
        level.runs().map(|run| required(run.number(KEY), KEY, "--bench-cmd")).collect::<Result<Vec<_>, _>>()?;
    Ok((mean(&values), half_width(&values).unwrap_or(f64::INFINITY)))
}

fn throughput((value, half): (f64, f64)) -> Dict {
    let known = half.is_finite();
    dict! {
        "request_throughput": value,
        "request_throughput_low": known.then(|| (value - half).max(0.0)),
        "request_throughput_high": known.then_some(value + half),
    }
}

fn entry(candidate: &Candidate, found: &Found, chosen: Option<(&Level, (f64, f64))>) -> Dict {
    let metrics = chosen.map(|(level, spread)| {
        let mut metrics = throughput(spread);
        for key in ["p99_ttft_ms", "p99_tpot_ms", "p99_itl_ms", "p99_e2el_ms", "request_goodput"] {
            metrics.set(key, level.mean(key));
        }
        metrics
    });
    let range = found.estimate.filter(|_| found.accepted.is_some());
    dict! {
        "settings": candidate.overrides().values().clone(),
        "verdict": if chosen.is_some() { "accepted" } else { "does not meet the limit" },
        "request_rate": chosen.map(|(level, _)| load_value(level.level)),
        ..metrics.unwrap_or_default(),
        "rate_boundary": range.map(|range| range.value),
        "rate_boundary_low": range.map(|range| range.low),
        "rate_boundary_high": range.map(|range| range.high),
        "levels": found.levels.len(),
        "runs": found.levels.iter().map(|level| level.results.len()).sum::<usize>(),
    }
}
