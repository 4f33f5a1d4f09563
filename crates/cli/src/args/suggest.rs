//! Did you mean: what a mistyped flag, command or value was probably meant to be.

use super::command::{Command, HELP};
use super::error::{ArgError, ConfigError, UsageError};
use super::flag::{Kind, Table};

/// Flags of vLLM's Rust client that are commands here: how they begin, and what does it.
const ELSEWHERE: [(&str, &str); 2] = [
    ("--compare", "results are compared by tacho compare FILE FILE"),
    ("--sweep-", "several loads are run by tacho sweep serve_workload, or by tacho sweep serve with --bench-params"),
];

/// What to do about a command line that was refused, where there is something to say beyond the refusal.
pub(crate) fn hint(commands: &'static [Command], error: &ArgError) -> Option<String> {
    let (command, error) = match error {
        ArgError::Usage { command, error } => (*command, error),
        ArgError::Config(ConfigError::Usage { command, error, .. } | ConfigError::Variable { command, error }) => {
            (*command, error)
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
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(begun, _)| typed.starts_with(begun)) {
        return Some((*instead).to_owned());
    }
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

/// The candidate that a word is probably a slip of: a few letters off, or begun and not ended.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let word = plain(word);
    let allowed = (word.trim_start_matches('-').chars().count() / 3).clamp(1, 3);
    let ranked = candidates.into_iter().filter_map(|candidate| {
        let other = plain(candidate);
        let begun = word.len() >= 5 && other.starts_with(&word);
        let off = if begun { 1 } else { distance(&word, &other) };
        (off <= allowed).then_some((off, candidate))
    });
    // The first of several equally near: tables list the common ones first.
    ranked.min_by_key(|(off, _)| *off).map(|(_, candidate)| candidate)
}

/// Letters to insert, drop, change or swap with their neighbour until the one text is the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<_>>()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = rows[i][j] + usize::from(a != b);
            let mut best = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_undone_and_strangers_are_not() {
        let words = ["serve", "sweep", "sim", "sharegpt", "random", "--num-prompts", "--sim-profile"];
        for (typed, meant) in [
            ("srve", Some("serve")),
            ("sevre", Some("serve")),
            ("sharegptt", Some("sharegpt")),
            ("SHARE_GPT", Some("sharegpt")),
            ("--num-promts", Some("--num-prompts")),
            ("--num_prompts", Some("--num-prompts")),
            ("--sim-p", Some("--sim-profile")),
            ("nope", None),
            ("--bogus", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, words), meant, "{typed}");
        }
    }
}
