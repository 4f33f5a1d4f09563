//! The server's own metrics over the run: gauges and counters of its Prometheus page as series.

use std::collections::BTreeMap;

use crate::telemetry::Track;
use crate::vocabulary::{CONCEPTS, Phase, counters_of};

/// Metrics about the server's process, not about its requests.
const PROCESS_PREFIXES: [&str; 2] = ["python_", "process_"];
/// Suffixes of gauges that are fractions of a whole.
const FRACTION_SUFFIXES: [&str; 4] = ["_perc", "_ratio", "_rate", "_usage"];

/// Name of the series of the cache's block size, which servers report in labels.
const BLOCK_SIZE: &str = "cache_block_size";

tacho_core::named! {
    /// Gauge or counter.
    pub enum SeriesKind, "a kind of series" {
        /// An instantaneous value.
        Gauge = "gauge",
        /// A monotonic count.
        Counter = "counter",
    }
}

tacho_core::record! {
    /// One metric over the run; NaN where a scrape did not have it.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Series {
        /// Its name.
        pub name: String,
        /// Gauge or counter.
        pub kind: SeriesKind,
        /// One value per scrape.
        pub values: Vec<f64>,
    }
}

impl Series {
    fn known(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().copied().filter(|value| value.is_finite())
    }

    /// The mean of the values; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        let count = self.known().count();
        (count > 0).then(|| self.known().sum::<f64>() / count as f64)
    }

    /// The largest value; `None` if there are none.
    pub fn max(&self) -> Option<f64> {
        self.known().reduce(f64::max)
    }

    /// Increase from the first value to the last.
    pub fn growth(&self) -> Option<f64> {
        Some(self.known().last()? - self.known().next()?)
    }
}

tacho_core::record! {
    /// Successive scrapes of the server's metrics.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct ServerMetrics {
        /// Scrape times, in seconds since the run's origin.
        pub times: Vec<f64>,
        /// The metrics by name.
        pub series: Vec<Series>,
    }
}

impl ServerMetrics {
    /// Adds a page scraped at `time`. Label sets of one metric are summed; fractions are averaged.
    pub fn add(&mut self, time: f64, page: &str) {
        let before = self.times.len();
        self.times.push(time);
        for (name, (kind, value)) in values(page) {
            let at = match self.series.binary_search_by(|series| series.name.as_str().cmp(name)) {
                Ok(at) => at,
                Err(at) => {
                    let series = Series { name: name.to_owned(), kind, values: vec![f64::NAN; before] };
                    self.series.insert(at, series);
                    at
                }
            };
            self.series[at].values.push(value);
        }
        for series in self.series.iter_mut().filter(|series| series.values.len() == before) {
            series.values.push(f64::NAN);
        }
    }

    /// Appends the later scrapes of `other`.
    pub fn append(&mut self, other: ServerMetrics) {
        let before = self.times.len();
        self.times.extend(&other.times);
        for series in other.series {
            match self.series.binary_search_by(|known| known.name.cmp(&series.name)) {
                Ok(at) => self.series[at].values.extend(series.values),
                Err(at) => {
                    let values = [vec![f64::NAN; before], series.values].concat();
                    self.series.insert(at, Series { values, ..series });
                }
            }
        }
        let count = self.times.len();
        self.series.iter_mut().for_each(|series| series.values.resize(count, f64::NAN));
    }

    /// A counter that fell, and its values: the server restarted, or several servers answer at one address.
    pub fn fallen(&self) -> Option<(&str, f64, f64)> {
        let is_counter = |series: &&Series| series.kind == SeriesKind::Counter && series.name.ends_with("_total");
        self.series.iter().filter(is_counter).find_map(|series| {
            let known: Vec<f64> = series.values.iter().copied().filter(|value| !value.is_nan()).collect();
            let fall = known.windows(2).find(|pair| pair[1] < pair[0])?;
            Some((series.name.as_str(), fall[0], fall[1]))
        })
    }

    /// Returns whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Every series as tracks of `source`: known concepts by our names where there are any, otherwise all. Counters
    /// become rates; fractions become percent.
    pub fn tracks(&self, source: &str) -> Vec<Track> {
        const MAX_SERIES: usize = 50;
        let track = |name: &str, unit: &str, values: Vec<f64>| Track {
            source: source.to_owned(),
            name: name.to_owned(),
            unit: unit.to_owned(),
            values,
        };
        let known: Vec<Track> = CONCEPTS
            .iter()
            .filter_map(|(concept, name, unit, scale)| {
                let series = self.by_concept(*concept)?;
                Some(track(name, unit, self.values_of(series, *scale)))
            })
            .collect();
        if !known.is_empty() {
            return known;
        }
        let all = self.series.iter().take(MAX_SERIES);
        all.map(|series| {
            let unit = if series.kind == SeriesKind::Counter { "1/s" } else { "" };
            track(&series.name, unit, self.values_of(series, 1.0))
        })
        .collect()
    }

    /// One value per scrape: that of a gauge, the rate of a counter since the previous scrape.
    fn values_of(&self, series: &Series, scale: f64) -> Vec<f64> {
        match series.kind {
            SeriesKind::Gauge => series.values.iter().map(|value| value * scale).collect(),
            SeriesKind::Counter => {
                let rates = self.rates(series);
                let at = |time: &f64| rates.iter().find(|(at, _)| at == time).map_or(f64::NAN, |rate| rate.1);
                self.times.iter().map(at).collect()
            }
        }
    }

    /// The series of that name.
    pub fn get(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Fraction of queried tokens found in the prefix cache, where the server counts them.
    pub fn prefix_cache_hit_rate(&self) -> Option<f64> {
        const COUNTERS: [(&str, &str); 2] = [
            ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
            ("sglang:cached_tokens_total", "sglang:prompt_tokens_total"),
        ];
        let growth = |name: &str| self.get(name).and_then(Series::growth);
        let rate = |(hits, queries)| Some(growth(hits)? / growth(queries).filter(|&queries| queries > 0.0)?);
        COUNTERS.into_iter().find_map(rate)
    }

    /// Mean seconds of a phase over the requests of the run, where the server measures it.
    pub fn phase_seconds(&self, phase: Phase) -> Option<f64> {
        let sum = self.get(phase.counters()[0]).and_then(Series::growth)?;
        Some(sum / self.phase_count(phase).filter(|count| *count > 0.0)?)
    }

    /// Requests of the run that went through a phase, where the server counts them.
    pub fn phase_count(&self, phase: Phase) -> Option<f64> {
        self.get(phase.counters()[1]).and_then(Series::growth)
    }

    /// Tokens per block of the server's prefix cache, where it reports them.
    pub fn block_size(&self) -> Option<u64> {
        self.get(BLOCK_SIZE).and_then(Series::max).map(|tokens| tokens as u64)
    }

    /// Makes times relative to `origin`.
    pub fn shift(&mut self, origin: f64) {
        self.times.iter_mut().for_each(|time| *time -= origin);
    }
}

/// The gauges and counters of a page.
fn values(page: &str) -> BTreeMap<&str, (SeriesKind, f64)> {
    let mut kinds: BTreeMap<&str, SeriesKind> = BTreeMap::new();
    let mut sums: BTreeMap<&str, (SeriesKind, f64, u32)> = BTreeMap::new();
    for line in page.lines().map(str::trim) {
        // Any number of spaces and tabs may separate two fields.
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("#") && words.next() == Some("TYPE") {
            let (name, kind) = (words.next(), words.next());
            kinds.extend(name.zip(kind.and_then(series_kind)));
            let counters = name.filter(|_| kind == Some("histogram")).into_iter().flat_map(counters_of);
            kinds.extend(counters.map(|counter| (counter, SeriesKind::Counter)));
        } else if !line.starts_with('#') && !PROCESS_PREFIXES.iter().any(|prefix| line.starts_with(prefix)) {
            let Some((name, labels, value)) = labeled(line) else { continue };
            if let Some(tokens) = block_size(name, labels) {
                sums.insert(BLOCK_SIZE, (SeriesKind::Gauge, tokens, 1));
            }
            let Some(&kind) = kinds.get(name) else { continue };
            let entry = sums.entry(name).or_insert((kind, 0.0, 0));
            entry.1 += value;
            entry.2 += 1;
        }
    }
    let settled = sums.into_iter().filter(|(name, _)| !name.ends_with("_info") && !name.ends_with("_created"));
    settled
        .map(|(name, (kind, sum, count))| {
            let share = kind == SeriesKind::Gauge && FRACTION_SUFFIXES.iter().any(|end| name.ends_with(end));
            (name, (kind, if share { sum / f64::from(count) } else { sum }))
        })
        .collect()
}

fn series_kind(text: &str) -> Option<SeriesKind> {
    match text {
        "gauge" => Some(SeriesKind::Gauge),
        "counter" => Some(SeriesKind::Counter),
        _ => None,
    }
}

/// Engines by the prefix of their metrics.
const ENGINES: [(&str, &str); 4] =
    [("vllm:", "vLLM"), ("sglang:", "SGLang"), ("tgi_", "TGI"), ("trtllm_", "TensorRT-LLM")];

/// The engine of a metrics page, by the names of its metrics.
pub fn engine(page: &str) -> Option<&'static str> {
    let of = |line: &str| ENGINES.iter().find(|(prefix, _)| line.starts_with(prefix)).map(|(_, engine)| *engine);
    page.lines().find_map(of)
}

/// Cache settings that a metrics page may state, as labels of a constant metric.
const CACHE_SETTINGS: [&str; 7] = [
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "num_gpu_blocks",
    "page_size",
    "sliding_window",
];

/// The cache settings of a metrics page.
pub fn cache_settings(page: &str) -> Vec<(String, String)> {
    let is_known = |(label, value): &(&str, &str)| CACHE_SETTINGS.contains(label) && value.len() <= 40;
    let stated = page.lines().filter_map(labeled).find(|(name, ..)| name.ends_with(":cache_config_info"));
    let labels = stated.into_iter().flat_map(|(_, labels, _)| labels_of(labels.trim()));
    labels.filter(is_known).map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
}

/// Tokens per cache block, from the labels of a line about cache settings.
fn block_size(name: &str, labels: &str) -> Option<f64> {
    let mut labels = labels_of(labels.trim()).filter(|_| name.ends_with(":cache_config_info"));
    let size = labels.find(|(label, _)| matches!(*label, "block_size" | "page_size"))?.1;
    size.parse().ok().filter(|tokens: &f64| *tokens >= 1.0 && tokens.fract() == 0.0)
}

/// Name, labels and value of a line. Labels may contain spaces, and a time may follow the value.
pub(crate) fn labeled(line: &str) -> Option<(&str, &str, f64)> {
    let name = &line[..line.find(['{', ' ', '\t'])?];
    let rest = line[name.len()..].trim_ascii_start();
    let (labels, rest) = if rest.starts_with('{') { rest.split_at(labels_end(rest)?) } else { ("", rest) };
    Some((name, labels, rest.split_ascii_whitespace().next()?.parse().ok()?))
}

/// The labels of a line by name. Values with an escaped quote are cut at it.
pub(crate) fn labels_of(labels: &str) -> impl Iterator<Item = (&str, &str)> {
    let inside = labels.trim_start_matches('{').trim_end_matches('}');
    inside.split("\",").filter_map(|pair| {
        let (name, value) = pair.split_once("=\"")?;
        Some((name.trim(), value.trim_end_matches('"')))
    })
}

/// End of the labels: the first brace outside of quotes. More braces may follow in an exemplar.
fn labels_end(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if std::mem::take(&mut escaped) => {}
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_its_engine_and_cache_settings() {
        let page = "# TYPE x gauge\nvllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",secret=\"s\"} 1.0\n";
        assert_eq!(engine(page), Some("vLLM"));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(cache_settings(page), [pair("block_size", "16"), pair("cache_dtype", "auto")]);
        assert_eq!((engine("other 1\n"), cache_settings("other 1\n")), (None, Vec::new()));
    }

    #[test]
    fn fields_may_be_separated_by_several_spaces() {
        let page = "#  TYPE   a_total\tcounter\n\
            a_total {x=\"}\"} 1\na_total\t{x=\"b\\\"} c\"}\t2\t1700000000\n  a_total{x=\"d\"} 4 # {trace=\"t\"} 9 1\na_total  8\n";
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, page);
        assert_eq!(metrics.get("a_total").map(|series| series.values[0]), Some(15.0));
    }

    const PAGE: &str = "# HELP vllm:num_requests_running Running.\n\
        # TYPE vllm:num_requests_running gauge\n\
        vllm:num_requests_running{engine=\"0\"} 3.0\n\
        vllm:num_requests_running{engine=\"1\"} 2.0\n\
        # TYPE vllm:kv_cache_usage_perc gauge\n\
        vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n\
        vllm:kv_cache_usage_perc{engine=\"1\"} 0.25\n\
        # TYPE vllm:prefix_cache_hits_total counter\n\
        vllm:prefix_cache_hits_total{engine=\"0\"} 7.0\n\
        # TYPE vllm:ttft_seconds histogram\n\
        vllm:ttft_seconds_bucket{le=\"1.0\"} 4.0\n\
        # TYPE vllm:cache_config_info gauge\n\
        vllm:cache_config_info{a=\"b c\",block_size=\"128\"} 1.0\n\
        # TYPE process_open_fds gauge\n\
        process_open_fds 9\n";

    #[test]
    fn gauges_and_counters_become_series() {
        let mut metrics = ServerMetrics::default();
        metrics.add(1.0, PAGE);
        let names: Vec<&str> = metrics.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(metrics.block_size(), Some(128));
        let expected = [
            "cache_block_size",
            "vllm:kv_cache_usage_perc",
            "vllm:num_requests_running",
            "vllm:prefix_cache_hits_total",
        ];
        assert_eq!(names, expected);
        assert_eq!(metrics.get("vllm:num_requests_running").unwrap().values, [5.0]);
        assert_eq!(metrics.get("vllm:kv_cache_usage_perc").unwrap().values, [0.375]);
    }

    #[test]
    fn a_counter_that_falls_belongs_to_several_servers() {
        let fallen = |values: &[u64]| {
            let mut metrics = ServerMetrics::default();
            for (at, value) in values.iter().enumerate() {
                metrics.add(at as f64, &format!("# TYPE a_total counter\na_total {value}\n"));
            }
            metrics.fallen().map(|(_, from, to)| (from, to))
        };
        assert_eq!(fallen(&[1020, 1020, 1380]), None);
        assert_eq!(fallen(&[1020, 1380, 360, 1500]), Some((1380.0, 360.0)));
    }

    #[test]
    fn other_servers_have_other_names() {
        let sglang = "# TYPE sglang:num_running_reqs gauge\n\
            sglang:num_running_reqs{model_name=\"m\"} 3.0\n\
            # TYPE sglang:token_usage gauge\n\
            sglang:token_usage{tp_rank=\"0\"} 0.5 1700000000000\n\
            sglang:token_usage{tp_rank=\"1\"} 0.1 1700000000000\n\
            # TYPE sglang:prompt_tokens_total counter\n\
            sglang:prompt_tokens_total{model_name=\"m\"} 10.0\n\
            # TYPE sglang:cached_tokens_total counter\n\
            sglang:cached_tokens_total{model_name=\"m\"} 2.0\n";
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, sglang);
        metrics.add(1.0, &sglang.replace(" 10.0", " 30.0").replace("} 2.0", "} 7.0"));
        assert_eq!(metrics.get("sglang:num_running_reqs").unwrap().max(), Some(3.0));
        assert_eq!(metrics.get("sglang:token_usage").unwrap().values[0], 0.3);
        assert_eq!(metrics.prefix_cache_hit_rate(), Some(0.25));
        let tgi = "# TYPE tgi_queue_size gauge\ntgi_queue_size 4\n# TYPE tgi_request_success counter\n\
            tgi_request_success 12\n# TYPE tgi_request_duration histogram\ntgi_request_duration_bucket{le=\"1\"} 2\n";
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, tgi);
        let names: Vec<&str> = metrics.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["tgi_queue_size", "tgi_request_success"]);
        assert_eq!(metrics.prefix_cache_hit_rate(), None);
    }

    #[test]
    fn series_line_up_with_the_times() {
        let mut metrics = ServerMetrics::default();
        metrics.add(1.0, "");
        metrics.add(2.0, PAGE);
        metrics.add(3.0, &PAGE.replace(" 7.0", " 12.0").replace(" 3.0", " 5.0"));
        metrics.add(4.0, "");
        let mut both = ServerMetrics::default();
        both.add(0.5, PAGE);
        both.append(metrics.clone());
        let lengths: Vec<usize> = both.series.iter().map(|series| series.values.len()).collect();
        assert_eq!((both.times.len(), lengths), (5, vec![5; 4]));
        metrics.shift(1.0);
        assert_eq!(metrics.times, [0.0, 1.0, 2.0, 3.0]);
        let running = metrics.get("vllm:num_requests_running").unwrap();
        assert!(running.values[0].is_nan() && running.values[3].is_nan());
        assert_eq!((running.mean(), running.max()), (Some(6.0), Some(7.0)));
        assert_eq!(metrics.get("vllm:prefix_cache_hits_total").unwrap().growth(), Some(5.0));
    }
}
