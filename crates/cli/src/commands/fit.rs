//! `tacho fit`: maps flags to `tacho_forecast::fit` and prints the result.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, ensure};
use tacho_client::EndpointSpec;
use tacho_client::control::{Caller, metrics_page, server_info};
use tacho_core::json;
use tacho_forecast::fit::{
    self, Estimate, Experiment, Fitted, KnownLimits, LEVELS, Length, Load, MAX_ROUNDS, Profile, Server, Slowdown,
    Traced,
};
use tacho_record::{ServerFacts, logged, restored};
use tacho_report::style::short;
use tacho_rowlog::Stored;

use super::{outputs::check_writable, say, serve, values_for};
use crate::args::fit::{FitArgs, LimitFlags};
use crate::{args, args::serve::ServeArgs, args::shared::sign_in, exit::Exit, interrupt::Interrupt};

pub(crate) fn run(args: &FitArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    check_writable(Path::new(&args.output))?;
    let endpoint = args.base_url.as_deref().map(|url| endpoint(args, url)).transpose()?;
    let mut known = known_limits(args, endpoint.as_ref())?;
    let experiment = match &args.base_url {
        Some(url) if args.results.is_empty() => measure(args, url, known.limits.max_model_len)?,
        _ => {
            let mut runs = Vec::new();
            for path in &args.results {
                let (run, server) = read(Path::new(path))?;
                known.read_settings(&server.settings, path);
                runs.push(run);
            }
            Experiment { runs, ..Experiment::default() }
        }
    };
    experiment.learn_limits(&mut known);
    let fitted = fit::fit(&experiment.runs, &known.limits, known.async_scheduling)?;
    let caches = experiment.prefix_caching(&fitted);
    caches.into_iter().for_each(|on| known.learn("enable_prefix_caching", usize::from(on), "measured"));
    let lines = report(&fitted, &known, args);
    let is_good = fitted.is_good();
    let profile = Profile { name: name(args), limits: known.limits, fitted, sources: known.sources };
    std::fs::write(&args.output, json::dumps_indented(&profile.to_json(), 2) + "\n")
        .with_context(|| format!("the profile cannot be written to {}", args.output))?;
    say(&lines)?;
    Ok(if is_good { Exit::Done } else { Exit::Gate })
}

fn measure(args: &FitArgs, url: &str, max_model_len: usize) -> anyhow::Result<Experiment> {
    let levels = LEVELS.map(|(concurrency, ..)| concurrency);
    say(&[format!(
        "measuring {url} for about {:.0} s: concurrencies {levels:?} in up to {MAX_ROUNDS} rounds, then a burst",
        args.seconds
    )])?;
    let experiment = Experiment::measure(&mut MeasuredServer::new(args, url), args.seconds, max_model_len)?;
    let experiment = experiment.context("the server returned no response that could be timed")?;
    ensure!(!experiment.runs.is_empty(), "nothing was measured");
    Ok(experiment)
}

fn name(args: &FitArgs) -> String {
    let stem = || Path::new(&args.output).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    args.name.clone().or_else(stem).unwrap_or_else(|| "fitted".to_owned())
}

fn endpoint(args: &FitArgs, url: &str) -> anyhow::Result<EndpointSpec> {
    let mut argv = vec!["serve".to_owned(), "--base-url".to_owned(), url.to_owned()];
    argv.extend(sign_in::args(&args.values));
    argv.extend(args.model.iter().flat_map(|model| ["--model".to_owned(), model.clone()]));
    let values = values_for(&args::serve::TABLE, &argv)?.context("the experiment's own command line")?;
    Ok(serve::plan::of(&ServeArgs::read(values)?, None)?.endpoint)
}

/// The requests of a detailed result or a log, and what it knows of its server.
pub(crate) fn read(path: &Path) -> anyhow::Result<(Vec<Traced>, ServerFacts)> {
    let shown = path.display();
    let nothing = || format!("{shown} cannot be fitted");
    if Stored::is_log(path) {
        let log = Stored::open(path)?;
        let joined = log.joined().with_context(|| format!("the log {shown} cannot be read"))?;
        let server = logged::provenance(log.closing().unwrap_or(&log.manifest().more)).server;
        let rows = joined.rows.iter().map(|row| (row.request.prompt_len, &row.observation));
        return Ok((fit::of_rows(rows).with_context(nothing)?, server));
    }
    if path.is_dir() {
        anyhow::bail!("{shown} is a directory without a log; pass a result, or a directory that --log wrote");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("the result {shown} cannot be read"))?;
    let result = json::parse(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    let server = result.as_dict().map(restored::provenance).unwrap_or_default().server;
    Ok((fit::of_result(&result).with_context(nothing)?, server))
}

/// A cost with its 95% confidence interval.
fn micros(name: &str, estimate: &Estimate) -> String {
    let (low, high) = estimate.interval();
    match estimate.value {
        0.0 => format!("  {name}: not significant"),
        value => format!("  {name}: {} us ({} to {})", short(value * 1e6), short(low * 1e6), short(high * 1e6)),
    }
}

fn report(fitted: &Fitted, known: &KnownLimits, args: &FitArgs) -> Vec<String> {
    let (costs, front) = (&fitted.costs, &fitted.front);
    let mut lines = vec![
        format!("{} steps fitted, {} ambiguous, {} outliers", fitted.steps, fitted.unclear, fitted.outliers),
        micros("per step", &costs.fixed),
        micros("per prompt token", &costs.prefill),
        micros("per sequence", &costs.sequence),
        micros("per token of context", &costs.kv),
        micros("per prompt token and token of context (attention)", &costs.attention),
    ];
    if costs.back_to_back_prefill.value > 0.0 {
        lines.push(micros("extra per back-to-back prefill step", &costs.back_to_back_prefill));
    }
    if fitted.single.value > 0.0 {
        lines.push(micros("saved by a batch of one", &fitted.single));
    }
    if fitted.memory_bound > 0 {
        lines.push(format!("  memory-bound up to {} tokens per prefill step", fitted.memory_bound));
    }
    if fitted.padded_up_to > 0 {
        lines.push(format!("  decode batches are padded to CUDA-graph capture sizes up to {}", fitted.padded_up_to));
    }
    lines.extend(scheduling(fitted).iter().map(|(name, estimate)| micros(name, estimate)));
    match front.from {
        0 => lines.push("  front end: unknown, because no request arrived at an idle server".to_owned()),
        _ => {
            lines.push(micros("front end, per request", &front.request));
            lines.push(micros("front end, per prompt token", &front.prompt_token));
        }
    }
    if front.shared.value > 0.0 {
        lines.push(micros("front end, CPU time shared by concurrent requests", &front.shared));
    }
    lines.push(micros("front end, between tokens of a step", &front.token));
    lines.extend(known.rows().map(|(name, value, source)| format!("  {name}: {value} ({source})")));
    lines.extend(quality(fitted, known));
    lines.push(format!("profile written to {}", args.output));
    lines
}

/// Host-side scheduling times, if scheduling is asynchronous.
fn scheduling(fitted: &Fitted) -> Vec<(String, Estimate)> {
    let Some(scheduling) = fitted.async_scheduling else { return Vec::new() };
    let name = "asynchronous scheduling, per prefill step";
    if scheduling.schedule.value == 0.0 {
        return vec![(name.to_owned(), scheduling.schedule)];
    }
    let mut rows = vec![(name.to_owned(), scheduling.schedule)];
    if scheduling.cudagraph_max_tokens > 0 {
        rows.push((format!("{name} of up to {} tokens", scheduling.cudagraph_max_tokens), scheduling.cudagraph));
    }
    rows.push(("minimum time from launch to token output".to_owned(), scheduling.drain));
    rows
}

fn quality(fitted: &Fitted, known: &KnownLimits) -> Vec<String> {
    let (median, p90) = fitted.held_out;
    let mut lines = vec![format!(
        "held-out error: median {:.1}%, p90 {:.1}%; noise {:.1}%",
        median * 100.0,
        p90 * 100.0,
        fitted.noise * 100.0
    )];
    let (fraction, slowdown) = fitted.interference;
    if fraction > 0.01 {
        lines.push(format!(
            "interference: {:.0}% of the steps were slower by a factor of {slowdown:.2}; the costs are those without it",
            fraction * 100.0
        ));
    }
    if let Some(Slowdown { factors, seconds }) = &fitted.slowdown {
        lines.push(format!(
            "the speed changed about every {seconds:.1} s: slowdown {:.2} to {:.2}, mean {:.2}; predictions include it",
            factors.iter().copied().fold(f64::INFINITY, f64::min),
            factors.iter().copied().fold(0.0, f64::max),
            factors.iter().sum::<f64>() / factors.len() as f64,
        ));
    }
    if !fitted.is_good() {
        lines.push(
            "warning: poor fit (median held-out error above 10%, or interference in most steps); predictions will be off \
             by as much. Fit again on an idle machine or raise --seconds."
                .to_owned(),
        );
    }
    if fitted.widest > known.limits.max_num_seqs {
        let (widest, limit) = (fitted.widest, known.limits.max_num_seqs);
        lines.push(format!("warning: {widest} sequences had tokens at once, more than max_num_seqs {limit}"));
    }
    lines
}

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read from the start of the log, which contains the limits.
const LOG_START: usize = 4 << 20;

/// The scheduler limits that flags, the log and the endpoints of the server state.
fn known_limits(args: &FitArgs, endpoint: Option<&EndpointSpec>) -> anyhow::Result<KnownLimits> {
    let mut known = stated_limits(&args.limits)?;
    if let Some(endpoint) = endpoint {
        read_endpoints(&mut known, endpoint);
    }
    Ok(known)
}

pub(super) fn stated_limits(flags: &LimitFlags) -> anyhow::Result<KnownLimits> {
    let mut known = KnownLimits::default();
    flags.given().iter().for_each(|(name, value)| known.learn(name, *value, "flag"));
    if let Some(path) = &flags.server_log {
        let text = std::fs::read(path).with_context(|| format!("--server-log {path} cannot be read"))?;
        known.read(&String::from_utf8_lossy(&text[..text.len().min(LOG_START)]), "server log");
    }
    Ok(known)
}

/// Endpoints that the server does not have are skipped.
fn read_endpoints(known: &mut KnownLimits, endpoint: &EndpointSpec) {
    let Ok(caller) = Caller::new(endpoint, "", CALL_TIMEOUT) else { return };
    if let Ok(Some(page)) = metrics_page(&caller) {
        let line = page.lines().find(|line| line.starts_with("vllm:cache_config_info"));
        known.read(line.unwrap_or_default(), "/metrics");
    }
    if let Ok(models) = caller.get("/v1/models", caller.user_headers()).map(|response| response.text()) {
        known.read(&models, "/v1/models");
    }
    known.read_settings(&server_info(&caller).settings, "/server_info");
}

/// The server that `tacho fit --base-url` measures, one `tacho serve` run per load.
struct MeasuredServer<'a> {
    args: &'a FitArgs,
    url: &'a str,
    /// Offset of the seed of each run: prompts of an earlier fit could be in the prefix cache.
    seed: u64,
    started: Instant,
}

impl<'a> MeasuredServer<'a> {
    fn new(args: &'a FitArgs, url: &'a str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = (since.as_millis() as u64 % 10_000_000) * 100;
        MeasuredServer { args, url, seed, started: Instant::now() }
    }

    fn args(&self, load: &Load) -> Vec<String> {
        let mut args: Vec<String> =
            ["serve", "--base-url", self.url, "--dataset-name", "random", "--ignore-eos", "--disable-tqdm", "--no-log"]
                .map(str::to_owned)
                .into();
        if !load.is_first {
            // Only the first run does a ready check: one per run would take a third of the time.
            args.extend(["--ready-check-timeout-sec", "0"].map(str::to_owned));
        }
        let pairs = [
            ("--random-prefix-len", load.prefix as u64),
            ("--random-input-len", load.input as u64),
            ("--random-output-len", load.output as u64),
            ("--max-concurrency", load.concurrency as u64),
            ("--seed", self.seed + load.seed as u64),
        ];
        args.extend(pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]));
        args.extend(["--random-range-ratio".to_owned(), load.range.to_string()]);
        args.extend(match load.length {
            Length::Requests(count) => ["--num-prompts".to_owned(), count.to_string()],
            Length::Seconds(seconds) => ["--duration".to_owned(), format!("{seconds:.3}")],
        });
        if let Some(directory) = self.args.keep.as_ref().filter(|_| load.is_fitted()) {
            let file = format!("fit-{}.json", load.seed);
            args.extend(
                ["--save-result", "--save-detailed", "--result-dir", directory, "--result-filename", &file]
                    .map(str::to_owned),
            );
        }
        for (flag, value) in [("--model", &self.args.model), ("--tokenizer", &self.args.tokenizer)] {
            args.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        args.extend(sign_in::args(&self.args.values));
        args
    }
}

impl Server for MeasuredServer<'_> {
    type Error = anyhow::Error;

    fn run(&mut self, load: &Load) -> anyhow::Result<Vec<Traced>> {
        let argv = self.args(load);
        let values = values_for(&args::serve::TABLE, &argv)?.context("the experiment's own command line")?;
        let (record, _) = serve::run_inside(&ServeArgs::read(values)?, &argv, None, None, true, &())?;
        Ok(record.measured.samples.iter().filter_map(|sample| Traced::of_sample(&sample)).collect())
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
