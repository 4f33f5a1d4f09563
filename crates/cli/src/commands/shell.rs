//! `tacho completions`, `man`, and `init`: output generated from the flag tables.

use std::fs::OpenOptions;
use std::io::{self, Write};

use anyhow::Context;
use tacho_args::complete::{self, Completion, Words};
use tacho_args::flag::{Flag, Kind};
use tacho_args::help::{flags_of, sentence};
use tacho_args::{command::find, man, near::nearest, reference};
use tacho_engine::Profile;

use super::{COMMANDS, sweep::make_directory};
use crate::args::shell::{InitArgs, ManArgs, Shell};
use crate::exit::{Exit, Misused};
use crate::{
    args::error::metric_names, args::help::topics::TOPICS, args::presets::PRESETS, args::program::Command,
    args::scripts::standing_for, args::serve::TABLE,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn completions(shell: &Shell) -> anyhow::Result<Exit> {
    let topics: Vec<&'static str> = TOPICS.iter().map(|topic| topic.name).collect();
    let completion = Completion { commands: COMMANDS, topics: &topics, words: &words };
    let script = match shell {
        Shell::Bash => complete::bash(&completion),
        Shell::Zsh => complete::zsh(&completion),
        Shell::Fish => complete::fish(&completion),
        Shell::Pwsh => complete::powershell(&completion),
    };
    tacho_report::out().write_all(script.as_bytes())?;
    Ok(Exit::Done)
}

/// Completions for values that the flag table does not list: simulator profiles and metrics.
fn words(flag: &Flag) -> Option<Words> {
    match flag.long() {
        "--sim-profile" | "--profile" => {
            Some(Words::ListedOrFiles(Profile::NAMES.iter().map(|name| (*name).to_owned()).collect()))
        }
        "--max-regression" | "--fail-if" | "--until" | "--metrics" => Some(Words::Listed(metric_names())),
        _ => None,
    }
}

fn man_page(command: &Command) -> String {
    man::page(command, VERSION)
}

fn overview() -> String {
    let topics: Vec<(&str, &str)> = TOPICS.iter().map(|topic| (topic.name, topic.about)).collect();
    man::overview(COMMANDS, &topics, VERSION)
}

fn reference_page(command: &Command) -> String {
    reference::page(command, &TABLE, standing_for(command.spellings[0]))
}

pub(super) fn manual(args: &ManArgs) -> anyhow::Result<Exit> {
    if args.schema {
        let schema = tacho_core::json::dumps_indented(&tacho_report::json::schema().into(), 2);
        writeln!(tacho_report::out(), "{schema}")?;
        return Ok(Exit::Done);
    }
    let Some(directory) = &args.dir else {
        let page = match find(COMMANDS, &args.of_command) {
            Some((command, [])) if args.markdown => reference_page(command),
            Some((command, [])) => man_page(command),
            _ if !args.of_command.is_empty() => return Err(unknown(&args.of_command.join(" ")).into()),
            _ if args.markdown => reference::index(COMMANDS),
            _ => overview(),
        };
        tacho_report::out().write_all(page.as_bytes())?;
        return Ok(Exit::Done);
    };
    let pages: Vec<(String, String)> = if args.markdown {
        COMMANDS.iter().map(|command| (reference::file(command), reference_page(command))).collect()
    } else {
        let commands = COMMANDS.iter().map(|command| (format!("{}.1", man::name(command)), man_page(command)));
        std::iter::once(("tacho.1".to_owned(), overview())).chain(commands).collect()
    };
    make_directory(directory, "--dir")?;
    for (name, page) in &pages {
        let path = directory.join(name);
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let shown = directory.display();
    let hint = if args.markdown { String::new() } else { format!(": try man -l {shown}/tacho-serve.1") };
    writeln!(tacho_report::out(), "{} pages are in {shown}{hint}", pages.len())?;
    Ok(Exit::Done)
}

fn unknown(name: &str) -> Misused {
    let known = COMMANDS.iter().map(|command| command.spellings[0]);
    let meant = nearest(name, known).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    Misused(format!("unknown command {name:?}: tacho --help lists them{meant}"))
}

pub(super) fn init(args: &InitArgs) -> anyhow::Result<Exit> {
    let preset = PRESETS.iter().find(|preset| Some(preset.name) == args.preset.as_deref());
    if let (Some(preset), []) = (preset, args.file.as_slice()) {
        tacho_report::out().write_all(preset.text.as_bytes())?;
        return Ok(Exit::Done);
    }
    let file = args.file.first().cloned().unwrap_or_else(|| "run.yaml".into());
    let shown = file.display();
    let mut out = OpenOptions::new().write(true).create_new(true).open(&file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{shown} is there already: name another file, or remove it")
        }
        _ => anyhow::Error::new(error).context(format!("cannot write {shown}")),
    })?;
    let (text, content) = match preset {
        Some(preset) => (preset.text.to_owned(), format!("the settings of {}", preset.name)),
        None => (settings(), "every setting, commented out".to_owned()),
    };
    out.write_all(text.as_bytes()).with_context(|| format!("cannot write {shown}"))?;
    writeln!(tacho_report::out(), "{shown} has {content}. Then: tacho serve --config {shown}")?;
    Ok(Exit::Done)
}

/// Every flag of `tacho serve` as a commented line of YAML.
fn settings() -> String {
    let mut out = String::from(
        "# Settings of tacho serve. Remove the # of what you want to set; the command line wins over this file.\n\
         # tacho serve --help=all explains everything.\n",
    );
    for group in TABLE.groups {
        let flags = flags_of(&TABLE, |known| known == *group);
        if flags.is_empty() {
            continue;
        }
        out += &format!("\n# {}: {}\n", group.title, group.about);
        for flag in flags {
            out += &format!("# {}: {}  # {}\n", flag.long().trim_start_matches('-'), sample(flag), sentence(flag));
        }
    }
    out
}

/// A YAML value: the default, or a placeholder.
fn sample(flag: &Flag) -> String {
    let default = flag.default.value();
    match flag.kind {
        Kind::Switch | Kind::TriState => "true".to_owned(),
        Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated => format!("['{}']", flag.metavar),
        Kind::Json | Kind::Custom(_) => "{}".to_owned(),
        _ if default == tacho_core::json::Value::Null => format!("'{}'", flag.metavar),
        _ if default.as_f64().is_some_and(f64::is_infinite) => ".inf".to_owned(),
        _ => tacho_core::json::dumps(&default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_settings_names_every_flag_and_sets_none() {
        let text = settings();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        for flag in TABLE.flags.iter().filter(|flag| flag.kind != Kind::Help) {
            assert!(text.contains(&format!("\n# {}: ", flag.long().trim_start_matches('-'))), "{}", flag.long());
        }
    }
}
