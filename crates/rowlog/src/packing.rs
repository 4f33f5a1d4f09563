//! Compression of batches.

use arrow_ipc::writer::IpcWriteOptions;
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::ArrowError;

/// The compression settings. The lowest level gives the smallest files here: the low bits of timestamps are noise and
/// the high bits zeros, on which higher levels gain nothing.
pub(crate) fn packing() -> Result<IpcWriteOptions, ArrowError> {
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::ZSTD))?
        .try_with_compression_level(Some(1))
}
