//! Families of latencies: each has a mean, a median, a standard deviation, percentiles and, for tacho's own, a
//! maximum.

use tacho_metrics::statistics::Statistic;
use tacho_metrics::{MetricKind, Statistics};

use crate::RunRecord;

/// A family of latencies.
pub struct Times {
    /// Its name in keys: `ttft` in `p99_ttft_ms`.
    pub name: &'static str,
    /// Its label in reports. vLLM's labels are unchanged; others contain no text that a script for vLLM's report
    /// searches for.
    pub label: &'static str,
    /// Title of its section in vLLM's report; empty for tacho's own.
    pub title: &'static str,
    /// Its statistics in a record; `None` if the run does not have them.
    pub read: fn(&RunRecord) -> Option<&Statistics>,
}

/// All families: vLLM's in the order of its report, then tacho's.
#[rustfmt::skip]
pub static TIMES: &[Times] = &[
    Times { name: "ttft", label: "TTFT", title: "Time to First Token", read: |r| r.summary.statistics(MetricKind::Ttft) },
    Times { name: "tpot", label: "TPOT", title: "Time per Output Token (excl. 1st token)",
            read: |r| r.summary.statistics(MetricKind::Tpot) },
    Times { name: "itl", label: "ITL", title: "Inter-token Latency", read: |r| r.summary.statistics(MetricKind::Itl) },
    Times { name: "e2el", label: "E2EL", title: "End-to-end Latency", read: |r| r.summary.statistics(MetricKind::E2el) },
    Times { name: "client_queue_time", label: "Client Queue Time", title: "Client-side Queueing",
            read: |r| r.summary.statistics(MetricKind::ClientQueueTime) },
    Times { name: "e2el_including_client_queue", label: "E2EL incl. Client Queue",
            title: "Queue-inclusive End-to-end Latency",
            read: |r| r.summary.statistics(MetricKind::E2elIncludingClientQueue) },
    Times { name: "ttft_from_schedule", label: "Due to first token", title: "", read: |r| r.open_loop.ttft_from_schedule.as_ref() },
    Times { name: "e2el_from_schedule", label: "Due to last token", title: "", read: |r| Some(&r.open_loop.e2el_from_schedule) },
    Times { name: "ttft_first_content", label: "Sent to first content", title: "",
            read: |r| r.open_loop.ttft_first_content.as_ref() },
    Times { name: "ttft_first_answer", label: "Sent to first answer token", title: "",
            read: |r| r.open_loop.ttft_first_answer.as_ref() },
    Times { name: "itl_per_token", label: "Gap per token", title: "",
            read: |r| r.open_loop.itl_per_token.as_ref().map(|(statistics, _)| statistics) },
    Times { name: "ttft_including_client_queue", label: "Released to first token", title: "",
            read: |r| r.open_loop.ttft_including_client_queue.as_ref() },
    Times { name: "ntpot", label: "Normalized TPOT", title: "", read: |r| r.open_loop.ntpot.as_ref() },
    Times { name: "dispatch_lateness", label: "Dispatch lateness", title: "", read: |r| Some(&r.open_loop.dispatch_lateness) },
    Times { name: "connect", label: "Connecting", title: "",
            read: |r| Some(&r.open_loop.connect).filter(|connect| connect.count > 0) },
];

impl Times {
    /// The family of one of vLLM's metrics.
    pub fn of(metric: MetricKind) -> &'static Self {
        // Both lists are in vLLM's order.
        &TIMES[metric as usize]
    }
}

/// One statistic of a family.
#[derive(Clone, Copy)]
pub struct Timed {
    /// The family.
    pub times: &'static Times,
    /// The statistic.
    pub statistic: Statistic,
}

impl Timed {
    /// Parses a key such as `p99_ttft_ms`.
    pub fn find(key: &str) -> Option<Self> {
        let (word, rest) = key.strip_suffix("_ms")?.split_once('_')?;
        let times = TIMES.iter().find(|times| times.name == rest)?;
        let statistic = match word {
            "mean" => Statistic::Mean,
            "median" => Statistic::Percentile(50.0),
            "std" => Statistic::Deviation,
            _ => Statistic::Percentile(word.strip_prefix('p')?.parse().ok().filter(|p| (0.0..=100.0).contains(p))?),
        };
        Some(Timed { times, statistic })
    }

    /// The key of a statistic of the family `name`.
    pub fn key(name: &str, statistic: Statistic) -> String {
        match statistic {
            Statistic::Mean => format!("mean_{name}_ms"),
            Statistic::Deviation => format!("std_{name}_ms"),
            Statistic::Percentile(50.0) => format!("median_{name}_ms"),
            Statistic::Percentile(percent) => format!("p{percent}_{name}_ms"),
        }
    }

    /// Its heading in tables, such as `P99 TTFT (ms)`.
    pub fn heading(&self) -> String {
        let word = match self.statistic {
            Statistic::Mean => "Mean".to_owned(),
            Statistic::Deviation => "STD".to_owned(),
            Statistic::Percentile(50.0) => "Median".to_owned(),
            Statistic::Percentile(percent) => format!("P{percent}"),
        };
        format!("{word} {} (ms)", self.times.label)
    }

    /// Its value in a record, ms; `None` without samples, and for percentiles that were not requested.
    pub fn read(&self, record: &RunRecord) -> Option<f64> {
        let statistics = (self.times.read)(record).filter(|statistics| statistics.count > 0)?;
        match self.statistic {
            Statistic::Mean => Some(statistics.mean_ms),
            Statistic::Deviation => Some(statistics.std_ms),
            Statistic::Percentile(50.0) => Some(statistics.median_ms),
            Statistic::Percentile(percent) => statistics.percentile_ms(percent),
        }
    }
}
