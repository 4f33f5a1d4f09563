//! Manual pages in roff, generated from the tables.

use crate::command::Command;
use crate::help::{described, flags_of, synopsis};

pub fn name<P>(command: &Command<P>) -> String {
    command.table.command.replace(' ', "-")
}

pub fn page<P>(command: &Command<P>, version: &str) -> String {
    let table = command.table;
    let mut out = head(&name(command), table.about, version);
    out += &format!(".SH SYNOPSIS\n.B {}\n[options]\n.SH DESCRIPTION\n{}\n", text(table.command), text(table.about));
    for group in table.groups {
        let flags = flags_of(table, |known| known == *group);
        if flags.is_empty() {
            continue;
        }
        out += &format!(".SH {}\n{}\n", text(&group.title.to_uppercase()), text(group.about));
        for flag in flags {
            out += &format!(".TP\n.B {}\n{}\n", text(&synopsis(flag, None)), text(&described(flag, true)));
        }
    }
    if !table.examples.is_empty() {
        out += ".SH EXAMPLES\n";
        for (line, what) in table.examples {
            out += &format!(".TP\n.B {}\n{}\n", text(line), text(what));
        }
    }
    out + ".SH SEE ALSO\n.BR tacho (1)\n"
}

/// Returns the page of the program. Each help topic has a name and a sentence.
pub fn overview<P>(commands: &[Command<P>], topics: &[(&str, &str)], version: &str) -> String {
    let mut out = head("tacho", "Benchmark LLM serving", version);
    out += ".SH SYNOPSIS\n.B tacho\ncommand [options]\n.SH COMMANDS\n";
    for command in commands {
        out += &format!(".TP\n.BR {} (1)\n{}\n", text(&name(command)), text(command.table.about));
    }
    out += ".SH TOPICS\n";
    for (name, about) in topics {
        out += &format!(".TP\n.B tacho help {}\n{}\n", text(name), text(about));
    }
    out
}

fn head(name: &str, about: &str, version: &str) -> String {
    let about = about.trim_end_matches('.');
    format!(
        ".TH {} 1 \"\" \"tacho {version}\"\n.SH NAME\n{} \\- {}\n",
        text(&name.to_uppercase()),
        text(name),
        text(about)
    )
}

fn text(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
