//! Help texts, made from the tables. Plain text, at most 100 columns wide.

use super::flag::{Flag, Group, Kind, Preset, Table};
use super::repr::repr;

/// Lines are broken here.
pub(crate) const WIDTH: usize = 100;

const JSON_NOTE: &str = "\
JSON options can be given in parts: --extra-body.a.b 1 is --extra-body '{\"a\": {\"b\": 1}}', and
--extra-body.l+ x,y makes a list. Options may be abbreviated as long as they stay unique (tacho's
own may not), written with _ for -, and read from a YAML file with --config FILE.yaml.";

/// The help on a topic: none lists all flags in a line each, `all` explains them.
pub(crate) fn help(table: &Table, topic: Option<&str>) -> String {
    let topic = topic.map(str::to_lowercase);
    match topic.as_deref() {
        None => overview(table),
        Some("all") => everything(table),
        Some(topic) => section(table, topic).unwrap_or_else(|| search(table, topic)),
    }
}

fn overview(table: &Table) -> String {
    let mut out = heading(table);
    for (command, what) in table.examples {
        out += &format!("  {command}\n      {what}\n");
    }
    for group in table.groups {
        out += &format!("\n{}: {}\n", group.title, group.about);
        let flags = flags_of(table, |known| known == *group);
        let column = flags.iter().map(|flag| synopsis(flag, false).len()).max().unwrap_or(0);
        for flag in flags {
            out += &format!("  {:column$}  {}\n", synopsis(flag, false), brief(flag));
        }
    }
    let command = table.command;
    out + &format!(
        "\nEvery option in full:   {command} --help=all\n\
         One section:            {command} --help='{}'\n\
         Options by name:        {command} --help=len\n",
        table.groups[0].title
    )
}

fn everything(table: &Table) -> String {
    let mut out = heading(table);
    for group in table.groups {
        out += "\n";
        out += &explained(group.title, group.about, &flags_of(table, |known| known == *group));
    }
    out + &footer(table)
}

/// The group of that title: ours, or all of ours that make up one of vLLM's.
fn section(table: &Table, topic: &str) -> Option<String> {
    let titled = |title: &str| title.to_lowercase() == topic;
    if let Some(group) = table.groups.iter().find(|group| titled(group.title)) {
        return Some(explained(group.title, group.about, &flags_of(table, |known| known == *group)) + &footer(table));
    }
    let flags = flags_of(table, |group| titled(group.vllm_title));
    (!flags.is_empty()).then(|| explained(topic, "", &flags) + &footer(table))
}

fn search(table: &Table, topic: &str) -> String {
    let wanted = topic.replace('_', "-");
    let mut flags = flags_of(table, |_| true);
    flags.retain(|flag| flag.names.iter().any(|name| name.to_lowercase().contains(&wanted)));
    if flags.is_empty() {
        return format!(
            "No group or arguments matching '{topic}'.\n\
             Use '--help' to see available groups or '--help=all' to see all available parameters.\n"
        );
    }
    explained(&format!("Arguments matching '{topic}'"), "", &flags) + &footer(table)
}

fn heading(table: &Table) -> String {
    format!("usage: {} [options]\n\n{}\n\n", table.command, table.about)
}

fn footer(table: &Table) -> String {
    if table.flags.iter().any(|flag| flag.is_usable() && flag.kind == Kind::Json) {
        format!("\n{JSON_NOTE}\n")
    } else {
        String::new()
    }
}

/// The flags of the groups wanted, by name.
fn flags_of(table: &Table, wanted: impl Fn(&'static Group) -> bool) -> Vec<&'static Flag> {
    let shown = |flag: &&Flag| flag.is_usable() && flag.kind != Kind::Help && wanted(flag.group);
    let mut flags: Vec<&'static Flag> = table.flags.iter().filter(shown).collect();
    flags.sort_by_key(|flag| flag.names[0]);
    flags
}

fn explained(title: &str, about: &str, flags: &[&Flag]) -> String {
    let mut out = if about.is_empty() { format!("{title}:\n") } else { format!("{title}: {about}\n") };
    for flag in flags {
        out += &format!("  {}\n", synopsis(flag, true));
        let mut text = flag.help.to_owned();
        if let (Kind::Choice(choices), None) = (flag.kind, spelled_choices(flag)) {
            text += &format!(" One of {}.", choices.join(", "));
        }
        if let Some(preset) = preset(flag) {
            text += &format!(" (default: {preset})");
        }
        for line in wrapped(&text, WIDTH - 8) {
            out += &format!("        {line}\n");
        }
    }
    out
}

/// The first sentence and the default, for one line.
fn brief(flag: &Flag) -> String {
    let sentence = flag.help.split_once(". ").map_or(flag.help, |(first, _)| first).trim_end_matches('.');
    match preset(flag) {
        Some(preset) => format!("{sentence} [{preset}]"),
        None => sentence.to_owned(),
    }
}

/// The default, where there is one to speak of.
fn preset(flag: &Flag) -> Option<String> {
    match flag.preset {
        Preset::Unset | Preset::Off => None,
        Preset::Str(text) => Some(text.to_owned()),
        Preset::Made(_, described) => Some(described.to_owned()),
        other => Some(repr(&other.value())),
    }
}

/// The option with its choices, if they fit on a line.
fn spelled_choices(flag: &Flag) -> Option<String> {
    let Kind::Choice(choices) = flag.kind else { return None };
    Some(format!("{} {{{}}}", flag.names.join(", "), choices.join(","))).filter(|line| line.len() + 2 <= WIDTH)
}

/// The option and what follows it; choices are spelled out in full help.
fn synopsis(flag: &Flag, full: bool) -> String {
    let names = flag.names.join(", ");
    let value = flag.metavar;
    match flag.kind {
        Kind::Help | Kind::Switch | Kind::TriState => names,
        Kind::Choice(_) if full => spelled_choices(flag).unwrap_or_else(|| format!("{names} {value}")),
        Kind::AnyNumber => format!("{names} [{value} ...]"),
        Kind::OneOrMore => format!("{names} {value} [{value} ...]"),
        _ => format!("{names} {value}"),
    }
}

/// The text in lines of at most `width` characters, broken at blanks.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
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
