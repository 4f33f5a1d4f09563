//! Shared test utilities: golden files, a scripted server, running the binary. Uses no other crate of the workspace.

pub mod place;
pub mod scripted;
pub mod terminal;
pub mod wire;

mod fuzz;

pub use fuzz::{CASES, Counted, fuzz, fuzz_count, fuzz_files, peak};

use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The path of a golden file, such as `rng/python_random.json`.
pub fn golden_path(name: &str) -> PathBuf {
    golden_dir().join(name)
}

/// The SHA-256 of some bytes in hexadecimal digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes.as_ref());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The text of a file in `tests/certificates`, such as `server.pem` and its `server.key`: a self-signed certificate for
/// `localhost` and `127.0.0.1`. Panics if it is missing: the checkout is broken.
pub fn certificate(name: &str) -> String {
    let path = golden_dir().join("../certificates").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("certificate {}: {error}", path.display()))
}

/// A golden JSON file. Panics if it is missing or not JSON: the checkout is broken.
pub fn golden_json(name: &str) -> Value {
    let text = golden_text(name);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("golden file {name}: {error}"))
}

/// A golden text file. Panics if it is missing: the checkout is broken.
pub fn golden_text(name: &str) -> String {
    let path = golden_path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("golden file {}: {error}", path.display()))
}

/// Checks lines of words and numbers against a golden text file: numbers may differ by a millionth.
pub fn assert_golden_numbers(name: &str, found: &str) {
    let known = golden_text(name);
    let same = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other || (one - other).abs() <= 1e-6 * other.abs(),
        _ => one == other,
    };
    let same_line = |one: &str, other: &str| {
        let (one, other) = (one.split_ascii_whitespace(), other.split_ascii_whitespace());
        one.clone().count() == other.clone().count() && one.zip(other).all(|(one, other)| same(one, other))
    };
    for (at, (one, other)) in found.lines().zip(known.lines()).enumerate() {
        assert!(same_line(one, other), "line {} of {name}:\n{one}\nis not\n{other}\n\n{found}", at + 1);
    }
    assert_eq!(found.lines().count(), known.lines().count(), "lines of {name}:\n\n{found}");
}

/// The files of a golden directory with this extension, sorted by name. Panics if the directory is missing: the
/// checkout is broken.
pub fn golden_files(directory: &str, ending: &str) -> Vec<PathBuf> {
    let path = golden_path(directory);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("golden directory {}: {error}", path.display()))
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}
