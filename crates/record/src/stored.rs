//! A result file read back: the metrics of one run of vLLM or tacho, and its single requests or iterations if the
//! file has them.

mod groups;

use std::borrow::Cow;

use tacho_core::Labels;
use tacho_core::json::{Dict, Value, Wrong, dumps};
use tacho_metrics::MetricKind;
use tacho_metrics::interval::{Interval, Row, Rows, Spread, Values};
use tacho_metrics::statistics::Statistic;

use crate::fields::{ResultFields, SteadyState};
use crate::intervals::spread;
use crate::metric::Known;
use crate::{Error, Provenance, ResultKind, RunRecord};

pub(crate) use self::groups::stored_labels;

/// Prefix of workload digests: only those of this version are comparable. Those of version 1 have none.
pub const WORKLOAD_VERSION: &str = "v2:";

/// One run as read from its result file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// All keys except the per-request lists.
    pub fields: Dict,
    requests: Requests,
}

/// Successful requests in send order. Lists are empty if the file lacks them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Requests {
    starts: Vec<f64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    latencies: Vec<f64>,
    input_lens: Vec<f64>,
    output_lens: Vec<f64>,
    queue_times: Vec<f64>,
    /// Delay from scheduled to sent.
    delays: Vec<f64>,
    /// Whether the load followed a schedule (open loop).
    paced: bool,
    /// Session of each request; requests of a session are contiguous.
    sessions: Vec<f64>,
    labels: Vec<Labels>,
}

/// Lists that are read here or that no comparison needs.
const LISTS: [&str; 9] = [
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "latencies",
    "start_times",
    "queue_times",
    "generated_texts",
    "errors",
];

impl StoredRun {
    /// Returns whether two files describe the same run: a result and its summary, or two copies. All scalar values that
    /// both have are equal, which suffices to distinguish runs.
    pub fn is_same_run(&self, other: &StoredRun) -> bool {
        let plain = |value: &Value| !matches!(value, Value::List(_) | Value::Dict(_));
        let both = self.fields.iter().filter(|(_, value)| plain(value));
        let mut both = both.filter_map(|(key, ours)| Some((ours, other.fields.get(key)?))).peekable();
        let timed =
            ["date", "duration", "elapsed_time", "avg_latency"].iter().any(|key| self.fields.get(key).is_some());
        timed && both.peek().is_some() && both.all(|(ours, theirs)| ours == theirs)
    }

    /// Amount of detail: keys, and values of single requests.
    pub fn details(&self) -> usize {
        let lists = [&self.requests.starts, &self.requests.ttfts, &self.requests.latencies];
        self.fields.iter().count() + lists.iter().map(|list| list.len()).sum::<usize>()
    }

    /// The runs without duplicates; of two files the more detailed one is kept.
    pub fn once(runs: Vec<StoredRun>) -> Vec<StoredRun> {
        let mut kept: Vec<StoredRun> = Vec::new();
        for run in runs {
            match kept.iter_mut().find(|known| known.is_same_run(&run)) {
                Some(known) if known.details() < run.details() => *known = run,
                Some(_) => {}
                None => kept.push(run),
            }
        }
        kept
    }

    /// Reads a result.
    pub fn from_dict(dict: &Dict) -> Result<Self, Error> {
        check_version(dict)?;
        if ResultKind::of(dict) == Some(ResultKind::Latency) {
            return Ok(Self::of_latency(dict));
        }
        let mut fields = Dict::new();
        for (key, value) in dict.iter().filter(|(key, _)| !LISTS.contains(key)) {
            fields.set(key, value.clone());
        }
        possible(&fields)?;
        Ok(StoredRun { fields, requests: Requests::from_dict(dict)? })
    }

    /// A latency result: its list of the same name is over iterations, not requests. Its percentiles get their own
    /// keys, such as `p99_latency`.
    fn of_latency(dict: &Dict) -> Self {
        let mut fields = dict.clone();
        for (percent, value) in dict.get("percentiles").and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
            fields.set(format!("p{percent}_latency"), value.clone());
        }
        StoredRun { fields, requests: Requests::default() }
    }

    /// The benchmark that wrote it; `None` if the keys do not show it.
    pub fn kind(&self) -> Option<ResultKind> {
        ResultKind::of(&self.fields)
    }

    /// The iterations behind an average of an offline run; `None` if the file lacks them.
    pub fn iterations(&self, key: &str) -> Option<Vec<f64>> {
        let numbers = |list: &Value| list.as_list()?.iter().map(number_of).collect::<Option<Vec<f64>>>();
        let rates = |amount: &str| {
            let (amount, own) = (self.number(amount)?, self.fields.get("tacho")?.as_dict()?);
            let seconds = numbers(own.get("elapsed_times")?)?;
            Some(seconds.into_iter().map(|seconds| amount / seconds).collect())
        };
        match key {
            "requests_per_second" => rates("num_requests"),
            "tokens_per_second" => rates("total_num_tokens"),
            "avg_latency" => numbers(self.fields.get("latencies")?),
            _ => numbers(self.fields.get(&format!("{}s", key.strip_prefix("avg_")?))?),
        }
    }

    /// Typed access to its fields.
    pub fn view(&self) -> ResultFields<'_> {
        ResultFields(&self.fields)
    }

    /// The number under `key`; numeric strings count too.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.view().number(key)
    }

    /// Returns whether no request succeeded, so that latencies are undefined.
    pub fn is_empty(&self) -> bool {
        self.number("completed") == Some(0.0)
    }

    /// Number of failed requests and of all; `None` if the file lacks them.
    pub fn failures(&self) -> Option<(u64, u64)> {
        self.view().failures()
    }

    /// The confidence interval that the run stored for a metric.
    pub fn interval(&self, key: &str) -> Option<Interval> {
        self.view().interval(key)
    }

    /// The workload digest: equal for runs that send the same requests at the same times. `None` if the file lacks it,
    /// and for digests of older versions, which leave out most of a request.
    pub fn workload(&self) -> Option<&str> {
        self.stated_workload().filter(|digest| digest.starts_with(WORKLOAD_VERSION))
    }

    /// Whether the file has a workload digest of another version.
    pub fn has_other_workload_version(&self) -> bool {
        self.stated_workload().is_some() && self.workload().is_none()
    }

    fn stated_workload(&self) -> Option<&str> {
        self.view().own("workload")?.as_str()
    }

    /// Its provenance, as far as the file states it.
    pub fn provenance(&self) -> Provenance {
        crate::restored::provenance(&self.fields)
    }

    /// Latencies of all successful requests, in milliseconds; empty if the file lacks them.
    pub fn times_ms(&self, kind: MetricKind) -> Vec<f64> {
        let requests = &self.requests;
        let ms = |seconds: &[f64]| seconds.iter().map(|time| time * 1e3).collect();
        match kind {
            MetricKind::Ttft => ms(&requests.ttfts),
            MetricKind::Itl => requests.itls.iter().flatten().map(|gap| gap * 1e3).collect(),
            MetricKind::E2el => ms(&requests.latencies),
            MetricKind::ClientQueueTime => ms(&requests.queue_times),
            MetricKind::Tpot => {
                let each = requests.latencies.iter().zip(&requests.ttfts).zip(&requests.output_lens);
                let several = each.filter(|(_, tokens)| **tokens > 1.0);
                several.map(|((latency, ttft), tokens)| (latency - ttft) / (tokens - 1.0) * 1e3).collect()
            }
            MetricKind::E2elIncludingClientQueue => {
                requests.latencies.iter().zip(&requests.queue_times).map(|(a, b)| (a + b) * 1e3).collect()
            }
            MetricKind::AudioTtfp | MetricKind::AudioRtf | MetricKind::AudioDuration | MetricKind::AudioUnderrun => {
                Vec::new()
            }
        }
    }

    /// Returns whether all requests were sent at once: such a run is a single observation of one burst.
    pub fn is_burst(&self) -> bool {
        let limit = self.number("max_concurrency");
        let limited = limit.is_some_and(|limit| self.failures().is_none_or(|(_, all)| limit < all as f64));
        let timed = self.requests.paced || !self.requests.sessions.is_empty() || self.view().own("sessions").is_some();
        self.number("request_rate") == Some(f64::INFINITY) && !limited && !timed
    }

    /// Scheduled request rate; `None` for a run without a schedule.
    pub fn offered_rate(&self) -> Option<f64> {
        self.fields.get("request_rate")?.as_f64().filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// Returns whether the server kept up with the schedule: the queue was stable or, if that is not recorded, the
    /// throughput reached 90% of the offered rate.
    pub fn kept_up(&self) -> bool {
        let steady = self.view().steady_state();
        match steady.and_then(SteadyState::has_stable_queue) {
            Some(stable) => stable,
            None => self
                .offered_rate()
                .zip(self.number("request_throughput"))
                .is_some_and(|(offered, delivered)| delivered >= 0.9 * offered),
        }
    }

    /// The sampling distribution of a metric by the requests or iterations of the run; `None` where the file has neither.
    pub fn spread(&self, key: &str) -> Option<Spread> {
        let duration = self.number("duration").unwrap_or(0.0);
        if self.requests.count() > 0 {
            return spread(key, &self.requests, duration);
        }
        let iterations = |key| self.iterations(key).map(Values::single);
        match Known::find(key)? {
            Known::Latency => {
                let percent = key.strip_prefix('p')?.strip_suffix("_latency")?.parse().ok()?;
                Spread::of(&iterations("avg_latency")?, Statistic::Percentile(percent))
            }
            _ => Spread::of(&iterations(key)?, Statistic::Mean),
        }
    }
}

impl Rows for Requests {
    fn count(&self) -> usize {
        self.latencies.len()
    }
    fn paced(&self) -> bool {
        self.paced
    }
    fn of_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }
    fn each(&self, see: &mut dyn FnMut(usize, &dyn Row)) {
        (0..self.count()).for_each(|at| see(at, &Request { all: self, at }));
    }
}

/// One request.
struct Request<'a> {
    all: &'a Requests,
    at: usize,
}

impl Request<'_> {
    fn of(&self, column: &[f64]) -> Option<f64> {
        column.get(self.at).copied()
    }
}

impl Row for Request<'_> {
    fn start(&self) -> Option<f64> {
        self.of(&self.all.starts)
    }
    fn ttft(&self) -> Option<f64> {
        self.of(&self.all.ttfts)
    }
    fn gap_count(&self) -> Option<usize> {
        self.all.itls.get(self.at).map(Vec::len)
    }
    fn gaps(&self) -> Option<Cow<'_, [f64]>> {
        self.all.itls.get(self.at).map(Cow::from)
    }
    fn latency(&self) -> Option<f64> {
        self.of(&self.all.latencies)
    }
    fn delay(&self) -> Option<f64> {
        self.of(&self.all.delays)
    }
    fn queued(&self) -> Option<f64> {
        self.of(&self.all.queue_times)
    }
    fn input(&self) -> Option<f64> {
        self.of(&self.all.input_lens)
    }
    fn output(&self) -> Option<f64> {
        self.of(&self.all.output_lens)
    }
    fn session(&self) -> Option<u32> {
        self.of(&self.all.sessions).map(|session| session as u32)
    }
    fn good(&self) -> Option<bool> {
        None
    }
}

impl Requests {
    fn from_dict(dict: &Dict) -> Result<Self, Error> {
        let floats = |key: &str| list(dict, key, number_of, "a list of numbers");
        let latencies = floats("latencies")?;
        let errors = list(dict, "errors", |value| value.as_str().map(str::to_owned), "a list of texts")?;
        let starts = floats("start_times")?;
        let count = latencies.len();
        // Failed requests have no latency; the list of errors, if present, shows the cause.
        let good = |at: usize| latencies[at] > 0.0 && errors.get(at).is_none_or(String::is_empty);
        let mut order: Vec<usize> = (0..count).filter(|&at| good(at)).collect();
        if starts.len() == count {
            order.sort_by(|&a, &b| starts[a].total_cmp(&starts[b]));
        }
        let own = dict.get("tacho").and_then(Value::as_dict);
        let moments = |key: &str| own.map_or(Ok(Vec::new()), |own| list(own, key, number_of, "a list of numbers"));
        let sessions = moments("session")?;
        if sessions.len() == count {
            let mut first = std::collections::HashMap::new();
            order.iter().enumerate().for_each(|(rank, &at)| {
                first.entry(sessions[at] as u64).or_insert(rank);
            });
            order.sort_by_key(|&at| first.get(&(sessions[at] as u64)).copied());
        }
        let pick = |key: &str, values: Vec<f64>| picked(key, values, &order, count);
        let gaps = |value: &Value| value.as_list()?.iter().map(number_of).collect::<Option<Vec<f64>>>();
        let (scheduled, sent) =
            (pick("tacho.scheduled", moments("scheduled")?)?, pick("tacho.sent", moments("sent")?)?);
        let rate = dict.get("request_rate").and_then(Value::as_f64);
        Ok(Requests {
            paced: rate.is_some_and(f64::is_finite) || dict.get("ramp_up_strategy").is_some(),
            delays: scheduled.iter().zip(&sent).map(|(scheduled, sent)| sent - scheduled).collect(),
            queue_times: pick("queue_times", floats("queue_times")?)?,
            ttfts: pick("ttfts", floats("ttfts")?)?,
            itls: picked("itls", list(dict, "itls", gaps, "a list of lists of numbers")?, &order, count)?,
            input_lens: pick("input_lens", floats("input_lens")?)?,
            output_lens: pick("output_lens", floats("output_lens")?)?,
            starts: pick("start_times", starts)?,
            sessions: pick("tacho.session", sessions)?,
            latencies: pick("latencies", latencies.clone())?,
            labels: picked("tacho.labels", stored_labels(own, count)?, &order, count)?,
        })
    }
}

/// Checks the version of tacho's part of a result; vLLM's results have none.
fn check_version(dict: &Dict) -> Result<(), Error> {
    match dict.get("tacho").and_then(Value::as_dict).and_then(|own| own.get("version")) {
        Some(version) if version.as_i64() != Some(RunRecord::VERSION as i64) => {
            Err(Error::Version { found: dumps(version), known: RunRecord::VERSION })
        }
        _ => Ok(()),
    }
}

/// Rejects negative metrics, except differences of counters that a server restart may reset.
fn possible(fields: &Dict) -> Result<(), Error> {
    for (key, value) in
        fields.iter().filter(|(key, _)| !key.starts_with("spec_decode") && !key.starts_with("diffusion"))
    {
        if value.as_f64().is_some_and(|number| number < 0.0) && Known::find(key).is_some() {
            return Err(Error::Impossible { key: key.to_owned(), value: dumps(value) });
        }
    }
    Ok(())
}

fn number_of(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

fn list<T>(
    dict: &Dict,
    key: &str,
    read: impl Fn(&Value) -> Option<T>,
    expected: &'static str,
) -> Result<Vec<T>, Error> {
    let wrong = || Error::from(Wrong::new(expected).at(key));
    match dict.get(key) {
        None => Ok(Vec::new()),
        Some(value) => value.as_list().ok_or_else(wrong)?.iter().map(|item| read(item).ok_or_else(wrong)).collect(),
    }
}

/// The entries of the requests in `order`; a missing list stays empty.
fn picked<T: Clone>(key: &str, values: Vec<T>, order: &[usize], count: usize) -> Result<Vec<T>, Error> {
    if values.is_empty() {
        return Ok(values);
    }
    if values.len() != count {
        return Err(Error::Length { key: key.to_owned(), found: values.len(), expected: count });
    }
    Ok(order.iter().map(|&at| values[at].clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn run(text: &str) -> Result<StoredRun, Error> {
        let value = parse(text).unwrap();
        StoredRun::from_dict(value.as_dict().unwrap())
    }

    const DETAILED: &str = r#"{"duration": 2.0, "request_rate": "inf", "latencies": [0.5, 0.0, 0.75],
        "ttfts": [0.25, 0.1, 0.25], "itls": [[0.25], [], [0.125, 0.375]], "start_times": [1.0, 0.5, 0.25],
        "errors": ["", "no", ""], "input_lens": [4, 5, 6], "output_lens": [2, 0, 3]}"#;

    #[test]
    fn successes_come_in_the_order_they_were_sent() {
        let run = run(DETAILED).unwrap();
        assert_eq!(run.requests.latencies, [0.75, 0.5]);
        assert_eq!(run.requests.itls, [vec![0.125, 0.375], vec![0.25]]);
        assert_eq!(run.number("request_rate"), Some(f64::INFINITY));
        let value = |key: &str| run.spread(key).unwrap().value;
        assert!((value("mean_e2el_ms") - 625.0).abs() < 1e-9 && (value("mean_tpot_ms") - 250.0).abs() < 1e-9);
        assert!((value("output_throughput") - 2.5).abs() < 1e-9);
        assert!((value("total_token_throughput") - 7.5).abs() < 1e-9);
        assert!((value("request_throughput") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn brief_files_have_latencies_only() {
        let run = run(r#"{"duration": 2.0, "latencies": [0.5, 0.25], "queue_times": [0, 0]}"#).unwrap();
        assert!(run.spread("mean_e2el_ms").is_some() && run.spread("mean_ttft_ms").is_none());
        assert!(run.spread("output_throughput").is_none());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let fault = run(r#"{"p99_ttft_ms": -5}"#).unwrap_err().to_string();
        assert_eq!(fault, "p99_ttft_ms is -5: no run can have that");
        assert!(run(r#"{"spec_decode_num_drafts": -5}"#).is_ok());
    }

    #[test]
    fn iterations_stand_behind_averages() {
        let latency = run(r#"{"avg_latency": 2.0, "latencies": [1.0, 3.0], "percentiles": {"99": 2.98}}"#).unwrap();
        assert_eq!(latency.iterations("avg_latency"), Some(vec![1.0, 3.0]));
        assert_eq!(latency.number("p99_latency"), Some(2.98));
        assert!(latency.spread("mean_e2el_ms").is_none());
        let startup = run(r#"{"avg_cold_startup_time": 2.0, "cold_startup_times": [2.0]}"#).unwrap();
        assert_eq!(startup.iterations("avg_cold_startup_time"), Some(vec![2.0]));
        assert_eq!(startup.iterations("avg_warm_startup_time"), None);
        let throughput = run(r#"{"elapsed_time": 3.0, "num_requests": 8, "requests_per_second": 2.7,
            "tacho": {"elapsed_times": [2.0, 4.0]}}"#)
        .unwrap();
        assert_eq!(throughput.iterations("requests_per_second"), Some(vec![4.0, 2.0]));
        assert_eq!(throughput.iterations("tokens_per_second"), None);
    }

    #[test]
    fn records_of_another_version_are_not_guessed_at() {
        assert!(run(r#"{"duration": 1.0, "tacho": {"version": 1}}"#).is_ok());
        let fault = run(r#"{"duration": 1.0, "tacho": {"version": 2}}"#).unwrap_err().to_string();
        assert_eq!(fault, "tacho.version is 2 where this tacho reads 1: compare with the tacho that wrote it");
    }

    #[test]
    fn faults_name_the_key() {
        let fault = |text| run(text).unwrap_err().to_string();
        assert_eq!(fault(r#"{"latencies": 3}"#), "latencies is not a list of numbers");
        assert_eq!(fault(r#"{"latencies": [NaN]}"#), "latencies is not a list of numbers");
        assert_eq!(
            fault(r#"{"latencies": [1.0], "ttfts": [1.0, 2.0]}"#),
            "ttfts has 2 entries where 1 requests are recorded"
        );
    }
}
