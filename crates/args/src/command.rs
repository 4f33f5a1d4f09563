//! Subcommands, and the dispatch of a command line to one of them.

use crate::entry::{self, Entry};
use crate::grammar::{Parsed, Values};
use crate::{config, config::Builtin, error::Error, flag::Table, help, variables};

/// A subcommand: its names, its flags, and its function.
#[derive(Debug)]
pub struct Command<P> {
    /// All names; the help shows the first one.
    pub spellings: &'static [&'static str],
    /// The section of the program's help that lists it.
    pub section: &'static str,
    pub table: &'static Table,
    /// Converts the parsed values to a task.
    pub prepare: P,
}

impl<P> Command<P> {
    pub const fn new(
        spellings: &'static [&'static str],
        section: &'static str,
        table: &'static Table,
        prepare: P,
    ) -> Self {
        Command { spellings, section, table, prepare }
    }

    /// Returns the remaining words if `words` start with this command.
    fn rest<'a>(&self, args: &'a [String]) -> Option<&'a [String]> {
        let after = |spelling: &&str| {
            let called = spelling.split(' ').zip(args).filter(|(word, typed)| word == typed).count();
            (called == spelling.split(' ').count()).then(|| &args[called..])
        };
        self.spellings.iter().find_map(after)
    }
}

/// Finds the command of a command line, and its remaining words.
pub fn find<'a, P>(commands: &'static [Command<P>], args: &'a [String]) -> Option<(&'static Command<P>, &'a [String])> {
    commands.iter().find_map(|command| Some((command, command.rest(args)?)))
}

pub fn read(table: &'static Table, args: &[String]) -> Result<Parsed, Error> {
    let mut args = args.to_vec();
    let path = config::take_path(&mut args)?;
    let file = path.map_or(Ok(Vec::new()), |path| config::read(&path, table))?;
    let variables = variables::read(table)?;
    let mut parsed = layered(table, &[&file, &variables], &args)?;
    if let Parsed::Values(values) = &parsed
        && let Some(builtin) = Builtin::of(values)
    {
        parsed = layered(table, &[&builtin.entries(values, table)?, &file, &variables], &args)?;
    }
    if let Parsed::Values(values) = &parsed {
        values.complete().map_err(|error| Error::Usage { command: table.command, error })?;
        values.check()?;
    }
    Ok(parsed)
}

/// Parses entries, each list over the one before, and the command line over all.
fn layered(table: &'static Table, layers: &[&[Entry]], args: &[String]) -> Result<Parsed, Error> {
    let mut values = Values::defaults(table);
    for layer in layers {
        match entry::read(values, table, layer)? {
            Parsed::Values(read) => values = read,
            help @ Parsed::Help(_) => return Ok(help),
        }
    }
    values.imply();
    values.read(args).map_err(|error| Error::Usage { command: table.command, error })
}

#[derive(Debug)]
pub struct Family {
    /// The prefix; empty for the program itself.
    pub args: &'static str,
    /// The prefix with the program's name, for messages.
    pub command: &'static str,
    /// argparse's name of the missing word.
    pub what: &'static str,
    pub about: &'static str,
}

impl Family {
    pub fn begins(&self, args: &[&str]) -> bool {
        self.args.is_empty() || args.join(" ").starts_with(&format!("{} ", self.args)) || args.join(" ") == self.args
    }

    pub fn depth(&self) -> usize {
        self.args.split_whitespace().count()
    }

    pub fn help<P>(&self, commands: &[Command<P>], program: &str, width: usize) -> String {
        let about = help::paragraph(self.about, width);
        let mut out = format!("usage: {} <command> [options]\n\n{about}\n\ncommands:\n", self.command);
        let begins = |spelling: &&&str| self.begins(&spelling.split(' ').collect::<Vec<_>>());
        let row = |command: &Command<P>| {
            let spelling = command.spellings.iter().find(begins)?;
            Some((format!("{program} {spelling}"), command.table.about))
        };
        let rows: Vec<(String, &str)> = commands.iter().filter_map(row).collect();
        let column = rows.iter().map(|(args, _)| args.len()).max().unwrap_or(0);
        for (args, about) in rows {
            out += &help::columns(&args, about, column, width);
        }
        out + &format!("\nThe options of one:  {} <command> --help\n", self.command)
    }
}

/// The distinct words that can follow.
pub fn after<P>(commands: &'static [Command<P>], first: &str) -> Vec<&'static str> {
    let spellings = commands.iter().flat_map(|command| command.spellings);
    let rest = spellings.filter_map(|spelling| match first {
        "" => Some(*spelling),
        first => spelling.strip_prefix(first)?.strip_prefix(' '),
    });
    let mut known = Vec::new();
    for word in rest.filter_map(|rest| rest.split(' ').next()) {
        if !known.contains(&word) {
            known.push(word);
        }
    }
    known
}
