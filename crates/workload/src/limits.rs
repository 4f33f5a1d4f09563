//! Limits on external data. Files can claim any size; nothing sensible is measured beyond these limits, and memory
//! would run out first. Errors name the limit. Counts and times have types in [`tacho_core::bounded`].

/// Maximum uncompressed bytes of a compressed text file.
pub(crate) const MAX_UNPACKED: u64 = 1 << 31;
/// Maximum bytes per line of a compressed file.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 28;
/// Maximum bytes per line that a command prints.
pub(crate) const MAX_COMMAND_LINE_BYTES: usize = 1 << 26;
/// Maximum rows that a command prints if no number is asked for.
pub(crate) const MAX_COMMAND_ROWS: usize = 1 << 20;
/// Maximum rows of the files of one dataset.
pub(crate) const MAX_ROWS: usize = 100_000_000;
/// Maximum rows of a Parquet row group, which is read at once.
pub(crate) const MAX_GROUP_ROWS: usize = 10_000_000;
/// Maximum uncompressed bytes of the columns of a Parquet row group.
pub(crate) const MAX_GROUP_BYTES: u64 = 1 << 31;
/// Maximum bytes of one text, image or audio file in a table.
pub(crate) const MAX_CELL_BYTES: u64 = 1 << 28;
/// Maximum pixels of an image. Pillow refuses larger images too, as decompression bombs.
pub(crate) const MAX_PIXELS: usize = 178_956_970;
/// Maximum samples of an audio file over all channels: 45 minutes at 48 kHz.
pub(crate) const MAX_SAMPLES: usize = 1 << 27;
/// Maximum audio channels, as in libsndfile.
pub(crate) const MAX_CHANNELS: usize = 1024;

/// The valid range of a `TokenCount` in a file, for messages.
pub(crate) const LENGTH: &str = "a whole number of tokens from 0 to 16777216";

/// Whether an image of this size is accepted.
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
