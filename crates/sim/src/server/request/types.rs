//! Types of request fields, with the conversions that pydantic makes.

use std::fmt::Display;

use tacho_core::json::{Dict, Value, python_str};

use super::problem::Problem;

/// Most characters of a value in a message.
const SHOWN: usize = 200;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Any,
    Bool,
    Int,
    /// An integer of 64 bits and at least this value.
    IntFrom(i64),
    Float,
    Text,
    /// A text that is not empty.
    Name,
    OneOf(&'static [&'static str]),
    List(&'static Kind),
    /// A list of at most this many items.
    UpTo(usize, &'static Kind),
    /// An object with values of one type.
    Map(&'static Kind),
    Object(&'static [Group]),
    /// An object whose named field selects the others; a case without values stands for all other values.
    Tagged(&'static str, &'static [Case]),
    Either(&'static [Kind]),
}

/// Values of the selecting field, and the other fields.
type Case = (&'static [&'static str], &'static [Group]);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    kind: Kind,
    presence: Presence,
    names: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Nullable,
    Optional,
    Required,
}

/// Fields that may be absent or null.
pub(crate) const fn nullable(kind: Kind, names: &'static [&'static str]) -> Group {
    Group { kind, presence: Presence::Nullable, names }
}

/// Fields that may be absent, but not null.
pub(crate) const fn optional(kind: Kind, names: &'static [&'static str]) -> Group {
    Group { kind, presence: Presence::Optional, names }
}

pub(crate) const fn required(kind: Kind, names: &'static [&'static str]) -> Group {
    Group { kind, presence: Presence::Required, names }
}

/// Where a value is wrong, what is expected there, and what is there.
#[derive(Debug)]
struct Mismatch {
    at: String,
    expected: String,
    found: String,
}

impl Mismatch {
    fn new(expected: String, value: Option<&Value>) -> Self {
        let found = match value {
            None => "nothing".to_owned(),
            Some(Value::Dict(_)) => "an object".to_owned(),
            Some(Value::List(items)) => format!("a list of {}", items.len()),
            Some(value) => python_str(value).chars().take(SHOWN).collect(),
        };
        Mismatch { at: String::new(), expected, found }
    }

    fn below(mut self, name: impl Display) -> Self {
        self.at = if self.at.is_empty() { name.to_string() } else { format!("{name}.{}", self.at) };
        self
    }
}

impl From<Mismatch> for Problem {
    fn from(wrong: Mismatch) -> Self {
        Problem::wrong_type(&format!("body.{}", wrong.at), &format!("expected {}, got {}", wrong.expected, wrong.found))
    }
}

/// Checks the fields in `tables`; others are not checked.
pub(crate) fn check(tables: &[&[Group]], body: &Dict) -> Result<(), Problem> {
    tables.iter().try_for_each(|groups| check_fields(groups, body)).map_err(Problem::from)
}

fn check_fields(groups: &[Group], dict: &Dict) -> Result<(), Mismatch> {
    for group in groups {
        for name in group.names {
            match dict.get(name) {
                None if group.presence != Presence::Required => {}
                None => return Err(Mismatch::new(group.kind.expected(), None).below(name)),
                Some(Value::Null) if group.presence == Presence::Nullable => {}
                Some(value) => group.kind.check(value).map_err(|wrong| wrong.below(name))?,
            }
        }
    }
    Ok(())
}

impl Kind {
    /// The refusal of a field that is not of this type.
    pub(crate) fn problem(self, name: &str, value: Option<&Value>) -> Problem {
        Mismatch::new(self.expected(), value).below(name).into()
    }

    fn check(self, value: &Value) -> Result<(), Mismatch> {
        let fits = match (self, value) {
            (Kind::Any, _) => true,
            (Kind::Bool, _) => as_bool(value).is_some(),
            (Kind::Int, _) => as_int(value).is_some(),
            (Kind::IntFrom(_), Value::BigInt(_)) => false,
            (Kind::IntFrom(_), Value::Float(number)) if number.abs() >= i64::MAX as f64 => false,
            (Kind::IntFrom(min), _) => as_int(value).is_some_and(|number| number >= min),
            (Kind::Float, _) => as_float(value).is_some(),
            (Kind::Text, Value::Str(_)) => true,
            (Kind::Name, Value::Str(text)) => !text.is_empty(),
            (Kind::OneOf(names), Value::Str(text)) => names.contains(&text.as_str()),
            (Kind::UpTo(max, _), Value::List(items)) if items.len() > max => false,
            (Kind::List(kind) | Kind::UpTo(_, kind), Value::List(items)) => {
                let mut items = items.iter().enumerate();
                return items.try_for_each(|(at, item)| kind.check(item).map_err(|wrong| wrong.below(at)));
            }
            (Kind::Map(kind), Value::Dict(dict)) => {
                return dict.iter().try_for_each(|(name, item)| kind.check(item).map_err(|wrong| wrong.below(name)));
            }
            (Kind::Object(groups), Value::Dict(dict)) => return check_fields(groups, dict),
            (Kind::Tagged(tag, cases), Value::Dict(dict)) => {
                let text = dict.text(tag);
                let is_meant = |(names, _): &&Case| text.is_some_and(|tag| names.is_empty() || names.contains(&tag));
                return match cases.iter().find(is_meant) {
                    Some((_, groups)) => check_fields(groups, dict),
                    None => Err(Mismatch::new(tags(cases), dict.get(tag)).below(tag)),
                };
            }
            (Kind::Either(kinds), _) => kinds.iter().any(|kind| kind.check(value).is_ok()),
            _ => false,
        };
        if fits { Ok(()) } else { Err(Mismatch::new(self.expected(), Some(value))) }
    }

    fn expected(self) -> String {
        match self {
            Kind::Any => "a value".to_owned(),
            Kind::Bool => "a boolean".to_owned(),
            Kind::Int => "an integer".to_owned(),
            Kind::IntFrom(i64::MIN) => "an integer of 64 bits".to_owned(),
            Kind::IntFrom(min) => format!("an integer of 64 bits, at least {min}"),
            Kind::Float => "a number".to_owned(),
            Kind::Text => "a string".to_owned(),
            Kind::Name => "a string that is not empty".to_owned(),
            Kind::OneOf(names) => one_of(names),
            Kind::List(Kind::Any) => "a list".to_owned(),
            Kind::List(kind) => format!("a list (items: {})", kind.expected()),
            Kind::UpTo(max, kind) => format!("a list of at most {max} (items: {})", kind.expected()),
            Kind::Map(_) | Kind::Object(_) | Kind::Tagged(..) => "an object".to_owned(),
            Kind::Either(kinds) => kinds.iter().map(|kind| kind.expected()).collect::<Vec<_>>().join(" or "),
        }
    }
}

/// What is expected of the field that selects a case.
fn tags(cases: &[Case]) -> String {
    if cases.iter().any(|(names, _)| names.is_empty()) {
        return Kind::Text.expected();
    }
    one_of(&cases.iter().flat_map(|(names, _)| names.iter().copied()).collect::<Vec<_>>())
}

fn one_of(names: &[&str]) -> String {
    format!("one of {}", names.join(", "))
}

pub(crate) fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Int(number @ (0 | 1)) => Some(*number == 1),
        Value::Float(number) if *number == 0.0 || *number == 1.0 => Some(*number == 1.0),
        Value::Str(text) => match text.to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// An integer, clamped to 64 bits.
pub(crate) fn as_int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::Float(number) if number.is_finite() && number.fract() == 0.0 => Some(*number as i64),
        Value::BigInt(digits) => Some(if digits.starts_with('-') { i64::MIN } else { i64::MAX }),
        Value::Str(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(crate) fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        other => other.as_f64(),
    }
}
