//! How much is taken from outside. Files can claim any size; beyond these nothing sensible is measured, and memory
//! would go first. Errors name the limit. Counts and times have types in [`tacho_core::bounded`].

/// Most bytes that a packed text file may have when it is unpacked.
pub(crate) const MAX_UNPACKED: u64 = 1 << 31;
/// Most bytes of one line of a packed file.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 28;
/// Most rows of the files of one dataset.
pub(crate) const MAX_ROWS: usize = 100_000_000;
/// Most rows of a Parquet file's group, which is read at once.
pub(crate) const MAX_GROUP_ROWS: usize = 10_000_000;
/// Most bytes that the columns of a Parquet file's group may have when they are unpacked.
pub(crate) const MAX_GROUP_BYTES: u64 = 1 << 31;
/// Most bytes of one text, image or audio file in a table.
pub(crate) const MAX_CELL_BYTES: u64 = 1 << 28;
/// Most pixels of an image. Pillow refuses more of them too, as a decompression bomb.
pub(crate) const MAX_PIXELS: usize = 178_956_970;
/// Most samples of an audio file over all channels: 45 minutes at 48 kHz.
pub(crate) const MAX_SAMPLES: usize = 1 << 27;
/// Most audio channels, as in libsndfile.
pub(crate) const MAX_CHANNELS: usize = 1024;

/// What a `TokenCount` in a file must be.
pub(crate) const LENGTH: &str = "a whole number of tokens from 0 to 16777216";

/// Whether an image of these sides is taken.
pub(crate) fn is_image(width: usize, height: usize) -> bool {
    width.checked_mul(height).is_some_and(|pixels| (1..=MAX_PIXELS).contains(&pixels))
}

#[cfg(test)]
mod tests {
    use tacho_core::bounded::TokenCount;

    use super::*;

    #[test]
    fn texts_name_the_numbers() {
        assert!(LENGTH.ends_with(&TokenCount::MAX.to_string()));
        assert!(is_image(1, 1) && !is_image(0, 9) && !is_image(60_000, 60_000) && !is_image(usize::MAX, 2));
    }
}
