//! Flags of `tacho completions`, `man` and `init`.

use std::path::PathBuf;

use tacho_args::declare::*;

use super::error::{ArgError, UsageError};
use super::presets::NAMES;

static OPTIONS: Group = group("options", "options", "Output.");

pub(crate) static COMPLETIONS: Table = Table {
    command: "tacho completions",
    about: "Print a completion script for a shell: commands, flags and values.",
    examples: &[
        ("tacho completions bash > ~/.local/share/bash-completion/completions/tacho", "for bash"),
        ("tacho completions zsh > ~/.zfunc/_tacho", "for zsh, with that directory in fpath"),
        ("tacho completions fish > ~/.config/fish/completions/tacho.fish", "for fish"),
        ("tacho completions powershell >> $PROFILE", "for PowerShell"),
    ],
    groups: &[&OPTIONS],
    flags: rows!(&[HELP], SHELLS),
    ..Table::PLAIN
};

flags! {
    ShellArgs {
        SHELLS [
            shell: Vec<String> = tacho(&["SHELL"], Rest(1), "SHELL", Unset, &OPTIONS,
                "The shell: bash, zsh, fish or powershell.").required();
        ]
    }
}

pub(crate) static MAN: Table = Table {
    command: "tacho man",
    about: "Print the manual page of a command, or write all of them.",
    examples: &[
        ("tacho man serve | man -l -", "read one"),
        ("tacho man --dir ~/.local/share/man/man1", "install all: man tacho-serve"),
    ],
    groups: &[&OPTIONS],
    flags: rows!(&[HELP], PAGES),
    ..Table::PLAIN
};

flags! {
    ManArgs {
        PAGES [
            of_command: Vec<String> = tacho(&["COMMAND"], Rest(usize::MAX), "[COMMAND]", Unset, &OPTIONS,
                "Command, such as sweep serve (default: tacho itself).");
            dir: Option<PathBuf> = tacho(&["--dir"], Str, "DIR", Unset, &OPTIONS,
                "Write the pages of all commands into this directory.");
            markdown: bool = switch(&["--markdown"], &OPTIONS,
                "Markdown instead of a manual page: an index, the page of COMMAND, or with --dir all pages.");
            schema: bool = switch(&["--schema"], &OPTIONS, "Print the JSON Schema of the files of --save-result.");
        ]
    }
}

pub(crate) static INIT: Table = Table {
    command: "tacho init",
    about: "Write a file with every setting of tacho serve, commented out, for --config.",
    examples: &[
        ("tacho init", "run.yaml; then: tacho serve --config run.yaml"),
        ("tacho init --preset chat", "print what --preset chat sets, and where it comes from"),
    ],
    groups: &[&OPTIONS],
    flags: rows!(&[HELP], SETTINGS),
    ..Table::PLAIN
};

flags! {
    InitArgs {
        SETTINGS [
            file: Vec<PathBuf> = tacho(&["FILE"], Rest(1), "[FILE]", Unset, &OPTIONS,
                "File to write (default: run.yaml). An existing file is not overwritten.");
            preset: Option<String> = tacho(&["--preset"], Choice(&NAMES), "NAME", Unset, &OPTIONS,
                "The settings of a preset, with their sources, on standard output or in FILE.");
        ]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Pwsh,
}

const SHELL_NAMES: [(&str, Shell); 4] =
    [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish), ("powershell", Shell::Pwsh)];

impl Shell {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let value = ShellArgs::from(v).shell.concat();
        let known = SHELL_NAMES.iter().find(|(name, _)| *name == value).map(|(_, shell)| *shell);
        let choices = SHELL_NAMES.map(|(name, _)| name).to_vec();
        let error = UsageError::BadChoice { flag: "SHELL".to_owned(), value, choices };
        known.ok_or(ArgError::Usage { command: COMPLETIONS.command, error })
    }
}
