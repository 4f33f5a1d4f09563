//! Sounds: read from WAV and FLAC files as libsndfile reads them, from Ogg Vorbis and MP3 files nearly so, written as
//! 16-bit WAV.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tacho_core::json::Value;

use super::compressed;
use crate::chat::object;

/// Samples as shares of full scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sound {
    /// Interleaved.
    pub(crate) samples: Vec<f64>,
    pub(crate) channels: usize,
    pub(crate) rate: u32,
}

impl Sound {
    /// Reads a sound file; none when it is of no known kind, or broken.
    pub(crate) fn decode(file: &[u8]) -> Option<Sound> {
        match file.get(..4)? {
            b"RIFF" => decode_wav(file),
            b"fLaC" => decode_flac(file),
            _ => compressed::decode(file),
        }
    }

    /// Samples of one channel.
    pub(crate) fn frames(&self) -> usize {
        self.samples.len() / self.channels.max(1)
    }

    /// Rounded to single precision, as a decoder asked for 32-bit floats gives it.
    pub(crate) fn into_single(mut self) -> Sound {
        for sample in &mut self.samples {
            *sample = f64::from(*sample as f32);
        }
        self
    }

    /// The samples and their rate as a request carries them: one number a frame, or one list.
    pub(crate) fn to_media(&self) -> Value {
        let frames = if self.channels == 1 {
            self.samples.iter().map(|&sample| Value::Float(sample)).collect()
        } else {
            let frame = |frame: &[f64]| Value::List(frame.iter().map(|&sample| Value::Float(sample)).collect());
            self.samples.chunks_exact(self.channels).map(frame).collect()
        };
        object([("audio", Value::List(vec![Value::List(frames), Value::Int(i64::from(self.rate))]))])
    }

    /// The content part of a chat message.
    pub(crate) fn to_chat_part(&self) -> Value {
        let sound = object([("data", Value::from(STANDARD.encode(self.to_wav()))), ("format", Value::from("wav"))]);
        object([("type", Value::from("input_audio")), ("input_audio", sound)])
    }

    /// A WAV file of 16 bits a sample, with the plainest header.
    fn to_wav(&self) -> Vec<u8> {
        let (length, frame) = (self.samples.len() as u32 * 2, self.channels as u16 * 2);
        let mut out = Vec::with_capacity(44 + length as usize);
        out.extend_from_slice(b"RIFF");
        out.extend_from_slice(&(36 + length).to_le_bytes());
        out.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0");
        out.extend_from_slice(&(self.channels as u16).to_le_bytes());
        out.extend_from_slice(&self.rate.to_le_bytes());
        out.extend_from_slice(&self.rate.saturating_mul(u32::from(frame)).to_le_bytes());
        out.extend_from_slice(&frame.to_le_bytes());
        out.extend_from_slice(b"\x10\0data");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend(self.samples.iter().flat_map(|&sample| sixteen_bits(sample).to_le_bytes()));
        out
    }
}

/// libsndfile's way: 32 bits, rounded to even and held in range, of which the upper half is kept.
fn sixteen_bits(share: f64) -> i16 {
    ((share * 2_147_483_648.0).round_ties_even() as i32 >> 16) as i16
}

/// How samples of a WAV file are stored.
#[derive(Clone, Copy)]
struct Layout {
    coding: Coding,
    bytes: usize,
}

/// What the numbers of a WAV file are.
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

fn decode_wav(file: &[u8]) -> Option<Sound> {
    let word = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let (mut format, mut at) = (None, 12);
    loop {
        let length = long(at + 4)? as usize;
        let start = at + 8;
        match file.get(at..at + 4)? {
            b"fmt " => {
                let kind = match word(start)? {
                    // The extensible form names the real one at the beginning of its identifier.
                    0xfffe => word(start + 24)?,
                    kind => kind,
                };
                let layout = Layout { coding: Coding::of(kind)?, bytes: usize::from(word(start + 14)?).div_ceil(8) };
                format = Some((layout, usize::from(word(start + 2)?), long(start + 4)?));
            }
            b"data" => {
                let (layout, channels, rate) = format.filter(|(_, channels, _)| *channels > 0)?;
                // A writer that could not go back leaves a length of its own invention.
                let data = &file[start..file.len().min(start.saturating_add(length))];
                let whole = data.len() / (layout.bytes * channels).max(1) * channels * layout.bytes;
                let samples = data[..whole].chunks_exact(layout.bytes).map(|bytes| layout.sample(bytes));
                return Some(Sound { samples: samples.collect::<Option<_>>()?, channels, rate });
            }
            _ => {}
        }
        at = start + length + length % 2;
    }
}

fn decode_flac(file: &[u8]) -> Option<Sound> {
    let mut reader = claxon::FlacReader::new(Cursor::new(file)).ok()?;
    let info = reader.streaminfo();
    let scale = f64::from(1_u32 << (info.bits_per_sample - 1));
    let samples = reader.samples().map(|sample| Some(f64::from(sample.ok()?) / scale)).collect::<Option<_>>()?;
    Some(Sound { samples, channels: info.channels as usize, rate: info.sample_rate })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bit_files_round_trip() {
        let sound = Sound { samples: vec![0.0, -1.0, 0.5, 32_767.0 / 32_768.0], channels: 2, rate: 8000 };
        assert_eq!(Sound::decode(&sound.to_wav()), Some(sound.clone()));
        assert_eq!(sound.frames(), 2);
        assert_eq!(sixteen_bits(1.0), i16::MAX);
    }

    #[test]
    fn telephone_codes_cover_the_range() {
        assert_eq!([0x00, 0x80, 0xff, 0x7f].map(mu_law), [-32_124, 32_124, 0, 0]);
        assert_eq!([0x2a, 0xaa, 0xd5, 0x55].map(a_law), [-32_256, 32_256, 8, -8]);
    }

    #[test]
    fn broken_files_are_no_sound() {
        assert_eq!(Sound::decode(b"RIFF"), None);
        assert_eq!(Sound::decode(b"fLaC...."), None);
        assert_eq!(Sound::decode(b"OggS...."), None);
    }
}
