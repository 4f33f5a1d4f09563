//! Generated audio and images of a request, and how audio plays while it is received.

use tacho_core::{AudioFormat, Observation, Timestamp};

/// Shortest gap that counts as an underrun, in seconds: shorter ones are noise of the network.
const MIN_GAP: f64 = 0.01;

/// The generated media of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Media {
    /// Audio; `None` if its format is unknown.
    Audio(Option<Audio>),
    /// Number of images.
    Images(u64),
}

tacho_core::packed! {
    /// Generated audio.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Audio {
        /// Frames: one sample of each channel.
        pub frames: u64,
        /// Duration in seconds.
        pub duration: f64,
        /// Seconds for which playback waited for audio.
        pub underrun: f64,
        /// Gaps in the playback.
        pub underruns: u64,
    }
}

impl Media {
    /// The media of a complete response; playback starts `buffer` seconds after the first audio.
    pub(crate) fn of(row: &Observation, buffer: f64) -> Option<Self> {
        Some(match row.media? {
            tacho_core::Media::Images(count) => Media::Images(u64::from(count)),
            tacho_core::Media::UnknownAudio => Media::Audio(None),
            tacho_core::Media::Audio { rate, frame_bytes } => {
                let format = AudioFormat { rate, frame_bytes };
                Media::Audio(Some(Audio::of(format, &row.chunks, &row.text_ends, buffer)))
            }
        })
    }
}

impl Audio {
    /// Audio of which `ends` bytes had arrived at `times`. A player starts `buffer` seconds after the first bytes. When
    /// it has played everything, it waits for more.
    fn of(format: AudioFormat, times: &[Timestamp], ends: &[u32], buffer: f64) -> Self {
        let frames = |bytes: u32| u64::from(bytes) / u64::from(format.frame_bytes.max(1));
        let seconds = |bytes: u32| frames(bytes) as f64 / f64::from(format.rate.max(1));
        let mut audio = Audio { frames: 0, duration: 0.0, underrun: 0.0, underruns: 0 };
        let Some(first) = times.first() else { return audio };
        for (time, end) in times.iter().zip(ends) {
            let late = time.secs_since(*first) - (buffer + audio.underrun + audio.duration);
            // The first bytes start the player.
            if late > 0.0 && audio.duration > 0.0 {
                audio.underrun += late;
                audio.underruns += u64::from(late >= MIN_GAP);
            }
            (audio.frames, audio.duration) = (frames(*end), seconds(*end));
        }
        audio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: AudioFormat = AudioFormat { rate: 1000, frame_bytes: 2 };

    /// Audio that arrives in parts: milliseconds since the request, and milliseconds of audio.
    fn audio(parts: &[(u64, u32)], buffer: f64) -> Audio {
        let times: Vec<Timestamp> = parts.iter().map(|(time, _)| Timestamp(time * 1_000_000)).collect();
        let ends = parts.iter().scan(0, |end, (_, length)| {
            *end += length * 2;
            Some(*end)
        });
        Audio::of(FORMAT, &times, &ends.collect::<Vec<u32>>(), buffer)
    }

    fn rounded(audio: Audio) -> (u64, u64) {
        ((audio.underrun * 1e3).round() as u64, audio.underruns)
    }

    #[test]
    fn a_player_waits_for_late_audio_and_then_plays_on() {
        let steady = audio(&[(50, 100), (150, 100), (240, 100)], 0.0);
        assert_eq!((steady.frames, steady.duration, rounded(steady)), (300, 0.3, (0, 0)));
        // The third part is needed at 250 and comes at 400; the fourth is needed at 500.
        assert_eq!(rounded(audio(&[(50, 100), (100, 100), (400, 100), (480, 100)], 0.0)), (150, 1));
        assert_eq!(rounded(audio(&[(50, 100), (200, 100), (400, 100)], 0.0)), (150, 2));
    }

    #[test]
    fn a_buffer_covers_gaps_of_its_length() {
        let parts = [(50, 100), (200, 100), (400, 100)];
        assert_eq!(rounded(audio(&parts, 0.05)), (100, 1));
        assert_eq!(rounded(audio(&parts, 0.15)), (0, 0));
    }

    #[test]
    fn gaps_that_nobody_hears_are_not_counted() {
        assert_eq!(rounded(audio(&[(50, 1), (54, 100)], 0.0)), (3, 0));
        assert_eq!(rounded(audio(&[], 0.0)), (0, 0));
    }
}
