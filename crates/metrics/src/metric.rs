//! The names of the latency metrics, as flags, result files and reports spell them.

/// A latency metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricKind {
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time between two token events.
    Itl,
    /// Time to the last token.
    E2el,
    /// Wait for a concurrency slot.
    ClientQueueTime,
    /// Time to the last token including that wait.
    E2elIncludingClientQueue,
    /// Time to the first generated audio.
    AudioTtfp,
    /// Latency per second of generated audio.
    AudioRtf,
    /// Seconds of generated audio.
    AudioDuration,
    /// Seconds for which the playback of generated audio waited for more.
    AudioUnderrun,
}

impl MetricKind {
    /// All of them, in the order of reports.
    pub const ALL: [MetricKind; 10] = [
        MetricKind::Ttft,
        MetricKind::Tpot,
        MetricKind::Itl,
        MetricKind::E2el,
        MetricKind::ClientQueueTime,
        MetricKind::E2elIncludingClientQueue,
        MetricKind::AudioTtfp,
        MetricKind::AudioRtf,
        MetricKind::AudioDuration,
        MetricKind::AudioUnderrun,
    ];

    /// Those about single tokens, which vLLM reports only for generation with a tokenizer.
    pub const TOKENS: [MetricKind; 3] = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl];

    /// The name in flags and keys.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Ttft => "ttft",
            MetricKind::Tpot => "tpot",
            MetricKind::Itl => "itl",
            MetricKind::E2el => "e2el",
            MetricKind::ClientQueueTime => "client_queue_time",
            MetricKind::E2elIncludingClientQueue => "e2el_including_client_queue",
            MetricKind::AudioTtfp => "audio_ttfp",
            MetricKind::AudioRtf => "audio_rtf",
            MetricKind::AudioDuration => "audio_duration",
            MetricKind::AudioUnderrun => "audio_underrun",
        }
    }

    /// Returns whether it is about generated audio; vLLM-Omni has these.
    pub fn is_audio(self) -> bool {
        self >= MetricKind::AudioTtfp
    }

    /// The metrics in a comma-separated list. Names are not trimmed and unknown ones are ignored, as in vLLM.
    pub fn parse_list(list: &str) -> Vec<MetricKind> {
        list.split(',').filter_map(|name| Self::ALL.into_iter().find(|kind| kind.name() == name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_neither_trimmed_nor_checked() {
        assert_eq!(MetricKind::parse_list("e2el,ttft, itl,nope,"), [MetricKind::E2el, MetricKind::Ttft]);
    }
}
