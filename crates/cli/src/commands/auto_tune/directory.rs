//! Output directory of a tuning, named after its start time in minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::commands::sweep::newest;

/// Returns the directory of a new tuning, or of the tuning to resume: the named one or the newest.
pub(super) fn of(base: &Path, resume: Option<Option<&str>>, dry_run: bool) -> anyhow::Result<PathBuf> {
    let all = base.join("auto-benchmark");
    let Some(wanted) = resume else { return if dry_run { Ok(all.join(timestamp())) } else { unused(&all) } };
    let found = match wanted {
        Some(name) => Some(all.join(name)),
        None => newest(&all),
    };
    match found.filter(|directory| directory.is_dir()) {
        Some(directory) => Ok(directory),
        None => bail!("--resume: no such tuning in {}", all.display()),
    }
}

/// Returns a directory name that is not in use: two tunings may start in the same minute.
pub(super) fn unused(all: &Path) -> anyhow::Result<PathBuf> {
    let timestamp = timestamp();
    let names = std::iter::once(timestamp.clone()).chain((2..).map(|number| format!("{timestamp}_{number}")));
    names.map(|name| all.join(name)).find(|directory| !directory.exists()).context("all names are taken")
}

fn timestamp() -> String {
    jiff::Zoned::now().strftime("%Y_%m_%d_%H_%M").to_string()
}

/// The Git revision checked out at the results directory; empty outside of a repository.
pub(super) fn revision(base: &Path) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(base).args(["rev-parse", "HEAD"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = git.output().ok().filter(|output| output.status.success());
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
