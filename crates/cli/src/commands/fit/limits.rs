//! The scheduler's limits: given, told by the server's log or its pages, or reached by the runs.

use std::time::Duration;

use anyhow::Context;
use tacho_client::EndpointSpec;
use tacho_client::control::{Caller, metrics_page};
use tacho_metrics::fit::reached::{Held, Told, reached};
use tacho_metrics::fit::{self, Fitted, Sourced, Traced};

use super::experiment::Experiment;
use crate::args::fit::FitArgs;

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The log's beginning, which tells the limits.
const LOG_START: usize = 4 << 20;

/// What is known before anything is fitted.
pub(super) fn known(args: &FitArgs, endpoint: Option<&EndpointSpec>, runs: &[Vec<Traced>]) -> anyhow::Result<Sourced> {
    let mut known = Sourced::default();
    args.given.iter().for_each(|(name, value)| known.learn(name, *value, "given"));
    if let Some(path) = &args.server_log {
        let text = std::fs::read(path).with_context(|| format!("--server-log {path} cannot be read"))?;
        known.read(&String::from_utf8_lossy(&text[..text.len().min(LOG_START)]), "the server's log");
    }
    if let Some(endpoint) = endpoint {
        ask(&mut known, endpoint);
    }
    learn_reached(&mut known, runs);
    Ok(known)
}

/// What the runs reach, and what they have seen of limits that they do not.
fn learn_reached(known: &mut Sourced, runs: &[Vec<Traced>]) {
    let limits = known.limits;
    let told = Told {
        sequences: known.is_known("max_num_seqs").then_some(limits.max_num_seqs),
        splits: known.is_known("enable_chunked_prefill").then_some(limits.chunked_prefill),
    };
    let reached = reached(runs, told);
    reached.sequences.into_iter().for_each(|count| known.learn("max_num_seqs", count, "reached"));
    // An engine has a token for every sequence; what is less was not its limit.
    let least = if known.is_known("max_num_seqs") { known.limits.max_num_seqs } else { reached.widest };
    if let Some(Held { limit, between: (low, high) }) = reached.tokens.filter(|held| held.limit >= least) {
        known.learn("max_num_batched_tokens", limit, &format!("reached: it is from {low} to {high}"));
        reached.splits.into_iter().for_each(|on| known.learn("enable_chunked_prefill", usize::from(on), "reached"));
    }
    known.assume("max_num_seqs", reached.widest);
    known.assume("max_num_batched_tokens", reached.fullest);
}

/// What the server's pages tell; one that has none tells nothing.
fn ask(known: &mut Sourced, endpoint: &EndpointSpec) {
    let Ok(caller) = Caller::new(endpoint, "", PATIENCE) else { return };
    if let Ok(Some(page)) = metrics_page(&caller) {
        let line = page.lines().find(|line| line.starts_with("vllm:cache_config_info"));
        known.read(line.unwrap_or_default(), "its metrics page");
    }
    if let Ok(models) = caller.get("/v1/models", caller.user_headers()).map(|answer| answer.body) {
        known.read(&String::from_utf8_lossy(&models), "its list of models");
    }
}

/// Whether prompts that begin alike came as those do whose beginning is cached; none where that cannot be told.
pub(super) fn caches(experiment: &Experiment, fitted: &Fitted) -> Option<bool> {
    let ttfts =
        |run: &[Traced]| -> Vec<f64> { run.iter().filter_map(|one| Some(one.tokens.first()? - one.sent)).collect() };
    let (first, later) = experiment.alike.split_at_checked(1)?;
    let fresh = [ttfts(&experiment.unlike), ttfts(first)].concat();
    let prompt = first[0].prompt as f64;
    fit::caches(&fresh, &ttfts(later), |share| fitted.first_token(prompt, share * prompt))
}
