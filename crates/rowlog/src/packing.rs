//! How batches are packed.

use arrow_ipc::writer::IpcWriteOptions;
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::ArrowError;

/// How the batches are packed. The lowest level gives the smallest files here: times are noise below and zeros above,
/// which higher levels spend effort on without gain.
pub(crate) fn packing() -> Result<IpcWriteOptions, ArrowError> {
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::ZSTD))?
        .try_with_compression_level(Some(1))
}
