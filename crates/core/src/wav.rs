//! WAV files of 16-bit samples.

/// A file with a minimal header, as libsndfile writes it.
pub fn file(channels: u16, rate: u32, samples: impl ExactSizeIterator<Item = i16>) -> Vec<u8> {
    let (length, frame) = (samples.len() as u32 * 2, channels * 2);
    let mut out = Vec::with_capacity(44 + length as usize);
    out.extend(b"RIFF");
    out.extend((36 + length).to_le_bytes());
    out.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend(rate.saturating_mul(u32::from(frame)).to_le_bytes());
    out.extend(frame.to_le_bytes());
    out.extend(b"\x10\0data");
    out.extend(length.to_le_bytes());
    out.extend(samples.flat_map(i16::to_le_bytes));
    out
}
