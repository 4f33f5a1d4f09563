//! What was typed after `tacho serve`, typed: vLLM's names and defaults, no decisions yet.

mod check;
mod composite;
mod dataset;
mod multi_turn;
mod namespace;
mod notice;
pub(crate) mod points;
mod repeats;
mod sessions;
pub(crate) mod stops;
mod table;

pub(crate) use composite::{gap_thresholds, objectives, percentiles};
pub(crate) use dataset::DatasetArgs;
pub(crate) use multi_turn::MultiTurnFlags;
pub(crate) use sessions::SessionArgs;
#[cfg(test)]
pub(crate) use table::BACKENDS;
pub(crate) use table::{PREDICT, SPEED_BENCH_SUBSETS, TABLE};

use std::time::Duration;

use tacho_args::grammar::Setting;
use tacho_args::grammar::Values;
use tacho_args::typed;
use tacho_args::typed::Given;
use tacho_client::{BackendKind, Task, TimestampSource};
use tacho_core::json::{Dict, Value};
use tacho_core::secret::Secret;
use tacho_loadgen::RampUpStrategy;
use tacho_run::LoraAssignment;

use self::stops::StopArgs;
use super::ArgError;
use super::error::Refusal;
use super::live::{LiveArgs, TelemetryArgs};
use super::output::Outputs;
use super::ranks::RankArgs;

/// Flags about a server or the duration of a run: a prediction has neither.
pub(super) const NEEDS_A_SERVER: &[&str] = &[
    "--base-url",
    "--host",
    "--port",
    "--duration",
    "--until",
    "--stop-on-failures",
    "--stop-on-overload",
    "--log",
    "--resume",
    "--live",
    "--live-http",
    "--telemetry",
    "--sim-args",
    "--profile",
    "--probe-request-rate",
    "--reset-prefix-cache",
    "--reset-caches",
    "--rank",
    "--ranks",
    "--rendezvous",
    "--dry-run",
    "--save-workload",
    "--require-trustworthy",
    "--num-warmups",
    "--sweep-max-concurrency",
    "--sweep-request-rate",
    "--compare",
    "--num-runs",
    "--vary-seed",
    "--timeout",
    "--first-token-timeout",
    "--connect-timeout",
    "--retries",
    "--http2",
    "--workers",
    "--timestamps",
    "--grace",
    "--gather",
    "--otlp",
    "--otlp-spans",
    "--metrics-interval",
    "--telemetry-url",
];

/// All flags of `tacho serve`.
#[derive(Debug, Clone)]
pub(crate) struct ServeArgs {
    /// Which server and model.
    pub(crate) target: TargetArgs,
    /// How much, and when.
    pub(crate) load: LoadArgs,
    /// What requests ask for.
    pub(crate) content: ContentArgs,
    /// Where prompts come from.
    pub(crate) dataset: DatasetArgs,
    /// What is computed and written.
    pub(crate) report: ReportArgs,
    /// Sessions in place of a dataset.
    pub(crate) sessions: SessionArgs,
    /// What vLLM does not have.
    pub(crate) own: OwnArgs,
    pub(crate) ranks: RankArgs,
    /// Files next to the result.
    pub(crate) outputs: Outputs,
    /// When the run ends, besides with its requests.
    pub(crate) stops: StopArgs,
    /// How often it is run, and what is looked for in it.
    pub(crate) repeats: repeats::RepeatArgs,
    /// Several loads, one after another.
    pub(crate) points: points::PointArgs,
    /// What it is called among several runs; nothing of a single one.
    pub(crate) name: Option<String>,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
    /// Telemetry sources other than the server.
    pub(crate) telemetry: TelemetryArgs,
    /// What was typed, flag by flag.
    pub(crate) values: Values,
}

fn backend(setting: Setting<'_>) -> BackendKind {
    known_backend(setting).expect("the flag has a default")
}

fn known_backend(setting: Setting<'_>) -> Option<BackendKind> {
    let name = setting.value.as_str()?;
    Some(BackendKind::from_name(name).expect("the flags have the backends' names as choices"))
}

pub(crate) fn timestamp_source(setting: Setting<'_>) -> TimestampSource {
    if setting.value.as_str() == Some("user") { TimestampSource::User } else { TimestampSource::Kernel }
}

fn lora_assignment(setting: Setting<'_>) -> LoraAssignment {
    if setting.value.as_str() == Some("round-robin") { LoraAssignment::RoundRobin } else { LoraAssignment::Random }
}

fn ramp_up_strategy(setting: Setting<'_>) -> Option<RampUpStrategy> {
    let name = setting.value.as_str()?;
    Some(if name == "linear" { RampUpStrategy::Linear } else { RampUpStrategy::Exponential })
}

typed! {
    /// Flags about the server and the model.
    pub(crate) struct TargetArgs {
        pub(crate) backend: BackendKind = backend,
        pub(crate) endpoint_type: Option<BackendKind> = known_backend,
        pub(crate) base_url: Option<String>,
        pub(crate) host: String,
        pub(crate) port: i64,
        /// The API path; left to the backend where none was given.
        pub(crate) endpoint: Given<String>,
        pub(crate) header: Option<Vec<String>>,
        pub(crate) api_key: Option<Secret>,
        pub(crate) insecure: bool,
        pub(crate) model: Option<String>,
        pub(crate) served_model_name: Option<String>,
        pub(crate) tokenizer: Option<String>,
        pub(crate) tokenizer_mode: String,
        pub(crate) trust_remote_code: bool,
        pub(crate) skip_tokenizer_init: bool,
        pub(crate) lora_modules: Option<Vec<String>>,
        pub(crate) lora_assignment: LoraAssignment = lora_assignment,
    }
}

typed! {
    /// Flags about the number and times of requests.
    pub(crate) struct LoadArgs {
        pub(crate) num_prompts: i64,
        pub(crate) seed: i64,
        pub(crate) request_rate: f64,
        pub(crate) burstiness: f64,
        pub(crate) max_concurrency: Option<i64>,
        pub(crate) ramp_up_strategy: Option<RampUpStrategy> = ramp_up_strategy,
        pub(crate) ramp_up_start_rps: Option<i64>,
        pub(crate) ramp_up_end_rps: Option<i64>,
        pub(crate) probe_request_rate: f64,
        pub(crate) num_warmups: i64,
        pub(crate) ready_check_timeout_sec: i64,
        pub(crate) profile: bool,
        pub(crate) profile_batch_threshold: Option<i64>,
        pub(crate) profile_duration: Duration,
        pub(crate) max_model_len: Option<i64>,
        /// `None` leaves it to the dataset.
        pub(crate) self_timed: Option<bool>,
    }
}

typed! {
    /// Flags about what requests ask for.
    pub(crate) struct ContentArgs {
        pub(crate) ignore_eos: bool,
        pub(crate) logprobs: Option<i64>,
        pub(crate) use_beam_search: bool,
        pub(crate) top_p: Option<f64>,
        pub(crate) top_k: Option<i64>,
        pub(crate) min_p: Option<f64>,
        pub(crate) temperature: Option<f64>,
        pub(crate) frequency_penalty: Option<f64>,
        pub(crate) presence_penalty: Option<f64>,
        pub(crate) repetition_penalty: Option<f64>,
        /// Any JSON; only an object passes the check.
        pub(crate) extra_body: Option<Value>,
        pub(crate) request_id_prefix: String,
    }
}

typed! {
    /// Flags about results.
    pub(crate) struct ReportArgs {
        pub(crate) label: Option<String>,
        pub(crate) percentile_metrics: Option<String>,
        pub(crate) metric_percentiles: String,
        pub(crate) goodput: Option<Vec<String>>,
        pub(crate) save_result: bool,
        pub(crate) append_result: bool,
        pub(crate) save_detailed: bool,
        pub(crate) result_dir: Option<String>,
        pub(crate) result_filename: Option<String>,
        pub(crate) metadata: Option<Vec<String>>,
        pub(crate) disable_tqdm: bool,
        pub(crate) plot_timeline: bool,
        pub(crate) timeline_itl_thresholds: String,
        pub(crate) plot_dataset_stats: bool,
    }
}

typed! {
    /// Flags of our own.
    pub(crate) struct OwnArgs {
        pub(crate) sim: bool,
        pub(crate) sim_profile: Option<String>,
        pub(crate) sim_args: Option<String>,
        pub(crate) strict_parity: bool,
        pub(crate) dry_run: bool,
        pub(crate) save_workload: Option<String>,
        pub(crate) workload: Option<String>,
        pub(crate) workers: Option<i64>,
        pub(crate) timestamps: TimestampSource = timestamp_source,
        pub(crate) http2: bool,
        pub(crate) connect_timeout: Option<Duration>,
        pub(crate) timeout: Duration,
        pub(crate) fail_if: Vec<String>,
        pub(crate) allow_inconclusive: bool,
        pub(crate) require_trustworthy: bool,
        pub(crate) first_token_timeout: Option<Duration>,
        pub(crate) retries: i64,
        pub(crate) ca_file: Option<String>,
        pub(crate) metrics_interval: Duration,
        pub(crate) reset_caches: bool,
        pub(crate) log: Option<String>,
        pub(crate) no_log: bool,
        pub(crate) resume: Option<String>,
        pub(crate) quiet: bool,
    }
}

impl From<Values> for ServeArgs {
    fn from(values: Values) -> Self {
        let mut target = TargetArgs::from(&values);
        // The older name of the flag counts where the flag itself is not set.
        if let Some(older) = target.endpoint_type.filter(|_| !values.is_given("--backend")) {
            target.backend = older;
        }
        let mut own = OwnArgs::from(&values);
        own.reset_caches |= values.switch("--reset-prefix-cache");
        let mut args = ServeArgs {
            target,
            load: stops::filling(LoadArgs::from(&values), &values),
            content: ContentArgs::from(&values),
            dataset: DatasetArgs::from(&values),
            report: ReportArgs::from(&values),
            sessions: SessionArgs::from(&values),
            own,
            outputs: Outputs::read(&values, "--report"),
            ranks: RankArgs::from(&values),
            stops: StopArgs::from(&values),
            repeats: repeats::RepeatArgs::read(&values),
            points: points::PointArgs::read(&values),
            name: None,
            live: LiveArgs::from(&values),
            telemetry: TelemetryArgs::default(),
            values,
        };
        args.unabbreviate();
        args
    }
}

impl ServeArgs {
    /// Reads and checks the values.
    pub(crate) fn read(values: Values) -> Result<Self, ArgError> {
        // Commands that stand for a benchmark make its words themselves.
        values.check()?;
        let telemetry = TelemetryArgs::read(&values)?;
        let args = ServeArgs { telemetry, ..Self::from(values) };
        check::check(&args)?;
        Ok(args)
    }

    /// `--log 5` is upstream's abbreviation of `--logprobs 5`; a directory is not a number.
    fn unabbreviate(&mut self) {
        if let Some(count) = self.own.log.as_deref().and_then(|text| text.trim().parse().ok()) {
            self.content.logprobs = self.content.logprobs.or(Some(count));
            self.own.log = None;
        }
    }

    /// The same for a run that is only simulated.
    pub(crate) fn read_simulated(values: Values) -> Result<Self, ArgError> {
        values.check()?;
        if let Some(&flag) = NEEDS_A_SERVER.iter().find(|flag| values.is_given(flag)) {
            return Err(Refusal::NotPredicted { flag }.into());
        }
        let mut args = Self::from(values);
        args.own.sim = true;
        check::check(&args)?;
        Ok(args)
    }

    /// Whether answers come whole.
    pub(crate) fn is_pooling(&self) -> bool {
        self.target.backend.task() == Task::Pooling
    }
}

impl ContentArgs {
    /// The sampling flags that were given, in the order vLLM sends them.
    pub(crate) fn sampling(&self) -> Dict {
        let all = [
            ("top_p", Value::from(self.top_p)),
            ("top_k", Value::from(self.top_k)),
            ("min_p", Value::from(self.min_p)),
            ("temperature", Value::from(self.temperature)),
            ("frequency_penalty", Value::from(self.frequency_penalty)),
            ("presence_penalty", Value::from(self.presence_penalty)),
            ("repetition_penalty", Value::from(self.repetition_penalty)),
        ];
        all.into_iter().filter(|(_, value)| *value != Value::Null).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
