//! `tacho fit`: a server's cost model from results and logs, or from a short experiment of its own.

mod experiment;
mod limits;

use std::path::Path;

use anyhow::{Context, anyhow};
use tacho_client::EndpointSpec;
use tacho_core::json;
use tacho_metrics::fit::{self, Estimate, Fitted, Pace, Profile, Sourced, Traced};
use tacho_rowlog::Stored;

use super::foreseen::say;
use super::outputs::check_writable;
use super::{serve, values_for};
use crate::args;
use crate::args::fit::FitArgs;
use crate::args::serve::ServeArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use experiment::Experiment;

/// Fits and writes the profile.
pub(crate) fn run(args: &FitArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    check_writable(Path::new(&args.output))?;
    let endpoint = args.base_url.as_deref().map(|url| endpoint(args, url)).transpose()?;
    let experiment = match &args.base_url {
        Some(url) if args.results.is_empty() => {
            let told = limits::known(args, endpoint.as_ref(), &[])?;
            experiment::measure(args, url, told.limits.max_model_len)?
        }
        _ => {
            let runs = args.results.iter().map(|path| read(Path::new(path))).collect::<anyhow::Result<_>>()?;
            Experiment { runs, ..Experiment::default() }
        }
    };
    let mut known = limits::known(args, endpoint.as_ref(), &experiment.runs)?;
    let fitted = fit::fit(&experiment.runs, &known.limits)?;
    let caches = limits::caches(&experiment, &fitted);
    caches.into_iter().for_each(|on| known.learn("enable_prefix_caching", usize::from(on), "tried"));
    let lines = told(&fitted, &known, args);
    let holds = fitted.holds();
    let profile = Profile { name: name(args), limits: known.limits, fitted, sources: known.sources };
    std::fs::write(&args.output, json::dumps_indented(&profile.to_json(), 2) + "\n")
        .with_context(|| format!("the profile cannot be written to {}", args.output))?;
    say(&lines)?;
    Ok(if holds { Exit::Done } else { Exit::Gate })
}

fn name(args: &FitArgs) -> String {
    let stem = || Path::new(&args.output).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    args.name.clone().or_else(stem).unwrap_or_else(|| "fitted".to_owned())
}

/// The server whose pages are asked.
fn endpoint(args: &FitArgs, url: &str) -> anyhow::Result<EndpointSpec> {
    let mut words = vec!["serve".to_owned(), "--base-url".to_owned(), url.to_owned()];
    words.extend(args.model.iter().flat_map(|model| ["--model".to_owned(), model.clone()]));
    let values = values_for(&args::serve::TABLE, &words)?.context("the experiment's own command line")?;
    Ok(serve::plan::of(&ServeArgs::read(values)?, None)?.endpoint)
}

/// The requests of a result or a log.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Traced>> {
    let shown = path.display();
    let nothing = || format!("nothing can be learned from {shown}");
    if Stored::is_log(path) {
        let joined = Stored::open(path)?.joined().with_context(|| format!("the log {shown} cannot be read"))?;
        let rows = joined.rows.iter().map(|row| (row.asked.prompt_len, &row.observation));
        return fit::of_rows(rows).with_context(nothing);
    }
    if path.is_dir() {
        anyhow::bail!("{shown} is a folder without a log: give a result, or a folder that --log has written");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("the result {shown} cannot be read"))?;
    let result = json::parse(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    fit::of_result(&result).with_context(nothing)
}

fn told(fitted: &Fitted, known: &Sourced, args: &FitArgs) -> Vec<String> {
    let micros = |name: &str, estimate: &Estimate| {
        let (low, high) = estimate.interval();
        match estimate.value {
            0.0 => format!("  {name}: not told from nothing by these runs"),
            value => format!("  {name}: {:.4} us ({:.4} to {:.4})", value * 1e6, low * 1e6, high * 1e6),
        }
    };
    let (costs, front) = (&fitted.costs, &fitted.front);
    let mut lines = vec![
        format!("{} steps fitted, {} unclear, {} too far off", fitted.steps, fitted.unclear, fitted.outliers),
        micros("a step", &costs.fixed),
        micros("per prompt token", &costs.prefill),
        micros("per sequence", &costs.sequence),
        micros("per token of context", &costs.kv),
        micros("per prompt token and token of context", &costs.attention),
    ];
    if costs.chained.value > 0.0 {
        lines.push(micros("a step with prompts right after another, more", &costs.chained));
    }
    if fitted.single.value > 0.0 {
        lines.push(micros("a step of a single token is quicker by", &fitted.single));
    }
    if fitted.free > 0 {
        lines.push(format!("  {} prompt tokens are computed while weights are read, both at once", fitted.free));
    }
    if fitted.padded_up_to > 0 {
        lines.push(format!("  batches without prompts are padded to recorded sizes up to {}", fitted.padded_up_to));
    }
    lines.extend(prepared(fitted).iter().map(|(name, estimate)| micros(name, estimate)));
    match front.from {
        0 => lines.push("  before the engine: no request came to an idle server, so that it is not known".to_owned()),
        _ => {
            lines.push(micros("before the engine, per request", &front.request));
            lines.push(micros("before the engine, per prompt token", &front.prompt_token));
        }
    }
    if front.together.value > 0.0 {
        lines.push(micros("before the engine, of all that come together, per request", &front.together));
    }
    lines.push(micros("after the engine, between tokens of a step", &front.token));
    lines.extend(known.told());
    lines.extend(doubts(fitted, known));
    lines.push(format!("profile written to {}", args.output));
    lines
}

/// What an engine takes to prepare its steps, where it does that while the one before runs.
fn prepared(fitted: &Fitted) -> Vec<(String, Estimate)> {
    let Some(ahead) = fitted.ahead else { return Vec::new() };
    if ahead.prepare.value == 0.0 {
        return vec![("to prepare a step, while the one before runs".to_owned(), ahead.prepare)];
    }
    let with = "to prepare a step with prompts, while the one before runs";
    let mut rows = vec![(with.to_owned(), ahead.prepare)];
    if ahead.recorded_up_to > 0 {
        rows.push((format!("{with}, of up to {} tokens", ahead.recorded_up_to), ahead.recorded));
    }
    rows.push(("from there to its tokens, at least".to_owned(), ahead.drain));
    rows
}

/// How good the fit is, and what is wrong with it.
fn doubts(fitted: &Fitted, known: &Sourced) -> Vec<String> {
    let (median, most) = fitted.held_out;
    let mut lines = vec![format!(
        "steps that were held out are off by {:.1} % in the median, nine in ten by less than {:.1} %; noise {:.1} %",
        median * 100.0,
        most * 100.0,
        fitted.noise * 100.0
    )];
    let (share, times) = fitted.disturbed;
    if share > 0.01 {
        lines.push(format!(
            "for {:.0} % of the steps the server was {times:.2} times as slow as otherwise: something else was running \
             there, and the costs are those without it",
            share * 100.0
        ));
    }
    if let Some(Pace { times, seconds }) = &fitted.pace {
        lines.push(format!(
            "the machine's pace changed about every {seconds:.1} s, from {:.2} to {:.2} times as slow as the costs and \
             {:.2} in the mean: predictions play that, and are as uncertain",
            times.iter().copied().fold(f64::INFINITY, f64::min),
            times.iter().copied().fold(0.0, f64::max),
            times.iter().sum::<f64>() / times.len() as f64,
        ));
    }
    if !fitted.holds() {
        lines.push("this fit does not hold: predictions by it will be as far off".to_owned());
    }
    if fitted.widest > known.limits.max_num_seqs {
        let (widest, limit) = (fitted.widest, known.limits.max_num_seqs);
        lines.push(format!("{widest} sequences had tokens at once, more than max_num_seqs {limit}"));
    }
    lines
}
