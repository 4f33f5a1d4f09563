//! Colors: one type, and the palettes of curves.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Color {
    pub(crate) rgb: [u8; 3],
    /// 1 is opaque.
    pub(crate) alpha: f64,
}

impl Color {
    pub(crate) const BLACK: Color = Color::hex(0x00_00_00);
    /// The color of axis lines and texts.
    pub(crate) const INK: Color = Color::hex(0x26_26_26);
    /// A medium grey.
    pub(crate) const GREY: Color = Color::hex(0x80_80_80);
    pub(crate) const WHITE: Color = Color::hex(0xFF_FF_FF);

    /// From `0xRRGGBB`.
    pub(crate) const fn hex(code: u32) -> Self {
        Color { rgb: [(code >> 16) as u8, (code >> 8) as u8, code as u8], alpha: 1.0 }
    }

    /// The color with another opacity.
    pub(crate) const fn with_alpha(self, alpha: f64) -> Self {
        Color { alpha, ..self }
    }

    /// `#rrggbb`.
    pub(crate) fn css(self) -> String {
        let [red, green, blue] = self.rgb;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Ten hues after Okabe and Ito, distinct for readers with common color vision deficiencies.
const HUES: [u32; 10] =
    [0x0072B2, 0xE69F00, 0x009E73, 0xC4361C, 0x8A5FB5, 0x56B4E9, 0xCC79A7, 0x6E6E6E, 0x8F8A00, 0x004D66];

/// From dark blue over green to yellow: a sequential palette.
const RAMP: [u32; 9] = [0x440154, 0x472D7B, 0x3B528B, 0x2C728E, 0x21918C, 0x28AE80, 0x5EC962, 0xADDC30, 0xE8C51C];

/// The color of the `at`-th category.
pub(crate) fn category(at: usize) -> Color {
    Color::hex(HUES[at % HUES.len()])
}

/// The color of the `at`-th of `count` ordered values.
pub(crate) fn sequence(at: usize, count: usize) -> Color {
    let place = if count < 2 { 0.0 } else { at as f64 / (count - 1) as f64 * (RAMP.len() - 1) as f64 };
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (from, to) = (Color::hex(RAMP[below]), Color::hex(RAMP[above]));
    let share = place - place.floor();
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    Color { rgb: std::array::from_fn(|at| mix(from.rgb[at], to.rgb[at])), alpha: 1.0 }
}
