//! An entry of a history: what the index and the trends need of a result.

use ring::digest::{SHA256, digest};
use tacho_core::json::{ByKey, Dict, OrDefault, Value, dumps};
use tacho_core::secret::{REDACTED, is_secret_name};
use tacho_metrics::{Caveat, Severity};

use super::{HistoryError, VERSION};
use crate::metric::{Better, Known};
use crate::{ResultFields, ResultKind};

/// Longest text of a tag or setting, in characters, and most tags of an entry.
const LONGEST_TEXT: usize = 200;
const MAX_TAGS: usize = 50;
/// Most parameters of a sweep that are settings.
const MAX_PARAMETERS: usize = 30;
/// The load, which a search sets itself.
const LOAD: [&str; 3] = ["request_rate", "max_concurrency", "num_prompts"];
/// Keys of a result, and of the answer of a search, that are settings.
const SETTINGS: [&str; 11] = [
    "tool",
    "predicted_by",
    "model_id",
    "backend",
    "label",
    LOAD[0],
    LOAD[1],
    LOAD[2],
    "burstiness",
    "variable",
    "criteria",
];
/// What a search or a test sets for each of its runs.
const PER_RUN: [&str; 2] = ["workload", "seed"];
/// Before the metric of which it is the change from A to B in an A/B test.
const CHANGE: &str = "change_";

tacho_core::named! {
    /// The kind of an entry: a result, the answer of a search, or an A/B test.
    pub enum EntryKind, "a kind of entry" {
        /// A benchmark of a server.
        Serving = "serving",
        /// Offline latency.
        Latency = "latency",
        /// Offline throughput.
        Throughput = "throughput",
        /// Startup time of an engine.
        Startup = "startup",
        /// The maximum load within SLOs.
        Search = "search",
        /// Two servers in alternating blocks.
        AbTest = "ab-test",
    }
}

impl EntryKind {
    fn of(result: &Dict) -> Option<Self> {
        let has = |key: &&str| result.get(key).is_some();
        match ResultKind::of(result) {
            Some(kind) => EntryKind::from_name(kind.name()),
            None if result.get("type").and_then(Value::as_str) == Some("ab-test") => Some(EntryKind::AbTest),
            None if ["criteria", "variable", "verdict"].iter().all(has) => Some(EntryKind::Search),
            None => None,
        }
    }
}

tacho_core::record! {
    /// A result in a history, without its requests.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Entry {
        /// Version of the format.
        pub version: u64,
        /// Its name: the time of the run and a digest of the result.
        pub id: String,
        /// Start of the run in UTC, by ISO 8601.
        pub time: String,
        /// The file that was added.
        pub source: String,
        /// The kind of result.
        pub kind: EntryKind,
        /// What the user says about it: commit, branch, hardware.
        pub tags: Vec<(String, String)> => ByKey = Vec::new(),
        /// Settings of the run.
        pub settings: Vec<(String, String)> => ByKey = Vec::new(),
        /// Its metrics by key.
        pub metrics: Vec<(String, f64)> => ByKey = Vec::new(),
        /// Codes of its severe warnings.
        pub warnings: Vec<String> => OrDefault,
        /// Metrics that the client may have changed by more than 5%: other work held its cores, or it was stopped.
        pub doubtful: Vec<String> => OrDefault,
    }
}

impl Entry {
    /// The entry of a result that was started at `time`. Fails for another file, and for a run that was interrupted or
    /// has no successful request.
    pub fn new(result: &Dict, time: &str, source: &str, tags: &[(String, String)]) -> Result<Self, HistoryError> {
        let kind = EntryKind::of(result).ok_or(HistoryError::NotAResult)?;
        let fields = ResultFields(result);
        complete(fields)?;
        let hash = digest(&SHA256, dumps(&Value::Dict(result.clone())).as_bytes());
        let hash: String = hash.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let day: String = time.chars().filter(|c| c.is_ascii_digit() || *c == 'T').take(15).collect();
        let is_severe = |code: &String| Caveat::severity_of(code) == Some(Severity::Bad);
        let codes = fields.caveats().unwrap_or_default().into_iter().map(|caveat| caveat.kind);
        let metrics = metrics(fields);
        let is_doubtful = |(key, value): &&(String, f64)| fields.client_range(key, *value).is_none();
        let mut entry = Entry {
            version: VERSION,
            id: format!("{day}-{hash}"),
            time: time.to_owned(),
            source: short(source),
            kind,
            tags: Vec::new(),
            settings: settings(fields),
            doubtful: metrics.iter().filter(is_doubtful).map(|(key, _)| key.clone()).collect(),
            metrics,
            warnings: codes.filter(is_severe).collect(),
        };
        entry.tag(tags);
        Ok(entry)
    }

    /// Sets tags; an existing one is replaced. Values whose name looks like a secret are not kept.
    pub fn tag(&mut self, tags: &[(String, String)]) {
        for (key, value) in tags.iter().take(MAX_TAGS) {
            self.tags.retain(|(known, _)| known != key);
            self.tags.push((short(key), if is_secret_name(key) { REDACTED.to_owned() } else { short(value) }));
        }
    }

    /// Takes over the settings of a run behind it, except those that the search or the test sets itself.
    pub fn settings_of(&mut self, run: &Entry) {
        let load: &[&str] = if self.kind == EntryKind::Search { &LOAD } else { &LOAD[2..] };
        let known = |key: &str| self.settings.iter().any(|(name, _)| name == key);
        let taken =
            run.settings.iter().filter(|(key, _)| !PER_RUN.contains(&key.as_str()) && !load.contains(&key.as_str()));
        let taken: Vec<_> = taken.filter(|(key, _)| !known(key)).cloned().collect();
        self.settings.extend(taken);
    }

    /// A metric.
    pub fn metric(&self, key: &str) -> Option<f64> {
        self.metrics.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// A tag, or else a setting; `kind` and `id` count too.
    pub fn about(&self, key: &str) -> Option<&str> {
        match key {
            "kind" => Some(self.kind.name()),
            "id" => Some(&self.id),
            _ => self.tags.iter().chain(&self.settings).find(|(name, _)| name == key).map(|(_, value)| value.as_str()),
        }
    }

    /// Whether it has these tags or settings.
    pub fn fits(&self, wanted: &[(String, String)]) -> bool {
        wanted.iter().all(|(key, value)| self.about(key) == Some(value))
    }

    /// Its commit, shortened, or else its id.
    pub fn name(&self) -> String {
        self.about("commit").map_or_else(|| self.id.clone(), |commit| commit.chars().take(10).collect())
    }
}

/// The direction in which a metric of an entry improves.
pub fn better(key: &str) -> Better {
    match DERIVED.iter().find(|(name, ..)| *name == key) {
        Some((_, better, _)) => *better,
        None => Known::find(key.strip_prefix(CHANGE).unwrap_or(key)).map_or(Better::Neither, Known::better),
    }
}

/// Metrics that follow from others: those of Pareto fronts, energy, and the answer of a search.
type Derived = (&'static str, Better, fn(ResultFields<'_>) -> Option<f64>);
const DERIVED: [Derived; 5] = [
    ("tokens_per_second_per_user", Better::More, |fields| {
        fields.number("mean_tpot_ms").filter(|ms| *ms > 0.0).map(|ms| 1e3 / ms)
    }),
    ("tokens_per_second_per_gpu", Better::More, |fields| {
        let sizes = ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"];
        let gpus: f64 = sizes.iter().filter_map(|key| fields.number(key)).product();
        fields.number("output_throughput_per_gpu").or_else(|| Some(fields.number("output_throughput")? / gpus.max(1.0)))
    }),
    ("joules_per_output_token", Better::Less, |fields| {
        fields.tacho("telemetry")?.get("joules_per_output_token")?.as_f64()
    }),
    ("capacity", Better::More, |fields| found(fields).and_then(|_| fields.number("max_measured"))),
    ("capacity_estimate", Better::More, |fields| found(fields).and_then(|_| fields.number("estimate"))),
];

/// A search that is inconclusive knows a lower bound only.
fn found(fields: ResultFields<'_>) -> Option<()> {
    (fields.0.get("verdict").and_then(Value::as_str) == Some("found")).then_some(())
}

/// A part of a run would be taken for a change.
fn complete(fields: ResultFields<'_>) -> Result<(), HistoryError> {
    match () {
        () if fields.tacho("interrupted") == Some(&Value::Bool(true)) => {
            Err(HistoryError::Incomplete("was interrupted"))
        }
        () if fields.number("completed") == Some(0.0) => Err(HistoryError::Incomplete("has no successful request")),
        () if matches!(fields.0.get("stopped").and_then(Value::as_str), Some("interrupted" | "failed")) => {
            Err(HistoryError::Incomplete("was not completed"))
        }
        () if fields.number("pairs") == Some(0.0) => Err(HistoryError::Incomplete("has no pair")),
        () => Ok(()),
    }
}

fn metrics(fields: ResultFields<'_>) -> Vec<(String, f64)> {
    let result = fields.0;
    let parts = [result.get("tacho"), result.get("achieved")].into_iter().flatten().filter_map(Value::as_dict);
    let numbers = result.iter().chain(parts.flat_map(Dict::iter));
    let finite = |value: &Value| value.as_f64().filter(|number| number.is_finite());
    let known = numbers.filter(|(key, _)| Known::find(key).is_some());
    let mut found: Vec<(String, f64)> =
        known.filter_map(|(key, value)| Some((key.to_owned(), finite(value)?))).collect();
    found.extend(DERIVED.iter().filter_map(|(key, _, of)| Some(((*key).to_owned(), of(fields)?))));
    for rule in result.get("rules").and_then(Value::as_list).into_iter().flatten() {
        let Some(key) = rule.get("metric").and_then(Value::as_str) else { continue };
        for (name, value) in [(key.to_owned(), rule.get("b")), (format!("{CHANGE}{key}"), rule.get("change"))] {
            found.extend(value.and_then(finite).map(|value| (name, value)));
        }
    }
    found
}

fn settings(fields: ResultFields<'_>) -> Vec<(String, String)> {
    let result = fields.0;
    let setting = |key: &str, value: &Value| Some((short(&key.replace('-', "_")), setting_text(value)?));
    let mut settings: Vec<_> = SETTINGS.iter().filter_map(|key| setting(key, result.get(key)?)).collect();
    // A sweep appends its parameters after the number of the run.
    let parameters = result.iter().skip_while(|(key, _)| *key != "run_number").skip(1).take(MAX_PARAMETERS);
    for (key, text) in parameters.filter_map(|(key, value)| setting(key, value)) {
        settings.retain(|(known, _)| *known != key);
        settings.push((key, text));
    }
    let provenance = crate::restored::provenance(result);
    settings.extend(provenance.dataset.map(|dataset| ("dataset".to_owned(), short(&dataset))));
    settings.extend(provenance.server.name().map(|server| ("server".to_owned(), short(&server))));
    settings.extend(fields.tacho("workload").and_then(setting_text).map(|digest| ("workload".to_owned(), digest)));
    settings
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

fn setting_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(short(text)),
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => Some(dumps(value)),
        Value::List(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.filter(|texts| !texts.is_empty()).map(|texts| short(&texts.join(", ")))
        }
        _ => None,
    }
}
