//! What was typed after `tacho serve`, typed: vLLM's names and defaults, no decisions yet.

mod check;
mod composite;
mod dataset;
mod namespace;
mod notice;
mod table;

pub(crate) use composite::{objectives, percentiles};
pub(crate) use dataset::DatasetArgs;
#[cfg(test)]
pub(crate) use table::BACKENDS;
pub(crate) use table::{SPEED_BENCH_SUBSETS, TABLE};

use tacho_client::{BackendKind, StampSource, Task};
use tacho_core::json::{Dict, Value};
use tacho_loadgen::RampUpStrategy;
use tacho_run::LoraAssignment;

use super::ArgError;
use super::grammar::Values;
use super::output::Outputs;

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
    /// What vLLM does not have.
    pub(crate) own: OwnArgs,
    /// Files beside the result.
    pub(crate) outputs: Outputs,
    /// What was typed, flag by flag.
    pub(crate) values: Values,
}

/// Flags about the server and the model.
#[derive(Debug, Clone)]
pub(crate) struct TargetArgs {
    pub(crate) backend: BackendKind,
    pub(crate) base_url: Option<String>,
    pub(crate) host: String,
    pub(crate) port: i64,
    /// `None` when it was left to the backend.
    pub(crate) endpoint: Option<String>,
    pub(crate) header: Option<Vec<String>>,
    pub(crate) insecure: bool,
    pub(crate) model: Option<String>,
    pub(crate) served_model_name: Option<String>,
    pub(crate) tokenizer: Option<String>,
    pub(crate) tokenizer_mode: String,
    pub(crate) trust_remote_code: bool,
    pub(crate) skip_tokenizer_init: bool,
    pub(crate) lora_modules: Option<Vec<String>>,
    pub(crate) lora_assignment: LoraAssignment,
}

/// Flags about the number and times of requests.
#[derive(Debug, Clone)]
pub(crate) struct LoadArgs {
    pub(crate) num_prompts: i64,
    pub(crate) seed: i64,
    pub(crate) request_rate: f64,
    pub(crate) burstiness: f64,
    pub(crate) max_concurrency: Option<i64>,
    pub(crate) ramp_up_strategy: Option<RampUpStrategy>,
    pub(crate) ramp_up_start_rps: Option<i64>,
    pub(crate) ramp_up_end_rps: Option<i64>,
    pub(crate) probe_request_rate: f64,
    pub(crate) num_warmups: i64,
    pub(crate) ready_check_timeout_sec: i64,
    pub(crate) profile: bool,
    /// `None` leaves it to the dataset.
    pub(crate) self_timed: Option<bool>,
}

/// Flags about what requests ask for.
#[derive(Debug, Clone)]
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

/// Flags about results.
#[derive(Debug, Clone)]
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

/// Flags of our own.
#[derive(Debug, Clone)]
pub(crate) struct OwnArgs {
    pub(crate) sim: bool,
    pub(crate) sim_profile: Option<String>,
    pub(crate) strict_parity: bool,
    pub(crate) dry_run: bool,
    pub(crate) save_workload: Option<String>,
    pub(crate) workload: Option<String>,
    pub(crate) workers: Option<i64>,
    pub(crate) timestamps: StampSource,
    pub(crate) http2: bool,
    /// Seconds.
    pub(crate) connect_timeout: Option<f64>,
    /// Seconds.
    pub(crate) timeout: f64,
    pub(crate) fail_if: Vec<String>,
    pub(crate) pass_undecided: bool,
    pub(crate) require_trustworthy: bool,
    /// Seconds.
    pub(crate) first_token_timeout: Option<f64>,
    pub(crate) retries: i64,
    pub(crate) ca_file: Option<String>,
    /// Seconds.
    pub(crate) metrics_interval: f64,
    pub(crate) reset_caches: bool,
    pub(crate) quiet: bool,
}

impl From<Values> for ServeArgs {
    fn from(values: Values) -> Self {
        ServeArgs {
            target: TargetArgs::from(&values),
            load: LoadArgs::from(&values),
            content: ContentArgs::from(&values),
            dataset: DatasetArgs::from(&values),
            report: ReportArgs::from(&values),
            own: OwnArgs::from(&values),
            outputs: Outputs::read(&values, "--report"),
            values,
        }
    }
}

impl From<&Values> for TargetArgs {
    fn from(v: &Values) -> Self {
        TargetArgs {
            backend: BackendKind::from_name(&v.text("--backend")).expect("the flag has the backends' names as choices"),
            base_url: v.maybe_text("--base-url"),
            host: v.text("--host"),
            port: v.int("--port"),
            endpoint: v.is_given("--endpoint").then(|| v.text("--endpoint")),
            header: v.list("--header"),
            insecure: v.switch("--insecure"),
            model: v.maybe_text("--model"),
            served_model_name: v.maybe_text("--served-model-name"),
            tokenizer: v.maybe_text("--tokenizer"),
            tokenizer_mode: v.text("--tokenizer-mode"),
            trust_remote_code: v.switch("--trust-remote-code"),
            skip_tokenizer_init: v.switch("--skip-tokenizer-init"),
            lora_modules: v.list("--lora-modules"),
            lora_assignment: match v.text("--lora-assignment").as_str() {
                "round-robin" => LoraAssignment::RoundRobin,
                _ => LoraAssignment::Random,
            },
        }
    }
}

impl From<&Values> for LoadArgs {
    fn from(v: &Values) -> Self {
        LoadArgs {
            num_prompts: v.int("--num-prompts"),
            seed: v.int("--seed"),
            request_rate: v.float("--request-rate"),
            burstiness: v.float("--burstiness"),
            max_concurrency: v.maybe_int("--max-concurrency"),
            ramp_up_strategy: v.maybe_text("--ramp-up-strategy").map(|name| match name.as_str() {
                "exponential" => RampUpStrategy::Exponential,
                _ => RampUpStrategy::Linear,
            }),
            ramp_up_start_rps: v.maybe_int("--ramp-up-start-rps"),
            ramp_up_end_rps: v.maybe_int("--ramp-up-end-rps"),
            probe_request_rate: v.float("--probe-request-rate"),
            num_warmups: v.int("--num-warmups"),
            ready_check_timeout_sec: v.int("--ready-check-timeout-sec"),
            profile: v.switch("--profile"),
            self_timed: match v.get("--self-timed") {
                Value::Bool(flag) => Some(*flag),
                _ => None,
            },
        }
    }
}

impl From<&Values> for ContentArgs {
    fn from(v: &Values) -> Self {
        ContentArgs {
            ignore_eos: v.switch("--ignore-eos"),
            logprobs: v.maybe_int("--logprobs"),
            use_beam_search: v.switch("--use-beam-search"),
            top_p: v.maybe_float("--top-p"),
            top_k: v.maybe_int("--top-k"),
            min_p: v.maybe_float("--min-p"),
            temperature: v.maybe_float("--temperature"),
            frequency_penalty: v.maybe_float("--frequency-penalty"),
            presence_penalty: v.maybe_float("--presence-penalty"),
            repetition_penalty: v.maybe_float("--repetition-penalty"),
            // An empty or null body adds nothing, as in Python's `or {}`.
            extra_body: Some(v.get("--extra-body")).filter(|body| body.truthy()).cloned(),
            request_id_prefix: v.text("--request-id-prefix"),
        }
    }
}

impl ServeArgs {
    /// Reads and checks the values.
    pub(crate) fn read(values: Values) -> Result<Self, ArgError> {
        let args = Self::from(values);
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

impl From<&Values> for ReportArgs {
    fn from(v: &Values) -> Self {
        ReportArgs {
            label: v.maybe_text("--label"),
            percentile_metrics: v.maybe_text("--percentile-metrics"),
            metric_percentiles: v.text("--metric-percentiles"),
            goodput: v.list("--goodput"),
            save_result: v.switch("--save-result"),
            append_result: v.switch("--append-result"),
            save_detailed: v.switch("--save-detailed"),
            result_dir: v.maybe_text("--result-dir"),
            result_filename: v.maybe_text("--result-filename"),
            metadata: v.list("--metadata"),
            disable_tqdm: v.switch("--disable-tqdm"),
            plot_timeline: v.switch("--plot-timeline"),
            timeline_itl_thresholds: v.text("--timeline-itl-thresholds"),
            plot_dataset_stats: v.switch("--plot-dataset-stats"),
        }
    }
}

impl From<&Values> for OwnArgs {
    fn from(v: &Values) -> Self {
        OwnArgs {
            sim: v.switch("--sim"),
            sim_profile: v.maybe_text("--sim-profile"),
            strict_parity: v.switch("--strict-parity"),
            dry_run: v.switch("--dry-run"),
            save_workload: v.maybe_text("--save-workload"),
            workload: v.maybe_text("--workload"),
            workers: v.maybe_int("--workers"),
            timestamps: match v.text("--timestamps").as_str() {
                "user" => StampSource::User,
                _ => StampSource::Kernel,
            },
            http2: v.switch("--http2"),
            connect_timeout: v.maybe_float("--connect-timeout"),
            timeout: v.float("--timeout"),
            fail_if: v.list("--fail-if").unwrap_or_default(),
            pass_undecided: v.switch("--pass-undecided"),
            require_trustworthy: v.switch("--require-trustworthy"),
            first_token_timeout: v.maybe_float("--first-token-timeout"),
            retries: v.int("--retries"),
            ca_file: v.maybe_text("--ca-file"),
            metrics_interval: v.float("--metrics-interval"),
            reset_caches: v.switch("--reset-caches") || v.switch("--reset-prefix-cache"),
            quiet: v.switch("--quiet"),
        }
    }
}
