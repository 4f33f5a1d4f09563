//! Families of latencies: each has a mean, a median, a standard deviation, percentiles and, for tacho's own, a
//! maximum.

use tacho_metrics::{MetricKind, Statistics, statistics::Statistic};

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

/// A family of times in milliseconds, of which less is better.
const fn times(
    name: &'static str,
    label: &'static str,
    title: &'static str,
    read: fn(&RunRecord) -> Option<&Statistics>,
) -> Times {
    Times { name, label, title, unit: Milliseconds, better: Less, read }
}

/// All families: vLLM's in the order of its report, then those of generated audio as in vLLM-Omni, then tacho's.
#[rustfmt::skip]
pub static TIMES: &[Times] = &[
    times("ttft", "TTFT", "Time to First Token", |r| r.summary.statistics(MetricKind::Ttft)),
    times("tpot", "TPOT", "Time per Output Token (excl. 1st token)", |r| r.summary.statistics(MetricKind::Tpot)),
    times("itl", "ITL", "Inter-token Latency", |r| r.summary.statistics(MetricKind::Itl)),
    times("e2el", "E2EL", "End-to-end Latency", |r| r.summary.statistics(MetricKind::E2el)),
    times("client_queue_time", "Client Queue Time", "Client-side Queueing", |r| r.summary.statistics(MetricKind::ClientQueueTime)),
    times("e2el_including_client_queue", "E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency", |r| r.summary.statistics(MetricKind::E2elIncludingClientQueue)),
    times("audio_ttfp", "AUDIO_TTFP", "Time to First Packet", |r| r.summary.statistics(MetricKind::AudioTtfp)),
    Times { unit: Plain, ..times("audio_rtf", "AUDIO_RTF", "Real Time Factor", |r| r.summary.statistics(MetricKind::AudioRtf)) },
    Times { unit: Seconds, better: Neither, ..times("audio_duration", "AUDIO_DURATION", "Audio Duration", |r| r.summary.statistics(MetricKind::AudioDuration)) },
    Times { unit: Seconds, ..times("audio_underrun", "AUDIO_UNDERRUN", "Streaming Audio Underrun", |r| r.summary.statistics(MetricKind::AudioUnderrun)) },
    times("ttft_from_schedule", "TTFT from the scheduled send time", "", |r| r.open_loop.ttft_from_schedule.as_ref()),
    times("e2el_from_schedule", "End-to-end latency from the scheduled send time", "", |r| Some(&r.open_loop.e2el_from_schedule)),
    times("ttft_first_content", "TTFT of the first content", "", |r| r.open_loop.ttft_first_content.as_ref()),
    times("ttft_first_answer", "TTFT of the first answer token", "", |r| r.open_loop.ttft_first_answer.as_ref()),
    times("ttft_from_audio", "Audio start to first text", "", |r| r.open_loop.ttft_from_audio.as_ref()),
    times("finalization_latency", "Audio end to transcript", "", |r| r.open_loop.finalization_latency.as_ref()),
    times("itl_per_token", "Gap per token", "", |r| r.open_loop.itl_per_token.as_ref().map(|(statistics, _)| statistics)),
    times("ttft_including_client_queue", "TTFT with the wait in the client", "", |r| r.open_loop.ttft_including_client_queue.as_ref()),
    times("ntpot", "Normalized TPOT", "", |r| r.open_loop.ntpot.as_ref()),
    times("dispatch_lateness", "Dispatch lateness", "", |r| Some(&r.open_loop.dispatch_lateness)),
    times("connect", "Connecting", "", |r| Some(&r.open_loop.connect).filter(|connect| connect.count > 0)),
];

/// Families that do not wait in the server's queue: their means are known near saturation too.
const WITHOUT_QUEUE: [&str; 4] = ["tpot", "itl", "audio_duration", "audio_underrun"];

impl Times {
    /// Returns whether it counts the wait in the server's queue.
    pub fn waits(&self) -> bool {
        !WITHOUT_QUEUE.contains(&self.name)
    }

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
