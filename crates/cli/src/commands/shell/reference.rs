//! The reference of all commands and flags, as Markdown for the documentation.

use crate::args::machinery::command::Command;
use crate::args::machinery::help::{described, flags_of, synopsis};
use crate::args::machinery::scripts::standing_for;

/// The page.
pub(super) fn page(commands: &[Command]) -> String {
    let mut out = String::from(
        "# Commands and flags\n\nMade by `tacho man --markdown` from the tables that the program reads.\n",
    );
    for command in commands {
        let table = command.table;
        out += &format!("\n## {}\n\n{}\n", table.command, escaped(table.about));
        let scripts = standing_for(command.spellings[0]);
        let others = command.spellings[1..].iter().copied().chain(scripts);
        let others: Vec<String> = others.map(|words| format!("`tacho {words}`")).collect();
        if !others.is_empty() {
            out += &format!("\nAlso {}.\n", others.join(", "));
        }
        for group in table.groups {
            let flags = flags_of(table, |known| known == *group);
            if flags.is_empty() {
                continue;
            }
            out += &format!("\n### {}\n\n{}\n\n| flag | meaning |\n|---|---|\n", group.title, escaped(group.about));
            for flag in flags {
                let synopsis = synopsis(flag, None).replace('|', "\\|");
                out += &format!("| `{synopsis}` | {} |\n", escaped(&described(flag, true)));
            }
        }
    }
    out
}

/// Text in a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}
