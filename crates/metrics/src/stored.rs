//! A result read back: the numbers of one run, written by vLLM or by tacho, and its single requests or iterations
//! where the file has them.

use tacho_core::json::{Dict, Value, dumps};

use crate::{Error, MetricKind, ResultKind, RunRecord};

/// Into how many parts a run is cut to see how its throughput varied.
const PARTS: usize = 200;

/// One run as its result file tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// All keys but the lists over requests.
    pub fields: Dict,
    requests: Requests,
}

/// The requests of a run that succeeded, in the order they were sent. Lists are empty where the file has none.
#[derive(Debug, Clone, Default, PartialEq)]
struct Requests {
    starts: Vec<f64>,
    ttfts: Vec<f64>,
    itls: Vec<Vec<f64>>,
    latencies: Vec<f64>,
    input_lens: Vec<f64>,
    output_lens: Vec<f64>,
}

/// The lists that are read here or that no comparison needs.
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
        Ok(StoredRun { fields, requests: Requests::from_dict(dict)? })
    }

    /// A latency result, whose list of the same name is over iterations and not over requests. Its percentiles get
    /// keys of their own, such as `p99_latency`.
    fn of_latency(dict: &Dict) -> Self {
        let mut fields = dict.clone();
        for (percent, value) in dict.get("percentiles").and_then(Value::as_dict).into_iter().flat_map(Dict::iter) {
            fields.set(format!("p{percent}_latency"), value.clone());
        }
        StoredRun { fields, requests: Requests::default() }
    }

    /// Which benchmark wrote it; nothing where the keys do not tell.
    pub fn kind(&self) -> Option<ResultKind> {
        ResultKind::of(&self.fields)
    }

    /// The iterations behind an average of a run without a server; nothing where the file does not tell.
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

    /// The number under `key`; texts that mean a number count too.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.fields.get(key)? {
            Value::Str(text) => match text.as_str() {
                "inf" => Some(f64::INFINITY),
                "-inf" => Some(f64::NEG_INFINITY),
                other => other.parse().ok(),
            },
            other => other.as_f64(),
        }
    }

    /// The times of `metric` in seconds, one list per request; nothing where the file does not tell.
    pub fn times(&self, metric: MetricKind) -> Option<Vec<Vec<f64>>> {
        let Requests { ttfts, itls, latencies, output_lens, .. } = &self.requests;
        let single = |values: &[f64]| values.iter().map(|&value| vec![value]).collect::<Vec<_>>();
        let times: Vec<Vec<f64>> = match metric {
            MetricKind::Ttft => single(ttfts),
            MetricKind::Itl => itls.clone(),
            MetricKind::E2el => single(latencies),
            MetricKind::Tpot if ttfts.len() == latencies.len() => (0..output_lens.len().min(ttfts.len()))
                .filter(|&at| output_lens[at] > 1.0)
                .map(|at| vec![(latencies[at] - ttfts[at]) / (output_lens[at] - 1.0)])
                .collect(),
            _ => Vec::new(),
        };
        (times.iter().map(Vec::len).sum::<usize>() > 1).then_some(times)
    }

    /// What was done per second in equal parts of the run, for one of the throughput keys.
    pub fn amounts(&self, key: &str) -> Option<Vec<Vec<f64>>> {
        let requests = &self.requests;
        let duration = self.number("duration").filter(|duration| *duration > 0.0)?;
        if requests.starts.len() < 2 {
            return None;
        }
        let mut parts = vec![0.0; PARTS];
        let first = requests.starts.first().copied().unwrap_or(0.0);
        let length = duration / PARTS as f64;
        let mut add = |moment: f64, amount: f64| {
            parts[(((moment - first) / length) as usize).min(PARTS - 1)] += amount / length;
        };
        for at in 0..requests.starts.len() {
            let (start, end) = (requests.starts[at], requests.starts[at] + requests.latencies.get(at)?);
            match key {
                "request_throughput" => add(end, 1.0),
                "output_throughput" => requests.each_token(at, &mut add)?,
                "total_token_throughput" => {
                    add(start + requests.ttfts.get(at)?, *requests.input_lens.get(at)?);
                    requests.each_token(at, &mut add)?;
                }
                _ => return None,
            }
        }
        Some(parts.into_iter().map(|part| vec![part]).collect())
    }
}

impl Requests {
    fn from_dict(dict: &Dict) -> Result<Self, Error> {
        let floats = |key: &str| list(dict, key, number_of, "a list of numbers");
        let latencies = floats("latencies")?;
        let errors = list(dict, "errors", |value| value.as_str().map(str::to_owned), "a list of texts")?;
        let starts = floats("start_times")?;
        let count = latencies.len();
        // Failed requests have no latency; what went wrong is in the list of errors, where the file has one.
        let good = |at: usize| latencies[at] > 0.0 && errors.get(at).is_none_or(String::is_empty);
        let mut order: Vec<usize> = (0..count).filter(|&at| good(at)).collect();
        if starts.len() == count {
            order.sort_by(|&a, &b| starts[a].total_cmp(&starts[b]));
        }
        let pick = |key: &str, values: Vec<f64>| picked(key, values, &order, count);
        let gaps = |value: &Value| value.as_list()?.iter().map(number_of).collect::<Option<Vec<f64>>>();
        Ok(Requests {
            ttfts: pick("ttfts", floats("ttfts")?)?,
            itls: picked("itls", list(dict, "itls", gaps, "a list of lists of numbers")?, &order, count)?,
            input_lens: pick("input_lens", floats("input_lens")?)?,
            output_lens: pick("output_lens", floats("output_lens")?)?,
            starts: pick("start_times", starts)?,
            latencies: pick("latencies", latencies.clone())?,
        })
    }

    /// Tells of each token event of a request with its share of the output.
    fn each_token(&self, at: usize, add: &mut impl FnMut(f64, f64)) -> Option<()> {
        let (gaps, tokens) = (self.itls.get(at)?, self.output_lens.get(at)?);
        let weight = tokens / (gaps.len() + 1) as f64;
        let mut moment = self.starts[at] + self.ttfts.get(at)?;
        add(moment, weight);
        for gap in gaps {
            moment += gap;
            add(moment, weight);
        }
        Some(())
    }
}

/// What tacho adds to a result has a version; vLLM's results have none.
fn check_version(dict: &Dict) -> Result<(), Error> {
    match dict.get("tacho").and_then(Value::as_dict).and_then(|own| own.get("version")) {
        Some(version) if version.as_i64() != Some(RunRecord::VERSION as i64) => {
            Err(Error::Version { found: dumps(version), known: RunRecord::VERSION })
        }
        _ => Ok(()),
    }
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
    let wrong = || Error::Key { key: key.to_owned(), expected };
    match dict.get(key) {
        None => Ok(Vec::new()),
        Some(value) => value.as_list().ok_or_else(wrong)?.iter().map(|item| read(item).ok_or_else(wrong)).collect(),
    }
}

/// The entries of the requests in `order`; an absent list stays empty.
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
        assert_eq!(run.times(MetricKind::E2el), Some(vec![vec![0.75], vec![0.5]]));
        assert_eq!(run.times(MetricKind::Tpot), Some(vec![vec![0.25], vec![0.25]]));
        assert_eq!(run.times(MetricKind::Itl), Some(vec![vec![0.125, 0.375], vec![0.25]]));
        assert_eq!(run.number("request_rate"), Some(f64::INFINITY));
        let total = |key| run.amounts(key).unwrap().iter().map(|part| part[0]).sum::<f64>() * 2.0 / 200.0;
        assert!((total("output_throughput") - 5.0).abs() < 1e-9);
        assert!((total("total_token_throughput") - 15.0).abs() < 1e-9);
        assert!((total("request_throughput") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn brief_files_have_latencies_only() {
        let run = run(r#"{"duration": 2.0, "latencies": [0.5, 0.25], "queue_times": [0, 0]}"#).unwrap();
        assert!(run.times(MetricKind::E2el).is_some() && run.times(MetricKind::Ttft).is_none());
        assert_eq!(run.amounts("output_throughput"), None);
    }

    #[test]
    fn iterations_stand_behind_averages() {
        let latency = run(r#"{"avg_latency": 2.0, "latencies": [1.0, 3.0], "percentiles": {"99": 2.98}}"#).unwrap();
        assert_eq!(latency.iterations("avg_latency"), Some(vec![1.0, 3.0]));
        assert_eq!(latency.number("p99_latency"), Some(2.98));
        assert_eq!(latency.times(MetricKind::E2el), None);
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
