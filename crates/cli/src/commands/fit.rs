//! `tacho fit`: a server's cost model from results, or from a short experiment of its own.

use std::path::Path;

use anyhow::{Context, anyhow};
use tacho_core::json;
use tacho_metrics::fit::{self, Estimate, Fitted, Limits, Profile, Traced};

use super::foreseen::say;
use super::{serve, values_for};
use crate::args;
use crate::args::fit::FitArgs;
use crate::args::serve::ServeArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// Requests at once in the runs of an experiment.
const LEVELS: [usize; 4] = [1, 4, 12, 32];

/// Fits and writes the profile.
pub(crate) fn run(args: &FitArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let runs = match &args.base_url {
        Some(url) => experiment(args, url)?,
        None => args.results.iter().map(|path| read(path)).collect::<anyhow::Result<_>>()?,
    };
    let fitted = fit::fit(&runs, args.max_num_batched_tokens)?;
    let profile = Profile { name: name(args), limits: limits(args), fitted };
    std::fs::write(&args.output, json::dumps_indented(&profile.to_json(), 2) + "\n")
        .with_context(|| format!("the profile cannot be written to {}", args.output))?;
    say(&told(&profile.fitted, args))?;
    Ok(Exit::Done)
}

fn name(args: &FitArgs) -> String {
    let stem = || Path::new(&args.output).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    args.name.clone().or_else(stem).unwrap_or_else(|| "fitted".to_owned())
}

fn limits(args: &FitArgs) -> Limits {
    Limits {
        max_num_seqs: args.max_num_seqs,
        max_num_batched_tokens: args.max_num_batched_tokens,
        block_size: args.block_size,
        num_blocks: args.num_gpu_blocks,
        max_model_len: args.max_model_len,
        prefix_caching: args.prefix_caching,
    }
}

fn read(path: &str) -> anyhow::Result<Vec<Traced>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("the result {path} cannot be read"))?;
    let result = json::parse(&text).map_err(|error| anyhow!("{path}: {error}"))?;
    fit::of_result(&result).with_context(|| format!("nothing can be learned from {path}"))
}

/// A first look that shows whether the server answers, then a run at each level for its share of the time.
fn experiment(args: &FitArgs, url: &str) -> anyhow::Result<Vec<Vec<Traced>>> {
    let look = measure(args, url, 1, Length::Requests(3), 99)?;
    let one = look.iter().map(|one| one.tokens.last().copied().unwrap_or(one.sent) - one.sent).sum::<f64>()
        / look.len().max(1) as f64;
    anyhow::ensure!(one > 0.0, "the server answered nothing that could be timed");
    say(&[format!("measuring {url} for about {:.0} s at {LEVELS:?} requests at once", args.seconds)])?;
    let share = args.seconds / LEVELS.len() as f64;
    let mut runs = vec![look];
    for (seed, level) in LEVELS.into_iter().enumerate() {
        runs.push(measure(args, url, level, Length::Seconds(share), seed)?);
    }
    Ok(runs)
}

/// How long a run of the experiment is.
enum Length {
    Requests(usize),
    Seconds(f64),
}

fn measure(args: &FitArgs, url: &str, level: usize, length: Length, seed: usize) -> anyhow::Result<Vec<Traced>> {
    let mut words: Vec<String> =
        ["serve", "--base-url", url, "--dataset-name", "random", "--ignore-eos", "--disable-tqdm"]
            .map(str::to_owned)
            .into();
    let pairs =
        [("--random-input-len", 300), ("--random-output-len", 60), ("--max-concurrency", level), ("--seed", seed)];
    words.extend(pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]));
    words.extend(["--random-range-ratio".to_owned(), "0.9".to_owned()]);
    words.extend(match length {
        Length::Requests(count) => ["--num-prompts".to_owned(), count.to_string()],
        Length::Seconds(seconds) => ["--duration".to_owned(), seconds.to_string()],
    });
    for (flag, value) in [("--model", &args.model), ("--tokenizer", &args.tokenizer)] {
        words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
    }
    let values = values_for(&args::serve::TABLE, &words)?.context("the experiment's own command line")?;
    let (record, _) = serve::run_inside(&ServeArgs::read(values)?, &words, None, None, &())?;
    Ok(record.measured.samples.iter().filter_map(Traced::of_sample).collect())
}

fn told(fitted: &Fitted, args: &FitArgs) -> Vec<String> {
    let micros = |name: &str, estimate: &Estimate| {
        let (low, high) = estimate.interval();
        match estimate.value {
            0.0 => format!("  {name}: not told from nothing by these runs"),
            value => format!("  {name}: {:.4} us ({:.4} to {:.4})", value * 1e6, low * 1e6, high * 1e6),
        }
    };
    let costs = &fitted.costs;
    let mut lines = vec![
        format!("{} steps fitted, {} unclear, {} too far off", fitted.steps, fitted.unclear, fitted.outliers),
        micros("a step", &costs.fixed),
        micros("per prompt token", &costs.prefill),
        micros("per sequence", &costs.sequence),
        micros("per token of context", &costs.kv),
        micros("per prompt token and token of context", &costs.attention),
    ];
    match fitted.front_from {
        0 => lines.push("  before the engine: no request came to an idle server, so that it is not known".to_owned()),
        _ => {
            lines.push(micros("before the engine, per request", &fitted.front.0));
            lines.push(micros("before the engine, per prompt token", &fitted.front.1));
        }
    }
    lines.push(format!(
        "steps that were held out are off by {:.1} % in the median, nine in ten by less than {:.1} %; noise {:.1} %",
        fitted.held_out.0 * 100.0,
        fitted.held_out.1 * 100.0,
        fitted.noise * 100.0
    ));
    if fitted.held_out.0 > 0.1 {
        lines.push("this fit does not hold: predictions by it will be as far off".to_owned());
    }
    if fitted.widest > args.max_num_seqs {
        lines.push(format!(
            "{} sequences had tokens at once, more than --max-num-seqs {}",
            fitted.widest, args.max_num_seqs
        ));
    }
    lines.push(format!("profile written to {}", args.output));
    lines
}
