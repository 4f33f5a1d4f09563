//! The plan of a run, composed of the specs of its parts.

use std::{path::PathBuf, time::Duration};

use tacho_client::{EndpointSpec, PayloadSpec, Rules};
use tacho_core::{EventSink, RunEvent, event::Note};
use tacho_loadgen::ScheduleSpec;
use tacho_metrics::{MetricKind, MetricSettings};
use tacho_record::Provenance;
use tacho_text::TokenizerMode;
use tacho_workload::{WorkloadSpec, hub::Hub};

use crate::serve::{CheckPlan, GradePlan, LogPlan, RowCommandPlan, SessionsPlan};
use crate::telemetry::TelemetryPlan;

#[derive(Debug, Clone)]
pub struct ServePlan {
    pub endpoint: EndpointSpec,
    /// The base URL's path, a prefix of control calls.
    pub base_path: String,
    pub model: ModelPlan,
    pub tokenizer: TokenizerPlan,
    /// The Hub for tokenizers and datasets that are not local.
    pub hub: Hub,
    pub workload: WorkloadPlan,
    /// The workload file whose requests are sent again, and its digest.
    pub replayed: Option<Replayed>,
    pub lora: Option<LoraPlan>,
    /// Most tokens of a prompt and its output together; longer requests are dropped.
    pub max_model_len: Option<u64>,
    /// Seeds both of Python's global generators.
    pub seed: u32,
    pub traffic: TrafficPlan,
    pub report: ReportPlan,
    pub log: Option<LogPlan>,
    pub check: Option<CheckPlan>,
    pub grade: Option<GradePlan>,
    pub row_command: Option<RowCommandPlan>,
    /// This process's rank, if there are several.
    pub ranks: Option<tacho_fleet::Membership>,
}

impl ServePlan {
    /// Prints a line of vLLM's preamble; a terminal shows it under strict parity only.
    pub(crate) fn preamble(&self, sink: &dyn EventSink, vllm: &str) {
        self.announce(sink, vllm, String::new());
    }

    /// Prints a line of vLLM's preamble, and `brief` instead of it on a terminal.
    pub(crate) fn announce(&self, sink: &dyn EventSink, vllm: &str, brief: String) {
        let note = match self.endpoint.rules {
            Rules::Vllm => Note::from(vllm),
            _ => Note::Preamble { vllm: vllm.to_owned(), brief },
        };
        sink.event(RunEvent::status(note));
    }
}

#[derive(Debug, Clone, Default)]
pub struct ModelPlan {
    /// `--model`; the server's first model if absent.
    pub model: Option<String>,
    pub served_name: Option<String>,
}

#[derive(Debug, Clone)]
pub enum TokenizerPlan {
    Builtin,
    Named(NamedTokenizer),
    Skipped,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedTokenizer {
    /// A path or a Hub id; the model's own if absent.
    pub name: Option<String>,
    /// The branch, tag or commit on the Hub.
    pub revision: Option<String>,
    pub mode: TokenizerMode,
}

#[derive(Debug, Clone)]
pub enum WorkloadPlan {
    Sample {
        spec: Box<WorkloadSpec>,
        /// Requested number of requests; the dataset may yield another.
        num_prompts: i64,
        /// Whether prompts are truncated by the server's tokenizer.
        align: bool,
        /// Whether the dataset sets the send times.
        self_timed: bool,
    },
    /// Conversations, agents or recorded traffic.
    Sessions(Box<SessionsPlan>),
    /// Read from a file that an earlier run saved, with scheduled times.
    File {
        path: PathBuf,
        /// Factor on the saved times.
        time_scale: f64,
    },
}

impl WorkloadPlan {
    pub fn is_random_text(&self) -> bool {
        match self {
            WorkloadPlan::Sample { spec, .. } => spec.is_random_text(),
            WorkloadPlan::Sessions(_) | WorkloadPlan::File { .. } => false,
        }
    }
}

/// A saved workload that is sent again.
#[derive(Debug, Clone)]
pub struct Replayed {
    pub path: PathBuf,
    /// Its digest; `None` if a flag changes the scheduled times.
    pub digest: Option<String>,
}

#[derive(Debug, Clone)]
pub struct LoraPlan {
    pub modules: Vec<String>,
    pub assignment: LoraAssignment,
    /// The weight of each for random assignment; empty for equal ones.
    pub weights: Vec<f64>,
}

tacho_core::named! {
    pub enum LoraAssignment {
        Random = "random",
        RoundRobin = "round-robin",
    }
}

/// Schedule, limits, warm-up and stop rules of a run.
#[derive(Debug, Clone, Default)]
pub struct TrafficPlan {
    pub schedule: ScheduleSpec,
    pub max_concurrency: Option<usize>,
    /// Time over which the limit is reached.
    pub concurrency_ramp: Duration,
    /// Most requests without a first token (in prefill).
    pub max_prefills: Option<usize>,
    pub cancellation: Option<Cancellation>,
    /// What bodies contain; the prepared run adds the model and the rules.
    pub payload: PayloadSpec,
    /// Whether `--temperature` was given; vLLM warns otherwise.
    pub temperature_given: bool,
    /// How long to wait until the server is ready; zero skips the check.
    pub ready_timeout: Duration,
    pub warmups: usize,
    /// Whether a failed warm-up request aborts the run.
    pub warmups_must_pass: bool,
    /// Whether to reset the server's caches after the warm-up.
    pub reset_caches: bool,
    pub profile: bool,
    /// When the profiler runs, if not during the whole run.
    pub profile_when: Option<BusyProfile>,
    /// Probes per second during the load; zero for none.
    pub probe_rate: f64,
    /// Interval between two scrapes of the server's metrics; zero scrapes only before and after the run.
    pub metrics_interval: Duration,
    /// Telemetry in addition to the server's metrics.
    pub telemetry: Option<TelemetryPlan>,
    /// Number of worker threads; `None` chooses by the machine.
    pub workers: Option<usize>,
    /// How long requests may continue after the user stopped the run.
    pub grace: Duration,
    /// Rules that end the run before its workload does.
    pub stops: StopPlan,
}

impl TrafficPlan {
    /// The concurrency limits while it is reached: seconds after the start, and the limit.
    pub(crate) fn ramp(&self) -> impl Iterator<Item = (f64, usize)> {
        let seconds = self.concurrency_ramp.as_secs_f64();
        let limit = self.max_concurrency.filter(|_| seconds > 0.0).unwrap_or(0);
        (0..limit).map(move |at| (seconds * at as f64 / limit as f64, at + 1))
    }
}

impl TrafficPlan {
    /// All requests at once, with full-length outputs and no background tasks.
    pub fn at_once() -> Self {
        TrafficPlan {
            payload: PayloadSpec { ignore_eos: true, ..PayloadSpec::default() },
            temperature_given: true,
            grace: Duration::from_secs(3),
            ..TrafficPlan::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// Fraction of requests to cancel, from 0 to 1.
    pub share: f64,
    /// Time from sending to cancellation.
    pub delay: Duration,
}

/// A profile of a busy server: it starts when this many requests run concurrently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyProfile {
    /// Number of running requests, by the server's own metrics.
    pub running: u64,
    /// Its duration; the end of the run ends it too.
    pub lasting: Duration,
}

/// Rules that end a run before its workload does.
#[derive(Debug, Clone, Default)]
pub struct StopPlan {
    /// No request is sent after this time.
    pub duration: Option<Duration>,
    /// Whether requests are generated until then, if a concurrency limit paces them.
    pub endless: bool,
    /// How long requests may continue after such an end.
    pub drain: Duration,
    /// How long requests may continue after an end by overload.
    pub overload_grace: Duration,
    pub failures: Option<FailureLimit>,
    /// Whether a growing backlog ends the run.
    pub overload: bool,
    pub precision: Option<Precision>,
}

/// The precision that a metric must reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    pub metric: String,
    /// Relative half-width of its 95% confidence interval.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailureLimit {
    /// As a fraction of the finished requests, from 0 to 1.
    Share(f64),
    Count(u64),
}

#[derive(Debug, Clone, Default)]
pub struct ReportPlan {
    pub label: Option<String>,
    pub metadata: Vec<(String, String)>,
    pub percentile_metrics: Vec<MetricKind>,
    pub metric_percentiles: Vec<f64>,
    pub metrics: MetricSettings,
    pub keep_texts: bool,
    /// Command, dataset and SLOs for the record; the server is then asked for its version after the run. `None` for a
    /// run that sends only what vLLM sends.
    pub provenance: Option<Provenance>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_at_a_constant_rate() {
        let ramp = |limit, seconds| {
            let concurrency_ramp = Duration::from_secs(seconds);
            TrafficPlan { max_concurrency: limit, concurrency_ramp, ..TrafficPlan::default() }
                .ramp()
                .collect::<Vec<_>>()
        };
        assert_eq!(ramp(Some(4), 2), [(0.0, 1), (0.5, 2), (1.0, 3), (1.5, 4)]);
        assert!(ramp(Some(4), 0).is_empty() && ramp(None, 2).is_empty());
    }
}
