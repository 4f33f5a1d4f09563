//! What was typed after `tacho completions`, `man` and `init`.

use std::path::PathBuf;

use super::compare::missing;
use super::error::{ArgError, UsageError};
use super::machinery::flag::{Flag, Group, Kind, Preset, Table, group, own};
use super::machinery::grammar::Values;

static OPTIONS: Group = group("options", "options", "What is written, and where.");

const HELP: Flag = own(
    &["-h", "--help"],
    Kind::Help,
    "TOPIC",
    Preset::Unset,
    &OPTIONS,
    "Show this help. --help=all explains every option.",
);

/// `tacho completions`.
pub(crate) static COMPLETIONS: Table = Table {
    command: "tacho completions",
    about: "Print what a shell needs to complete tacho's commands, flags and values.",
    examples: &[
        ("tacho completions bash > ~/.local/share/bash-completion/completions/tacho", "for bash"),
        ("tacho completions zsh > ~/.zfunc/_tacho", "for zsh, with that directory in fpath"),
        ("tacho completions fish > ~/.config/fish/completions/tacho.fish", "for fish"),
    ],
    groups: &[&OPTIONS],
    flags: &[
        HELP,
        own(&["SHELL"], Kind::Rest(1), "bash | zsh | fish", Preset::Unset, &OPTIONS, "The shell: bash, zsh or fish."),
    ],
    ..Table::PLAIN
};

/// `tacho man`.
pub(crate) static MAN: Table = Table {
    command: "tacho man",
    about: "Print the manual page of a command, or write all of them.",
    examples: &[
        ("tacho man serve | man -l -", "read one"),
        ("tacho man --dir ~/.local/share/man/man1", "install all: man tacho-serve"),
    ],
    groups: &[&OPTIONS],
    flags: &[
        HELP,
        own(
            &["COMMAND"],
            Kind::Rest(usize::MAX),
            "[COMMAND]",
            Preset::Unset,
            &OPTIONS,
            "The command, such as sweep serve. Without it tacho itself.",
        ),
        own(
            &["--dir"],
            Kind::Str,
            "DIR",
            Preset::Unset,
            &OPTIONS,
            "Write the pages of all commands into this directory.",
        ),
        own(
            &["--markdown"],
            Kind::Switch,
            "",
            Preset::Off,
            &OPTIONS,
            "Markdown instead of a manual page: an index, the page of COMMAND, or with --dir all pages.",
        ),
    ],
    ..Table::PLAIN
};

/// `tacho init`.
pub(crate) static INIT: Table = Table {
    command: "tacho init",
    about: "Write a file with every setting of tacho serve, commented out, for --config.",
    examples: &[("tacho init", "run.yaml; then: tacho serve --config run.yaml")],
    groups: &[&OPTIONS],
    flags: &[
        HELP,
        own(
            &["FILE"],
            Kind::Rest(usize::MAX),
            "[FILE]",
            Preset::Unset,
            &OPTIONS,
            "The file to write: run.yaml when none is named. One that is there is left alone.",
        ),
    ],
    ..Table::PLAIN
};

/// A shell that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// `tacho completions`.
#[derive(Debug, Clone)]
pub(crate) struct CompletionsArgs {
    pub(crate) shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let usage = |error| ArgError::Usage { command: COMPLETIONS.command, error };
        let words = v.list("SHELL").unwrap_or_default();
        let shell = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["bash"] => Shell::Bash,
            ["zsh"] => Shell::Zsh,
            ["fish"] => Shell::Fish,
            [] => return Err(missing(&COMPLETIONS, "SHELL")),
            [other] => {
                let (value, choices) = (other.to_owned(), vec!["bash", "zsh", "fish"]);
                return Err(usage(UsageError::BadChoice { flag: "SHELL".to_owned(), value, choices }));
            }
            [_, ..] => return Err(usage(UsageError::Unrecognized { tokens: words[1..].to_vec() })),
        };
        Ok(CompletionsArgs { shell })
    }
}

/// `tacho man`.
#[derive(Debug, Clone)]
pub(crate) struct ManArgs {
    pub(crate) words: Vec<String>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) markdown: bool,
}

impl ManArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        Ok(ManArgs {
            words: v.list("COMMAND").unwrap_or_default(),
            dir: v.maybe_text("--dir").map(PathBuf::from),
            markdown: v.switch("--markdown"),
        })
    }
}

/// `tacho init`.
#[derive(Debug, Clone)]
pub(crate) struct InitArgs {
    pub(crate) file: PathBuf,
}

impl InitArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let mut words = v.list("FILE").unwrap_or_default();
        if words.len() > 1 {
            let error = UsageError::Unrecognized { tokens: words.split_off(1) };
            return Err(ArgError::Usage { command: INIT.command, error });
        }
        Ok(InitArgs { file: words.pop().unwrap_or_else(|| "run.yaml".to_owned()).into() })
    }
}
