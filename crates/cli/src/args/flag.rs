//! The rows that command tables are made of: one row per flag, with all that the parser, the help and the
//! argument dump need to know. No row knows what its value is used for.

use tacho_core::json::{Value, parse};

/// What a flag takes from the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Prints help; `--help=TEXT` searches it.
    Help,
    /// One whole number.
    Int,
    /// One number.
    Float,
    /// One text.
    Str,
    /// One text, or none, which means true.
    OptionalStr,
    /// One text out of a list.
    Choice(&'static [&'static str]),
    /// One JSON text.
    Json,
    /// Names with commas between.
    Names,
    /// A Python dict of media sizes.
    Buckets,
    /// Nothing: its presence means true.
    Switch,
    /// Nothing: `--x` means true, `--no-x` false, neither means unset.
    TriState,
    /// All values up to the next option, possibly none.
    AnyNumber,
    /// All values up to the next option, at least one.
    OneOrMore,
    /// The same, and a repeated flag adds to the list rather than replacing it.
    Repeated,
    /// No flag: the words that belong to none. At most one row of a table; its name is for the help.
    Rest,
}

/// The value of a flag that was not given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Preset {
    /// Python's `None`.
    Unset,
    /// A switch that is off.
    Off,
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Str(&'static str),
    /// Any other value, as JSON.
    Json(&'static str),
    /// A value that is made for each run, and how the help describes it.
    Made(fn() -> Value, &'static str),
}

impl Preset {
    /// The value itself.
    pub(crate) fn value(self) -> Value {
        match self {
            Preset::Unset => Value::Null,
            Preset::Off => Value::Bool(false),
            Preset::Int(number) => Value::Int(number),
            Preset::Float(number) => Value::Float(number),
            Preset::Str(text) => Value::from(text),
            Preset::Json(text) => parse(text).expect("the table holds valid JSON"),
            Preset::Made(make, _) => make(),
        }
    }
}

/// Whose flag it is. Abbreviations reach only vLLM's, so that ours never make one of theirs ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// vLLM has it under the same name, with the same meaning.
    Vllm,
    /// An engine flag of vLLM: handed on to the engine as typed. tacho reads those that have a help text.
    Engine,
    /// tacho alone has it.
    Tacho,
}

/// The help section of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its heading in the help.
    pub(crate) title: &'static str,
    /// The section vLLM lists the flag in, which `--help=TITLE` finds as well.
    pub(crate) vllm_title: &'static str,
    /// One line about it.
    pub(crate) about: &'static str,
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// The option strings; the first one names the value.
    pub(crate) names: &'static [&'static str],
    /// What it takes.
    pub(crate) kind: Kind,
    /// What its value is called in the help; says the unit where there is one.
    pub(crate) metavar: &'static str,
    /// Its value when absent.
    pub(crate) preset: Preset,
    /// Its help section.
    pub(crate) group: &'static Group,
    /// Whose it is.
    pub(crate) origin: Origin,
    /// What it does: a short first sentence, then details.
    pub(crate) help: &'static str,
}

impl Flag {
    /// The name of its value: the first long option string with underscores.
    pub(crate) fn dest(&self) -> String {
        let long = self.names.iter().find(|name| name.starts_with("--")).unwrap_or(&self.names[0]);
        long.trim_start_matches('-').replace('-', "_")
    }

    /// How messages name it.
    pub(crate) fn title(&self) -> String {
        self.names.join("/")
    }

    /// Whether it is the engine's alone: its value is not judged here.
    pub(crate) fn is_passed_on(&self) -> bool {
        self.origin == Origin::Engine && self.help.is_empty()
    }
}

/// A row for a flag that vLLM has.
pub(crate) const fn vllm(
    names: &'static [&'static str],
    kind: Kind,
    metavar: &'static str,
    preset: Preset,
    group: &'static Group,
    help: &'static str,
) -> Flag {
    Flag { names, kind, metavar, preset, group, origin: Origin::Vllm, help }
}

/// A row for a flag that tacho alone has.
pub(crate) const fn own(
    names: &'static [&'static str],
    kind: Kind,
    metavar: &'static str,
    preset: Preset,
    group: &'static Group,
    help: &'static str,
) -> Flag {
    Flag { origin: Origin::Tacho, ..vllm(names, kind, metavar, preset, group, help) }
}

/// The flags of one command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// The command as typed, such as `tacho serve`.
    pub(crate) command: &'static str,
    /// One sentence: what the command does.
    pub(crate) about: &'static str,
    /// Command lines worth showing, each with what it does.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// The help sections in order.
    pub(crate) groups: &'static [&'static Group],
    /// The flags, vLLM's in its order of registration.
    pub(crate) flags: &'static [Flag],
}

impl Table {
    /// Whether it starts an engine, so that flags unknown here may be known there.
    pub(crate) fn has_engine(&self) -> bool {
        self.flags.iter().any(|flag| flag.origin == Origin::Engine)
    }

    /// The flag with this exact option string.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Flag> {
        self.flags.iter().find(|flag| flag.names.contains(&name))
    }
}
