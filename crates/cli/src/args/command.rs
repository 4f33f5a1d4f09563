//! The subcommands, in one table, and the way from the words of a command line to one of them.

use std::ffi::OsString;

use super::auto_tune::AutoTuneArgs;
use super::compare::CompareArgs;
use super::convert::ConvertArgs;
use super::error::{ArgError, ConfigError, UsageError};
use super::flag::Table;
use super::gate::GateArgs;
use super::grammar::{Parsed, Values};
use super::offline::latency::{self, LatencyArgs};
use super::offline::mm_processor::{self, MmProcessorArgs};
use super::offline::startup::{self, StartupArgs};
use super::offline::throughput::{self, ThroughputArgs};
use super::report::ReportCommandArgs;
use super::selfcheck::SelfcheckArgs;
use super::serve::ServeArgs;
use super::sim::SimArgs;
use super::suite::SuiteArgs;
use super::sweep::plot::PlotArgs;
use super::sweep::plot_pareto::ParetoArgs;
use super::sweep::{StartupSweepArgs, SweepArgs};
use super::{auto_tune, compare, config, convert, gate, help, report, selfcheck, serve, sim, suite, sweep};

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// To print this text and be done.
    Print(String),
    /// `tacho serve`.
    Serve(Box<ServeArgs>),
    /// `tacho throughput`.
    Throughput(Box<ThroughputArgs>),
    /// `tacho latency`.
    Latency(Box<LatencyArgs>),
    /// `tacho startup`.
    Startup(Box<StartupArgs>),
    /// `tacho mm-processor`.
    MmProcessor(Box<MmProcessorArgs>),
    /// `tacho selfcheck`.
    Selfcheck(Box<SelfcheckArgs>),
    /// `tacho sim`.
    Sim(Box<SimArgs>),
    /// `tacho auto-tune`.
    AutoTune(Box<AutoTuneArgs>),
    /// `tacho suite`.
    Suite(Box<SuiteArgs>),
    /// `tacho compare`.
    Compare(Box<CompareArgs>),
    /// `tacho gate`.
    Gate(Box<GateArgs>),
    /// `tacho report`.
    Report(Box<ReportCommandArgs>),
    /// `tacho sweep plot`.
    SweepPlot(Box<PlotArgs>),
    /// `tacho sweep plot_pareto`.
    SweepPareto(Box<ParetoArgs>),
    /// `tacho sweep serve` and its relatives.
    Sweep(Box<SweepArgs>),
    /// `tacho sweep startup`.
    SweepStartup(Box<StartupSweepArgs>),
    /// `tacho convert txt-slices`.
    Convert(Box<ConvertArgs>),
}

/// A subcommand: the words that call it, and what they lead to.
struct Command {
    /// Each way to call it; the first is shown.
    spellings: &'static [&'static [&'static str]],
    table: &'static Table,
    build: fn(Values) -> Result<Invocation, ArgError>,
}

/// All of them, in the order of the help.
static COMMANDS: &[Command] = &[
    Command { spellings: &[&["serve"], &["bench", "serve"]], table: &serve::TABLE, build: build_serve },
    Command {
        spellings: &[&["throughput"], &["bench", "throughput"]],
        table: &throughput::TABLE,
        build: build_throughput,
    },
    Command { spellings: &[&["latency"], &["bench", "latency"]], table: &latency::TABLE, build: build_latency },
    Command { spellings: &[&["startup"], &["bench", "startup"]], table: &startup::TABLE, build: build_startup },
    Command {
        spellings: &[&["mm-processor"], &["bench", "mm-processor"]],
        table: &mm_processor::TABLE,
        build: build_mm_processor,
    },
    Command { spellings: &[&["selfcheck"]], table: &selfcheck::TABLE, build: build_selfcheck },
    Command {
        spellings: &[&["sweep", "serve"], &["bench", "sweep", "serve"]],
        table: &sweep::SERVE,
        build: |values| Ok(Invocation::Sweep(Box::new(SweepArgs::serve(&values)?))),
    },
    Command {
        spellings: &[&["sweep", "serve_workload"], &["bench", "sweep", "serve_workload"]],
        table: &sweep::SERVE_WORKLOAD,
        build: |values| Ok(Invocation::Sweep(Box::new(SweepArgs::serve_workload(&values)?))),
    },
    Command {
        spellings: &[&["sweep", "serve_sla"], &["bench", "sweep", "serve_sla"]],
        table: &sweep::SERVE_SLA,
        build: |values| Ok(Invocation::Sweep(Box::new(SweepArgs::serve_sla(&values)?))),
    },
    Command {
        spellings: &[&["sweep", "startup"], &["bench", "sweep", "startup"]],
        table: &sweep::STARTUP,
        build: |values| Ok(Invocation::SweepStartup(Box::new(StartupSweepArgs::new(&values)?))),
    },
    Command { spellings: &[&["auto-tune"]], table: &auto_tune::TABLE, build: build_auto_tune },
    Command { spellings: &[&["suite"]], table: &suite::TABLE, build: build_suite },
    Command { spellings: &[&["sim"]], table: &sim::TABLE, build: build_sim },
    Command { spellings: &[&["compare"]], table: &compare::TABLE, build: build_compare },
    Command { spellings: &[&["gate"]], table: &gate::TABLE, build: build_gate },
    Command { spellings: &[&["report"]], table: &report::TABLE, build: build_report },
    Command {
        spellings: &[&["sweep", "plot"], &["bench", "sweep", "plot"]],
        table: &sweep::plot::TABLE,
        build: build_sweep_plot,
    },
    Command {
        spellings: &[&["sweep", "plot_pareto"], &["bench", "sweep", "plot_pareto"]],
        table: &sweep::plot_pareto::TABLE,
        build: build_sweep_pareto,
    },
    Command { spellings: &[&["convert", "txt-slices"]], table: &convert::TABLE, build: build_convert },
];

fn build_serve(values: Values) -> Result<Invocation, ArgError> {
    let args = ServeArgs::from(values);
    serve::check(&args)?;
    Ok(Invocation::Serve(Box::new(args)))
}

fn build_throughput(values: Values) -> Result<Invocation, ArgError> {
    let args = ThroughputArgs::from(values);
    args.check()?;
    Ok(Invocation::Throughput(Box::new(args)))
}

fn build_latency(values: Values) -> Result<Invocation, ArgError> {
    let args = LatencyArgs::from(values);
    args.check()?;
    Ok(Invocation::Latency(Box::new(args)))
}

fn build_startup(values: Values) -> Result<Invocation, ArgError> {
    let args = StartupArgs::from(values);
    args.check()?;
    Ok(Invocation::Startup(Box::new(args)))
}

fn build_mm_processor(values: Values) -> Result<Invocation, ArgError> {
    let args = MmProcessorArgs::from(values);
    args.check()?;
    Ok(Invocation::MmProcessor(Box::new(args)))
}

fn build_selfcheck(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::Selfcheck(Box::new(SelfcheckArgs::of(&values)?)))
}

fn build_sim(values: Values) -> Result<Invocation, ArgError> {
    let args = SimArgs::from(values);
    args.check()?;
    Ok(Invocation::Sim(Box::new(args)))
}

fn build_auto_tune(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::AutoTune(Box::new(AutoTuneArgs::read(values)?)))
}

fn build_suite(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::Suite(Box::new(SuiteArgs::read(&values, &|name| std::env::var(name).ok())?)))
}

fn build_compare(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::Compare(Box::new(CompareArgs::read(&values)?)))
}

fn build_gate(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::Gate(Box::new(GateArgs::read(&values)?)))
}

fn build_report(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::Report(Box::new(ReportCommandArgs::read(&values)?)))
}

fn build_sweep_plot(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::SweepPlot(Box::new(PlotArgs::read(&values)?)))
}

fn build_sweep_pareto(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::SweepPareto(Box::new(ParetoArgs::read(&values)?)))
}

fn build_convert(values: Values) -> Result<Invocation, ArgError> {
    Ok(Invocation::Convert(Box::new(ConvertArgs::new(&values)?)))
}

/// Reads a command line, without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, ArgError> {
    let args = args
        .into_iter()
        .map(|arg| {
            arg.into_string().map_err(|arg| UsageError::NotUnicode { shown: arg.to_string_lossy().into_owned() })
        })
        .collect::<Result<Vec<String>, UsageError>>()
        .map_err(|error| ArgError::Usage { command: "tacho", error })?;
    for command in COMMANDS {
        for spelling in command.spellings {
            if args.len() >= spelling.len() && args.iter().zip(*spelling).all(|(arg, word)| arg == word) {
                return run(command, args[spelling.len()..].to_vec());
            }
        }
    }
    outside(&args)
}

fn run(command: &Command, mut args: Vec<String>) -> Result<Invocation, ArgError> {
    let table = command.table;
    let usage = |error| ArgError::Usage { command: table.command, error };
    let mut values = Values::defaults(table);
    if let Some(path) = config::take_path(&mut args)? {
        let words = config::read(&path, table)?;
        match values.read(&words).map_err(|error| ConfigError::Usage { path, error })? {
            Parsed::Values(read) => values = read,
            Parsed::Help(topic) => return Ok(Invocation::Print(help::help(table, topic.as_deref()))),
        }
    }
    match values.read(&args).map_err(usage)? {
        Parsed::Values(values) => (command.build)(values),
        Parsed::Help(topic) => Ok(Invocation::Print(help::help(table, topic.as_deref()))),
    }
}

/// A command line that starts with no subcommand.
fn outside(args: &[String]) -> Result<Invocation, ArgError> {
    let usage = |command, error| Err(ArgError::Usage { command, error });
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["-h" | "--help" | "help", ..] => Ok(Invocation::Print(top_help())),
        ["-v" | "-V" | "--version", ..] => Ok(Invocation::Print(format!("tacho {}\n", env!("CARGO_PKG_VERSION")))),
        ["sweep" | "bench", "-h" | "--help", ..] | ["bench", "sweep", "-h" | "--help", ..] => {
            Ok(Invocation::Print(top_help()))
        }
        ["sweep"] | ["bench", "sweep"] => usage("tacho sweep", UsageError::Missing { what: "sweep_type" }),
        ["sweep", word, ..] | ["bench", "sweep", word, ..] => {
            usage("tacho sweep", bad_word("sweep_type", word, after("sweep")))
        }
        ["bench"] => usage("tacho bench", UsageError::Missing { what: "bench_type" }),
        ["bench", word, ..] => usage("tacho bench", bad_word("bench_type", word, after("bench"))),
        [word, ..] if word.starts_with('-') => usage("tacho", UsageError::Unrecognized { tokens: args.to_vec() }),
        [word, ..] => usage("tacho", bad_word("command", word, first_words())),
    }
}

fn bad_word(what: &str, word: &str, choices: Vec<&'static str>) -> UsageError {
    UsageError::BadChoice { flag: what.to_owned(), value: word.to_owned(), choices }
}

fn spellings() -> impl Iterator<Item = &'static [&'static str]> {
    COMMANDS.iter().flat_map(|command| command.spellings.iter().copied())
}

fn first_words() -> Vec<&'static str> {
    unique(spellings().map(|spelling| spelling[0]))
}

fn after(first: &str) -> Vec<&'static str> {
    unique(spellings().filter(|spelling| spelling.len() > 1 && spelling[0] == first).map(|spelling| spelling[1]))
}

fn unique(words: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut known = Vec::new();
    for word in words {
        if !known.contains(&word) {
            known.push(word);
        }
    }
    known
}

/// The help of `tacho` itself.
fn top_help() -> String {
    let mut out = String::from(
        "usage: tacho <command> [options]\n\nBenchmark LLM serving. Takes the command lines of `vllm bench` and \
         reports the same numbers.\n\ncommands:\n",
    );
    for command in COMMANDS {
        out += &format!("  {:20}  {}\n", command.spellings[0].join(" "), command.table.about);
    }
    out += "\nWhat vLLM has too is also found below bench, as in `tacho bench serve`.\n";
    out += "\nexamples:\n";
    for (line, what) in COMMANDS.iter().filter_map(|command| command.table.examples.last()) {
        out += &format!("  {line}\n      {what}\n");
    }
    out + "\noptions:\n  -h, --help            Show this help; tacho <command> --help shows a command's.\n  \
           -v, --version         Print the version.\n"
}
