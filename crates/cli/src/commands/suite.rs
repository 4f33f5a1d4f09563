//! `tacho suite`: runs the test files of vLLM's performance suite and reports the results.

mod hardware;
mod tests;

use std::{fs, io::Write, path::Path};

use anyhow::{anyhow, bail};
use tacho_report::{dashboard::Dashboard, json::write_text};
use tacho_run::experiment::{AfterBench, Report, ResetKind, program_exists, split};
use tacho_run::suite::{AdaptiveSpec, PromptRule, ServerKind, SuitePlan, Test, TestKind, suite};

use super::platform;
use super::sweep::{Commands, Files, is_tacho, make_directory, screen, supervised, verdict};
use crate::exit::{Exit, show};
use crate::{args::program::parse, args::sim, args::suite::SuiteArgs, commands::COMMANDS, interrupt::Interrupt};
use hardware::Machine;

pub(crate) fn run(args: &SuiteArgs) -> anyhow::Result<Exit> {
    // A signal terminates the program immediately: files are written atomically, and the supervisors stop the child
    // processes.
    let _interrupt = Interrupt::catch()?;
    let machine = Machine::look(args);
    let tests = tests::load(args, &machine)?;
    let plan = plan(args, &machine, tests)?;
    let sink = screen(&args.live, args.dry_run)?;
    let commands = Commands::new(&plan.supervised, args.server_ready_timeout, args.sim, &sink);
    check(args, &plan, &machine, &commands)?;
    make_directory(&plan.directory, "--output-dir")?;
    let files = Files::new(plan.directory.clone());
    if !args.dry_run {
        environment(args, &plan, &machine)?;
    }
    let report = suite(&plan, commands.tools(&files))?;
    sink.close();
    if args.dry_run {
        return Ok(Exit::Done);
    }
    conclude(&plan.directory, &report)
}

/// Prints the tables of all results, then the failures.
fn conclude(directory: &Path, report: &Report) -> anyhow::Result<Exit> {
    let dashboard = Dashboard::read(directory)?.on(platform::rows());
    if !dashboard.is_empty() {
        dashboard.save(directory)?;
        show(&dashboard.tables_markdown())?;
        let name = directory.join("benchmark_results.md");
        writeln!(tacho_report::out(), "Results: {}", name.display())?;
    }
    verdict(report)
}

fn plan(args: &SuiteArgs, machine: &Machine, tests: Vec<Test>) -> anyhow::Result<SuitePlan> {
    let (server, after) = match args.remote() {
        Some(remote) => (ServerKind::Running(remote), None),
        None if args.sim => (ServerKind::Simulator { knows: sim::knows }, Some(ResetKind::Call)),
        None => {
            let command = split("--serve-cmd", &args.serve_cmd)?;
            let after = if args.reset_caches { Some(ResetKind::of(&command)?) } else { None };
            (ServerKind::Command(command), after)
        }
    };
    if args.reset_caches && args.remote().is_some() {
        bail!("--reset-caches and --remote-host exclude each other: only the caches of tacho's own servers are reset");
    }
    let (min, max) = (args.min_num_prompts, args.max_num_prompts);
    let adaptive = AdaptiveSpec {
        ttft_ms: args.sla_ttft_ms,
        tpot_ms: args.sla_tpot_ms,
        max_probes: usize::try_from(args.adaptive_max_probes)?,
        max_concurrency: args.adaptive_max_concurrency,
    };
    Ok(SuitePlan {
        tests,
        directory: args.output_dir.clone(),
        server,
        bench_cmd: split("--bench-cmd", &args.bench_cmd)?,
        simulated: args.sim,
        hardware: machine.hardware(args),
        prompts: args.prompts_per_concurrency.map(|per_concurrency| PromptRule { per_concurrency, min, max }),
        adaptive: args.adaptive_concurrency.then_some(adaptive),
        after: after.filter(|_| args.reset_caches).map(AfterBench::Reset),
        supervised: supervised(args.show_stdout)?,
        dry_run: args.dry_run,
    })
}

/// Validates the plan before any server starts.
fn check(args: &SuiteArgs, plan: &SuitePlan, machine: &Machine, commands: &Commands<'_>) -> anyhow::Result<()> {
    if plan.tests.is_empty() {
        bail!("no test is left: check --test-selector, --model-filter and --dtype-filter");
    }
    if args.sim && !is_tacho(&plan.bench_cmd) {
        bail!("--bench-cmd {:?} cannot use --sim: leave one of them out", args.bench_cmd);
    }
    for (name, command) in plan.commands().into_iter().filter(|(_, command)| is_tacho(command)) {
        parse(COMMANDS, command[1..].iter().map(Into::into))
            .map_err(|error| anyhow!("{name}: {:?}: {error}", command.join(" ")))?;
    }
    for test in &plan.tests {
        if test.kind == TestKind::Serving {
            commands.check_server(&plan.server_command(test))?;
        }
    }
    if args.dry_run {
        return Ok(());
    }
    let there: Vec<_> = plan.outputs().into_iter().filter(|path| path.exists()).collect();
    if let Some(first) = there.first().filter(|_| !args.resume) {
        bail!("{} is there already: add --resume to keep it, or choose another --output-dir", first.display());
    }
    let programs = match &plan.server {
        ServerKind::Command(command) => vec![("--serve-cmd", &command[0]), ("--bench-cmd", &plan.bench_cmd[0])],
        _ => vec![("--bench-cmd", &plan.bench_cmd[0])],
    };
    for (flag, program) in programs {
        if Path::new(program).file_name().is_some_and(|name| name != "tacho") && !program_exists(program) {
            bail!("{flag}: no program {program:?}: check its name and PATH, or use --sim");
        }
    }
    if machine.devices == 0 && plan.hardware.devices.is_some() {
        bail!("no GPU was found, which the tests need: use --on-cpu for the tests of CPUs, or --sim");
    }
    Ok(())
}

/// Records the hardware and software environment, once.
fn environment(args: &SuiteArgs, plan: &SuitePlan, machine: &Machine) -> anyhow::Result<()> {
    let path = plan.directory.join("vllm_env.txt");
    if path.exists() {
        return Ok(());
    }
    let vllm = (!args.sim && program_exists("vllm")).then(|| {
        let argv = ["vllm".to_owned(), "collect-env".to_owned()];
        plan.supervised.run_logged(&argv, &[], Some(&path))
    });
    if !matches!(vllm, Some(Ok(()))) || fs::metadata(&path).map_or(0, |about| about.len()) == 0 {
        write_text(&path, &machine.text())?;
    }
    Ok(())
}
