//! The rows that command tables are made of: one row per flag, with all that the parser, the help and the
//! argument dump need to know. No row knows what its value is used for.

use std::fmt;

use tacho_core::bounded::{Pause, RequestCount, TokenCount};
use tacho_core::json::{Value, parse};

/// What a flag takes from the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Prints help; `--help=TEXT` searches it.
    Help,
    /// One whole number.
    Int,
    /// One number.
    Float,
    /// A time in seconds: a number that a clock can count.
    Seconds,
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
    /// One text that a function of the command reads.
    Custom(Reader),
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
    /// Not a flag: the positional arguments, at most this many. A table has at most one such row; its name is for the help.
    Rest(usize),
}

/// A function that reads a text, and what argparse calls it. Two of the same name are the same.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// The name in messages about a text that it cannot read.
    pub name: &'static str,
    /// The value of a text.
    pub read: fn(&str) -> Option<Value>,
}

impl PartialEq for Reader {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Kind {
    /// How many positional arguments there may be, of the row that takes them.
    pub fn places(self) -> Option<usize> {
        match self {
            Kind::Rest(most) => Some(most),
            _ => None,
        }
    }
}

/// The value of a flag that was not set.
#[derive(Debug, Clone, Copy)]
pub enum Preset {
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
    pub fn value(self) -> Value {
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
pub enum Origin {
    /// vLLM has it under the same name, with the same meaning.
    Vllm,
    /// An engine flag of vLLM: handed on to the engine as typed. tacho reads those that have a help text.
    Engine,
    /// tacho alone has it.
    Tacho,
}

/// The help section of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its heading in the help.
    pub title: &'static str,
    /// The section vLLM lists the flag in, which `--help=TITLE` finds as well.
    pub vllm_title: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The flags that the help shows first, most important first; the others follow in the table's order.
    pub first: &'static [&'static str],
}

/// A help section.
pub const fn group(title: &'static str, vllm_title: &'static str, about: &'static str) -> Group {
    Group { title, vllm_title, about, first: &[] }
}

impl Group {
    /// With the order in which the help shows its flags.
    pub const fn first(self, first: &'static [&'static str]) -> Group {
        Group { first, ..self }
    }
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The option strings; the first one names the value.
    pub names: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// What its value is called in the help; says the unit where there is one.
    pub metavar: &'static str,
    /// Its value when absent.
    pub preset: Preset,
    /// The numbers it takes; all without.
    pub bounds: Option<Bounds>,
    /// Its help section.
    pub group: &'static Group,
    /// Whose it is.
    pub origin: Origin,
    /// Whether the command needs it.
    pub required: bool,
    /// What it does: a short first sentence, then details.
    pub help: &'static str,
}

/// The numbers that a flag takes. NaN is outside of all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// From the one to the other, both with them.
    Between(f64, f64),
    /// Above the one, up to the other and with it.
    Above(f64, f64),
    /// Up to the one and with it.
    AtMost(f64),
}

/// The largest whole number of a flag: tokens and other counts have types with bounds, seeds do not.
const fn most_of(metavar: &str) -> Option<u64> {
    match metavar.as_bytes() {
        b"TOKENS" => Some(TokenCount::MAX),
        b"N" => Some(RequestCount::MAX),
        _ => None,
    }
}

/// Most seconds of a flag.
pub const MOST_SECONDS: f64 = Pause::MAX.as_secs() as f64;

impl Bounds {
    /// Whether a number is one of them.
    pub fn hold(self, number: f64) -> bool {
        match self {
            Bounds::Between(least, most) => (least..=most).contains(&number),
            Bounds::Above(least, most) => number > least && number <= most,
            Bounds::AtMost(most) => number <= most,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NO_END: f64 = i64::MAX as f64;
        match *self {
            Bounds::Between(f64::MIN, f64::MAX) => write!(f, "a finite number, as JSON has no other"),
            Bounds::Between(least, NO_END) => write!(f, "{least} or more"),
            Bounds::Between(least, most) => write!(f, "{least} to {most}"),
            Bounds::Above(least, f64::INFINITY) => write!(f, "more than {least}, or inf"),
            Bounds::Above(least, most) => write!(f, "more than {least} and at most {most}"),
            Bounds::AtMost(most) => write!(f, "at most {most}"),
        }
    }
}

impl Flag {
    /// Without which the command cannot run.
    pub const fn required(self) -> Flag {
        Flag { required: true, ..self }
    }

    /// The same flag in another section of the help.
    pub const fn within(self, group: &'static Group) -> Flag {
        Flag { group, ..self }
    }

    /// Whether it is another name of a flag, or has no effect any more.
    pub fn is_alias(&self) -> bool {
        self.help.starts_with("Alias of") || self.help.starts_with("Deprecated")
    }

    /// With numbers from `least` on.
    pub const fn at_least(self, least: i64) -> Flag {
        let most = match most_of(self.metavar) {
            Some(most) => most as f64,
            None => i64::MAX as f64,
        };
        self.between(least as f64, most)
    }

    /// With numbers from `least` to `most`.
    pub const fn between(self, least: f64, most: f64) -> Flag {
        Flag { bounds: Some(Bounds::Between(least, most)), ..self }
    }

    /// With all numbers that JSON has.
    pub const fn finite(self) -> Flag {
        self.between(f64::MIN, f64::MAX)
    }

    /// With numbers above 0: of seconds those that a clock can count, of others all.
    pub const fn positive(self) -> Flag {
        let most = match self.kind {
            Kind::Seconds => MOST_SECONDS,
            _ => f64::INFINITY,
        };
        Flag { bounds: Some(Bounds::Above(0.0, most)), ..self }
    }

    /// The name of its value: the first long option string with underscores.
    pub fn dest(&self) -> String {
        self.long().trim_start_matches('-').replace('-', "_")
    }

    /// Its first long option string.
    pub fn long(&self) -> &'static str {
        self.names.iter().find(|name| name.starts_with("--")).unwrap_or(&self.names[0])
    }

    /// How messages name it.
    pub fn title(&self) -> String {
        self.names.join("/")
    }

    /// Whether it is the engine's alone: its value is not judged here.
    pub fn is_passed_on(&self) -> bool {
        self.origin == Origin::Engine && self.help.is_empty()
    }
}

/// A switch of tacho's own.
pub const fn switch(name: &'static [&'static str], group: &'static Group, help: &'static str) -> Flag {
    own(name, Kind::Switch, "", Preset::Off, group, help)
}

static GENERAL: Group = group("options", "options", "");

/// `-h` and `--help` of every command; no section of the help shows them.
pub const HELP: Flag = vllm(
    &["-h", "--help"],
    Kind::Help,
    "TOPIC",
    Preset::Unset,
    &GENERAL,
    "Show the options used most; --help shows all, --help=TOPIC explains a section or the options with TOPIC in their name.",
);

/// One list of several, as a table wants its rows.
#[macro_export]
macro_rules! rows {
    ($($part:expr),+ $(,)?) => {{
        const ALL: &[$crate::flag::Flag] = &$crate::flag::joined::<{ 0 $(+ $part.len())+ }>(&[$($part),+]);
        ALL
    }};
}
pub use crate::rows;

/// What [`rows`] expands to.
pub const fn joined<const N: usize>(parts: &[&[Flag]]) -> [Flag; N] {
    let mut rows = [HELP; N];
    let (mut at, mut part, mut row) = (0, 0, 0);
    while at < N {
        while row == parts[part].len() {
            (part, row) = (part + 1, 0);
        }
        rows[at] = parts[part][row];
        (at, row) = (at + 1, row + 1);
    }
    rows
}

/// The row of a name, which must be there.
pub const fn row(rows: &[Flag], name: &str) -> Flag {
    let mut at = 0;
    while at < rows.len() {
        if is_same(rows[at].names[0], name) {
            return rows[at];
        }
        at += 1;
    }
    panic!("the rows have a flag of this name")
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A row for a flag that vLLM has.
pub const fn vllm(
    names: &'static [&'static str],
    kind: Kind,
    metavar: &'static str,
    preset: Preset,
    group: &'static Group,
    help: &'static str,
) -> Flag {
    let bounds = match (kind, most_of(metavar)) {
        (Kind::Seconds, _) => Some(Bounds::Between(0.0, MOST_SECONDS)),
        (Kind::Int, Some(most)) => Some(Bounds::AtMost(most as f64)),
        _ => None,
    };
    Flag { names, kind, metavar, preset, bounds, group, origin: Origin::Vllm, required: false, help }
}

/// A row for a flag that tacho alone has.
pub const fn own(
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
pub struct Table {
    /// The command as typed, such as `tacho serve`.
    pub command: &'static str,
    /// One sentence: what the command does.
    pub about: &'static str,
    /// Command lines worth showing, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    /// The options that `-h` shows, in order; empty for a command that has so few that it shows them all.
    pub basics: &'static [&'static str],
    /// Flags that the command only knows in order to refuse them; no help shows them.
    pub refused: &'static [&'static str],
    /// The help sections in order.
    pub groups: &'static [&'static Group],
    /// The flags, vLLM's in its order of registration.
    pub flags: &'static [Flag],
}

impl Table {
    /// What most tables have in common.
    pub const PLAIN: Table =
        Table { command: "", about: "", examples: &[], basics: &[], refused: &[], groups: &[], flags: &[] };

    /// Whether it starts an engine, so that flags unknown here may be known there.
    pub fn has_engine(&self) -> bool {
        self.flags.iter().any(|flag| flag.origin == Origin::Engine)
    }

    /// The flag with this exact option string.
    pub fn find(&self, name: &str) -> Option<&'static Flag> {
        self.flags.iter().find(|flag| flag.names.contains(&name))
    }
}
