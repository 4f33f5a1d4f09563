//! The parser: argparse's rules for options, driven by a table. It does not know any flag by name. Positional
//! arguments go to the table's row for them; excess ones are an error.

use tacho_core::json::{Value, parse as parse_json, python_float, python_int};

use super::flag::{Flag, Kind, Origin, Table};
use super::tokens;
pub use super::values::{Setting, Values};
use crate::error::UsageError;

#[derive(Debug)]
pub enum Parsed {
    Values(Values),
    Help(Wanted),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// `-h`: the most common options.
    Basics,
    /// `--help`: every option, one line each.
    Overview,
    /// `--help=TOPIC`.
    Topic(String),
}

impl Wanted {
    /// The help on a topic, or the overview without one.
    pub fn of(topic: Option<&str>) -> Self {
        topic.filter(|topic| !topic.is_empty()).map_or(Wanted::Overview, |topic| Wanted::Topic(topic.to_owned()))
    }
}

impl Values {
    /// Parses words; they override the current values.
    pub fn read(mut self, args: &[String]) -> Result<Parsed, UsageError> {
        let folded = tokens::fold(args)?;
        self.duplicates.extend(folded.duplicates);
        let argv = classify(self.table, folded.args)?;
        let mut seen = vec![false; self.table.flags.len()];
        let positional = self.table.flags.iter().position(|flag| flag.kind.positions().is_some());
        let positions = positional.and_then(|at| self.table.flags[at].kind.positions()).unwrap_or(0);
        let (mut rest, mut left_over) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(word) = argv.get(at) {
            at += 1;
            match word {
                Word::Option { flag_at, name, .. } if self.table.flags[*flag_at].kind == Kind::Help => {
                    return Ok(Parsed::Help(wanted(name, word.explicit(), &argv[at..])));
                }
                Word::Option { flag_at, name, .. } => {
                    at += self.take(*flag_at, name, word.explicit(), &argv[at..], &mut seen[*flag_at])?;
                }
                Word::Plain(text) if rest.len() < positions => rest.push(text.clone()),
                Word::Unknown(text) if self.table.has_engine() && text != "--" => {
                    at += self.pass_on_unknown(text, &argv[at..]);
                }
                Word::Plain(text) | Word::Unknown(text) => left_over.push(text.clone()),
            }
        }
        if let Some(at) = positional {
            self.is_set[at] |= !rest.is_empty();
            self.values[at] = Value::List(args_of(rest));
        }
        if left_over.is_empty() {
            Ok(Parsed::Values(self))
        } else {
            Err(UsageError::Unrecognized { tokens: left_over })
        }
    }

    /// Sets a flag to the values after its option, and returns how many words they take. `seen` says whether these
    /// words had the flag before.
    fn take(
        &mut self,
        at: usize,
        name: &str,
        explicit: Option<&str>,
        after: &[Word],
        seen: &mut bool,
    ) -> Result<usize, UsageError> {
        let flag = &self.table.flags[at];
        let (taken, args) = arguments(flag, explicit, after)?;
        let value = convert(flag, name, &args)?;
        let again = std::mem::replace(seen, true);
        (self.is_set[at], self.implied[at]) = (true, false);
        match (&mut self.values[at], value) {
            (Value::List(known), Value::List(items)) if flag.kind == Kind::Repeated && again => known.extend(items),
            (Value::Str(known), Value::Str(new)) if flag.joins && again => *known = format!("{known},{new}"),
            (known, value) => {
                *known = value;
                let first = flag.names[0];
                if again && flag.kind != Kind::Repeated && !self.duplicates.iter().any(|known| known == first) {
                    self.duplicates.push(first.to_owned());
                }
            }
        }
        if flag.origin == Origin::Engine {
            self.engine_args.extend(typed(name, explicit, &args));
        }
        Ok(taken)
    }

    /// Passes on an option that is in no table, with the values after it. Returns the number of these values.
    fn pass_on_unknown(&mut self, option: &str, after: &[Word]) -> usize {
        let values = plain(after, usize::MAX);
        let args: Vec<String> = std::iter::once(option.to_owned()).chain(values.iter().cloned()).collect();
        let name = |word: &str| word.split('=').next().unwrap_or(word).to_owned();
        if self.unknown.iter().any(|known| name(known) == name(option)) && !self.duplicates.contains(&name(option)) {
            self.duplicates.push(name(option));
        }
        self.unknown.extend_from_slice(&args);
        self.engine_args.extend(args);
        values.len()
    }
}

/// The kind of help that a help option asks for.
fn wanted(name: &str, explicit: Option<&str>, after: &[Word]) -> Wanted {
    let topic = explicit.map(str::to_owned).or_else(|| plain(after, 1).pop());
    if topic.is_none() && name == "-h" { Wanted::Basics } else { Wanted::of(topic.as_deref()) }
}

enum Word {
    /// A value, if an option takes it.
    Plain(String),
    Unknown(String),
    /// An option with its full name and the value after `=`.
    Option {
        flag_at: usize,
        name: &'static str,
        explicit: Option<String>,
    },
}

impl Word {
    fn explicit(&self) -> Option<&str> {
        match self {
            Word::Option { explicit, .. } => explicit.as_deref(),
            _ => None,
        }
    }
}

/// Distinguishes options from values. As in argparse, an ambiguous option is reported before an invalid value to its
/// left.
fn classify(table: &'static Table, args: Vec<String>) -> Result<Vec<Word>, UsageError> {
    let mut out = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    for word in args.by_ref() {
        if word == "--" {
            // Ends the values of an option.
            out.push(Word::Unknown(word));
            break;
        }
        out.push(classify_one(table, word)?);
    }
    out.extend(args.map(Word::Unknown));
    Ok(out)
}

fn classify_one(table: &'static Table, word: String) -> Result<Word, UsageError> {
    if !word.starts_with('-') || word.len() == 1 {
        return Ok(Word::Plain(word));
    }
    let (name, explicit) = word.split_once('=').map_or((&*word, None), |(name, value)| (name, Some(value.to_owned())));
    let exact = names(table).find(|(_, known)| *known == name);
    let found = match exact {
        Some(found) => Some(found),
        None => abbreviated(table, &word, name)?,
    };
    if let Some((flag_at, name)) = found {
        return Ok(Word::Option { flag_at, name, explicit });
    }
    // A negative number or a text with spaces is a value unless it names an option.
    let is_value = is_negative_number(&word) || word.contains(' ');
    Ok(if is_value { Word::Plain(word) } else { Word::Unknown(word) })
}

/// argparse's negative numbers: digits with an optional decimal point, but neither `-1e5` nor `-inf`.
fn is_negative_number(word: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = word.strip_prefix('-') else { return false };
    match number.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction) && !fraction.is_empty(),
        None => digits(number) && !number.is_empty(),
    }
}

fn names(table: &'static Table) -> impl Iterator<Item = (usize, &'static str)> {
    table.flags.iter().enumerate().flat_map(|(at, flag)| flag.names.iter().map(move |&name| (at, name)))
}

fn abbreviated(table: &'static Table, word: &str, prefix: &str) -> Result<Option<(usize, &'static str)>, UsageError> {
    if !prefix.starts_with("--") {
        return Ok(None);
    }
    let matches: Vec<_> = names(table)
        .filter(|&(at, name)| table.flags[at].origin != Origin::Tacho && name.starts_with(prefix))
        .collect();
    if matches.len() > 1 {
        let matches = matches.into_iter().map(|(_, name)| name).collect();
        return Err(UsageError::Ambiguous { token: word.to_owned(), matches });
    }
    Ok(matches.first().copied())
}

/// The values of an option, and the number of words they take.
fn arguments(flag: &Flag, explicit: Option<&str>, after: &[Word]) -> Result<(usize, Vec<String>), UsageError> {
    let takes_none = matches!(flag.kind, Kind::Switch | Kind::TriState | Kind::Help);
    if let Some(value) = explicit {
        if takes_none {
            return Err(UsageError::UnwantedValue { flag: flag.title(), value: value.to_owned() });
        }
        return Ok((0, vec![value.to_owned()]));
    }
    let max = match flag.kind {
        _ if takes_none => 0,
        Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated => usize::MAX,
        _ => 1,
    };
    let values = plain(after, max);
    match flag.kind {
        Kind::OneOrMore | Kind::Repeated if values.is_empty() => Err(UsageError::NoValues { flag: flag.title() }),
        Kind::AnyNumber | Kind::OptionalStr => Ok((values.len(), values)),
        _ if values.is_empty() && !takes_none => Err(UsageError::NoValue { flag: flag.title() }),
        _ => Ok((values.len(), values)),
    }
}

fn args_of(args: Vec<String>) -> Vec<Value> {
    args.into_iter().map(Value::from).collect()
}

fn plain(after: &[Word], max: usize) -> Vec<String> {
    let texts = after.iter().map_while(|word| match word {
        Word::Plain(text) => Some(text.clone()),
        _ => None,
    });
    texts.take(max).collect()
}

/// An option as given, with its full name.
fn typed(name: &str, explicit: Option<&str>, args: &[String]) -> Vec<String> {
    match explicit {
        Some(value) => vec![format!("{name}={value}")],
        None => std::iter::once(name.to_owned()).chain(args.iter().cloned()).collect(),
    }
}

/// Converts the values. `name` is the option string used, which determines the value of a three-state switch.
pub(crate) fn convert(flag: &Flag, name: &str, args: &[String]) -> Result<Value, UsageError> {
    let text = args.first().map_or("", String::as_str);
    let bad = |kind| UsageError::BadValue { flag: flag.title(), kind, value: text.to_owned() };
    match flag.kind {
        Kind::Help | Kind::Switch => Ok(Value::Bool(true)),
        Kind::TriState => Ok(Value::Bool(!name.starts_with("--no-"))),
        Kind::OptionalStr if args.is_empty() => Ok(Value::Bool(true)),
        Kind::Str | Kind::OptionalStr => Ok(Value::from(text)),
        Kind::Float | Kind::Seconds => python_float(text).map(Value::Float).ok_or_else(|| bad("float")),
        Kind::Json => parse_json(text).map_err(|_| bad("loads")),
        Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated | Kind::Rest(_) => Ok(Value::List(args_of(args.to_vec()))),
        Kind::Names => {
            Ok(Value::List(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Value::from).collect()))
        }
        Kind::Custom(reader) => (reader.read)(text).ok_or_else(|| bad(reader.name)),
        Kind::Int => match python_int(text) {
            Some(Value::BigInt(_)) => Err(UsageError::TooLarge { flag: flag.title(), value: text.to_owned() }),
            Some(number) => Ok(number),
            None => Err(bad("int")),
        },
        Kind::ChoiceOrFile(_, endings) if text.contains('/') || endings.iter().any(|ending| text.ends_with(ending)) => {
            Ok(Value::from(text))
        }
        Kind::Choice(choices) | Kind::ChoiceOrFile(choices, _) => match choice(choices, text) {
            Some(known) => Ok(Value::from(known)),
            None => {
                Err(UsageError::BadChoice { flag: flag.title(), value: text.to_owned(), choices: choices.to_vec() })
            }
        },
    }
}

/// Finds a choice. vLLM's Rust client uses `-` where the Python client uses `_`.
fn choice(choices: &'static [&'static str], text: &str) -> Option<&'static str> {
    let named = |same: &dyn Fn(&str) -> bool| choices.iter().copied().find(|known| same(known));
    named(&|known| known == text).or_else(|| named(&|known| known.replace('_', "-") == text))
}
