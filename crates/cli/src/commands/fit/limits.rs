//! The scheduler's limits: given, told by the server's log or its pages, or reached by the runs.

use std::time::Duration;

use anyhow::Context;
use tacho_client::EndpointSpec;
use tacho_client::control::{Caller, metrics_page};
use tacho_metrics::fit::{Costs, Front, Sourced, Step, Traced, reached};

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
    let widest = runs.iter().filter_map(|run| reached::sequences(run)).max();
    widest.into_iter().for_each(|count| known.learn("max_num_seqs", count, "reached"));
    // An engine has a token for every sequence; what is less was not its limit.
    let least = known.limits.max_num_seqs;
    let tokens = runs.iter().filter_map(|run| reached::tokens(run)).filter(|count| *count >= least).max();
    tokens.into_iter().for_each(|count| known.learn("max_num_batched_tokens", count, "reached"));
    Ok(known)
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

/// Whether prompts that begin alike came faster than their whole length takes; none where that cannot be told.
pub(super) fn caches(alike: &[Traced], costs: &Costs, front: &Front) -> Option<bool> {
    let takes = |tokens: f64, prompt: f64| {
        let mut step = Step { sequences: 1.0, prefill: tokens, kv: prompt, ..Step::default() };
        step.attention = tokens * (prompt - tokens / 2.0);
        costs.seconds(&step) + front.request.value + front.prompt_token.value * prompt
    };
    let prompt = alike.first()?.prompt as f64;
    let mut later: Vec<f64> = alike.iter().skip(1).filter_map(|one| Some(one.tokens.first()? - one.sent)).collect();
    later.sort_by(f64::total_cmp);
    let seen = *later.get(later.len() / 2)?;
    let (whole, part) = (takes(prompt, prompt), takes(prompt / 4.0, prompt));
    // What differs by less than a tenth tells nothing.
    (whole > 1.1 * part).then(|| seen < (whole + part) / 2.0)
}
