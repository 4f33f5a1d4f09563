//! The subcommands, in one table, and the way from the words of a command line to one of them.

use std::ffi::OsString;

use super::convert::ConvertArgs;
use super::error::{ArgError, ConfigError, UsageError};
use super::flag::Table;
use super::grammar::{Parsed, Values};
use super::serve::ServeArgs;
use super::sim::SimArgs;
use super::{config, convert, help, serve, sim};

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// To print this text and be done.
    Print(String),
    /// `tacho serve`.
    Serve(Box<ServeArgs>),
    /// `tacho sim`.
    Sim(Box<SimArgs>),
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
    Command { spellings: &[&["sim"]], table: &sim::TABLE, build: build_sim },
    Command { spellings: &[&["convert", "txt-slices"]], table: &convert::TABLE, build: build_convert },
];

fn build_serve(values: Values) -> Result<Invocation, ArgError> {
    let args = ServeArgs::from(values);
    serve::check(&args)?;
    Ok(Invocation::Serve(Box::new(args)))
}

fn build_sim(values: Values) -> Result<Invocation, ArgError> {
    let args = SimArgs::from(values);
    args.check()?;
    Ok(Invocation::Sim(Box::new(args)))
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
        [] | ["-h" | "--help" | "help", ..] | ["bench", "-h" | "--help", ..] => Ok(Invocation::Print(top_help())),
        ["-v" | "-V" | "--version", ..] => Ok(Invocation::Print(format!("tacho {}\n", env!("CARGO_PKG_VERSION")))),
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
    let mut words: Vec<&'static str> = spellings().map(|spelling| spelling[0]).collect();
    words.dedup();
    words
}

fn after(first: &str) -> Vec<&'static str> {
    spellings().filter(|spelling| spelling.len() == 2 && spelling[0] == first).map(|spelling| spelling[1]).collect()
}

/// The help of `tacho` itself.
fn top_help() -> String {
    let mut out = String::from(
        "usage: tacho <command> [options]\n\nBenchmark LLM serving. Takes the command lines of `vllm bench` and \
         reports the same numbers.\n\ncommands:\n",
    );
    for command in COMMANDS {
        let names: Vec<String> = command.spellings.iter().map(|spelling| spelling.join(" ")).collect();
        out += &format!("  {:20}  {}\n", names.join(", "), command.table.about);
    }
    out += "\nexamples:\n";
    for (line, what) in COMMANDS.iter().filter_map(|command| command.table.examples.last()) {
        out += &format!("  {line}\n      {what}\n");
    }
    out + "\noptions:\n  -h, --help            Show this help; tacho <command> --help shows a command's.\n  \
           -v, --version         Print the version.\n"
}
