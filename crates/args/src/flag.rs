//! Rows of command tables: one row per flag, with everything that the parser, the help, and the argument dump need. A
//! row does not depend on how its value is used.

use crate::config::Builtin;
use std::fmt;

use tacho_core::bounded::{Pause, RequestCount, TokenCount};
use tacho_core::json::{Value, parse};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Prints help; `--help=TEXT` searches it.
    Help,
    Int,
    Float,
    Seconds,
    Str,
    /// An optional string; without it, the value is true.
    OptionalStr,
    Choice(&'static [&'static str]),
    /// One string out of a list, or a file: a text with a slash or an ending.
    ChoiceOrFile(&'static [&'static str], &'static [&'static str]),
    Json,
    Names,
    /// One string parsed by a function of the command.
    Custom(Reader),
    /// No value: the flag's presence means true.
    Switch,
    /// No value: `--x` means true, `--no-x` false; otherwise unset.
    TriState,
    /// All values up to the next option, possibly none.
    AnyNumber,
    /// All values up to the next option, at least one.
    OneOrMore,
    /// Like `OneOrMore`; a repeated flag appends to the list instead of replacing it.
    Repeated,
    /// The positional arguments, at most this many. A table has at most one such row; the help shows its name.
    Rest(usize),
}

/// A parse function and argparse's name for it. Readers with the same name are equal.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// The name in messages about invalid text.
    pub name: &'static str,
    pub read: fn(&str) -> Option<Value>,
}

impl PartialEq for Reader {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Kind {
    /// The maximum number of positional arguments, for the row that takes them.
    pub fn positions(self) -> Option<usize> {
        match self {
            Kind::Rest(max) => Some(max),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// Python's `None`.
    Unset,
    Off,
    Int(i64),
    Float(f64),
    Str(&'static str),
    Json(&'static str),
    /// A value generated for each run, and its description in the help.
    Made(fn() -> Value, &'static str),
}

impl DefaultValue {
    pub fn value(self) -> Value {
        match self {
            DefaultValue::Unset => Value::Null,
            DefaultValue::Off => Value::Bool(false),
            DefaultValue::Int(number) => Value::Int(number),
            DefaultValue::Float(number) => Value::Float(number),
            DefaultValue::Str(text) => Value::from(text),
            DefaultValue::Json(text) => parse(text).expect("the table holds valid JSON"),
            DefaultValue::Made(make, _) => make(),
        }
    }
}

/// The origin of a flag. Abbreviations match only vLLM's flags, so that tacho's never make one ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// vLLM has the flag with the same name and meaning.
    Vllm,
    /// An engine flag of vLLM that tacho reads too; it is passed on as given.
    Engine,
    Tacho,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub title: &'static str,
    /// vLLM's section of the flag, which `--help=TITLE` also finds.
    pub vllm_title: &'static str,
    pub about: &'static str,
    /// The flags shown first, most important first; the others follow in table order.
    pub first: &'static [&'static str],
    pub tags: u32,
}

pub const fn group(title: &'static str, vllm_title: &'static str, about: &'static str) -> Group {
    Group { title, vllm_title, about, first: &[], tags: 0 }
}

impl Group {
    pub const fn first(self, first: &'static [&'static str]) -> Group {
        Group { first, ..self }
    }

    pub const fn tagged(self, tags: u32) -> Group {
        Group { tags: self.tags | tags, ..self }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The option strings; the first one names the value.
    pub names: &'static [&'static str],
    pub kind: Kind,
    /// Placeholder of the value in the help; names the unit, if any.
    pub metavar: &'static str,
    pub default: DefaultValue,
    /// The allowed range; unlimited if `None`.
    pub bounds: Option<Bounds>,
    pub group: &'static Group,
    pub origin: Origin,
    pub required: bool,
    /// Whether the text of a repeated flag is appended after a comma instead of replacing the earlier one.
    pub joins: bool,
    /// The description: a short first sentence, then details.
    pub help: &'static str,
    /// Properties that the command gives a meaning to, as bits.
    pub tags: u32,
    /// Flags that must be given too; ` or ` separates alternatives.
    pub needs: &'static [&'static str],
    pub excludes: &'static [&'static str],
    /// Configurations that its value names.
    pub configs: &'static [Builtin],
}

/// The range of a flag's number. NaN is never inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    Between(f64, f64),
    /// A half-open interval without its lower bound.
    Above(f64, f64),
    AtMost(f64),
}

/// The largest integer of a flag, by the name of its value: all are bounded but seeds.
const fn max_of(metavar: &str) -> Option<u64> {
    match metavar.as_bytes() {
        b"TOKENS" | b"WORDS" | b"BYTES" => Some(TokenCount::MAX),
        b"N" => Some(RequestCount::MAX),
        b"SEC" => Some(Pause::MAX.as_secs()),
        b"PORT" => Some(u16::MAX as u64),
        _ => None,
    }
}

pub const MAX_SECONDS: f64 = Pause::MAX.as_secs() as f64;

impl Bounds {
    pub fn hold(self, number: f64) -> bool {
        match self {
            Bounds::Between(min, max) => (min..=max).contains(&number),
            Bounds::Above(min, max) => number > min && number <= max,
            Bounds::AtMost(max) => number <= max,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NO_END: f64 = i64::MAX as f64;
        match *self {
            Bounds::Between(f64::MIN, f64::MAX) => write!(f, "a finite number, as JSON has no other"),
            Bounds::Between(min, NO_END) => write!(f, "{min} or more"),
            Bounds::Between(min, max) => write!(f, "{min} to {max}"),
            Bounds::Above(min, f64::MAX) => write!(f, "a number above {min}"),
            Bounds::Above(min, f64::INFINITY) => write!(f, "more than {min}, or inf"),
            Bounds::Above(min, max) => write!(f, "more than {min} and at most {max}"),
            Bounds::AtMost(max) => write!(f, "at most {max}"),
        }
    }
}

/// Declares methods that set one field of a row.
macro_rules! setters {
    ($($(#[doc = $doc:literal])* $name:ident($($parameter:ident: $type:ty)?): $field:ident = $value:expr;)+) => {
        impl Flag {
            $($(#[doc = $doc])* pub const fn $name(self, $($parameter: $type)?) -> Flag {
                Flag { $field: $value, ..self }
            })+
        }
    };
}

setters! {
    required(): required = true;
    needs(flags: &'static [&'static str]): needs = flags;
    excludes(flags: &'static [&'static str]): excludes = flags;
    configs(known: &'static [Builtin]): configs = known;
    within(section: &'static Group): group = section;
    /// Appends the text of a repeated flag after a comma.
    joining(): joins = true;
}

impl Flag {
    pub const fn tagged(self, tags: u32) -> Flag {
        Flag { tags: self.tags | tags, ..self }
    }

    /// Whether the flag or its section has one of these properties.
    pub const fn has(&self, tags: u32) -> bool {
        (self.tags | self.group.tags) & tags != 0
    }

    /// Whether the flag is an alias or deprecated without effect.
    pub fn is_alias(&self) -> bool {
        self.help.starts_with("Alias of") || self.help.starts_with("Deprecated")
    }

    pub const fn at_least(self, min: i64) -> Flag {
        let max = match max_of(self.metavar) {
            Some(max) => max as f64,
            None => i64::MAX as f64,
        };
        self.between(min as f64, max)
    }

    pub const fn between(self, min: f64, max: f64) -> Flag {
        Flag { bounds: Some(Bounds::Between(min, max)), ..self }
    }

    pub const fn above(self, min: f64, max: f64) -> Flag {
        Flag { bounds: Some(Bounds::Above(min, max)), ..self }
    }

    pub const fn finite(self) -> Flag {
        self.between(f64::MIN, f64::MAX)
    }

    /// Restricts the number to positive values; durations also to those that a clock can represent.
    pub const fn positive(self) -> Flag {
        let max = match self.kind {
            Kind::Seconds => MAX_SECONDS,
            _ => f64::INFINITY,
        };
        self.above(0.0, max)
    }

    /// The name of the value: the first long option string with underscores.
    pub fn dest(&self) -> String {
        self.long().trim_start_matches('-').replace('-', "_")
    }

    pub fn long(&self) -> &'static str {
        self.names.iter().find(|name| name.starts_with("--")).unwrap_or(&self.names[0])
    }

    pub fn title(&self) -> String {
        self.names.join("/")
    }

    /// Whether the help leaves the flag out, as it does the other flags of the engine.
    pub fn is_passed_on(&self) -> bool {
        self.origin == Origin::Engine && self.help.is_empty()
    }
}

pub const fn switch(name: &'static [&'static str], group: &'static Group, help: &'static str) -> Flag {
    tacho(name, Kind::Switch, "", DefaultValue::Off, group, help)
}

static GENERAL: Group = group("options", "options", "");

/// `-h` and `--help` of every command, not listed in the help.
pub const HELP: Flag = vllm(
    &["-h", "--help"],
    Kind::Help,
    "TOPIC",
    DefaultValue::Unset,
    &GENERAL,
    "Show the options used most; --help shows all, --help=TOPIC explains a section or the options with TOPIC in their name.",
);

#[macro_export]
macro_rules! rows {
    ($($part:expr),+ $(,)?) => {{
        const ALL: &[$crate::flag::Flag] = &$crate::flag::joined::<_, { 0 $(+ $part.len())+ }>($crate::flag::HELP, &[$($part),+]);
        ALL
    }};
}
pub use crate::rows;

/// The parts as one array; `any` is a value of the type.
pub const fn joined<T: Copy, const N: usize>(any: T, parts: &[&[T]]) -> [T; N] {
    let mut rows = [any; N];
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

/// The rows with these names, which must exist, in another help section.
pub const fn picked<const N: usize>(
    rows: &[Flag],
    names: [&str; N],
    origin: Origin,
    group: &'static Group,
) -> [Flag; N] {
    let mut found = [HELP; N];
    let (mut at, mut row) = (0, 0);
    while at < N {
        while !is_same(rows[row].names[0], names[at]) {
            row += 1;
        }
        found[at] = Flag { origin, group, ..rows[row] };
        (at, row) = (at + 1, 0);
    }
    found
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    one.len() == other.len() && at == one.len()
}

/// Creates a row for a flag of vLLM.
pub const fn vllm(
    names: &'static [&'static str],
    kind: Kind,
    metavar: &'static str,
    default: DefaultValue,
    group: &'static Group,
    help: &'static str,
) -> Flag {
    let bounds = match (kind, max_of(metavar)) {
        (Kind::Seconds, _) => Some(Bounds::Between(0.0, MAX_SECONDS)),
        (Kind::Int, Some(max)) => Some(Bounds::AtMost(max as f64)),
        _ => None,
    };
    Flag {
        names,
        kind,
        metavar,
        default,
        bounds,
        group,
        origin: Origin::Vllm,
        required: false,
        joins: false,
        help,
        tags: 0,
        needs: &[],
        excludes: &[],
        configs: &[],
    }
}

/// Creates a row for a flag that only tacho has.
pub const fn tacho(
    names: &'static [&'static str],
    kind: Kind,
    metavar: &'static str,
    default: DefaultValue,
    group: &'static Group,
    help: &'static str,
) -> Flag {
    Flag { origin: Origin::Tacho, ..vllm(names, kind, metavar, default, group, help) }
}

#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The command as typed, such as `tacho serve`.
    pub command: &'static str,
    pub about: &'static str,
    pub examples: &'static [(&'static str, &'static str)],
    /// The options that `-h` shows, in order and separated by spaces; empty for commands with few options, where it
    /// shows all.
    pub basics: &'static str,
    /// Properties of flags that the command recognizes only to reject them; the help does not list them.
    pub rejected: u32,
    pub implied: &'static [&'static str],
    pub groups: &'static [&'static Group],
    /// The flags, vLLM's in registration order.
    pub flags: &'static [Flag],
}

impl Table {
    pub const PLAIN: Table =
        Table { command: "", about: "", examples: &[], basics: "", rejected: 0, implied: &[], groups: &[], flags: &[] };

    /// Whether the command starts an engine, which may accept flags that are unknown here.
    pub fn has_engine(&self) -> bool {
        self.flags.iter().any(|flag| flag.origin == Origin::Engine)
    }

    pub fn find(&self, name: &str) -> Option<&'static Flag> {
        self.flags.iter().find(|flag| flag.names.contains(&name))
    }
}
