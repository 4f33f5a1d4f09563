//! The embedded font: outlines and widths. DejaVu Sans, reduced to Latin, Greek, Cyrillic and a few symbols; other
//! characters use its replacement glyph.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static FACE: LazyLock<Face<'static>> = LazyLock::new(|| {
    Face::parse(include_bytes!("../../assets/dejavu-sans.ttf"), 0).expect("the embedded font is well formed")
});

fn glyph(character: char) -> GlyphId {
    FACE.glyph_index(character).or_else(|| FACE.glyph_index('\u{fffd}')).unwrap_or(GlyphId(0))
}

pub(crate) fn width(text: &str, size: f64) -> f64 {
    let units: f64 =
        text.chars().map(|character| f64::from(FACE.glyph_hor_advance(glyph(character)).unwrap_or(0))).sum();
    units * size / f64::from(FACE.units_per_em())
}

/// `text`, truncated with an ellipsis if it is wider than `width` points at `size`.
pub(crate) fn fit(text: &str, size: f64, width: f64) -> String {
    const ELLIPSIS: char = '…';
    let advance = |character: char| self::width(character.encode_utf8(&mut [0; 4]), size);
    let (mut used, mut kept, mut end) = (0.0, 0.0, 0);
    for (at, character) in text.char_indices() {
        used += advance(character);
        if used > width {
            return if kept > 0.0 { format!("{}{ELLIPSIS}", text[..end].trim_end()) } else { String::new() };
        }
        if used + advance(ELLIPSIS) <= width {
            (kept, end) = (used, at + character.len_utf8());
        }
    }
    text.to_owned()
}

/// Feeds the outlines of `text` to `pen`. `start` is called before each character with its distance from the start,
/// in font units.
pub(super) fn outline<P: OutlineBuilder>(text: &str, pen: &mut P, mut start: impl FnMut(&mut P, f64)) {
    let mut distance = 0.0;
    for character in text.chars() {
        let glyph = glyph(character);
        start(pen, distance);
        FACE.outline_glyph(glyph, pen);
        distance += f64::from(FACE.glyph_hor_advance(glyph).unwrap_or(0));
    }
}

pub(super) fn units() -> f64 {
    f64::from(FACE.units_per_em())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_widths_and_unknown_ones_too() {
        assert!(width("mm", 10.0) > width("ii", 10.0));
        assert!(width("≤µ–漢", 10.0) > 20.0);
        assert_eq!(width("", 10.0), 0.0);
    }

    #[test]
    fn texts_are_cut_to_their_room() {
        assert_eq!(fit("abc", 10.0, 100.0), "abc");
        let cut = fit(&"wide text ".repeat(1000), 10.0, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 10.0) <= 100.0 && width(&cut, 10.0) > 85.0, "{cut}");
        assert_eq!((fit("mm", 10.0, 3.0).as_str(), fit("", 10.0, 3.0).as_str()), ("", ""));
    }
}
