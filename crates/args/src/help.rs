//! Help texts generated from the tables: plain text, wrapped to the screen.

use super::flag::{DefaultValue, Flag, Group, Kind, Table};
use super::{grammar::Wanted, repr::repr};

const JSON_NOTE: &str = "\
JSON options can be set in parts: --extra-body.a.b 1 is --extra-body '{\"a\": {\"b\": 1}}', and --extra-body.l+ x,y makes \
a list. vLLM's options may be abbreviated as long as they stay unique; tacho's may not. All may be written with _ for -, read \
from a YAML file with --config FILE.yaml, and from variables: TACHO_SEED=1 is --seed 1. The command line overrides \
variables, and they override the file.";

pub fn help(table: &Table, wanted: &Wanted, width: usize) -> String {
    match wanted {
        Wanted::Basics => basics(table, width),
        Wanted::Overview => overview(table, width),
        Wanted::Topic(topic) => match topic.to_lowercase().as_str() {
            "all" => everything(table, width),
            topic => section(table, topic, width).unwrap_or_else(|| search(table, topic, width)),
        },
    }
}

pub const SCREEN: usize = 50;

/// One screen: the most common options, or the first sections that fit, and how to list the others.
fn basics(table: &Table, width: usize) -> String {
    let mut out = heading(table, width);
    for (command, what) in table.examples {
        out += &example(command, what, width);
    }
    let ways = ways(table, width);
    if !table.basics.is_empty() {
        let flags: Vec<&Flag> = table.basics.split_whitespace().filter_map(|name| table.find(name)).collect();
        return out + &format!("\noptions used most:\n{}{ways}", listed(&flags, width, clause));
    }
    let mut left_out = Vec::new();
    let more = |left_out: &[&str]| match left_out {
        [] => String::new(),
        _ => format!("\n{}\n", paragraph(&format!("further sections: {}", left_out.join(", ")), width)),
    };
    for group in table.groups {
        let flags = flags_of(table, |known| known == *group);
        let section = format!("\n{}:\n{}", group.title, listed(&flags, width, clause));
        let used: usize = [&out, &section, &ways].iter().map(|text| text.lines().count()).sum();
        // Three lines are for the names of the sections that are left out.
        match flags.is_empty() || used + 3 > SCREEN {
            false => out += &section,
            true if flags.is_empty() => {}
            true => left_out.push(group.title),
        }
    }
    out + &more(&left_out) + &ways
}

/// Every option, one line each.
fn overview(table: &Table, width: usize) -> String {
    let mut out = heading(table, width);
    for (command, what) in table.examples {
        out += &example(command, what, width);
    }
    for group in table.groups {
        let flags = flags_of(table, |known| known == *group);
        if !flags.is_empty() {
            out += &format!("\n{}\n", paragraph(&format!("{}: {}", group.title, group.about), width));
            out += &listed(&flags, width, |flag, _| brief(flag));
        }
    }
    out + &ways(table, width)
}

/// Flags and their descriptions for a number of columns.
fn listed(flags: &[&Flag], width: usize, described: fn(&Flag, usize) -> String) -> String {
    let lengths: Vec<usize> = flags.iter().map(|flag| synopsis(flag, None).len()).collect();
    let list = |column: usize| -> String {
        let row = |flag: &&Flag| columns(&synopsis(flag, None), &described(flag, width - column - 4), column, width);
        flags.iter().map(row).collect()
    };
    // The column that needs the fewest lines; a longer flag has a line of its own.
    let lists = lengths.iter().filter(|length| **length <= width * 2 / 5).map(|length| list(*length));
    lists.min_by_key(|list| list.lines().count()).unwrap_or_else(|| list(width / 4))
}

fn ways(table: &Table, width: usize) -> String {
    let command = table.command;
    let shown = |group: &&&Group| !flags_of(table, |known| known == **group).is_empty();
    let section = table.groups.iter().find(shown).map_or("all", |group| group.title);
    let section = section.strip_suffix(" options").unwrap_or(section);
    let quoted = if section.contains(' ') { format!("'{section}'") } else { section.to_owned() };
    let ways = [
        ("Every option", format!("{command} --help")),
        ("Every option in full", format!("{command} --help=all")),
        ("A section, or a name", format!("{command} --help={quoted}")),
    ];
    std::iter::once("\n".to_owned()).chain(ways.iter().map(|(what, how)| columns(what, how, 20, width))).collect()
}

/// An example command line and its description. A long command continues on the next line with a backslash.
pub fn example(command: &str, what: &str, width: usize) -> String {
    let lines = wrapped(&glued(command), width.saturating_sub(8)).join(" \\\n      ").replace(GLUE, " ");
    let what: String = wrapped(what, width.saturating_sub(6)).iter().map(|line| format!("      {line}\n")).collect();
    format!("  {lines}\n{what}")
}

/// A space that does not end a line.
const GLUE: char = '\u{1}';

/// The command with each flag bound to its value.
fn glued(command: &str) -> String {
    let mut is_flag = false;
    let glue = |word: &str| {
        let space = if is_flag && !word.starts_with('-') { GLUE } else { ' ' };
        is_flag = word.starts_with('-');
        format!("{space}{word}")
    };
    command.split(' ').map(glue).collect::<String>().trim_start().to_owned()
}

pub fn paragraph(text: &str, width: usize) -> String {
    wrapped(text, width).join("\n")
}

/// An option and its description in two columns, both wrapped.
pub fn columns(synopsis: &str, text: &str, column: usize, width: usize) -> String {
    // A word wider than its column takes space from the other column.
    let longest = text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    let column = column.min(width.saturating_sub(4 + longest));
    let mut lines = wrapped(text, width - column - 4);
    let first = if synopsis.len() > column || lines.is_empty() { String::new() } else { lines.remove(0) };
    let mut out = format!("  {synopsis:column$}  {first}").trim_end().to_owned() + "\n";
    for line in lines {
        out += &format!("  {:column$}  {line}\n", "");
    }
    out
}

fn everything(table: &Table, width: usize) -> String {
    let mut out = heading(table, width);
    for group in table.groups {
        let flags = flags_of(table, |known| known == *group);
        if !flags.is_empty() {
            out += "\n";
            out += &explained(group.title, group.about, &flags, width);
        }
    }
    out + &footer(table, width)
}

/// The section with this title: tacho's, all of tacho's that make up one of vLLM's, or all whose titles contain the
/// word.
fn section(table: &Table, topic: &str, width: usize) -> Option<String> {
    let is_ours = |group: &Group| group.title.to_lowercase() == topic;
    let is_vllms = |group: &Group| group.vllm_title.to_lowercase() == topic;
    let speaks_of = |group: &Group| {
        let titles = [group.title, group.vllm_title].map(str::to_lowercase);
        titles.iter().any(|title| title.split(' ').any(|word| word == topic))
    };
    let found = |wanted: &dyn Fn(&Group) -> bool| -> Vec<&'static Group> {
        table.groups.iter().copied().filter(|group| wanted(group)).collect()
    };
    let begins = |group: &Group| group.title.to_lowercase().strip_suffix(" options") == Some(topic);
    let ways: [&dyn Fn(&Group) -> bool; 4] = [&is_ours, &is_vllms, &speaks_of, &begins];
    let groups = ways.into_iter().map(found).find(|groups| !groups.is_empty())?;
    let mut out = String::new();
    for group in groups {
        let flags = flags_of(table, |known| known == group);
        let separator = if out.is_empty() { "" } else { "\n" };
        out += &format!("{separator}{}", explained(group.title, group.about, &flags, width));
    }
    Some(out + &footer(table, width))
}

fn search(table: &Table, topic: &str, width: usize) -> String {
    let wanted = topic.replace('_', "-");
    let mut flags = flags_of(table, |_| true);
    let is_named = |flag: &&Flag| flag.names.iter().any(|name| name.to_lowercase().contains(&wanted));
    match flags.iter().any(is_named) {
        true => flags.retain(is_named),
        false => flags.retain(|flag| flag.help.to_lowercase().contains(topic)),
    }
    if flags.is_empty() {
        let none = paragraph(&format!("No group or arguments matching '{topic}'."), width);
        let other = "Use '--help' to see available groups or '--help=all' to see all available parameters.";
        return format!("{none}\n{}\n", paragraph(other, width));
    }
    explained(&format!("Arguments matching '{topic}'"), "", &flags, width) + &footer(table, width)
}

fn heading(table: &Table, width: usize) -> String {
    let rest = table.flags.iter().find(|flag| flag.kind.positions().is_some());
    let rest = rest.map_or_else(String::new, |flag| format!(" {}", flag.metavar));
    format!("usage: {}{rest} [options]\n\n{}\n\n", table.command, paragraph(table.about, width))
}

fn footer(table: &Table, width: usize) -> String {
    let has_json = table.flags.iter().any(|flag| flag.kind == Kind::Json);
    if has_json { format!("\n{}\n", paragraph(JSON_NOTE, width)) } else { String::new() }
}

/// The flags of the selected groups: positional and required ones, the most important, the others, aliases.
pub fn flags_of(table: &Table, wanted: impl Fn(&'static Group) -> bool) -> Vec<&'static Flag> {
    let shown = |flag: &&Flag| {
        !flag.is_passed_on() && !flag.has(table.rejected) && flag.kind != Kind::Help && wanted(flag.group)
    };
    let mut flags: Vec<&'static Flag> = table.flags.iter().filter(shown).collect();
    flags.sort_by_key(|flag| {
        let first = flag.group.first;
        let at = first.iter().position(|name| flag.names.contains(name)).unwrap_or(first.len());
        (flag.is_alias(), flag.kind.positions().is_none(), !flag.required, at)
    });
    flags
}

fn explained(title: &str, about: &str, flags: &[&Flag], width: usize) -> String {
    let head = if about.is_empty() { format!("{title}:") } else { format!("{title}: {about}") };
    let mut out = paragraph(&head, width) + "\n";
    for flag in flags {
        let full = synopsis(flag, Some(width));
        let fits = full.len() + 2 <= width;
        out += &format!("  {}\n", if fits { full } else { synopsis(flag, None) });
        for line in wrapped(&described(flag, !fits), width - 8) {
            out += &format!("        {line}\n");
        }
    }
    out
}

/// The full description of a flag, its choices if the synopsis does not list them, and its default.
pub fn described(flag: &Flag, with_choices: bool) -> String {
    let mut text = flag.help.to_owned();
    if flag.required && flag.kind.positions().is_none() {
        text += " Required.";
    }
    if let (Kind::Choice(choices) | Kind::ChoiceOrFile(choices, _), true) = (flag.kind, with_choices) {
        text += &format!(" One of {}.", choices.join(", "));
    }
    match preset(flag) {
        Some(preset) => text + &format!(" (default: {preset})"),
        None => text,
    }
}

/// The first sentence and the default, for one line.
pub fn brief(flag: &Flag) -> String {
    match preset(flag) {
        Some(preset) => format!("{} [{preset}]", sentence(flag)),
        None if flag.required && flag.kind.positions().is_none() => format!("{} (required)", sentence(flag)),
        None => sentence(flag).to_owned(),
    }
}

/// As much of the first sentence, up to the end of a clause, as fits into one line with the default.
fn clause(flag: &Flag, width: usize) -> String {
    let whole = brief(flag);
    let default = whole.strip_prefix(sentence(flag)).unwrap_or_default();
    let sentence = sentence(flag);
    let fits = |text: &&str| text.chars().count() + default.chars().count() <= width;
    if fits(&sentence) {
        return whole;
    }
    let is_outside = |text: &&str| text.matches('(').count() == text.matches(')').count();
    let longest = |ends: &[char]| {
        let is_end = |at: usize| !sentence[at + 1..].starts_with('/');
        let texts = sentence.match_indices(ends).filter(|(at, _)| is_end(*at)).map(|(at, _)| sentence[..at].trim_end());
        texts.rev().filter(is_outside).find(fits)
    };
    // A comma may stand within a clause.
    longest(&[':', ';', '(']).or_else(|| longest(&[','])).map_or(whole.clone(), |text| format!("{text}{default}"))
}

pub fn sentence(flag: &Flag) -> &'static str {
    flag.help.split_once(". ").map_or(flag.help, |(first, _)| first).trim_end_matches('.')
}

/// The default, if it is worth showing.
fn preset(flag: &Flag) -> Option<String> {
    let text = match flag.default {
        DefaultValue::Unset | DefaultValue::Off => return None,
        // A value generated by the engine cannot be shown.
        DefaultValue::Str(text) if text.starts_with('<') => return None,
        DefaultValue::Str(text) => text.to_owned(),
        DefaultValue::Made(_, described) => described.to_owned(),
        other => repr(&other.value()),
    };
    Some(text).filter(|text| !matches!(text.as_str(), "" | "[]" | "{}"))
}

/// The option and its placeholder; the full help lists choices if they fit.
pub fn synopsis(flag: &Flag, full: Option<usize>) -> String {
    let names = flag.names.join(", ");
    let value = flag.metavar;
    match flag.kind {
        Kind::Help | Kind::Switch | Kind::TriState => names,
        // If the names do not fit in a line, the description lists them.
        Kind::Choice(choices) if full.is_some_and(|width| choices.join(",").len() < width / 2) => {
            format!("{names} {{{}}}", choices.join(","))
        }
        Kind::OptionalStr => format!("{names} [{value}]"),
        Kind::AnyNumber => format!("{names} [{value} ...]"),
        Kind::OneOrMore | Kind::Repeated => format!("{names} {value} [{value} ...]"),
        Kind::Rest(_) => names,
        _ => format!("{names} {value}"),
    }
}

/// Wraps the text at spaces to lines of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
