//! Tells the program which commit it was built from: that of `TACHO_COMMIT`, or the checkout's where there is one.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TACHO_COMMIT");
    if std::env::var_os("TACHO_COMMIT").is_some() {
        return;
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = git(&["log", "-1", "--format=%h %cs", "--abbrev=10"]).unwrap_or_default();
    println!("cargo::rustc-env=TACHO_COMMIT={commit}");
}

/// What git says; nothing without git or outside a checkout of ours.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}
