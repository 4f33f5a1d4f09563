//! Video: MP4 files of synthetic frames at 30 fps. Every frame is a complete JPEG (the MP4 registration `mp4v` with
//! object type 0x6C), which any player supports; the bytes differ from those of other encoders.

use super::{Rgb, jpeg};

/// Ticks per second, and ticks per frame.
const TIMESCALE: u32 = 15_360;
const TICKS: u32 = 512;
/// MP4's registration of JPEG.
const OBJECT_TYPE: u8 = 0x6c;

/// Encodes frames of `height` by `width` pixels in BGR order. An odd dimension loses its last line.
pub(crate) fn encode(frames: &[u8], height: usize, width: usize) -> Vec<u8> {
    let samples: Vec<Vec<u8>> =
        frames.chunks_exact(height * width * 3).map(|frame| jpeg::encode(&even(frame, height, width))).collect();
    let size = ((width & !1).max(1), (height & !1).max(1));
    let head = boxed(b"ftyp", &[b"isom\0\0\x02\0isomiso2mp41"]);
    let free = boxed(b"free", &[]);
    let data = boxed(b"mdat", &[&samples.concat()]);
    let start = (head.len() + free.len() + 8) as u32;
    let lengths: Vec<u32> = samples.iter().map(|sample| sample.len() as u32).collect();
    [head, free, data, movie(&lengths, start, size)].concat()
}

/// The part of a frame with even dimensions, in RGB order.
fn even(frame: &[u8], height: usize, width: usize) -> Rgb {
    let (even_width, even_height) = ((width & !1).max(1), (height & !1).max(1));
    let rows = frame.chunks_exact(width * 3).take(even_height);
    let pixels = rows.flat_map(|row| row[..even_width * 3].chunks_exact(3)).flat_map(|bgr| [bgr[2], bgr[1], bgr[0]]);
    Rgb { width: even_width, height: even_height, pixels: pixels.collect() }
}

fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum::<usize>() + 8;
    let mut out = (length as u32).to_be_bytes().to_vec();
    out.extend_from_slice(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Big-endian bytes of numbers.
fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

const MATRIX: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

fn movie(lengths: &[u32], start: u32, (width, height): (usize, usize)) -> Vec<u8> {
    let frames = lengths.len() as u32;
    let milliseconds = frames * 1000 * TICKS / TIMESCALE;
    let header = [&[0, 0, 0, 1000, milliseconds, 0x1_0000, 0x0100_0000, 0, 0][..], &MATRIX, &[0; 6], &[2]].concat();
    let track =
        [&[3, 0, 0, 1, 0, milliseconds, 0, 0, 0, 0][..], &MATRIX, &[(width as u32) << 16, (height as u32) << 16]];
    let track = boxed(b"tkhd", &[&words(&track.concat())]);
    let edit = boxed(b"edts", &[&boxed(b"elst", &[&words(&[0, 1, milliseconds, 0, 0x1_0000])])]);
    let media_header = boxed(b"mdhd", &[&words(&[0, 0, 0, TIMESCALE, frames * TICKS, 0x55c4_0000])]);
    let handler = boxed(b"hdlr", &[&[0; 8], b"vide", &[0; 12], b"VideoHandler\0"]);
    let reference = boxed(b"dref", &[&words(&[0, 1]), &boxed(b"url ", &[&words(&[1])])]);
    let information = boxed(
        b"minf",
        &[
            &boxed(b"vmhd", &[&words(&[1, 0, 0])]),
            &boxed(b"dinf", &[&reference]),
            &sample_table(lengths, start, (width, height)),
        ],
    );
    let media = boxed(b"mdia", &[&media_header, &handler, &information]);
    boxed(b"moov", &[&boxed(b"mvhd", &[&words(&header)]), &boxed(b"trak", &[&track, &edit, &media])])
}

fn sample_table(lengths: &[u32], start: u32, (width, height): (usize, usize)) -> Vec<u8> {
    let frames = lengths.len() as u32;
    let side = |length: usize| (length as u16).to_be_bytes();
    let entry = boxed(
        b"mp4v",
        &[
            &[0, 0, 0, 0, 0, 0, 0, 1],
            &[0; 16],
            &side(width),
            &side(height),
            &words(&[0x48_0000, 0x48_0000, 0, 0x1_0000]),
            &[0; 30],
            &[0, 0x18, 0xff, 0xff],
            &boxed(b"esds", &[&descriptor(lengths)]),
        ],
    );
    let sizes = [&[0, 0, frames][..], lengths].concat();
    boxed(
        b"stbl",
        &[
            &boxed(b"stsd", &[&words(&[0, 1]), &entry]),
            &boxed(b"stts", &[&words(&[0, 1, frames, TICKS])]),
            &boxed(b"stsc", &[&words(&[0, 1, 1, frames, 1])]),
            &boxed(b"stsz", &[&words(&sizes)]),
            &boxed(b"stco", &[&words(&[0, 1, start])]),
        ],
    )
}

/// The decoder configuration descriptor, with the sizes of the samples.
fn descriptor(lengths: &[u32]) -> Vec<u8> {
    let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    let rate = (total * 8 * 30 / lengths.len().max(1) as u64) as u32;
    let mut out = vec![0, 0, 0, 0, 0x03, 21, 0, 1, 0, 0x04, 13, OBJECT_TYPE, 0x11, 0, 0, 0];
    out.extend_from_slice(&words(&[rate, rate]));
    out.extend_from_slice(&[0x06, 1, 2]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_add_up() {
        let file = encode(&vec![7; 3 * 5 * 6 * 3], 5, 6);
        let mut at = 0;
        let mut kinds = Vec::new();
        while at < file.len() {
            let length = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
            kinds.push(String::from_utf8_lossy(&file[at + 4..at + 8]).into_owned());
            at += length;
        }
        assert_eq!(at, file.len());
        assert_eq!(kinds, ["ftyp", "free", "mdat", "moov"]);
        let first = [&b"mdat"[..], &[0xff, 0xd8]].concat();
        assert!(file.windows(6).any(|window| window == first));
    }
}
