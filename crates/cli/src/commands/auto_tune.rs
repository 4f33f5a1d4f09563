//! `tacho auto-tune`: searches for the best server settings under a latency limit, for one tuning or a batch.

mod batch;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tacho_core::json::Value;
use tacho_decide::search::Criterion;
use tacho_run::auto_tune::{Profiling, TunePlan, TuneReport, auto_tune};
use tacho_run::experiment::{Address, AfterBench, ParamSet, ResetKind, apply, program_exists, split};

use super::screen::Screen;
use super::sweep::{Commands, Files, is_tacho, make_directory, screen, sets, supervised};
use crate::args::auto_tune::{AutoTuneArgs, TuneSettings};
use crate::{commands::sweep::newest, exit::Exit, interrupt::Interrupt};

pub(crate) fn run(args: &AutoTuneArgs) -> anyhow::Result<Exit> {
    // A signal terminates the program immediately: files are written atomically, and the supervisors stop the child
    // processes.
    let _interrupt = Interrupt::catch()?;
    let sink = screen(&args.live, args.dry_run)?;
    if let Some((file, upload)) = &args.batch {
        return batch::run(args, file, upload.as_deref(), &sink);
    }
    let settings = args.settings(&|_| None)?;
    let directory = output_directory(&settings.base, args.resume.as_ref().map(Option::as_deref), args.dry_run)?;
    let report = tune(args, &settings, &directory, Vec::new(), &sink)?;
    sink.close();
    verdict(args, &report)
}

/// Runs one tuning in `directory`, with additional environment variables for the server.
fn tune(
    args: &AutoTuneArgs,
    settings: &TuneSettings,
    directory: &Path,
    variables: Vec<(String, String)>,
    sink: &Screen,
) -> anyhow::Result<TuneReport> {
    let plan = plan(args, settings, directory, variables)?;
    let simulated = args.sim || is_tacho(&plan.serve_cmd);
    let commands = Commands::new(&plan.supervised, args.server_ready_timeout, simulated, sink);
    check(&plan, &commands, simulated)?;
    if !args.dry_run {
        make_directory(directory, "--base")?;
    }
    let files = Files::new(directory.to_owned());
    Ok(auto_tune(&plan, commands.tools(&files))?)
}

fn verdict(args: &AutoTuneArgs, report: &TuneReport) -> anyhow::Result<Exit> {
    if !args.dry_run && report.measured == 0 {
        bail!("no settings could be measured; use --resume to try again:\n  {}", report.failures.join("\n  "));
    }
    Ok(if report.best.is_some() || args.dry_run { Exit::Done } else { Exit::Gate })
}

fn plan(
    args: &AutoTuneArgs,
    settings: &TuneSettings,
    directory: &Path,
    mut variables: Vec<(String, String)>,
) -> anyhow::Result<TunePlan> {
    let serve_cmd = server_args(args, settings)?;
    let simulated = args.sim || is_tacho(&serve_cmd);
    let after = match &args.after_bench_cmd {
        Some(command) => AfterBench::Command(split("--after-bench-cmd", command)?),
        None if simulated => AfterBench::Reset(ResetKind::Call),
        None => AfterBench::Reset(ResetKind::of(&serve_cmd)?),
    };
    let limit = format!("<={}", settings.max_latency_text.trim());
    let mut criteria = vec![Criterion::parse("p99_e2el_ms", &limit)?];
    criteria.extend(args.constraints.iter().cloned());
    variables.push(("VLLM_LOGGING_LEVEL".to_owned(), settings.logging_level.clone()));
    Ok(TunePlan {
        bench_cmd: client_args(args, settings, &serve_cmd, simulated)?,
        after,
        supervised: supervised(args.show_stdout)?,
        variables,
        num_seqs: settings.num_seqs.clone(),
        num_batched_tokens: settings.num_batched_tokens.clone(),
        sets: sets(args.serve_params.as_deref())?,
        memory_shares: if simulated { Vec::new() } else { (90..=98).rev().map(|share| format!("0.{share}")).collect() },
        criteria,
        limit: settings.max_latency_text.trim().to_owned(),
        system: settings.system.clone(),
        num_prompts: args.num_prompts,
        num_runs: args.num_runs,
        tolerance: args.tolerance,
        profiling: match (args.skip_profile, simulated) {
            (true, _) => Profiling::Skipped,
            (false, true) => Profiling::Calls,
            (false, false) => Profiling::Torch,
        },
        hash: crate::git::git(&settings.base, &["rev-parse", "HEAD"]).unwrap_or_default(),
        directory: directory.to_owned(),
        dry_run: args.dry_run,
        serve_cmd,
    })
}

fn server_args(args: &AutoTuneArgs, settings: &TuneSettings) -> anyhow::Result<Vec<String>> {
    if let Some(command) = &args.serve_cmd {
        return Ok(split("--serve-cmd", command)?);
    }
    let mut argv: Vec<String> = Vec::new();
    let mut add = |parts: &[&str]| argv.extend(parts.iter().map(|part| (*part).to_owned()));
    let max_model_len = settings.max_model_len.to_string();
    if args.sim {
        add(&["tacho", "sim", "--enable-prefix-caching", "--max-model-len", &max_model_len]);
        if settings.model_named {
            add(&["--model", &settings.model]);
        }
        return Ok(argv);
    }
    add(&["vllm", "serve", &settings.model, "--port", &args.port.to_string(), "--host", &args.host]);
    add(&["--tensor-parallel-size", &settings.tp.to_string(), "--enable-prefix-caching"]);
    add(&["--load-format", &args.load_format]);
    if !settings.download_dir.is_empty() {
        add(&["--download-dir", &settings.download_dir]);
    }
    add(&["--max-model-len", &max_model_len]);
    Ok(argv)
}

/// The client command without load, number of prompts, and result path.
fn client_args(
    args: &AutoTuneArgs,
    settings: &TuneSettings,
    serve_cmd: &[String],
    simulated: bool,
) -> anyhow::Result<Vec<String>> {
    let (prefix, own) = settings.prefix_and_own();
    let mut set = ParamSet::default().with("backend", "vllm");
    if !simulated || settings.model_named {
        set = set.with("model", settings.model.as_str());
    }
    set = set
        .with("dataset_name", "random")
        .with("random_input_len", own)
        .with("random_output_len", settings.output_len)
        .with("ignore_eos", true)
        .with("disable_tqdm", true)
        .with("percentile_metrics", "ttft,tpot,itl,e2el")
        .with("goodput", format!("e2el:{}", settings.max_latency_text.trim()))
        .with("random_prefix_len", prefix)
        .with("num_warmups", args.num_warmups);
    if !simulated {
        let address = Address::of(serve_cmd)?;
        set = set.with("host", address.host).with("port", Value::from(i64::from(address.port)));
    }
    Ok(apply("--bench-cmd", &split("--bench-cmd", &args.bench_cmd)?, &set)?)
}

/// Validates all commands before the first one runs.
fn check(plan: &TunePlan, commands: &Commands<'_>, simulated: bool) -> anyhow::Result<()> {
    commands.check(&plan.bench_command(1.0)?)?;
    for candidate in plan.candidates() {
        commands.check_server(&plan.server_command(&candidate, None)?)?;
    }
    if plan.dry_run {
        return Ok(());
    }
    let server = &plan.serve_cmd[0];
    if !simulated && !program_exists(server) {
        bail!("no program {server:?}: check PATH, pass --serve-cmd, or use --sim");
    }
    commands.check_client(&plan.bench_cmd, &plan.serve_cmd)
}

/// Returns the directory of a new tuning, or of the tuning to resume: the named one or the newest.
fn output_directory(base: &Path, resume: Option<Option<&str>>, dry_run: bool) -> anyhow::Result<PathBuf> {
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
fn unused(all: &Path) -> anyhow::Result<PathBuf> {
    let timestamp = timestamp();
    let names = std::iter::once(timestamp.clone()).chain((2..).map(|number| format!("{timestamp}_{number}")));
    names.map(|name| all.join(name)).find(|directory| !directory.exists()).context("all names are taken")
}

fn timestamp() -> String {
    jiff::Zoned::now().strftime("%Y_%m_%d_%H_%M").to_string()
}
