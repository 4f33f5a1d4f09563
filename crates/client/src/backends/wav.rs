//! The header of a WAV file that is being received.

use tacho_core::AudioFormat;

/// Longest header; a longer one is not that of a stream.
const MAX_HEADER: usize = 64 << 10;
/// Codes of formats with frames of constant size: PCM, floating point, A-law, µ-law, and the extended form of these.
const CONSTANT: [u16; 5] = [1, 3, 6, 7, 0xfffe];

/// What the first bytes of a body are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Too few to tell.
    Unknown,
    Other,
    /// A WAV file whose header is broken.
    Broken,
    /// A WAV file whose audio begins at `at`; the stated length is `None` if it was not known yet.
    Wav {
        format: Option<AudioFormat>,
        at: usize,
        length: Option<u32>,
    },
}

impl Start {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let magic = bytes.len().min(4);
        if bytes[..magic] != b"RIFF"[..magic] {
            return Start::Other;
        }
        let mut format = None;
        let mut at = 12;
        while let (Some(name), Some(length)) = (bytes.get(at..at + 4), le32(bytes, at + 4)) {
            match name {
                b"fmt " => match fields(bytes, at + 8) {
                    Some(found) => format = Some(found),
                    None => break,
                },
                b"data" => {
                    let Some(format) = format else { return Start::Broken };
                    // Writers of streams state the largest length, or none.
                    let length = Some(length).filter(|length| *length != 0 && *length < u32::MAX - MAX_HEADER as u32);
                    return Start::Wav { format, at: at + 8, length };
                }
                _ => {}
            }
            at = at.saturating_add(8).saturating_add(length as usize + (length as usize & 1));
            if at > MAX_HEADER {
                return Start::Broken;
            }
        }
        Start::Unknown
    }
}

/// The format chunk; `None` if it has not arrived, without a format if its frames vary in size.
fn fields(bytes: &[u8], at: usize) -> Option<Option<AudioFormat>> {
    let (code, rate, frame_bytes) = (le16(bytes, at)?, le32(bytes, at + 4)?, le16(bytes, at + 12)?);
    let known = CONSTANT.contains(&code) && rate > 0 && frame_bytes > 0;
    Some(known.then_some(AudioFormat { rate, frame_bytes }))
}

pub(super) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(code: u16, length: u32) -> Vec<u8> {
        let mut bytes = b"RIFF\xff\xff\xff\xffWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        bytes.extend(code.to_le_bytes());
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend(24_000_u32.to_le_bytes());
        bytes.extend(96_000_u32.to_le_bytes());
        bytes.extend([4, 0, 16, 0]);
        bytes.extend(b"data");
        bytes.extend(length.to_le_bytes());
        bytes
    }

    #[test]
    fn the_audio_of_a_wav_file_begins_after_its_header() {
        let (bytes, format) = (header(1, 8), Some(AudioFormat { rate: 24_000, frame_bytes: 4 }));
        for end in 0..bytes.len() {
            assert_eq!(Start::of(&bytes[..end]), Start::Unknown, "{end}");
        }
        assert_eq!(Start::of(&bytes), Start::Wav { format, at: bytes.len(), length: Some(8) });
        for open in [0, u32::MAX, u32::MAX - 36] {
            assert_eq!(Start::of(&header(1, open)), Start::Wav { format, at: bytes.len(), length: None });
        }
        assert_eq!(Start::of(&header(17, 8)), Start::Wav { format: None, at: bytes.len(), length: Some(8) });
    }

    #[test]
    fn other_bytes_are_not_wav() {
        assert_eq!(Start::of(b"\xff\xfb\x90\x00"), Start::Other);
        assert_eq!(Start::of(b"RIFX"), Start::Other);
        assert_eq!(Start::of(b"RIFF....WAVEdata\x08\0\0\0"), Start::Broken);
        assert_eq!(Start::of(b"RIFF....WAVEjunk\xff\xff\xff\x7f"), Start::Broken);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100), start in 0_usize..40) {
            let mut whole = header(1, 8)[..start].to_vec();
            whole.extend(bytes);
            Start::of(&whole);
        }
    }
}
