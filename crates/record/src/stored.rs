//! A result file read back: the metrics of one run of vLLM or tacho, and its single requests or iterations if the
//! file has them.

mod check;
mod groups;
mod lists;
mod pooled;
mod samples;

use std::{borrow::Cow, collections::HashMap};

use tacho_core::Labels;
use tacho_core::json::{Dict, Value};
use tacho_metrics::interval::{Interval, Row, Rows, Spread, Values};
use tacho_metrics::{MetricKind, RareFields, Sample, Share, statistics::Statistic};

use crate::fields::{ResultFields, SteadyState};
use crate::metric::{Known, Metric, Part};
use crate::{Error, Provenance, ResultKind, intervals::spread};

use self::check::{check_version, possible};
pub(crate) use self::lists::{Lists, number_of};

/// Prefix of workload digests: only those of this version are comparable. Those of version 1 have none.
pub const WORKLOAD_VERSION: &str = "v2:";

/// One run as read from its result file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// All keys except the per-request lists.
    pub fields: Dict,
    requests: Requests,
}

/// Successful requests in send order; those of a session are contiguous.
#[derive(Debug, Clone, Default, PartialEq)]
struct Requests {
    rows: Vec<Request>,
    /// Whether the load followed a schedule (open loop).
    paced: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Request {
    /// Without the values whose lists the file lacks.
    row: Row<'static>,
    labels: Labels,
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
        let known =
            |Request { row, .. }: &Request| 1 + usize::from(row.start.is_some()) + usize::from(row.ttft.is_some());
        self.fields.iter().count() + self.requests.rows.iter().map(known).sum::<usize>()
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
            let (amount, tacho) = (self.number(amount)?, self.fields.get("tacho")?.as_dict()?);
            let seconds = numbers(tacho.get("elapsed_times")?)?;
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

    /// Whether the file has values of single requests.
    pub fn is_detailed(&self) -> bool {
        self.requests.count() > 0
    }

    /// Whether runs such as this one have an interval of a metric.
    pub fn has_intervals(&self, key: &str) -> bool {
        let is_rate = |metric: &Metric| metric.part == Part::Totals && metric.unit.is_rate();
        let rate = matches!(Known::find(key), Some(Known::Row(metric)) if is_rate(metric));
        self.view().has_intervals(key) || rate && self.view().tacho("intervals").is_some()
    }

    /// Stores a fraction that was found after the run, with its interval.
    pub fn set_share(&mut self, key: &str, Share { value, interval: Interval { low, high }, .. }: Share) {
        let mut tacho = self.fields.get("tacho").and_then(Value::as_dict).cloned().unwrap_or_default();
        let mut intervals = tacho.get("intervals").and_then(Value::as_dict).cloned().unwrap_or_default();
        intervals.set(key, [low, high].into_iter().collect::<Value>());
        tacho.set(key, value);
        tacho.set("intervals", intervals);
        self.fields.set("tacho", tacho);
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
        self.view().tacho("workload")?.as_str()
    }

    /// Its provenance, as far as the file states it.
    pub fn provenance(&self) -> Provenance {
        crate::restored::provenance(&self.fields)
    }

    /// Latencies of all successful requests, in milliseconds; empty if the file lacks them.
    pub fn times_ms(&self, kind: MetricKind) -> Vec<f64> {
        let rows = || self.requests.rows.iter().map(|request| &request.row);
        let ms = |of: fn(&Row<'_>) -> Option<f64>| rows().filter_map(of).map(|seconds| seconds * 1e3).collect();
        match kind {
            MetricKind::Ttft => ms(|row| row.ttft),
            MetricKind::Itl => {
                rows().flat_map(|row| &row.gaps).flat_map(|gaps| gaps.iter()).map(|gap| gap * 1e3).collect()
            }
            MetricKind::E2el => ms(|row| row.latency),
            MetricKind::ClientQueueTime => ms(|row| row.queued),
            MetricKind::Tpot => ms(|row| {
                let tokens = row.output.filter(|tokens| *tokens > 1.0)?;
                Some((row.latency? - row.ttft?) / (tokens - 1.0))
            }),
            MetricKind::E2elIncludingClientQueue => ms(|row| Some(row.latency? + row.queued?)),
            MetricKind::AudioTtfp | MetricKind::AudioRtf | MetricKind::AudioDuration | MetricKind::AudioUnderrun => {
                Vec::new()
            }
        }
    }

    /// Returns whether all requests were sent at once: such a run is a single observation of one burst.
    pub fn is_burst(&self) -> bool {
        let limit = self.number("max_concurrency");
        let limited = limit.is_some_and(|limit| self.failures().is_none_or(|(_, all)| limit < all as f64));
        let timed = self.requests.paced || self.requests.of_sessions() || self.view().tacho("sessions").is_some();
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
        if self.is_detailed() {
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
        self.rows.len()
    }
    fn paced(&self) -> bool {
        self.paced
    }
    fn of_sessions(&self) -> bool {
        self.rows.first().is_some_and(|request| request.row.session.is_some())
    }
    fn each(&self, see: &mut dyn FnMut(usize, &Row<'_>)) {
        self.rows.iter().enumerate().for_each(|(at, request)| see(at, &request.row));
    }
}

impl Requests {
    fn from_dict(dict: &Dict) -> Result<Self, Error> {
        let lists = Lists::of(dict)?;
        let (starts, ttfts) = (lists.numbers("start_times")?, lists.numbers("ttfts")?);
        let (inputs, outputs) = (lists.numbers("input_lens")?, lists.numbers("output_lens")?);
        let (queue, sessions) = (lists.numbers("queue_times")?, lists.numbers("tacho.session")?);
        let (scheduled, sent) = (lists.numbers("tacho.scheduled")?, lists.numbers("tacho.sent")?);
        let (gaps, errors, labels) = (lists.gaps()?, lists.texts("errors")?, lists.labels()?);
        let row = |at: usize| Row {
            start: starts.at(at),
            ttft: ttfts.at(at),
            gaps: gaps.get(at).map(|gaps| Cow::Owned(gaps.as_slice().into())),
            latency: Some(lists.latencies[at]),
            input: inputs.at(at),
            output: outputs.at(at),
            queued: queue.at(at),
            delay: sent.at(at).zip(scheduled.at(at)).map(|(sent, scheduled)| sent - scheduled),
            session: sessions.at(at).map(|session| session as u32),
            ..Row::default()
        };
        let setup = crate::restored::setup(dict);
        let is_good = |row: &Row<'_>, labels: &Labels| {
            let (ttft, latency, output_len) = (row.ttft?, row.latency?, row.output? as u64);
            let rare = RareFields { labels: labels.clone(), ..RareFields::default() }.into();
            setup.is_good(&Sample { ttft, latency, output_len, rare, ..Sample::default() })
        };
        let request = |at: usize| {
            let (row, labels) = (row(at), labels.get(at).cloned().unwrap_or_default());
            Request { row: Row { good: is_good(&row, &labels), ..row }, labels }
        };
        // Failed requests have no latency; the list of errors, if present, shows the cause.
        let good = |at: &usize| lists.latencies[*at] > 0.0 && errors.get(*at).is_none_or(String::is_empty);
        let mut rows: Vec<Request> = (0..lists.latencies.len()).filter(good).map(request).collect();
        rows.sort_by(|a, b| a.row.start.unwrap_or(0.0).total_cmp(&b.row.start.unwrap_or(0.0)));
        let mut first = HashMap::new();
        for (at, request) in rows.iter().enumerate() {
            first.entry(request.row.session).or_insert(at);
        }
        if rows.iter().any(|request| request.row.session.is_some()) {
            rows.sort_by_key(|request| first.get(&request.row.session).copied());
        }
        let rate = dict.get("request_rate").and_then(Value::as_f64);
        Ok(Requests { rows, paced: rate.is_some_and(f64::is_finite) || dict.get("ramp_up_strategy").is_some() })
    }
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
        let rows = run.requests.rows.iter().map(|request| &request.row);
        let rows: Vec<_> = rows.map(|row| (row.latency.unwrap(), row.gaps.as_ref().unwrap().to_vec())).collect();
        assert_eq!(rows, [(0.75, vec![0.125, 0.375]), (0.5, vec![0.25])]);
        assert_eq!(run.number("request_rate"), Some(f64::INFINITY));
        let value = |key: &str| run.spread(key).unwrap().value;
        assert!((value("mean_e2el_ms") - 625.0).abs() < 1e-9 && (value("mean_tpot_ms") - 250.0).abs() < 1e-9);
        assert!((value("output_throughput") - 2.5).abs() < 1e-9);
        assert!((value("total_token_throughput") - 7.5).abs() < 1e-9);
        assert!((value("request_throughput") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn times_are_those_of_the_requests() {
        let run = run(r#"{"duration": 4.0, "request_rate": 2.0, "latencies": [1.0, 2.0], "ttfts": [0.25, 0.5],
            "itls": [[0.25, 0.5], [1.5]], "queue_times": [0.125, 0.5], "start_times": [0.0, 1.0], "errors": ["", ""],
            "input_lens": [1, 1], "output_lens": [4, 1]}"#)
        .unwrap();
        for (kind, times) in [
            (MetricKind::Ttft, vec![250.0, 500.0]),
            (MetricKind::Itl, vec![250.0, 500.0, 1500.0]),
            (MetricKind::E2el, vec![1000.0, 2000.0]),
            (MetricKind::ClientQueueTime, vec![125.0, 500.0]),
            // 0.75 s for three tokens after the first; the other response has one.
            (MetricKind::Tpot, vec![250.0]),
            (MetricKind::E2elIncludingClientQueue, vec![1125.0, 2500.0]),
            (MetricKind::AudioRtf, vec![]),
        ] {
            assert_eq!(run.times_ms(kind), times, "{kind:?}");
        }
    }

    #[test]
    fn a_schedule_is_kept_at_nine_tenths_and_bursts_are_not_limited() {
        let kept_up = |more: &str| run(&format!(r#"{{"request_rate": 2.0, {more}}}"#)).unwrap().kept_up();
        let throughput = |rate: f64| kept_up(&format!(r#""request_throughput": {rate}"#));
        assert_eq!([throughput(1.8), throughput(1.79), throughput(2.5)], [true, false, true]);
        let steady = |unstable: bool| {
            let steady = format!(r#"{{"version": 1, "steady_state": {{"queue_unstable": {unstable}}}}}"#);
            kept_up(&format!(r#""request_throughput": 1.8, "tacho": {steady}"#))
        };
        assert_eq!([steady(true), steady(false)], [false, true]);
        let burst = |more: &str| run(&format!(r#"{{"completed": 2, "failed": 1, {more}}}"#)).unwrap().is_burst();
        let at_once = r#""request_rate": "inf""#;
        assert!(burst(at_once) && !burst(r#""request_rate": 5.0"#));
        let limited = |limit: u64| burst(&format!(r#"{at_once}, "max_concurrency": {limit}"#));
        assert_eq!([limited(2), limited(3), limited(4)], [false, true, true]);
        assert!(!burst(&format!(r#"{at_once}, "tacho": {{"version": 1, "sessions": {{"started": 1}}}}"#)));
    }

    /// Half of the requests take 0.1 s, half 0.3 s; those of a class have its limit, the others that of the run.
    #[test]
    fn the_goodput_of_a_detailed_file_has_the_spread_of_its_requests() {
        let list = |of: &dyn Fn(u32) -> String| (0..42).map(of).collect::<Vec<_>>().join(", ");
        let latencies = list(&|at| ["0.1", "0.3"][((at / 3) & 1) as usize].to_owned());
        let starts = list(&|at| (f64::from(at) / 4.0).to_string());
        let (gaps, tokens) = (list(&|_| "[]".to_owned()), list(&|_| "1".to_owned()));
        let labels = list(&|at| format!(r#"{{"class": "{}"}}"#, if at < 18 { "chat" } else { "batch" }));
        let value = |limits: &str| {
            let tacho = format!(r#"{{"version": 1, "labels": [{labels}], "provenance": {limits}}}"#);
            let lists = format!(r#""latencies": [{latencies}], "ttfts": [{latencies}], "itls": [{gaps}]"#);
            let more = format!(r#""start_times": [{starts}], "input_lens": [{tokens}], "output_lens": [{tokens}]"#);
            let text = format!(r#"{{"duration": 10.0, "request_rate": "inf", {lists}, {more}, "tacho": {tacho}}}"#);
            run(&text).unwrap().spread("request_goodput").map(|spread| spread.value)
        };
        let near = |limits: &str, goodput: f64| (value(limits).unwrap() - goodput).abs() < 1e-9;
        assert!(near(r#"{"goodput": {"ttft_ms": 200.0}}"#, 2.1) && near(r#"{"goodput": {"e2el_ms": 300.0}}"#, 4.2));
        assert!(near(r#"{"goodput": {"ttft_ms": 200.0}, "class_goodput": {"chat": {"ttft_ms": 300.0}}}"#, 3.0));
        assert_eq!(value("{}"), None);
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

    #[test]
    fn of_two_copies_the_more_detailed_one_is_kept() {
        let brief = run(r#"{"duration": 2.0, "latencies": [0.5, 0.75]}"#).unwrap();
        let timed = run(r#"{"duration": 2.0, "latencies": [0.5, 0.75], "start_times": [0.0, 1.0]}"#).unwrap();
        let full = run(&DETAILED.replace(r#""request_rate": "inf", "#, "")).unwrap();
        assert_eq!([&brief, &timed, &full].map(StoredRun::details), [3, 5, 7]);
        assert_eq!(StoredRun::once(vec![brief.clone(), full.clone(), timed]), [full]);
        let other = run(r#"{"duration": 3.0, "latencies": [0.5]}"#).unwrap();
        assert_eq!(StoredRun::once(vec![brief, other]).len(), 2);
    }

    #[test]
    fn a_request_with_an_error_or_without_a_latency_failed() {
        let run = run(r#"{"latencies": [0.5, 0.25, 0.0], "errors": ["", "late", ""]}"#).unwrap();
        assert_eq!(run.times_ms(MetricKind::E2el), [500.0]);
    }
}
