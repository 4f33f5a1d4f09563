//! The settings of a run that its report needs.

use tacho_core::StageSpan;
pub use tacho_core::Task;
use tacho_core::json::{ByKey, Codec, Dict, FieldError, Flat, Json, Value, typed};

use crate::MetricKind;

/// A list of objects rather than one object, because keys may repeat.
struct Metadata;

impl Codec<Vec<(String, String)>> for Metadata {
    fn write(pairs: &Vec<(String, String)>) -> Value {
        let pair = |(key, value): &(String, String)| {
            let entry: Dict = [("key", key), ("value", value)]
                .map(|(name, text)| (name.to_owned(), text.to_json()))
                .into_iter()
                .collect();
            entry.into()
        };
        Value::List(pairs.iter().map(pair).collect())
    }

    fn read(value: &Value) -> Result<Vec<(String, String)>, FieldError> {
        let text = |pair: &Value, key| pair.text(key).map(str::to_owned);
        let pairs =
            value.as_list().unwrap_or_default().iter().map(|pair| Some((text(pair, "key")?, text(pair, "value")?)));
        pairs.collect::<Option<_>>().ok_or(FieldError::new("a list of keys and values"))
    }

    fn schema(_: bool) -> Dict {
        typed("array")
    }
}

tacho_core::record! {
    /// A rate that rises during the run.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RampUp {
        /// `linear` or `exponential`.
        pub strategy: String,
        /// Requests per second at the start.
        pub start_rps: i64,
        /// Requests per second at the end.
        pub end_rps: i64,
    }
}

tacho_core::record! {
    /// A time at which the rate of a ramp-up passed a whole number.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RateChange {
        /// The new rate.
        pub rps: i64,
        /// When, in ISO format.
        pub timestamp: String,
    }
}

tacho_core::record! {
    /// Upper limits in milliseconds; a request must meet all that are set.
    ///
    /// ```
    /// use tacho_metrics::{GoodputLimits, Sample, Samples};
    ///
    /// let request = |ttft| Sample { ttft, latency: 1.0, output_len: 11, ..Sample::default() };
    /// let samples = Samples::from([request(0.1), request(0.3)]);
    /// let limits = GoodputLimits { ttft_ms: Some(200.0), ..GoodputLimits::default() };
    /// assert_eq!(limits.count(&samples), 1);
    /// ```
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct GoodputLimits {
        /// On the time to the first token.
        pub ttft_ms: Option<f64> = None,
        /// On the time per output token; a response of at most one token counts as 0.
        pub tpot_ms: Option<f64> = None,
        /// On the time to the last token.
        pub e2el_ms: Option<f64> = None,
    }
}

tacho_core::record! {
    /// Settings that single metrics need. Results state them with their provenance.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct MetricSettings {
        /// SLOs of --goodput.
        pub goodput: Option<GoodputLimits> = None,
        /// SLOs of classes that have their own.
        pub class_goodput: Vec<(String, GoodputLimits)> => ByKey = Vec::new(),
        /// Seconds from the first audio of a response to the start of its playback, by --playback-buffer.
        pub playback_buffer: f64 = 0.0,
        /// Price of all GPUs per hour, by --gpu-hour-price and --gpus.
        pub price_per_hour: Option<f64> = None,
        /// GPUs that served the run, by --gpus.
        pub gpus: Option<u64> = None,
    }
}

/// With these SLOs for all requests.
impl From<GoodputLimits> for MetricSettings {
    fn from(limits: GoodputLimits) -> Self {
        MetricSettings { goodput: Some(limits), ..MetricSettings::default() }
    }
}

tacho_core::record! {
    /// The settings of a run.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Setup {
        /// End of the run, local time, `YYYYMMDD-HHMMSS`.
        pub date: String,
        /// Start of the run, in ISO format.
        pub started: String,
        /// The backend's name.
        pub backend: String,
        /// The user's name for the run.
        pub label: Option<String>,
        /// The model.
        pub model_id: String,
        /// The tokenizer; `None` when the run has none.
        pub tokenizer_id: Option<String>,
        /// Requests asked for; a dataset may have fewer.
        pub num_prompts: i64,
        /// The user's keys and values.
        pub metadata: Vec<(String, String)> => Metadata,
        /// Requests per second, may be infinite.
        pub request_rate: f64,
        /// Shape of the distribution of inter-arrival times, may be infinite.
        pub burstiness: f64,
        /// Limit on requests in flight.
        pub max_concurrency: Option<u64>,
        /// The rising rate, if there was one.
        pub ramp_up: Option<RampUp>,
        /// Rate changes of the ramp-up.
        pub rps_change_events: Vec<RateChange>,
        /// The stages of the load, if it changes.
        pub stages: Vec<StageSpan> = Vec::new(),
        /// Whether the dataset's timestamps set the schedule.
        pub self_timed: bool,
        /// The task.
        pub task: Task,
        /// The latency metrics to report.
        pub percentile_metrics: Vec<MetricKind>,
        /// The percentiles to report.
        pub metric_percentiles: Vec<f64>,
        /// The settings of single metrics.
        pub metrics: MetricSettings => Flat,
        /// Whether vLLM's defects are reproduced.
        pub strict_parity: bool,
        /// Whether the run was stopped before its end.
        pub interrupted: bool,
        /// The workload digest: equal for runs of the same requests at the same times; `None` if unknown.
        pub workload: Option<String>,
    }
}

impl Setup {
    /// Returns whether there is a tokenizer to count with.
    pub fn has_tokenizer(&self) -> bool {
        self.tokenizer_id.is_some()
    }

    /// Returns whether requests had individual scheduled times, rather than all being due at once.
    pub fn is_paced(&self) -> bool {
        self.request_rate.is_finite() || self.ramp_up.is_some() || self.self_timed
    }

    /// Returns whether there are goodput limits.
    pub fn has_goodput(&self) -> bool {
        self.metrics.goodput.is_some() || !self.metrics.class_goodput.is_empty()
    }

    /// Returns whether vLLM reports `metric` for such a run.
    pub fn reports(&self, metric: MetricKind) -> bool {
        let applies = match metric {
            MetricKind::Ttft | MetricKind::Tpot | MetricKind::Itl => {
                self.task == Task::Generation && self.has_tokenizer()
            }
            MetricKind::E2el => true,
            MetricKind::ClientQueueTime => self.max_concurrency.is_some(),
            MetricKind::E2elIncludingClientQueue => self.max_concurrency.is_some() && self.request_rate.is_finite(),
            audio => audio.is_audio() && self.task == Task::Media,
        };
        applies && self.percentile_metrics.contains(&metric)
    }
}

impl Setup {
    /// A plain generation run at infinite rate, for tests and examples.
    pub fn example() -> Self {
        Setup {
            date: "20260102-030405".into(),
            started: "2026-01-02T03:04:00Z".into(),
            backend: "openai".into(),
            label: None,
            model_id: "org/model".into(),
            tokenizer_id: Some("org/model".into()),
            num_prompts: 10,
            metadata: Vec::new(),
            request_rate: f64::INFINITY,
            burstiness: 1.0,
            max_concurrency: None,
            ramp_up: None,
            rps_change_events: Vec::new(),
            stages: Vec::new(),
            self_timed: false,
            task: Task::Generation,
            percentile_metrics: MetricKind::ALL.to_vec(),
            metric_percentiles: vec![99.0],
            metrics: MetricSettings::default(),
            strict_parity: false,
            interrupted: false,
            workload: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_metrics_need_a_limit_and_the_inclusive_one_a_finite_rate() {
        let limited = Setup { max_concurrency: Some(2), ..Setup::example() };
        let paced = Setup { request_rate: 3.0, ..limited.clone() };
        assert!(!Setup::example().reports(MetricKind::ClientQueueTime));
        assert!(limited.reports(MetricKind::ClientQueueTime));
        assert!(!limited.reports(MetricKind::E2elIncludingClientQueue));
        assert!(paced.reports(MetricKind::E2elIncludingClientQueue));
    }

    #[test]
    fn token_metrics_need_a_tokenizer() {
        let without = Setup { tokenizer_id: None, ..Setup::example() };
        assert!(!without.reports(MetricKind::Ttft));
        assert!(without.reports(MetricKind::E2el));
    }
}
