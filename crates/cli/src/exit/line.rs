//! The text of an error: its causes, in one line if they are short, and the flag whose file it is about.

use std::path::Path;

use tacho_args::command::find;
use tacho_args::flag::{Flag, Kind};

use crate::commands::COMMANDS;

/// Longer causes have lines of their own.
const WIDE: usize = 130;

/// Texts of the operating system, and what is shown instead.
const PLAIN: [(&str, &str); 4] = [
    ("No such file or directory (os error 2)", "no such file or directory"),
    ("Is a directory (os error 21)", "it is a directory: pass a file"),
    ("Not a directory (os error 20)", "it is a file: pass a directory"),
    ("File exists (os error 17)", "it is a file: pass a directory"),
];

pub(super) fn text(error: &anyhow::Error, args: &[String]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain().map(|cause| plain(&cause.to_string())) {
        let name = flag(&cause, args).map_or("", |(name, _)| name);
        let is_named = !name.is_empty() && lines.iter().any(|line| names(line, name));
        let named = if is_named { cause.clone() } else { named(&cause, args) };
        match lines.last_mut() {
            Some(line) if line.contains(&cause) => {}
            Some(line) if line.len() + named.len() < WIDE => *line += &format!(": {named}"),
            Some(_) => lines.push(format!("caused by: {named}")),
            None => lines.push(format!("error: {named}")),
        }
    }
    lines.join("\n")
}

/// A message with the flag that it is about.
pub(super) fn named(text: &str, args: &[String]) -> String {
    let text = plain(text);
    match flag(&text, args) {
        Some((flag, value)) if text.starts_with(value) => format!("{flag} {text}"),
        Some((flag, _)) => format!("{flag}: {text}"),
        None => text,
    }
}

fn plain(text: &str) -> String {
    PLAIN.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The flag or positional argument that has a file, directory or address of the error as its value, unless the error
/// names it.
fn flag<'w>(text: &str, args: &'w [String]) -> Option<(&'static str, &'w str)> {
    let (command, args) = find(COMMANDS, args)?;
    let positional = command.table.flags.iter().find(|flag| flag.kind.positions().is_some());
    let mut positions = positional.into_iter().flat_map(|flag| flag.long().split(' ')).cycle();
    let mut last: Option<&'static Flag> = None;
    for word in args {
        let (name, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((name, value)) => (name, Some(value)),
            None if word.starts_with('-') => (word.as_str(), None),
            None => ("", Some(word.as_str())),
        };
        if !name.is_empty() {
            last = command.table.find(&name.replace('_', "-"));
        }
        let takes = |flag: &&Flag| !matches!(flag.kind, Kind::Switch | Kind::TriState | Kind::Help);
        if let Some(value) = value {
            let known = last.filter(takes);
            let Some(name) = known.map_or_else(|| positions.next(), |flag| Some(flag.long())) else { continue };
            let is_file = known.is_some_and(|flag| {
                ["FILE", "DIR", "PATH"].contains(&flag.metavar) || flag.long().ends_with("profile")
            });
            let ending = Path::new(value).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            let has_ending = value.contains('/') || ending.starts_with(char::is_alphabetic);
            let is_missing = || {
                text.strip_prefix(value).is_some_and(|rest| rest.starts_with(" does not exist: "))
                    || text.strip_suffix(value).is_some_and(|rest| rest.ends_with("cannot read "))
            };
            let is_path = is_file || has_ending || Path::new(value).exists() || is_missing();
            // A positional argument that is not what the text is about may be anywhere in it.
            let is_subject = known.is_some() || text.starts_with(value) || text.ends_with(value);
            if is_path && is_subject && names(text, value) && !names(text, name) {
                return Some((name, value));
            }
            last = last.filter(|flag| matches!(flag.kind, Kind::OneOrMore | Kind::AnyNumber | Kind::Repeated));
        }
    }
    None
}

/// Whether the text has `word`, and not as a part of a longer one. A name without a dot may be a common word, except at
/// the start or end and in quotes.
fn names(text: &str, word: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || "/-_".contains(c);
    let ends = |rest: &str| !rest.trim_start_matches('.').starts_with(is_inside);
    let is_clear = |at: usize| {
        word.contains(['.', '/', '-']) || at == 0 || at + word.len() == text.len() || text[..at].ends_with('"')
    };
    let found = |at: usize| is_clear(at) && !text[..at].ends_with(is_inside) && ends(&text[at + word.len()..]);
    !word.is_empty() && text.match_indices(word).any(|(at, _)| found(at))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn shown(args: &str, first: &str, cause: Option<&'static str>) -> String {
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        let error = match cause {
            Some(cause) => anyhow::Error::new(io::Error::other(cause)).context(first.to_owned()),
            None => anyhow::anyhow!("{first}"),
        };
        text(&error, &args)
    }

    #[test]
    fn the_flag_of_a_file_is_named() {
        let missing = Some(PLAIN[0].0);
        let found = shown("serve --dataset-path a.json --sim", "cannot read a.json", missing);
        assert_eq!(found, "error: --dataset-path: cannot read a.json: no such file or directory");
        let found = shown("sweep serve --bench-params=a.json", "a.json: not JSON", None);
        assert_eq!(found, "error: --bench-params a.json: not JSON");
        let found = shown("serve --ca-file a.pem", "--ca-file a.pem: no certificate", None);
        assert_eq!(found, "error: --ca-file a.pem: no certificate");
    }

    #[test]
    fn positional_arguments_are_named_and_other_words_are_not() {
        assert_eq!(shown("reproduce --sim a.zip", "a.zip: broken", None), "error: BUNDLE a.zip: broken");
        assert_eq!(shown("gate a b.json", "b.json: broken", None), "error: NEW b.json: broken");
        let missing = "no does not exist: pass a file";
        assert_eq!(shown("gate no b", missing, None), format!("error: BASE {missing}"));
        assert_eq!(shown("serve --seed 1.5", "1.5 s passed", None), "error: 1.5 s passed");
        assert_eq!(shown("serve --result-dir a", "a.json: broken", None), "error: a.json: broken");
        assert_eq!(shown("serve --log run", "the run failed", None), "error: the run failed");
        let profile = "unknown profile \"nope\": use a file";
        assert_eq!(shown("sim --profile nope", profile, None), format!("error: --profile: {profile}"));
        assert_eq!(shown("serve --log run", "cannot read run", None), "error: --log: cannot read run");
    }

    #[test]
    fn long_causes_have_their_own_lines() {
        let long = shown("serve", &"x".repeat(WIDE), Some("y"));
        assert!(long.ends_with("x\ncaused by: y"), "{long}");
    }
}
