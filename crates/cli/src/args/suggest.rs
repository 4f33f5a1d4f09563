//! Did you mean: what a mistyped flag, command or value was probably meant to be.

use super::command::{Command, HELP};
use super::error::{ArgError, ConfigError, Refusal, UsageError};
use super::flag::{Kind, Table};
use super::near::nearest;

/// Where the files of datasets are to be had.
const SOURCES: [(&str, &str); 5] = [
    ("sonnet", "the poem is benchmarks/sonnet.txt in vLLM's repository; any text of many lines will do"),
    (
        "sharegpt",
        "the usual file is ShareGPT_V3_unfiltered_cleaned_split.json of anon8231489123/ShareGPT_Vicuna_unfiltered on the Hub",
    ),
    ("burstgpt", "the usual file is BurstGPT_without_fails_2.csv of the releases of HPMLL/BurstGPT on GitHub"),
    ("spec_bench", "the file is data/spec_bench/question.jsonl of hemingkx/Spec-Bench on GitHub"),
    ("speed_bench", "the folder is what the preparing script of nvidia/SPEED-Bench on the Hub writes"),
];

/// What to do about a command line that was refused, where there is something to say beyond the refusal.
pub(crate) fn hint(commands: &'static [Command], error: &ArgError) -> Option<String> {
    let (command, error) = match error {
        ArgError::Usage { command, error } => (*command, error),
        ArgError::Config(ConfigError::Usage { command, error, .. }) => (*command, error),
        ArgError::Refused(Refusal::PathMissing { name }) => {
            return SOURCES.iter().find(|(known, _)| known == name).map(|(_, source)| (*source).to_owned());
        }
        _ => return None,
    };
    let table = commands.iter().map(|row| row.table).find(|table| table.command == command);
    match error {
        UsageError::Unrecognized { tokens } => tokens.iter().find_map(|token| meant_flag(table?, token)),
        UsageError::BadChoice { value, choices, .. } if command == HELP => {
            nearest(value, choices.iter().copied()).map(|meant| format!("did you mean {HELP} {meant}?"))
        }
        UsageError::BadChoice { value, choices, .. } => match table {
            Some(_) => nearest(value, choices.iter().copied()).map(|meant| format!("did you mean {meant}?")),
            None => meant_command(commands, command, value),
        },
        UsageError::BadValue { kind: "loads", value, .. } => tacho_core::json::parse(value)
            .err()
            .map(|fault| format!("it is not JSON: {fault}; quote the whole text, as in '{{\"key\": \"value\"}}'")),
        _ => None,
    }
}

/// The flag that a word was meant to be.
fn meant_flag(table: &'static Table, token: &str) -> Option<String> {
    let typed = token.split('=').next().filter(|typed| typed.starts_with('-'))?.split('.').next()?;
    let usable = table.flags.iter().filter(|flag| flag.kind != Kind::Rest);
    let names = usable.flat_map(|flag| flag.names.iter().copied());
    Some(format!("did you mean {}?", nearest(typed, names)?))
}

/// The command that a word was meant to be: one that can stand here, or one that stands below other words.
fn meant_command(commands: &'static [Command], at: &str, word: &str) -> Option<String> {
    let before = at.strip_prefix("tacho").unwrap_or_default().trim_start();
    let spellings = || commands.iter().flat_map(|command| command.spellings.iter().copied());
    let here = spellings().filter_map(|spelling| spelling.strip_prefix(before)?.trim_start().split(' ').next());
    if let Some(meant) = nearest(word, here) {
        return Some(format!("did you mean {at} {meant}?"));
    }
    let last = |spelling: &'static str| spelling.rsplit(' ').next().unwrap_or(spelling);
    let meant = nearest(word, spellings().map(last))?;
    let spelling = spellings().find(|spelling| last(spelling) == meant)?;
    Some(format!("did you mean tacho {spelling}?"))
}
