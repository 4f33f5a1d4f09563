//! EXIF orientation of images.

use super::Rgb;

/// The orientation in EXIF data: 1 to 8, 1 if there is none.
pub(super) fn orientation(exif: &[u8]) -> u16 {
    const ORIENTATION: u16 = 0x0112;
    let little = exif.starts_with(b"II");
    let word = |at: usize| {
        let bytes: [u8; 2] = exif.get(at..at + 2)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let find = || {
        let bytes: [u8; 4] = exif.get(4..8)?.try_into().ok()?;
        let start = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) } as usize;
        (0..usize::from(word(start)?))
            .map(|entry| start + 2 + entry * 12)
            .find_map(|entry| (word(entry)? == ORIENTATION).then(|| word(entry + 8)).flatten())
    };
    find().filter(|orientation| (1..=8).contains(orientation)).unwrap_or(1)
}

/// Rotates or mirrors the image to its display orientation.
pub(super) fn turn(image: Rgb, orientation: u16) -> Rgb {
    if orientation == 1 {
        return image;
    }
    let swapped = orientation >= 5;
    let (width, height) = if swapped { (image.height, image.width) } else { (image.width, image.height) };
    let (right, bottom) = (image.width - 1, image.height - 1);
    let mut pixels = Vec::with_capacity(image.pixels.len());
    for y in 0..height {
        for x in 0..width {
            let (from_x, from_y) = match orientation {
                2 => (right - x, y),
                3 => (right - x, bottom - y),
                4 => (x, bottom - y),
                5 => (y, x),
                6 => (y, bottom - x),
                7 => (right - y, bottom - x),
                _ => (right - y, x),
            };
            let at = (from_y * image.width + from_x) * 3;
            pixels.extend_from_slice(&image.pixels[at..at + 3]);
        }
    }
    Rgb { width, height, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orientations_turn_and_mirror() {
        let image = Rgb { width: 2, height: 1, pixels: vec![1, 1, 1, 2, 2, 2] };
        assert_eq!(turn(image.clone(), 2).pixels, [2, 2, 2, 1, 1, 1]);
        let turned = turn(image.clone(), 6);
        assert_eq!((turned.width, turned.height, turned.pixels), (1, 2, vec![1, 1, 1, 2, 2, 2]));
        assert_eq!(turn(image, 8).pixels, [2, 2, 2, 1, 1, 1]);
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
        assert_eq!(orientation(exif), 6);
        assert_eq!(orientation(b""), 1);
    }
}
