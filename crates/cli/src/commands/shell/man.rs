//! Manual pages in roff, made from the tables.

use crate::args::machinery::command::Command;
use crate::args::machinery::help::{described, flags_of, synopsis};
use crate::args::topics::TOPICS;

/// The name of a command's page.
pub(super) fn name(command: &Command) -> String {
    command.table.command.replace(' ', "-")
}

/// The page of a command.
pub(super) fn page(command: &Command) -> String {
    let table = command.table;
    let mut out = head(&name(command), table.about);
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

/// The page of the program.
pub(super) fn overview(commands: &[Command]) -> String {
    let mut out = head("tacho", "Benchmark LLM serving");
    out += ".SH SYNOPSIS\n.B tacho\ncommand [options]\n.SH COMMANDS\n";
    for command in commands {
        out += &format!(".TP\n.BR {} (1)\n{}\n", text(&name(command)), text(command.table.about));
    }
    out += ".SH TOPICS\n";
    for topic in TOPICS {
        out += &format!(".TP\n.B tacho help {}\n{}\n", text(topic.name), text(topic.about));
    }
    out
}

fn head(name: &str, about: &str) -> String {
    let about = about.trim_end_matches('.');
    format!(
        ".TH {} 1 \"\" \"tacho {}\"\n.SH NAME\n{} \\- {}\n",
        text(&name.to_uppercase()),
        env!("CARGO_PKG_VERSION"),
        text(name),
        text(about)
    )
}

/// A text that roff does not take for a request.
fn text(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
