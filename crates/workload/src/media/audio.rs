//! Audio: decodes WAV and FLAC like libsndfile, Ogg Vorbis and MP3 nearly so; encodes 16-bit WAV.

use std::io::Cursor;

use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::{
    core::codecs::audio::AudioDecoderOptions, core::errors::Error, core::formats::probe::Hint,
    core::io::MediaSourceStream, core::meta::MetadataOptions,
};
use tacho_text::guarded;

pub(crate) use super::pcm::Audio;
use crate::limits::{MAX_CHANNELS, MAX_SAMPLES};

impl Audio {
    /// Decodes an audio file; `None` if the format is unknown or the file is broken.
    pub(crate) fn decode(file: &[u8]) -> Option<Audio> {
        match file.get(..4)? {
            b"RIFF" => decode_wav(file),
            _ => guarded(|| decode_compressed(file)).flatten(),
        }
    }
}

/// The sample format of a WAV file.
#[derive(Clone, Copy)]
struct Layout {
    coding: Coding,
    bytes: usize,
}

/// The encoding of samples in a WAV file.
#[derive(Clone, Copy, PartialEq)]
enum Coding {
    Whole,
    Float,
    ALaw,
    MuLaw,
}

impl Coding {
    fn of(tag: u16) -> Option<Coding> {
        match tag {
            1 => Some(Coding::Whole),
            3 => Some(Coding::Float),
            6 => Some(Coding::ALaw),
            7 => Some(Coding::MuLaw),
            _ => None,
        }
    }
}

/// A sample of G.711's A-law in 16 bits.
fn a_law(code: u8) -> i16 {
    let code = code ^ 0x55;
    let (segment, step) = (u32::from(code >> 4 & 7), i16::from(code & 15) << 4);
    let size = if segment == 0 { step + 8 } else { (step + 0x108) << (segment - 1) };
    if code & 0x80 == 0 { -size } else { size }
}

/// A sample of G.711's µ-law in 16 bits.
fn mu_law(code: u8) -> i16 {
    let code = !code;
    let size = (((i16::from(code & 15) << 3) + 0x84) << (code >> 4 & 7)) - 0x84;
    if code & 0x80 == 0 { size } else { -size }
}

impl Layout {
    fn sample(self, bytes: &[u8]) -> Option<f64> {
        use Coding::{ALaw, Float, MuLaw, Whole};
        Some(match (self.coding, self.bytes) {
            (ALaw, 1) => f64::from(a_law(bytes[0])) / 32_768.0,
            (MuLaw, 1) => f64::from(mu_law(bytes[0])) / 32_768.0,
            (Whole, 1) => (f64::from(bytes[0]) - 128.0) / 128.0,
            (Whole, 2) => f64::from(i16::from_le_bytes(bytes.try_into().ok()?)) / 32_768.0,
            (Whole, 3) => f64::from(i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]])) / 2_147_483_648.0,
            (Whole, 4) => f64::from(i32::from_le_bytes(bytes.try_into().ok()?)) / 2_147_483_648.0,
            (Float, 4) => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
            (Float, 8) => f64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

fn decode_wav(file: &[u8]) -> Option<Audio> {
    let word = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let (mut format, mut at) = (None, 12);
    loop {
        let length = long(at + 4)? as usize;
        let start = at + 8;
        match file.get(at..at + 4)? {
            b"fmt " => {
                let kind = match word(start)? {
                    // The extensible format names the real one at the start of its GUID.
                    0xfffe => word(start + 24)?,
                    kind => kind,
                };
                let bytes = usize::from(word(start + 14)?).div_ceil(8);
                let layout = Some(Layout { coding: Coding::of(kind)?, bytes }).filter(|layout| layout.bytes > 0)?;
                format = Some((layout, usize::from(word(start + 2)?), long(start + 4)?));
            }
            b"data" => {
                let (layout, channels, rate) =
                    format.filter(|(_, channels, rate)| (1..=MAX_CHANNELS).contains(channels) && *rate > 0)?;
                // A streaming writer leaves a placeholder length.
                let data = &file[start..file.len().min(start.saturating_add(length))];
                let whole = data.len() / (layout.bytes * channels) * channels * layout.bytes;
                if whole / layout.bytes > MAX_SAMPLES {
                    return None;
                }
                let samples = data[..whole].chunks_exact(layout.bytes).map(|bytes| layout.sample(bytes));
                return Some(Audio { samples: samples.collect::<Option<_>>()?, channels, rate });
            }
            _ => {}
        }
        at = start.checked_add(length + length % 2)?;
    }
}

/// Decodes FLAC exactly, and Ogg Vorbis and MP3 by another decoder than libsndfile's, so that samples can differ in their
/// last bits.
fn decode_compressed(file: &[u8]) -> Option<Audio> {
    // The library searches for a start anywhere in the file and prints its own warning if there is none.
    if !matches!(
        file,
        [b'f', b'L', b'a', b'C', ..] | [b'O', b'g', b'g', b'S', ..] | [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..]
    ) {
        return None;
    }
    let source = MediaSourceStream::new(Box::new(Cursor::new(file.to_vec())), Default::default());
    let probe = symphonia::default::get_probe();
    let mut format = probe.probe(&Hint::new(), source, FormatOptions::default(), MetadataOptions::default()).ok()?;
    let track = format.default_track(TrackType::Audio)?;
    let (id, parameters) = (track.id, track.codec_params.as_ref()?.audio()?.clone());
    let mut decoder =
        symphonia::default::get_codecs().make_audio_decoder(&parameters, &AudioDecoderOptions::default()).ok()?;
    let mut audio = Audio { samples: Vec::new(), channels: 0, rate: parameters.sample_rate? };
    let mut block: Vec<f64> = Vec::new();
    while let Some(packet) = format.next_packet().ok()? {
        if packet.track_id != id {
            continue;
        }
        match decoder.decode(&packet) {
            Ok(decoded) => {
                audio.channels = decoded.spec().channels().count();
                decoded.copy_to_vec_interleaved(&mut block);
                audio.samples.extend_from_slice(&block);
                // A few bytes can expand to any number of equal samples.
                if audio.samples.len() > MAX_SAMPLES {
                    return None;
                }
            }
            // An invalid frame is skipped, as players do.
            Err(Error::DecodeError(_)) => {}
            Err(_) => return None,
        }
    }
    (audio.channels > 0).then_some(audio)
}

#[cfg(test)]
mod tests {
    use super::super::pcm::sixteen_bits;
    use super::*;

    #[test]
    fn sixteen_bit_files_round_trip() {
        let audio = Audio { samples: vec![0.0, -1.0, 0.5, 32_767.0 / 32_768.0], channels: 2, rate: 8000 };
        assert_eq!(Audio::decode(&audio.to_wav()), Some(audio.clone()));
        assert_eq!(audio.frames(), 2);
        assert_eq!(sixteen_bits(1.0), i16::MAX);
    }

    #[test]
    fn telephone_codes_cover_the_range() {
        assert_eq!([0x00, 0x80, 0xff, 0x7f].map(mu_law), [-32_124, 32_124, 0, 0]);
        assert_eq!([0x2a, 0xaa, 0xd5, 0x55].map(a_law), [-32_256, 32_256, 8, -8]);
    }

    #[test]
    fn broken_files_are_no_sound() {
        assert_eq!(Audio::decode(b"RIFF"), None);
        assert_eq!(Audio::decode(b"fLaC...."), None);
        assert_eq!(Audio::decode(b"OggS...."), None);
    }
}
