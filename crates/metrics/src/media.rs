//! Metrics of generated audio and images.

use crate::concurrency::PerSecond;
use crate::latency::{collect_some, successes};
use crate::throughput::per_second;
use crate::{Audio, Media, MetricKind, Sample, Samples, Setup, Statistics};

/// Longest gap in the playback of a response that counts as continuous, in seconds; as in vLLM-Omni.
const CONTINUOUS: f64 = 0.1;

/// Metrics of generated media.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaSummary {
    /// Requests within their limits per second; `None` without limits.
    pub request_goodput: Option<f64>,
    /// Most requests in flight in any one second.
    pub max_concurrent_requests: u64,
    /// Metrics of audio; `None` if no response has any.
    pub audio: Option<AudioSummary>,
    /// Number of images; `None` if no response has any.
    pub images: Option<u64>,
    /// Images per second.
    pub image_throughput: f64,
}

/// Metrics of generated audio. Those about its duration need a known format.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioSummary {
    /// Time to the first audio.
    pub ttfp: Statistics,
    /// End-to-end latency per second of audio.
    pub rtf: Statistics,
    /// Durations of the responses.
    pub duration: Statistics,
    /// Seconds for which playback waited for audio.
    pub underrun: Statistics,
    /// Totals; `None` if no response has a known format.
    pub totals: Option<AudioTotals>,
    /// Responses of an unknown format.
    pub unknown: u64,
}

/// Totals of generated audio.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AudioTotals {
    /// Seconds of audio.
    pub duration: f64,
    /// Frames of audio.
    pub frames: u64,
    /// Seconds of audio per second.
    pub throughput: f64,
    /// Gaps in the playback.
    pub underruns: u64,
    /// Fraction of the responses that play without an audible gap.
    pub continuous: f64,
}

impl MediaSummary {
    pub(crate) fn of(setup: &Setup, samples: &Samples, duration: f64) -> Self {
        let images: Vec<u64> = successes(samples).filter_map(|sample| sample.images()).collect();
        let total = (!images.is_empty()).then(|| images.iter().sum());
        MediaSummary {
            request_goodput: setup.goodput(samples, duration, |_| 0.0),
            max_concurrent_requests: PerSecond::of(samples).peak_requests(),
            audio: AudioSummary::of(setup, samples, duration),
            images: total,
            image_throughput: per_second(total.unwrap_or(0) as f64, duration),
        }
    }
}

impl AudioSummary {
    fn of(setup: &Setup, samples: &Samples, duration: f64) -> Option<Self> {
        let percentiles = &setup.metric_percentiles;
        let some = |of: fn(&Sample) -> Option<f64>| Statistics::of(collect_some(samples, of), percentiles);
        let unknown = successes(samples).filter(|sample| sample.media == Some(Media::Audio(None))).count() as u64;
        let summary = AudioSummary {
            ttfp: some(Sample::audio_ttfp),
            rtf: some(Sample::audio_rtf),
            duration: some(|sample| Some(sample.audio()?.duration)),
            underrun: some(|sample| Some(sample.audio()?.underrun)),
            totals: AudioTotals::of(samples, duration),
            unknown,
        };
        (summary.ttfp.count > 0).then_some(summary)
    }

    /// The statistics of `metric`, if it is about audio and has values.
    pub(crate) fn statistics(&self, metric: MetricKind) -> Option<&Statistics> {
        let statistics = match metric {
            MetricKind::AudioTtfp => &self.ttfp,
            MetricKind::AudioRtf => &self.rtf,
            MetricKind::AudioDuration => &self.duration,
            MetricKind::AudioUnderrun => &self.underrun,
            _ => return None,
        };
        Some(statistics).filter(|statistics| statistics.count > 0)
    }
}

impl AudioTotals {
    fn of(samples: &Samples, duration: f64) -> Option<Self> {
        let (mut totals, mut responses, mut continuous) = (AudioTotals::default(), 0_u64, 0_u64);
        for audio in successes(samples).filter_map(|sample| sample.audio()) {
            responses += 1;
            continuous += u64::from(audio.underrun <= CONTINUOUS);
            totals.duration += audio.duration;
            totals.frames += audio.frames;
            totals.underruns += audio.underruns;
        }
        totals.throughput = per_second(totals.duration, duration);
        totals.continuous = continuous as f64 / responses.max(1) as f64;
        (responses > 0).then_some(totals)
    }
}

impl Sample {
    /// Its audio, if the format is known.
    pub fn audio(&self) -> Option<Audio> {
        match self.media {
            Some(Media::Audio(audio)) => audio,
            _ => None,
        }
    }

    /// Time to the first audio.
    pub fn audio_ttfp(&self) -> Option<f64> {
        matches!(self.media, Some(Media::Audio(_))).then_some(self.ttft)
    }

    /// Real-time factor: latency per second of audio.
    pub fn audio_rtf(&self) -> Option<f64> {
        self.audio().filter(|audio| audio.duration > 0.0).map(|audio| self.latency / audio.duration)
    }

    /// From the start of the audio input to the first text, if audio was sent as it was recorded.
    pub fn ttft_from_audio(&self) -> Option<f64> {
        self.input_end.filter(|_| self.success()).map(|_| self.ttft - self.connect)
    }

    /// From the end of the audio input to the complete transcript, if audio was sent as it was recorded.
    pub fn finalization_latency(&self) -> Option<f64> {
        self.input_end.filter(|_| self.success()).map(|end| self.done - self.sent - end)
    }

    /// Number of its images.
    pub fn images(&self) -> Option<u64> {
        match self.media {
            Some(Media::Images(count)) => Some(count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(duration: f64, underrun: f64) -> Sample {
        let audio = Audio { frames: (duration * 1e3) as u64, duration, underrun, underruns: u64::from(underrun > 0.0) };
        let mut sample = Sample { ttft: 0.1, latency: 0.5, ..Sample::default() };
        sample.media = Some(Media::Audio(Some(audio)));
        sample
    }

    #[test]
    fn totals_are_of_known_formats_and_an_empty_sample_has_none() {
        let mut unknown = described(1.0, 0.0);
        unknown.media = Some(Media::Audio(None));
        let samples = Samples::from([described(1.0, 0.0), described(4.0, 0.5), unknown.clone()]);
        let found = MediaSummary::of(&Setup::example(), &samples, 2.0);
        let audio = found.audio.unwrap();
        let totals = audio.totals.unwrap();
        assert_eq!((totals.duration, totals.frames, totals.throughput), (5.0, 5000, 2.5));
        assert_eq!((totals.underruns, totals.continuous, audio.unknown), (1, 0.5, 1));
        assert_eq!((audio.ttfp.count, audio.rtf.count, audio.rtf.mean_ms), (3, 2, 312.5));
        assert_eq!((found.images, found.image_throughput), (None, 0.0));
        let none = MediaSummary::of(&Setup::example(), &[unknown].into(), 2.0).audio.unwrap();
        assert_eq!((none.totals, none.duration.count), (None, 0));
        assert_eq!(MediaSummary::of(&Setup::example(), &[Sample::default()].into(), 2.0).audio, None);
    }
}
