//! Markdown reference of all commands and flags: an index, and a page per command.

use crate::command::Command;
use crate::flag::{Flag, Table};
use crate::help::{described, flags_of, synopsis};

pub fn index<P>(commands: &[Command<P>]) -> String {
    let mut out = String::from(
        "# Commands and flags\n\nOne page per command, made by `tacho man --markdown` from the tables that the program reads. \
         `--help` of a command shows the same.\n\n| command | purpose |\n|---|---|\n",
    );
    for command in commands {
        let (file, table) = (file(command), command.table);
        out += &format!("| [{}](reference/commands/{file}) | {} |\n", table.command, escaped(table.about));
    }
    out
}

pub fn file<P>(command: &Command<P>) -> String {
    page_name(command.table.command)
}

fn page_name(command: &str) -> String {
    command.replace(' ', "-").trim_start_matches("tacho-").to_owned() + ".md"
}

/// Returns the page of a command. Flags shared with the main command are listed with a link to its page. `scripts`
/// are further names of the command.
pub fn page<P>(command: &Command<P>, main: &'static Table, scripts: impl Iterator<Item = &'static str>) -> String {
    let table = command.table;
    let mut out = format!("# {}\n\n{}\n", table.command, escaped(table.about));
    let others = command.spellings[1..].iter().copied().chain(scripts);
    let others: Vec<String> = others.map(|words| format!("`tacho {words}`")).collect();
    if !others.is_empty() {
        out += &format!("\nAlso {}.\n", others.join(", "));
    }
    if !table.examples.is_empty() {
        out += "\n```sh parsed: examples of the help\n";
        out.extend(table.examples.iter().map(|(line, what)| format!("{line}   # {what}\n")));
        out += "```\n";
    }
    for &group in table.groups {
        let is_main = std::ptr::eq(table, main);
        let flags = flags_of(table, |known| known == group);
        let known = if is_main { Vec::new() } else { flags_of(main, |known| known == group) };
        let known: Vec<String> = known.into_iter().map(row).collect();
        let (shared, own): (Vec<&Flag>, Vec<&Flag>) = flags.into_iter().partition(|flag| known.contains(&row(flag)));
        if shared.is_empty() && own.is_empty() {
            continue;
        }
        out += &format!("\n## {}\n\n{}\n", group.title, escaped(group.about));
        if !own.is_empty() {
            out += &format!("\n| flag | meaning |\n|---|---|\n{}", own.into_iter().map(row).collect::<String>());
        }
        if !shared.is_empty() {
            let names: Vec<String> = shared.iter().map(|flag| format!("`{}`", flag.names.join(", "))).collect();
            let (link, anchor) = (main.command, anchor(group.title));
            let page = page_name(link);
            out += &format!("\nAs in [{link}]({page}#{anchor}): {}.\n", names.join(", "));
        }
    }
    out
}

fn row(flag: &Flag) -> String {
    let synopsis = synopsis(flag, None).replace('|', "\\|");
    format!("| `{synopsis}` | {} |\n", escaped(&described(flag, true)))
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
