//! The worker's files, embedded in the program and written out for Python to run.

use std::path::PathBuf;

use tempfile::TempDir;

use super::EngineError;

const FILES: [(&str, &str); 4] = [
    ("main.py", include_str!("../../../../python/worker/main.py")),
    ("vllm_engine.py", include_str!("../../../../python/worker/vllm_engine.py")),
    ("hf_engine.py", include_str!("../../../../python/worker/hf_engine.py")),
    ("mii_engine.py", include_str!("../../../../python/worker/mii_engine.py")),
];

/// Writes them to a temporary directory that is removed when dropped.
pub(super) fn unpack() -> Result<(TempDir, PathBuf), EngineError> {
    let unpacked = || {
        let directory = tempfile::Builder::new().prefix("tacho-worker-").tempdir()?;
        for (name, text) in FILES {
            std::fs::write(directory.path().join(name), text)?;
        }
        Ok(directory)
    };
    let directory = unpacked().map_err(|source| EngineError::Unpack { source })?;
    let script = directory.path().join("main.py");
    Ok((directory, script))
}
