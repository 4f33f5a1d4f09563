//! Answers of git.

use std::path::Path;
use std::process::{Command, Stdio};

/// The output of git for the repository around a directory; `None` without git, a repository or an answer.
pub(crate) fn git(directory: &Path, args: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory).args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}
