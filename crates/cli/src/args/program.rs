//! The program: dispatches a command line to a command and prints the top-level help. `commands` has the list of
//! commands.

use std::{ffi::OsString, fmt, path::Path};

use tacho_args::command::{Family, after, find, read};
use tacho_args::grammar::{Parsed, Values, Wanted};
use tacho_args::{UsageError, flag::Flag, help};
use tacho_core::json::Value;

use super::help::{topics, warnings};
use super::{error::ArgError, error::ArgumentError, scripts, shared::tags::WRITES};
use crate::{code::Exit, terminal::columns};

/// A subcommand; [`task`] creates its prepared function.
pub(crate) type Command = tacho_args::command::Command<fn(Values) -> Result<Task, ArgError>>;

/// A command with validated arguments, ready to run.
pub(crate) type Task = Box<dyn FnOnce() -> anyhow::Result<Exit>>;

/// Binds a command's function to its arguments.
pub(crate) fn task<A: 'static>(
    args: Result<A, impl Into<ArgError>>,
    run: fn(&A) -> anyhow::Result<Exit>,
) -> Result<Task, ArgError> {
    let args = args.map_err(Into::into)?;
    Ok(Box::new(move || run(&args)))
}

pub(crate) enum Invocation {
    Print(String),
    Run(Task),
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invocation::Print(text) => f.debug_tuple("Print").field(text).finish(),
            Invocation::Run(_) => f.write_str("Run"),
        }
    }
}

/// Parses a command line without the program's name.
pub(crate) fn parse(
    commands: &'static [Command],
    args: impl IntoIterator<Item = OsString>,
) -> Result<Invocation, ArgError> {
    let args = args
        .into_iter()
        .map(|arg| {
            arg.into_string().map_err(|arg| UsageError::NotUnicode { shown: arg.to_string_lossy().into_owned() })
        })
        .collect::<Result<Vec<String>, UsageError>>()
        .map_err(|error| ArgError::Usage { command: "tacho", error })?;
    let args = scripts::understood(&args);
    let Some((command, argv)) = find(commands, &args) else { return outside(commands, &args) };
    match read(command.table, argv)? {
        Parsed::Values(values) => {
            keep_inputs(&values)?;
            (command.prepare)(values).map(Invocation::Run)
        }
        Parsed::Help(wanted) => Ok(Invocation::Print(help::help(command.table, &wanted, columns()))),
    }
}

/// Refuses to write a file that another value of the command line names, also within the text of a class or a command.
fn keep_inputs(values: &Values) -> Result<(), ArgumentError> {
    let file = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    // Of a list, the last value is the output.
    let split = |flag: &Flag, value| {
        let mut texts = texts(value);
        (if flag.has(WRITES) { texts.pop() } else { None }, texts)
    };
    let outputs = values.iter().filter_map(|(flag, value)| Some((flag, split(flag, value).0?)));
    for (flag, output) in outputs {
        let directory = match flag.long() {
            "--result-filename" => values.get("--result-dir").as_str().unwrap_or_default(),
            _ => "",
        };
        let Some(written) = file(&Path::new(directory).join(output)) else { continue };
        let is_same = |text: &str| file(Path::new(text)).as_ref() == Some(&written);
        let names = |text: &str| is_same(text) || text.split([' ', '=', '\'', '"']).any(is_same);
        if values.iter().any(|(flag, value)| split(flag, value).1.into_iter().any(names)) {
            let problem = format!("{} {output}: this command reads it; name another file", flag.long());
            return Err(ArgumentError::other(problem));
        }
    }
    Ok(())
}

/// The texts of a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Str(text) => vec![text],
        Value::List(values) => values.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Prefixes of commands, the longest first.
static FAMILIES: &[Family] = &[
    Family {
        args: "bench sweep",
        command: "tacho bench sweep",
        what: "sweep_type",
        about: "Benchmark over parameters; the same as tacho sweep.",
    },
    Family { args: "bench", command: "tacho bench", what: "bench_type", about: "The commands of `vllm bench`." },
    Family {
        args: "sweep",
        command: "tacho sweep",
        what: "sweep_type",
        about: "Benchmark a server or an engine over parameters and loads, and plot the results.",
    },
    Family {
        args: "backend",
        command: "tacho backend",
        what: "backend_type",
        about: "Files that describe the API of a server, for --backend.",
    },
    Family {
        args: "history",
        command: "tacho history",
        what: "history_type",
        about: "A local store of results: trends with their changes, comparisons, a static site.",
    },
    Family { args: "convert", command: "tacho convert", what: "convert_type", about: "Make datasets of other files." },
    Family { args: "", command: "tacho", what: "command", about: "" },
];

/// Handles a command line that does not start with a subcommand.
fn outside(commands: &'static [Command], args: &[String]) -> Result<Invocation, ArgError> {
    let argv: Vec<&str> = args.iter().map(String::as_str).collect();
    match argv[..] {
        [] | ["-h"] => return Ok(Invocation::Print(top_basics(commands, columns()))),
        ["help", ..] | ["-h" | "--help", _, ..] => return help_on(commands, &args[1..]),
        ["-v" | "-V" | "--version", ..] => {
            return Ok(Invocation::Print(version()));
        }
        _ => {}
    }
    let family = FAMILIES.iter().find(|family| family.begins(&argv)).expect("the last one begins all");
    let error = match argv.get(family.depth()) {
        None => UsageError::Missing { what: family.what.to_owned() },
        Some(&("-h" | "--help")) => return Ok(Invocation::Print(family_help(commands, family.args, columns()))),
        Some(word) if word.starts_with('-') => UsageError::Unrecognized { tokens: args.to_vec() },
        Some(word) => bad_word(family.what, word, after(commands, family.args)),
    };
    Err(ArgError::Usage { command: family.command, error })
}

pub(crate) const HELP: &str = "tacho help";

/// `tacho help`, `tacho help TOPIC` and `tacho help COMMAND`.
fn help_on(commands: &'static [Command], args: &[String]) -> Result<Invocation, ArgError> {
    if let [word] = args
        && let Some(topic) = topics::find(word)
    {
        return Ok(Invocation::Print(topics::text(topic, columns())));
    }
    match find(commands, &scripts::understood(args)) {
        Some((command, rest)) => {
            let wanted = Wanted::of(rest.first().map(String::as_str));
            Ok(Invocation::Print(help::help(command.table, &wanted, columns())))
        }
        None if args.first().is_none_or(|word| FAMILIES.iter().any(|family| family.args == word)) => {
            outside(commands, &[args, &["--help".to_owned()]].concat())
        }
        None => {
            if let [code] = args
                && let Some(text) = warnings::explained(code, columns())
            {
                return Ok(Invocation::Print(text));
            }
            let topics = topics::TOPICS.iter().map(|topic| topic.name);
            let choices = topics.chain(after(commands, "")).collect();
            Err(ArgError::Usage { command: HELP, error: bad_word("topic", &args[0], choices) })
        }
    }
}

fn bad_word(what: &str, word: &str, choices: Vec<&'static str>) -> UsageError {
    UsageError::BadChoice { flag: what.to_owned(), value: word.to_owned(), choices }
}

pub(crate) fn family_help(commands: &[Command], args: &str, width: usize) -> String {
    match FAMILIES.iter().find(|family| family.args == args && !args.is_empty()) {
        Some(family) => family.help(commands, "tacho", width),
        None => top_help(commands, width),
    }
}

pub(crate) const SERVER: &str = "benchmark a server";
pub(crate) const ENGINE: &str = "benchmark an engine without a server";
pub(crate) const SERIES: &str = "run many benchmarks";
pub(crate) const RESULTS: &str = "results and decisions";
pub(crate) const HISTORY: &str = "results over time";
pub(crate) const PLANNING: &str = "capacity planning";
pub(crate) const UTILITIES: &str = "utilities";

pub(crate) const SECTIONS: [&str; 7] = [SERVER, ENGINE, SERIES, RESULTS, HISTORY, PLANNING, UTILITIES];

/// Sections of which the short help has only the names of the commands.
const FOR_LATER: [&str; 2] = [ENGINE, UTILITIES];

/// The first commands to try.
const EXAMPLES: [(&str, &str); 4] = [
    ("tacho serve --sim", "a first benchmark, of the built-in simulator"),
    ("tacho serve --base-url http://localhost:8000 --request-rate 10 --save-result", "of a running server"),
    ("tacho compare before.json after.json", "which differences are significant"),
    ("tacho help rates", "one of the topics below"),
];

fn sections(commands: &[Command], width: usize) -> String {
    let summary = "Benchmark LLM serving. Takes the command lines of `vllm bench` and reports the same numbers.";
    let mut out = format!("usage: tacho <command> [options]\n\n{}\n", help::paragraph(summary, width));
    for title in SECTIONS {
        out += &format!("\n{title}:\n");
        for command in commands.iter().filter(|command| command.section == title) {
            out += &help::columns(command.spellings[0], command.table.about, 20, width);
        }
    }
    out
}

/// The name and description of a command in the short help, which has one row for all of a family.
fn short_row(command: &Command) -> (&'static str, &'static str) {
    let family = |family: &&Family| {
        !family.args.is_empty() && command.spellings[0].split_once(' ').is_some_and(|(first, _)| first == family.args)
    };
    match FAMILIES.iter().find(family) {
        Some(family) => (family.args, family.about),
        None => (command.spellings[0], command.table.about),
    }
}

/// `tacho -h`: one screen.
pub(crate) fn top_basics(commands: &[Command], width: usize) -> String {
    let mut out = "usage: tacho <command> [options]\n\n".to_owned();
    let mut shown: Vec<&str> = Vec::new();
    for title in SECTIONS {
        let mut rows: Vec<(&str, &str)> = commands.iter().filter(|row| row.section == title).map(short_row).collect();
        rows.retain(|(name, _)| !shown.contains(name));
        rows.dedup();
        shown.extend(rows.iter().map(|(name, _)| *name));
        if FOR_LATER.contains(&title) {
            let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
            out += &format!("{}\n", help::paragraph(&format!("{title}: {}", names.join(", ")), width));
            continue;
        }
        out += &format!("{title}:\n");
        for (name, about) in rows {
            let about = about.split([':', ';', ',', '.']).next().unwrap_or_default();
            out += &help::columns(name, about, 20, width);
        }
    }
    let topics: Vec<&str> = topics::TOPICS.iter().map(|topic| topic.name).collect();
    let more = [
        ("first benchmark", "tacho serve --sim".to_owned()),
        ("options", "tacho <command> -h".to_owned()),
        ("topics", format!("tacho help {}", topics.join(", "))),
        ("more", "tacho --help".to_owned()),
    ];
    let more = more.iter().map(|(what, how)| help::columns(what, how, 20, width));
    out + "\n" + &more.collect::<String>()
}

pub(crate) fn top_help(commands: &[Command], width: usize) -> String {
    let mut out = sections(commands, width);
    let below = "Commands that vLLM has are also available as `tacho bench serve` and so on.";
    out += &format!("\n{}\n\nexamples:\n", help::paragraph(below, width));
    for (line, what) in EXAMPLES {
        out += &help::example(line, what, width);
    }
    out += &format!("\ntopics:\n{}", topics::list(width));
    out += "\noptions:\n";
    out += &help::columns("-h, --help", "Show this help; tacho <command> -h shows a command's options.", 20, width);
    out + &help::columns("-v, --version", "Print the version, the commit and what was built in.", 20, width)
}

pub(crate) fn build() -> String {
    let commit = option_env!("TACHO_COMMIT").filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    format!("{}{commit}", env!("CARGO_PKG_VERSION"))
}

fn version() -> String {
    let timestamps = if cfg!(target_os = "linux") { ", kernel timestamps" } else { "" };
    format!(
        "tacho {}\nparity: vllm bench 0.32.0\nfeatures: TLS, Unix sockets, simulator, offline worker{timestamps}\n\
         built for: {} {}\n",
        build(),
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
}
