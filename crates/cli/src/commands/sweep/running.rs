//! A server that runs already: where it is, and whether it is there.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use tacho_core::secret::redact_url;
use tacho_run::experiment::{Address, Failure, answers, option};

use super::command::{is_tacho, serve_args};
use crate::exit;

const POLL: Duration = Duration::from_millis(250);

/// The servers that a client's command names.
pub(super) fn addresses(command: &[String]) -> anyhow::Result<Vec<String>> {
    if is_tacho(command) {
        return Ok(serve_args(command)?.base_urls());
    }
    let url = option(command, "--base-url").map(str::to_owned);
    Ok(vec![url.map_or_else(|| Address::of(command).map(|address| address.url()), Ok)?])
}

/// Waits until all servers answer, at most this many seconds, which `flag` sets.
pub(in crate::commands) fn reach(urls: &[String], patience: u64, flag: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    for (url, shown) in urls.iter().map(|url| (url, redact_url(url))) {
        let mut waits = false;
        while !answers(url) {
            if began.elapsed() >= Duration::from_secs(patience) {
                bail!("no server answers at {shown}: start it, check the address, or wait for it with {flag} SECONDS");
            }
            if !std::mem::replace(&mut waits, true) {
                exit::note(&format!("waiting for {shown}, at most {patience} s ({flag})"));
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

/// The error of a server that did not start.
pub(in crate::commands) fn unstarted(failure: &Failure, log: &Path) -> anyhow::Error {
    let output = if log.exists() { format!("; its output is in {}", log.display()) } else { String::new() };
    anyhow!("{}{output}", failure.text)
}
