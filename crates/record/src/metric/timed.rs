//! Families of latencies: each has a mean, a median, a standard deviation, percentiles and, for tacho's own, a
//! maximum.

use tacho_metrics::statistics::Statistic;
use tacho_metrics::{MetricKind, Statistics};

use super::{Better, Unit};
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
    /// Its unit: milliseconds, seconds, or none for a ratio. Statistics have thousandths of the latter two.
    pub unit: Unit,
    /// The direction in which it improves.
    pub better: Better,
    /// Its statistics in a record; `None` if the run does not have them.
    pub read: fn(&RunRecord) -> Option<&Statistics>,
}

use Better::{Less, Neither};
use Unit::{Milliseconds, Plain, Seconds};

/// All families: vLLM's in the order of its report, then those of generated audio as in vLLM-Omni, then tacho's.
#[rustfmt::skip]
pub static TIMES: &[Times] = &[
    Times { unit: Milliseconds, better: Less, name: "ttft", label: "TTFT", title: "Time to First Token", read: |r| r.summary.statistics(MetricKind::Ttft) },
    Times { unit: Milliseconds, better: Less, name: "tpot", label: "TPOT", title: "Time per Output Token (excl. 1st token)",
            read: |r| r.summary.statistics(MetricKind::Tpot) },
    Times { unit: Milliseconds, better: Less, name: "itl", label: "ITL", title: "Inter-token Latency", read: |r| r.summary.statistics(MetricKind::Itl) },
    Times { unit: Milliseconds, better: Less, name: "e2el", label: "E2EL", title: "End-to-end Latency", read: |r| r.summary.statistics(MetricKind::E2el) },
    Times { unit: Milliseconds, better: Less, name: "client_queue_time", label: "Client Queue Time", title: "Client-side Queueing",
            read: |r| r.summary.statistics(MetricKind::ClientQueueTime) },
    Times { unit: Milliseconds, better: Less, name: "e2el_including_client_queue", label: "E2EL incl. Client Queue",
            title: "Queue-inclusive End-to-end Latency",
            read: |r| r.summary.statistics(MetricKind::E2elIncludingClientQueue) },
    Times { unit: Milliseconds, better: Less, name: "audio_ttfp", label: "AUDIO_TTFP", title: "Time to First Packet",
            read: |r| r.summary.statistics(MetricKind::AudioTtfp) },
    Times { unit: Plain, better: Less, name: "audio_rtf", label: "AUDIO_RTF", title: "Real Time Factor",
            read: |r| r.summary.statistics(MetricKind::AudioRtf) },
    Times { unit: Seconds, better: Neither, name: "audio_duration", label: "AUDIO_DURATION", title: "Audio Duration",
            read: |r| r.summary.statistics(MetricKind::AudioDuration) },
    Times { unit: Seconds, better: Less, name: "audio_underrun", label: "AUDIO_UNDERRUN", title: "Streaming Audio Underrun",
            read: |r| r.summary.statistics(MetricKind::AudioUnderrun) },
    Times { unit: Milliseconds, better: Less, name: "ttft_from_schedule", label: "Due to first token", title: "", read: |r| r.open_loop.ttft_from_schedule.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "e2el_from_schedule", label: "Due to last token", title: "", read: |r| Some(&r.open_loop.e2el_from_schedule) },
    Times { unit: Milliseconds, better: Less, name: "ttft_first_content", label: "Sent to first content", title: "",
            read: |r| r.open_loop.ttft_first_content.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "ttft_first_answer", label: "Sent to first answer token", title: "",
            read: |r| r.open_loop.ttft_first_answer.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "ttft_from_audio", label: "Audio start to first text", title: "",
            read: |r| r.open_loop.ttft_from_audio.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "finalization_latency", label: "Audio end to transcript", title: "",
            read: |r| r.open_loop.finalization_latency.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "itl_per_token", label: "Gap per token", title: "",
            read: |r| r.open_loop.itl_per_token.as_ref().map(|(statistics, _)| statistics) },
    Times { unit: Milliseconds, better: Less, name: "ttft_including_client_queue", label: "Released to first token", title: "",
            read: |r| r.open_loop.ttft_including_client_queue.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "ntpot", label: "Normalized TPOT", title: "", read: |r| r.open_loop.ntpot.as_ref() },
    Times { unit: Milliseconds, better: Less, name: "dispatch_lateness", label: "Dispatch lateness", title: "", read: |r| Some(&r.open_loop.dispatch_lateness) },
    Times { unit: Milliseconds, better: Less, name: "connect", label: "Connecting", title: "",
            read: |r| Some(&r.open_loop.connect).filter(|connect| connect.count > 0) },
];

impl Times {
    /// The family of one of vLLM's metrics.
    pub fn of(metric: MetricKind) -> &'static Self {
        // Both lists are in vLLM's order.
        &TIMES[metric as usize]
    }

    /// Returns whether it is about generated audio.
    pub fn is_audio(&self) -> bool {
        self.name.starts_with("audio_")
    }

    /// The end of its keys, which names the unit.
    pub fn suffix(&self) -> &'static str {
        match self.unit {
            Milliseconds => "_ms",
            Seconds => "_s",
            _ => "",
        }
    }

    /// The unit after a label.
    pub fn unit_text(&self) -> &'static str {
        match self.unit {
            Milliseconds => " (ms)",
            Seconds => " (s)",
            _ => "",
        }
    }

    /// A value of its statistics in its unit.
    pub fn scaled(&self, thousandths: f64) -> f64 {
        if self.unit == Milliseconds { thousandths } else { thousandths / 1000.0 }
    }

    /// The key of one of its statistics.
    pub fn key(&self, statistic: Statistic) -> String {
        let (name, suffix) = (self.name, self.suffix());
        match statistic {
            Statistic::Mean => format!("mean_{name}{suffix}"),
            Statistic::Deviation => format!("std_{name}{suffix}"),
            Statistic::Percentile(50.0) => format!("median_{name}{suffix}"),
            Statistic::Percentile(percent) => format!("p{percent}_{name}{suffix}"),
        }
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
        let (word, rest) = key.split_once('_')?;
        let times = TIMES.iter().find(|times| rest.strip_prefix(times.name) == Some(times.suffix()))?;
        let statistic = match word {
            "mean" => Statistic::Mean,
            "median" => Statistic::Percentile(50.0),
            "std" => Statistic::Deviation,
            _ => Statistic::Percentile(word.strip_prefix('p')?.parse().ok().filter(|p| (0.0..=100.0).contains(p))?),
        };
        Some(Timed { times, statistic })
    }

    /// Its heading in tables, such as `P99 TTFT (ms)`.
    pub fn heading(&self) -> String {
        let word = match self.statistic {
            Statistic::Mean => "Mean".to_owned(),
            Statistic::Deviation => "STD".to_owned(),
            Statistic::Percentile(50.0) => "Median".to_owned(),
            Statistic::Percentile(percent) => format!("P{percent}"),
        };
        format!("{word} {}{}", self.times.label, self.times.unit_text())
    }

    /// Its value in a record; `None` without samples, and for percentiles that were not requested.
    pub fn read(&self, record: &RunRecord) -> Option<f64> {
        let statistics = (self.times.read)(record).filter(|statistics| statistics.count > 0)?;
        let value = match self.statistic {
            Statistic::Mean => Some(statistics.mean_ms),
            Statistic::Deviation => Some(statistics.std_ms),
            Statistic::Percentile(50.0) => Some(statistics.median_ms),
            Statistic::Percentile(percent) => statistics.percentile_ms(percent),
        };
        value.map(|value| self.times.scaled(value))
    }
}
