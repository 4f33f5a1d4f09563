//! The names of the latency metrics, as flags, result files and reports spell them.

tacho_core::named! {
    /// A latency metric.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum MetricKind, "a metric" {
        /// Time to the first token.
        Ttft = "ttft",
        /// Time per output token after the first.
        Tpot = "tpot",
        /// Time between two token events.
        Itl = "itl",
        /// Time to the last token.
        E2el = "e2el",
        /// Wait for a concurrency slot.
        ClientQueueTime = "client_queue_time",
        /// Time to the last token including that wait.
        E2elIncludingClientQueue = "e2el_including_client_queue",
        /// Time to the first generated audio.
        AudioTtfp = "audio_ttfp",
        /// Latency per second of generated audio.
        AudioRtf = "audio_rtf",
        /// Seconds of generated audio.
        AudioDuration = "audio_duration",
        /// Seconds for which the playback of generated audio waited for more.
        AudioUnderrun = "audio_underrun",
    }
}

impl MetricKind {
    /// Those about single tokens, which vLLM reports only for generation with a tokenizer.
    pub const TOKENS: [MetricKind; 3] = [MetricKind::Ttft, MetricKind::Tpot, MetricKind::Itl];

    /// Returns whether it is about generated audio; vLLM-Omni has these.
    pub fn is_audio(self) -> bool {
        self >= MetricKind::AudioTtfp
    }

    /// The metrics in a comma-separated list. Names are not trimmed and unknown ones are ignored, as in vLLM.
    pub fn parse_list(list: &str) -> Vec<MetricKind> {
        list.split(',').filter_map(Self::from_name).collect()
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
