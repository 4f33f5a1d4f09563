//! Suggestions for misspelled flags, commands, and values.

use tacho_args::flag::{Flag, Kind, Table};
use tacho_args::{ConfigError, UsageError, near::nearest};
use tacho_engine::Profile;
use tacho_metrics::Caveat;
use tacho_workload::sessions::Format;

use super::{migrating, topics};
use crate::args::error::{ArgError, ArgumentError};
use crate::args::program::{Command, HELP};
use crate::args::scripts;

/// The command that other tools are compared with.
const SERVE: &str = "tacho serve";

/// Download locations of dataset files.
const SOURCES: [(&str, &str); 6] = [
    ("sonnet", "the poem is benchmarks/sonnet.txt in vLLM's repository; any text of many lines will do"),
    (
        "sharegpt",
        "the usual file is ShareGPT_V3_unfiltered_cleaned_split.json of anon8231489123/ShareGPT_Vicuna_unfiltered on the Hub",
    ),
    ("burstgpt", "the usual file is BurstGPT_without_fails_2.csv of the releases of HPMLL/BurstGPT on GitHub"),
    ("servegen", "the directories are under data of alibaba/ServeGen on GitHub"),
    ("spec_bench", "the file is data/spec_bench/question.jsonl of hemingkx/Spec-Bench on GitHub"),
    ("speed_bench", "the directory is what the preparing script of nvidia/SPEED-Bench on the Hub writes"),
];

/// Where the file of a dataset is found.
pub(crate) fn source(dataset: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == dataset).map(|(_, source)| *source)
}

const PAGE: &str = "the page of a run is --report FILE.html";
const SEARCH_PAGE: &str = "every search writes its page, sla.html, into --result-dir";

/// The alternative to a flag that a command does not have.
pub(crate) fn alternative(command: &str, flag: &str) -> Option<&'static str> {
    SIMILAR_FLAGS.iter().find(|(at, known, _)| *at == command && *known == flag).map(|(_, _, here)| *here)
}

/// Flags of other commands: the command, the flag, and the alternative.
const SIMILAR_FLAGS: &[(&str, &str, &str)] = &[
    ("tacho serve", "--cost", "the price of one GPU per hour is --gpu-hour-price, their number --gpus"),
    ("tacho serve", "--price", "the price of one GPU per hour is --gpu-hour-price, their number --gpus"),
    ("tacho serve", "--html", PAGE),
    ("tacho serve", "--qps", "the arrival rate is --request-rate"),
    ("tacho serve", "--users", "users that each send one request at a time are --max-concurrency"),
    ("tacho serve", "--replicas", "name the address of each: --base-url URL,URL"),
    ("tacho capacity", "--html", SEARCH_PAGE),
    ("tacho capacity", "--report", SEARCH_PAGE),
    ("tacho capacity", "--sla-budget", "its name here is --budget"),
    ("tacho capacity", "--sla-tolerance", "its name here is --precision, in percent"),
    ("tacho capacity", "--sla-params", "write each SLO as --slo 'p99_ttft<=200ms'"),
    ("tacho capacity", "--sla-variable", "its name here is --by"),
    ("tacho plan", "--html", "the page of a plan is --plot FILE.html"),
    ("tacho sim", "--sim-profile", "tacho sim sets its speed with --profile"),
    ("tacho sim", "--base-url", "tacho sim is the server: use --host and --port, then tacho serve --base-url"),
    ("tacho sim", "--sim", "tacho sim is the simulator: remove --sim"),
    ("tacho multi-turn", "--base-url", "tacho multi-turn names the server with --url"),
    ("tacho multi-turn", "--sim", "start tacho sim, then use --url http://localhost:8000"),
    ("tacho selfcheck", "--sim", "tacho selfcheck starts its own server: remove --sim"),
];

/// Where the choices of a flag or word are listed.
const LISTS: [(&str, &str); 4] = [
    ("command", "tacho -h"),
    ("topic", "tacho help"),
    ("--backend", "tacho help backends"),
    ("--dataset-name", "tacho help datasets"),
];

/// The lines after an error: hints, or the valid values if there are many and no hint.
pub(crate) fn advice(commands: &'static [Command], error: &ArgError) -> String {
    let mut hints = hints(commands, error);
    if let (ArgError::Usage { command, error: UsageError::Unrecognized { .. } }, true) = (error, hints.is_empty()) {
        hints.push(format!("{command} --help lists the options"));
    }
    let choices = match error {
        ArgError::Usage { error, .. } | ArgError::Config(ConfigError::Usage { error, .. }) => error.many_choices(),
        _ => None,
    };
    if let (ArgError::Usage { error: UsageError::BadChoice { flag, .. }, .. }, true, true) =
        (error, hints.is_empty(), choices.is_some())
    {
        hints.extend(LISTS.iter().find(|(known, _)| known == flag).map(|(_, list)| format!("{list} lists them")));
    }
    let choices = choices.filter(|_| hints.is_empty()).map(|choices| format!("\nchoose from {choices}"));
    hints.iter().map(|hint| format!("\nhint: {hint}")).chain(choices).collect()
}

/// Hints for a rejected command line, if there are any beyond the error.
pub(crate) fn hints(commands: &'static [Command], error: &ArgError) -> Vec<String> {
    let (command, error) = match error {
        ArgError::Usage { command, error } => (*command, error),
        ArgError::Config(ConfigError::Usage { command, error, .. }) => (*command, error),
        ArgError::Refused(error) => {
            let Some(ArgumentError::Other { hint, .. }) = error.downcast_ref() else { return Vec::new() };
            return hint.iter().map(|hint| (*hint).to_owned()).collect();
        }
        ArgError::Config(_) => return Vec::new(),
    };
    let table = commands.iter().map(|row| row.table).find(|table| table.command == command);
    let hint = match (error, table) {
        (UsageError::Unrecognized { tokens }, Some(table)) => return unrecognized(table, tokens),
        (UsageError::BadChoice { value, choices, .. }, _) if command == HELP => meant_topic(commands, value, choices),
        (UsageError::BadChoice { flag, value, choices }, Some(table)) => {
            elsewhere(table, || migrating::value(flag, value))
                .or_else(|| nearest(value, choices.iter().copied()).map(|meant| format!("did you mean {meant}?")))
                .or_else(|| trace_format(flag, value))
        }
        (UsageError::BadChoice { value, .. }, None) => meant_command(commands, command, value),
        (UsageError::Ambiguous { token, .. }, Some(table)) => elsewhere(table, || migrating::flag(token, None)),
        (UsageError::Unrecognized { tokens }, None) if tokens.iter().any(|token| token == "--sim") => {
            Some("the simulator is an option of a command: tacho serve --sim".to_owned())
        }
        (UsageError::NoValue { flag } | UsageError::NoValues { flag }, Some(table)) => {
            let sign = format!("; a value that starts with - needs an equals sign: {flag}='-…'");
            titled(table, flag).map(|known| {
                format!("write {flag} {}{}", known.metavar, if known.kind == Kind::Str { &sign } else { "" })
            })
        }
        (UsageError::UnwantedValue { flag, .. }, _) => Some(format!("write {flag} without a value")),
        (UsageError::Missing { .. }, Some(_)) => Some(format!("{command} -h shows examples")),
        (UsageError::Missing { .. }, None) => Some(format!("{command} --help lists the commands")),
        (UsageError::BadValue { kind: "float" | "int", flag, value }, Some(table)) => number(table, flag, value),
        (UsageError::BadValue { kind: "loads", value, .. }, _) => tacho_core::json::parse(value)
            .err()
            .map(|fault| format!("it is not JSON: {fault}; quote the whole text, as in '{{\"key\": \"value\"}}'")),
        (UsageError::BadValue { flag, .. }, Some(table)) => titled(table, flag)
            .map(|known| format!("{command} --help={} describes its form", known.long().trim_start_matches('-'))),
        _ => None,
    };
    hint.into_iter().collect()
}

/// A hint for a trace format that was passed as a dataset.
fn trace_format(flag: &str, value: &str) -> Option<String> {
    let format = Format::named(value).ok().filter(|_| flag == "--dataset-name")?;
    Some(format!("traces are read with --sessions FILE --sessions-format {:?}", format.label()))
}

/// A hint for names of other tools, whose counterpart is `tacho serve`.
fn elsewhere(table: &'static Table, look: impl FnOnce() -> Option<String>) -> Option<String> {
    (table.command == SERVE).then(look).flatten()
}

/// Suggestions for unrecognized words; the value of an unknown flag is not a separate word.
fn unrecognized(table: &'static Table, tokens: &[String]) -> Vec<String> {
    let mut hints = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_value = at > 0 && tokens[at - 1].starts_with('-');
        if !is_value && Profile::NAMES.contains(&token.as_str()) {
            hints.push(format!("the simulator's speed is --sim-profile {token}; --profile runs the server's profiler"));
            continue;
        }
        let hint = match token.starts_with('-') {
            true => meant_flag(table, token, tokens.get(at + 1).map(String::as_str)),
            false if is_value => None,
            false => meant_word(table, token),
        };
        hints.extend(hint.filter(|hint| !hints.contains(hint)));
    }
    hints
}

fn meant_flag(table: &'static Table, token: &str, next: Option<&str>) -> Option<String> {
    let (typed, value) = token.split_once('=').map_or((token, next), |(typed, value)| (typed, Some(value)));
    if let Some(known) = elsewhere(table, || migrating::flag(typed, value)) {
        return Some(known);
    }
    if let Some(here) = alternative(table.command, typed) {
        return Some(here.to_owned());
    }
    // A single letter is close to every other.
    let typed = typed.split('.').next().filter(|typed| typed.len() > 2)?;
    let usable = table.flags.iter().filter(|flag| flag.kind.positions().is_none());
    let names = usable.flat_map(|flag| flag.names.iter().copied());
    Some(format!("did you mean {}?", nearest(typed, names)?))
}

/// Suggests an alternative for a word that is not a flag.
fn meant_word(table: &'static Table, word: &str) -> Option<String> {
    if word == "help" {
        return Some(format!("{} --help", table.command));
    }
    let is_address = word.contains("://");
    let flag = match table.command.starts_with("tacho history") {
        true => "--history",
        false if is_address => "--base-url",
        false => "--model",
    };
    let takes = (flag == "--history" || word.contains('/')) && table.find(flag).is_some();
    let use_flag = || match is_address {
        true => format!("each address has its own {flag}: {flag} {word}"),
        false => format!("use {flag} {word}"),
    };
    elsewhere(table, || migrating::stray(word)).or_else(|| takes.then(use_flag))
}

fn number(table: &'static Table, title: &str, value: &str) -> Option<String> {
    let has_unit = value.starts_with(|c: char| c.is_ascii_digit()) && value.ends_with(char::is_alphabetic);
    let what = match titled(table, title)?.kind {
        Kind::Seconds => "seconds without a unit: 90 for a minute and a half",
        Kind::Int if has_unit => "a whole number without a unit",
        Kind::Int => "a whole number",
        _ if has_unit => "the number without a unit",
        _ => "a number",
    };
    Some(format!("use {what}"))
}

/// The flag of an error's title.
fn titled(table: &'static Table, title: &str) -> Option<&'static Flag> {
    table.flags.iter().find(|flag| flag.title() == title)
}

fn meant_topic(commands: &'static [Command], word: &str, choices: &[&'static str]) -> Option<String> {
    let codes = Caveat::CODES.iter().map(|(code, _)| *code);
    if let Some(meant) = nearest(word, choices.iter().copied().chain(codes)) {
        return Some(format!("did you mean {HELP} {meant}?"));
    }
    let table = commands.iter().map(|row| row.table).find(|table| table.command == SERVE)?;
    let named = table.flags.iter().any(|flag| flag.long().contains(word));
    named.then(|| format!("{SERVE} --help={word} shows the options of that name"))
}

/// Suggests a command for a word: one that is valid here, or a subcommand of another.
fn meant_command(commands: &'static [Command], at: &str, word: &str) -> Option<String> {
    match word {
        "version" => return Some("tacho --version".to_owned()),
        _ if topics::find(word).is_some() => return Some(format!("{HELP} {word}")),
        _ => {}
    }
    let before = at.strip_prefix("tacho").unwrap_or_default().trim_start();
    let spellings = || commands.iter().flat_map(|command| command.spellings.iter().copied());
    let here = spellings().filter_map(|spelling| spelling.strip_prefix(before)?.trim_start().split(' ').next());
    if let Some(meant) = nearest(word, here) {
        return Some(format!("did you mean {at} {meant}?"));
    }
    let last = |spelling: &'static str| spelling.rsplit(' ').next().unwrap_or(spelling);
    let below = nearest(word, spellings().map(last)).and_then(|meant| spellings().find(|one| last(one) == meant));
    let script = || scripts::command(&format!("benchmark_{word}")).map(|words| words.join(" "));
    match below.map(str::to_owned).or_else(script) {
        Some(meant) => Some(format!("did you mean tacho {meant}?")),
        None => migrating::command(word),
    }
}
