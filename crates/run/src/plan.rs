//! What a run is to do: compositions of the specs of its parts.

use std::path::PathBuf;
use std::time::Duration;

use tacho_client::EndpointSpec;
use tacho_core::json::Dict;
use tacho_loadgen::ScheduleSpec;
use tacho_metrics::{GoodputLimits, MetricKind};
use tacho_record::Provenance;
use tacho_text::TokenizerMode;
use tacho_workload::WorkloadSpec;
use tacho_workload::hub::Hub;

use crate::serve::{LogPlan, SessionsPlan};
use crate::telemetry::TelemetryPlan;

/// A run of `tacho serve`.
#[derive(Debug, Clone)]
pub struct ServePlan {
    /// The server.
    pub endpoint: EndpointSpec,
    /// The path that control calls begin with: the base URL's.
    pub base_path: String,
    /// The model.
    pub model: ModelPlan,
    /// What counts tokens.
    pub tokenizer: TokenizerPlan,
    /// Where tokenizers and datasets that are not local come from.
    pub hub: Hub,
    /// The requests.
    pub workload: WorkloadPlan,
    /// Adapters, if any.
    pub lora: Option<LoraPlan>,
    /// Most tokens of a prompt and its completion together; longer requests are dropped.
    pub max_model_len: Option<u64>,
    /// Seeds both of Python's global generators.
    pub seed: u32,
    /// When requests go out.
    pub traffic: TrafficPlan,
    /// What is reported.
    pub report: ReportPlan,
    /// Where its rows are logged, if anywhere.
    pub log: Option<LogPlan>,
    /// This process's place among several ranks, if it is one.
    pub ranks: Option<tacho_fleet::Membership>,
}

/// The model of the requests.
#[derive(Debug, Clone, Default)]
pub struct ModelPlan {
    /// `--model`; the server's first one when absent.
    pub model: Option<String>,
    /// The name it is served under.
    pub served_name: Option<String>,
}

/// Where the tokenizer comes from.
#[derive(Debug, Clone)]
pub enum TokenizerPlan {
    /// The one built into the program.
    Builtin,
    /// One that is loaded.
    Named(NamedTokenizer),
    /// None at all.
    Skipped,
}

/// A tokenizer to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedTokenizer {
    /// A path or a Hub id; the model's own when absent.
    pub name: Option<String>,
    /// The branch, tag or commit on the Hub.
    pub revision: Option<String>,
    /// Which of its files are read.
    pub mode: TokenizerMode,
}

/// Where the requests come from.
#[derive(Debug, Clone)]
pub enum WorkloadPlan {
    /// Sampled from a data set.
    Sample {
        /// The data set and its settings.
        spec: Box<WorkloadSpec>,
        /// How many requests were asked for; the data may give another number.
        num_prompts: i64,
        /// Whether prompts are cut to what the server's tokenizer counts.
        align: bool,
        /// Whether requests go out at the times that the data set gives.
        self_timed: bool,
    },
    /// Conversations, agents or recorded traffic.
    Sessions(Box<SessionsPlan>),
    /// Read from a file that an earlier run saved, due times and all.
    File {
        /// The file.
        path: PathBuf,
        /// Factor on the saved times.
        time_scale: f64,
    },
}

/// How requests get adapters.
#[derive(Debug, Clone)]
pub struct LoraPlan {
    /// Their names.
    pub modules: Vec<String>,
    /// Who gets which.
    pub assignment: LoraAssignment,
}

/// Who gets which adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoraAssignment {
    /// Drawn from Python's global generator.
    Random,
    /// In turn.
    RoundRobin,
}

/// When requests go out, and what comes before them.
#[derive(Debug, Clone)]
pub struct TrafficPlan {
    /// The schedule.
    pub schedule: ScheduleSpec,
    /// Most requests in flight.
    pub max_concurrency: Option<usize>,
    /// At most this many that wait for their first token.
    pub max_prefills: Option<usize>,
    /// Requests that are cancelled on purpose.
    pub cancellation: Option<Cancellation>,
    /// Whether generation continues past the end of text.
    pub ignore_eos: bool,
    /// Log probabilities to ask for.
    pub logprobs: Option<i64>,
    /// A temperature right after the messages of a chat.
    pub chat_temperature: Option<f64>,
    /// Sampling flags overlaid by `--extra-body`.
    pub extra_body: Dict,
    /// Whether `--temperature` was given; without it upstream warns.
    pub temperature_given: bool,
    /// How long to wait for the server; zero does not ask.
    pub ready_timeout: Duration,
    /// Requests to send before the run.
    pub warmups: usize,
    /// Whether there is no run when one of them fails.
    pub warmups_must_pass: bool,
    /// Whether to empty the server's caches after them.
    pub reset_caches: bool,
    /// Whether to run the server's profiler.
    pub profile: bool,
    /// When it runs, if not from the first request to the last.
    pub profile_when: Option<BusyProfile>,
    /// Probes per second during the load; zero for none.
    pub probe_rate: f64,
    /// Between two scrapes of the server's metrics; zero scrapes only before and after the run.
    pub metrics_interval: Duration,
    /// Telemetry in addition to the server's metrics.
    pub telemetry: Option<TelemetryPlan>,
    /// Threads; none leaves it to the machine.
    pub workers: Option<usize>,
    /// How long requests may continue after the user stopped the run.
    pub grace: Duration,
    /// What ends the run before its workload does.
    pub stops: StopPlan,
}

impl TrafficPlan {
    /// All requests at once, answers of whole length, and nothing else.
    pub fn at_once() -> Self {
        TrafficPlan {
            schedule: ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 },
            max_concurrency: None,
            max_prefills: None,
            cancellation: None,
            ignore_eos: true,
            logprobs: None,
            chat_temperature: None,
            extra_body: Dict::new(),
            temperature_given: true,
            ready_timeout: Duration::ZERO,
            warmups: 0,
            warmups_must_pass: false,
            reset_caches: false,
            profile: false,
            profile_when: None,
            probe_rate: 0.0,
            metrics_interval: Duration::ZERO,
            telemetry: None,
            workers: None,
            grace: Duration::from_secs(3),
            stops: StopPlan::default(),
        }
    }
}

/// Requests that are cancelled on purpose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// Of all of them, from 0 to 1.
    pub share: f64,
    /// How long after they were written.
    pub delay: Duration,
}

/// A profile of a busy server: it begins when this many requests run at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusyProfile {
    /// Requests that are served at once, by the server's own count.
    pub running: u64,
    /// How long it lasts; the end of the run ends it too.
    pub lasting: Duration,
}

/// What ends a run before its workload does.
#[derive(Debug, Clone, Default)]
pub struct StopPlan {
    /// No request is sent after this time.
    pub duration: Option<Duration>,
    /// Whether requests are generated until then, where a concurrency limit paces them.
    pub endless: bool,
    /// How long requests may continue after such an end.
    pub drain: Duration,
    /// The same after an end by overload.
    pub hopeless: Duration,
    /// More failures than this.
    pub failures: Option<FailureLimit>,
    /// A backlog that grows.
    pub overload: bool,
    /// A metric that is precise enough.
    pub precision: Option<Precision>,
}

/// The precision that a metric must reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Precision {
    /// Its name in results.
    pub metric: String,
    /// Half of its 95% interval as a fraction of its value.
    pub share: f64,
}

/// How many requests may fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FailureLimit {
    /// Of all that are over, from 0 to 1.
    Share(f64),
    /// So many.
    Count(u64),
}

/// What is reported, and under which names.
#[derive(Debug, Clone)]
pub struct ReportPlan {
    /// The run's name.
    pub label: Option<String>,
    /// Keys for the result file.
    pub metadata: Vec<(String, String)>,
    /// Latencies to report.
    pub percentile_metrics: Vec<MetricKind>,
    /// Percentiles to report.
    pub metric_percentiles: Vec<f64>,
    /// Limits a good request keeps.
    pub goodput: Option<GoodputLimits>,
    /// Whether generated texts are wanted in the record.
    pub keep_texts: bool,
    /// The command, the dataset and the SLOs of a run that describes itself; then the server is asked for its version
    /// after the run. Nothing for a run that sends only what vLLM sends.
    pub provenance: Option<Provenance>,
}
