//! Help texts, made from the tables. Plain text, at most 100 columns wide.

use super::flag::{Flag, Group, Kind, Preset, Table};
use super::repr::repr;

/// Lines are broken here.
pub(crate) const WIDTH: usize = 100;

/// Options longer than this have their sentence below them.
const COLUMN: usize = 40;

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
        let column = flags.iter().map(|flag| synopsis(flag, false).len()).max().unwrap_or(0).min(COLUMN);
        for flag in flags {
            out += &columns(&synopsis(flag, false), &brief(flag), column);
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

/// An option and its sentence beside it; what is too long for a line goes on below.
fn columns(synopsis: &str, text: &str, column: usize) -> String {
    let mut lines = wrapped(text, WIDTH - column - 4);
    let first = if synopsis.len() > column || lines.is_empty() { String::new() } else { lines.remove(0) };
    let mut out = format!("  {synopsis:column$}  {first}").trim_end().to_owned() + "\n";
    for line in lines {
        out += &format!("  {:column$}  {line}\n", "");
    }
    out
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
    let rest = table.flags.iter().find(|flag| flag.kind == Kind::Rest);
    let rest = rest.map_or_else(String::new, |flag| format!(" {}", flag.metavar));
    format!("usage: {}{rest} [options]\n\n{}\n\n", table.command, table.about)
}

fn footer(table: &Table) -> String {
    if table.flags.iter().any(|flag| flag.kind == Kind::Json) { format!("\n{JSON_NOTE}\n") } else { String::new() }
}

/// The flags of the groups wanted, by name.
fn flags_of(table: &Table, wanted: impl Fn(&'static Group) -> bool) -> Vec<&'static Flag> {
    let shown = |flag: &&Flag| !flag.is_passed_on() && flag.kind != Kind::Help && wanted(flag.group);
    let mut flags: Vec<&'static Flag> = table.flags.iter().filter(shown).collect();
    flags.sort_by_key(|flag| flag.names[0]);
    flags
}

fn explained(title: &str, about: &str, flags: &[&Flag]) -> String {
    let mut out = if about.is_empty() { format!("{title}:\n") } else { format!("{title}: {about}\n") };
    for flag in flags {
        let full = synopsis(flag, true);
        let fits = full.len() + 2 <= WIDTH;
        out += &format!("  {}\n", if fits { full } else { synopsis(flag, false) });
        let mut text = flag.help.to_owned();
        if let (Kind::Choice(choices), false) = (flag.kind, fits) {
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
        // What the engine makes itself cannot be shown.
        Preset::Str(text) if text.starts_with('<') => None,
        Preset::Str(text) => Some(text.to_owned()),
        Preset::Made(_, described) => Some(described.to_owned()),
        other => Some(repr(&other.value())),
    }
}

/// The option and what follows it; choices are spelled out in full help.
fn synopsis(flag: &Flag, full: bool) -> String {
    let names = flag.names.join(", ");
    let value = flag.metavar;
    match flag.kind {
        Kind::Help | Kind::Switch | Kind::TriState => names,
        // Where the names do not fit in a line, the explanation has them.
        Kind::Choice(choices) if full && choices.join(",").len() < WIDTH / 2 => {
            format!("{names} {{{}}}", choices.join(","))
        }
        Kind::OptionalStr => format!("{names} [{value}]"),
        Kind::AnyNumber => format!("{names} [{value} ...]"),
        Kind::OneOrMore | Kind::Repeated => format!("{names} {value} [{value} ...]"),
        Kind::Rest => names,
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
