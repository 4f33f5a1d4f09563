//! Audio files: samples written as WAV, and the duration of a file.

use tacho_core::json::Value;

use super::wav::{le16, le32};

/// 16-bit samples of one or more channels.
#[derive(Debug, PartialEq)]
pub(super) struct AudioFile {
    samples: Vec<i16>,
    channels: u16,
    rate: u32,
}

impl AudioFile {
    /// Parses `[samples, rate]`; samples are numbers, or one list of numbers per frame.
    pub(super) fn from_json(audio: &Value, dtype: Option<&str>) -> Option<Self> {
        let [samples, rate] = audio.as_list()? else { return None };
        let frames = samples.as_list()?;
        let rate = rate.as_f64().filter(|&rate| rate >= 1.0 && rate <= f64::from(u32::MAX))? as u32;
        let channels = frames.first().and_then(Value::as_list).map_or(1, <[Value]>::len);
        let mut sound = AudioFile { samples: Vec::new(), channels: u16::try_from(channels).ok()?, rate };
        sound.samples.reserve(frames.len() * channels);
        for frame in frames {
            match frame {
                Value::List(frame) if frame.len() == channels => {
                    for sample in frame {
                        sound.samples.push(sample_of(sample, dtype)?);
                    }
                }
                Value::List(_) => return None,
                sample if channels == 1 => sound.samples.push(sample_of(sample, dtype)?),
                _ => return None,
            }
        }
        Some(sound)
    }

    pub(super) fn to_wav(&self) -> Vec<u8> {
        tacho_core::wav::file(self.channels, self.rate, self.samples.iter().copied())
    }

    /// Parses a WAV file with integers or floats of constant size.
    pub(super) fn from_wav(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != b"RIFF" {
            return None;
        }
        let (mut format, mut at) = (None, 12);
        while let Some(length) = le32(bytes, at + 4) {
            let end = at.checked_add(8)?.checked_add(length as usize)?;
            match &bytes[at..at + 4] {
                b"fmt " => {
                    // The extended form names the code further on.
                    let code = le16(bytes, at + 8).filter(|code| *code != 0xfffe).or_else(|| le16(bytes, at + 32))?;
                    format = Some((code, le16(bytes, at + 10)?, le32(bytes, at + 12)?, le16(bytes, at + 22)?));
                }
                b"data" => {
                    let (code, channels, rate, bits) = format?;
                    let data = &bytes[at + 8..end.min(bytes.len())];
                    let samples = match (code, bits) {
                        (1, 8) => data.iter().map(|byte| (i16::from(*byte) - 128) << 8).collect(),
                        // The upper 16 bits.
                        (1, 16 | 24 | 32) => data
                            .chunks_exact(usize::from(bits) / 8)
                            .filter_map(|sample| sample.last_chunk().map(|upper| i16::from_le_bytes(*upper)))
                            .collect(),
                        (3, 32) => {
                            data.as_chunks().0.iter().map(|s| scaled(f64::from(f32::from_le_bytes(*s)))).collect()
                        }
                        _ => return None,
                    };
                    return (rate > 0).then_some(AudioFile { samples, channels: channels.max(1), rate });
                }
                _ => {}
            }
            at = end + (length as usize & 1);
        }
        None
    }

    /// Its samples at another rate, by linear interpolation, and the mean of its channels.
    pub(super) fn mono(&self, rate: u32) -> Vec<i16> {
        let channels = usize::from(self.channels);
        let mean =
            |frame: &[i16]| (frame.iter().map(|sample| i32::from(*sample)).sum::<i32>() / channels as i32) as i16;
        let mono: Vec<i16> = self.samples.chunks_exact(channels).map(mean).collect();
        if rate == self.rate {
            return mono;
        }
        let step = f64::from(self.rate) / f64::from(rate);
        let between = |at: usize| {
            let position = at as f64 * step;
            let (left, share) = (position as usize, position.fract());
            let sample = |at: usize| f64::from(mono[at.min(mono.len() - 1)]);
            (sample(left) * (1.0 - share) + sample(left + 1) * share).round() as i16
        };
        (0..(mono.len() as f64 / step) as usize).map(between).collect()
    }

    pub(super) fn seconds(&self) -> f64 {
        (self.samples.len() / usize::from(self.channels).max(1)) as f64 / f64::from(self.rate)
    }
}

/// A float is a fraction of full scale, an integer a sample value.
fn sample_of(value: &Value, dtype: Option<&str>) -> Option<i16> {
    match (value, dtype) {
        (Value::Int(number), None | Some("int16")) => i16::try_from(*number).ok(),
        (Value::Int(number), Some("int32")) => i32::try_from(*number).ok().map(|number| (number >> 16) as i16),
        (_, Some("float32")) => value.as_f64().map(|number| scaled(f64::from(number as f32))),
        _ => value.as_f64().map(scaled),
    }
}

/// Scales as libsndfile does: to 32 bits, rounded to even and clamped, of which the upper half is kept.
fn scaled(share: f64) -> i16 {
    const FULL: f64 = 2_147_483_648.0;
    ((share * FULL).round_ties_even() as i32 >> 16) as i16
}

/// Duration of an audio file in seconds, from its header; `None` for unknown formats.
pub(super) fn file_seconds(bytes: &[u8]) -> Option<f64> {
    match bytes.get(..4)? {
        b"RIFF" => wav_seconds(bytes),
        b"fLaC" => flac_seconds(bytes),
        b"OggS" => ogg_seconds(bytes),
        _ => mp3_seconds(bytes),
    }
}

fn ratio(count: u64, rate: u32) -> Option<f64> {
    (rate > 0).then(|| count as f64 / f64::from(rate))
}

fn wav_seconds(bytes: &[u8]) -> Option<f64> {
    let (mut rate, mut frame_len) = (0, 0);
    let mut at = 12;
    while let Some(length) = le32(bytes, at + 4) {
        match &bytes[at..at + 4] {
            b"fmt " => {
                rate = le32(bytes, at + 12)?;
                frame_len = u64::from(le16(bytes, at + 20)?);
            }
            // A streaming writer leaves an arbitrary length.
            b"data" if frame_len > 0 => {
                let held = (bytes.len() - at - 8).min(length as usize) as u64;
                return ratio(held / frame_len, rate);
            }
            _ => {}
        }
        at = at.checked_add(8 + length as usize + (length as usize & 1))?;
    }
    None
}

/// The stream-information block comes first, with 20 bits of sample rate and 36 bits of length.
fn flac_seconds(bytes: &[u8]) -> Option<f64> {
    let word = u64::from_be_bytes(bytes.get(18..26)?.try_into().ok()?);
    ratio(word & 0xf_ffff_ffff, (word >> 44) as u32)
}

/// The last page contains the number of samples.
fn ogg_seconds(bytes: &[u8]) -> Option<f64> {
    let last = memchr::memmem::rfind(bytes, b"OggS")?;
    let granules = u64::from_le_bytes(bytes.get(last + 6..last + 14)?.try_into().ok()?);
    if let Some(at) = memchr::memmem::find(bytes, b"OpusHead") {
        let skipped = u64::from(le16(bytes, at + 10)?);
        return ratio(granules.saturating_sub(skipped), 48_000);
    }
    let at = memchr::memmem::find(bytes, b"\x01vorbis")?;
    ratio(granules, le32(bytes, at + 12)?)
}

fn mp3_seconds(bytes: &[u8]) -> Option<f64> {
    let mut at = 0;
    if bytes.starts_with(b"ID3") {
        let size = bytes.get(6..10)?.iter().fold(0, |size, &byte| size << 7 | usize::from(byte & 0x7f));
        at = 10 + size;
    }
    let (mut samples, mut rate) = (0, 0);
    while let Some(frame) = bytes.get(at..at + 4).and_then(mp3_frame) {
        samples += u64::from(frame.samples);
        rate = frame.rate;
        at += frame.length;
    }
    ratio(samples, rate)
}

struct Mp3Frame {
    samples: u32,
    rate: u32,
    length: usize,
}

fn mp3_frame(head: &[u8]) -> Option<Mp3Frame> {
    const RATES: [u32; 3] = [44_100, 48_000, 32_000];
    const FIRST: [u32; 14] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const SECOND: [u32; 14] = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    if head[0] != 0xff || head[1] & 0xe6 != 0xe2 {
        return None;
    }
    let divisor = match head[1] >> 3 & 3 {
        3 => 1,
        2 => 2,
        0 => 4,
        _ => return None,
    };
    let rate = RATES.get(usize::from(head[2] >> 2 & 3))? / divisor;
    let bit_rates = if divisor == 1 { FIRST } else { SECOND };
    let bit_rate = bit_rates.get(usize::from(head[2] >> 4).checked_sub(1)?)? * 1000;
    let samples = if divisor == 1 { 1152 } else { 576 };
    let length = samples / 8 * bit_rate / rate + u32::from(head[2] >> 1 & 1);
    Some(Mp3Frame { samples, rate, length: length as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn sound(text: &str, dtype: Option<&str>) -> Option<AudioFile> {
        AudioFile::from_json(&parse(text).unwrap(), dtype)
    }

    #[test]
    fn floats_are_scaled_and_held_in_range() {
        let samples = sound("[[0.5, -0.5, 1.5, -1.5, 0.1, -1.526e-05, 1e-06], 8000]", None).unwrap().samples;
        assert_eq!(samples, [16384, -16384, 32767, -32768, 3276, -1, 0]);
        assert_eq!(sound("[[1, -1], 8000]", Some("int16")).unwrap().samples, [1, -1]);
        assert_eq!(sound("[[65536, -1], 8000]", Some("int32")).unwrap().samples, [1, -1]);
    }

    #[test]
    fn invalid_audio_is_refused() {
        for text in ["[]", "[[0.1], 0]", "[[\"a\"], 8]", "[[[0.1], [0.1, 0.2]], 8]", "[[40000], 8]"] {
            assert_eq!(sound(text, None), None, "{text}");
        }
        assert_eq!(sound("[[[0.1, 0.2], 0.2], 8]", None), None);
    }

    #[test]
    fn a_written_file_lasts_as_long_as_its_samples() {
        let stereo = sound("[[[0.0, 0.5], [0.25, -0.25], [-1.0, 1.0]], 44100]", None).unwrap();
        assert_eq!(file_seconds(&stereo.to_wav()), Some(3.0 / 44100.0));
        assert_eq!(stereo.seconds(), 3.0 / 44100.0);
    }

    #[test]
    fn samples_of_a_file_are_mixed_and_resampled() {
        let stereo = sound("[[[100, 200], [300, 500], [-100, -300], [0, 0]], 32000]", Some("int16")).unwrap();
        let read = AudioFile::from_wav(&stereo.to_wav()).unwrap();
        assert_eq!(read, stereo);
        assert_eq!((read.mono(32_000), read.mono(16_000)), (vec![150, 400, -200, 0], vec![150, -200]));
        assert_eq!(read.mono(64_000), [150, 275, 400, 100, -200, -100, 0, 0]);
        let coded = |code: u16, bits: u16, data: &[u8]| {
            let mut file = sound("[[1], 8000]", Some("int16")).unwrap().to_wav();
            file[20..22].copy_from_slice(&code.to_le_bytes());
            file[34..36].copy_from_slice(&bits.to_le_bytes());
            file[40..44].copy_from_slice(&(data.len() as u32).to_le_bytes());
            AudioFile::from_wav(&[&file[..44], data].concat()).map(|file| file.samples)
        };
        assert_eq!(coded(1, 8, &[0, 128, 255]), Some(vec![-32768, 0, 127 << 8]));
        assert_eq!(coded(1, 24, &[9, 1, 0, 9, 0xff, 0xff]), Some(vec![1, -1]));
        assert_eq!(coded(3, 32, &0.5_f32.to_le_bytes()), Some(vec![16384]));
        assert_eq!((coded(6, 8, &[0]), AudioFile::from_wav(b"OggS")), (None, None));
    }

    #[test]
    fn other_formats_have_a_duration() {
        let mut flac = b"fLaC\x00\x00\x00\x22".to_vec();
        flac.extend_from_slice(&[0; 10]);
        flac.extend_from_slice(&(16_000_u64 << 44 | 15 << 36 | 8_000).to_be_bytes());
        assert_eq!(file_seconds(&flac), Some(0.5));
        // 128 kbit/s at 44.1 kHz: 417 bytes per frame.
        let mut mp3 = vec![0; 417 * 3];
        for frame in 0..3 {
            mp3[frame * 417..frame * 417 + 4].copy_from_slice(&[0xff, 0xfb, 0x90, 0x00]);
        }
        assert_eq!(file_seconds(&mp3), Some(3.0 * 1152.0 / 44_100.0));
        assert_eq!(file_seconds(b"text instead of audio"), None);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(head in 0..4_usize, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80)) {
            let head: &[u8] = [b"RIFF....WAVE".as_slice(), b"fLaC", b"OggS", b""][head];
            let _ = file_seconds(&[head, &bytes].concat());
        }
    }
}
