//! The parser: argparse's rules for options, driven by a table. It does not know any flag by name. Positional
//! arguments go to the table's row for them; excess ones are an error.

use tacho_core::json::{Value, parse as parse_json};

use super::entry::words_for;
use super::flag::{Flag, Kind, Origin, Table};
use super::repr::repr;
use super::tokens;
use crate::error::{OutOfBounds, UsageError};
use tacho_core::json::{python_float, python_int};

#[derive(Debug)]
pub enum Parsed {
    /// Run the command with these values.
    Values(Values),
    Help(Wanted),
}

/// The kind of help.
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

/// The value of one flag.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The flag, as error messages name it.
    pub flag: &'static str,
    pub value: &'a Value,
    pub is_given: bool,
}

/// The value of every flag of a table.
#[derive(Debug, Clone)]
pub struct Values {
    table: &'static Table,
    values: Vec<Value>,
    given: Vec<bool>,
    /// Which values come from a configuration file or an environment variable.
    implied: Vec<bool>,
    /// Flags given more than once, in order of their second occurrence.
    pub duplicates: Vec<String>,
    /// The engine's arguments, with full flag names.
    pub engine_words: Vec<String>,
    /// Engine arguments that are in no table.
    pub unknown: Vec<String>,
}

impl From<&Values> for Values {
    fn from(values: &Values) -> Self {
        values.clone()
    }
}

impl Values {
    /// Creates the values with all flags at their defaults.
    pub fn defaults(table: &'static Table) -> Self {
        let values = table.flags.iter().map(|flag| flag.preset.value()).collect();
        Values {
            table,
            values,
            given: vec![false; table.flags.len()],
            implied: vec![false; table.flags.len()],
            duplicates: Vec::new(),
            engine_words: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Parses words; they override the current values.
    pub fn read(mut self, args: &[String]) -> Result<Parsed, UsageError> {
        let folded = tokens::fold(args)?;
        self.duplicates.extend(folded.duplicates);
        let words = classify(self.table, folded.words)?;
        let mut seen = vec![false; self.table.flags.len()];
        let places = self.table.flags.iter().find_map(|flag| flag.kind.places()).unwrap_or(0);
        let (mut rest, mut left_over) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let (flag_at, name, explicit) = match word {
                Word::Option { flag_at, name, explicit } => (*flag_at, *name, explicit.as_deref()),
                Word::Plain(text) if rest.len() < places => {
                    rest.push(text.clone());
                    continue;
                }
                Word::Unknown(text) if self.table.has_engine() && text != "--" => {
                    at += self.pass_on_unknown(text, &words[at..]);
                    continue;
                }
                Word::Plain(text) | Word::Unknown(text) => {
                    left_over.push(text.clone());
                    continue;
                }
            };
            let flag = &self.table.flags[flag_at];
            self.implied[flag_at] = false;
            if flag.kind == Kind::Help {
                let topic = explicit.map(str::to_owned).or_else(|| plain(&words[at..], 1).pop());
                let wanted =
                    if topic.is_none() && name == "-h" { Wanted::Basics } else { Wanted::of(topic.as_deref()) };
                return Ok(Parsed::Help(wanted));
            }
            let (taken, args) = arguments(flag, explicit, &words[at..])?;
            at += taken;
            let mut value = convert(flag, name, &args)?;
            let joins = flag.joins && seen[flag_at];
            if let (true, Value::Str(old), Value::Str(new)) = (joins, &self.values[flag_at], &value) {
                value = Value::Str(format!("{old},{new}"));
            }
            if flag.kind == Kind::Repeated {
                self.append(flag_at, value, seen[flag_at]);
                seen[flag_at] = true;
                self.given[flag_at] = true;
                continue;
            }
            self.values[flag_at] = value;
            if flag.origin == Origin::Engine {
                self.engine_words.extend(typed(name, explicit, &args));
            }
            if seen[flag_at] && !joins && !self.duplicates.iter().any(|known| known == flag.names[0]) {
                self.duplicates.push(flag.names[0].to_owned());
            }
            seen[flag_at] = true;
            self.given[flag_at] = true;
        }
        if let Some(at) = self.table.flags.iter().position(|flag| flag.kind.places().is_some()) {
            self.given[at] |= !rest.is_empty();
            self.append(at, Value::List(words_of(rest)), false);
        }
        if left_over.is_empty() {
            Ok(Parsed::Values(self))
        } else {
            Err(UsageError::Unrecognized { tokens: left_over })
        }
    }

    /// Appends the items of a list to a value, or replaces it.
    fn append(&mut self, at: usize, items: Value, add: bool) {
        match (&mut self.values[at], items) {
            (Value::List(known), Value::List(items)) if add => known.extend(items),
            (value, items) => *value = items,
        }
    }

    /// Passes on an option that is in no table, with the values after it. Returns the number of these values.
    fn pass_on_unknown(&mut self, option: &str, after: &[Word]) -> usize {
        let values = plain(after, usize::MAX);
        let words: Vec<String> = std::iter::once(option.to_owned()).chain(values.iter().cloned()).collect();
        self.unknown.extend_from_slice(&words);
        self.engine_words.extend(words);
        values.len()
    }

    /// Every flag that has a value, with the name of its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Flag, &Value)> {
        self.table.flags.iter().zip(&self.values).filter(|(flag, _)| flag.kind != Kind::Help)
    }

    fn position(&self, name: &str) -> usize {
        self.table.flags.iter().position(|flag| flag.names[0] == name).expect("the table has a row of this name")
    }

    /// Copies the given values of flags that both commands have with the same kind.
    pub fn take_over(&mut self, other: &Values) {
        for (at, flag) in self.table.flags.iter().enumerate() {
            let same = other.table.flags.iter().position(|theirs| {
                theirs.names[0] == flag.names[0]
                    && std::mem::discriminant(&theirs.kind) == std::mem::discriminant(&flag.kind)
            });
            if let Some(place) = same.filter(|place| other.given[*place]) {
                self.values[at] = other.values[place].clone();
                self.given[at] = true;
                self.implied[at] = other.implied[place];
            }
        }
        self.duplicates.clone_from(&other.duplicates);
    }

    /// Marks all values so far as those of a configuration file or of environment variables.
    pub(crate) fn imply(&mut self) {
        self.implied.clone_from(&self.given);
    }

    /// The words that give the values of a configuration file and of environment variables, flag by flag.
    pub fn implied_words(&self) -> Vec<Vec<String>> {
        let rows = self.table.flags.iter().zip(&self.values).zip(&self.implied);
        rows.filter(|(_, implied)| **implied).map(|((flag, value), _)| words_for(flag, value)).collect()
    }

    /// The words that give the value of a flag; none if it is not given.
    pub fn words(&self, name: &str) -> Vec<String> {
        let at = self.position(name);
        if self.given[at] { words_for(&self.table.flags[at], &self.values[at]) } else { Vec::new() }
    }

    /// Resets a flag to its default.
    pub fn forget(&mut self, name: &str) {
        let at = self.position(name);
        self.values[at] = self.table.flags[at].preset.value();
        self.given[at] = false;
    }

    /// Sets a flag as if it were given; a switch needs no text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), UsageError> {
        let at = self.position(name);
        let flag = &self.table.flags[at];
        self.values[at] = match flag.kind {
            Kind::Switch => Value::Bool(true),
            _ => convert(flag, name, &[text.to_owned()])?,
        };
        self.given[at] = true;
        Ok(())
    }

    /// Sets the value of a flag as if it were given.
    pub fn put(&mut self, name: &str, value: Value) {
        let at = self.position(name);
        self.values[at] = value;
        self.given[at] = true;
    }

    /// Returns the value of a flag by its first option string.
    pub fn get(&self, name: &str) -> &Value {
        &self.values[self.position(name)]
    }

    /// Returns the value of a row, read by a function. A row that is not in the table has its default.
    pub fn read_row<T>(&self, row: &Flag, read: impl FnOnce(Setting<'_>) -> T) -> T {
        match self.table.flags.iter().position(|flag| flag.names[0] == row.names[0]) {
            Some(at) => read(Setting { flag: row.long(), value: &self.values[at], is_given: self.given[at] }),
            None => read(Setting { flag: row.long(), value: &row.preset.value(), is_given: false }),
        }
    }

    pub fn given(&self, origin: Origin) -> impl Iterator<Item = &'static Flag> {
        let rows = self.table.flags.iter().zip(&self.given);
        rows.filter(move |(flag, given)| **given && flag.origin == origin).map(|(flag, _)| flag)
    }

    /// The given ones of these flags.
    pub fn given_of<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
        names.into_iter().filter(|name| self.is_given(name))
    }

    pub fn is_given(&self, name: &str) -> bool {
        self.given[self.position(name)]
    }

    /// Rejects numbers outside of their flags' ranges.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        for ((flag, value), given) in self.table.flags.iter().zip(&self.values).zip(&self.given) {
            let number = match value {
                // The text of an optional value is a number if the flag has a range.
                Value::Str(text) => Some(python_float(text).unwrap_or(f64::NAN)),
                value => value.as_f64(),
            };
            if let (Some(bounds), Some(number), true) = (flag.bounds, number, *given)
                && !bounds.hold(number)
            {
                let shown = value.as_str().map_or_else(|| repr(value), str::to_owned);
                return Err(OutOfBounds { flag: flag.long(), value: shown, bounds });
            }
        }
        Ok(())
    }

    /// Rejects missing required flags.
    pub fn complete(&self) -> Result<(), UsageError> {
        let rows = self.table.flags.iter().zip(&self.given);
        let missing: Vec<String> =
            rows.filter(|(flag, given)| flag.required && !**given).map(|(flag, _)| flag.title()).collect();
        if missing.is_empty() { Ok(()) } else { Err(UsageError::Missing { what: missing.join(", ") }) }
    }
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

/// Distinguishes options from values. As in argparse, an ambiguous option is reported before an invalid value to its
/// left.
fn classify(table: &'static Table, words: Vec<String>) -> Result<Vec<Word>, UsageError> {
    let mut out = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    for word in words.by_ref() {
        if word == "--" {
            // Ends the values of an option.
            out.push(Word::Unknown(word));
            break;
        }
        out.push(classify_one(table, word)?);
    }
    out.extend(words.map(Word::Unknown));
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
    let most = match flag.kind {
        _ if takes_none => 0,
        Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated => usize::MAX,
        _ => 1,
    };
    let values = plain(after, most);
    match flag.kind {
        Kind::OneOrMore | Kind::Repeated if values.is_empty() => Err(UsageError::NoValues { flag: flag.title() }),
        Kind::AnyNumber | Kind::OptionalStr => Ok((values.len(), values)),
        _ if values.is_empty() && !takes_none => Err(UsageError::NoValue { flag: flag.title() }),
        _ => Ok((values.len(), values)),
    }
}

fn words_of(words: Vec<String>) -> Vec<Value> {
    words.into_iter().map(Value::from).collect()
}

fn plain(after: &[Word], most: usize) -> Vec<String> {
    let texts = after.iter().map_while(|word| match word {
        Word::Plain(text) => Some(text.clone()),
        _ => None,
    });
    texts.take(most).collect()
}

/// An option as given, with its full name.
fn typed(name: &str, explicit: Option<&str>, args: &[String]) -> Vec<String> {
    match explicit {
        Some(value) => vec![format!("{name}={value}")],
        None => std::iter::once(name.to_owned()).chain(args.iter().cloned()).collect(),
    }
}

/// Converts the values. `name` is the option string used, which determines the value of a three-state switch.
fn convert(flag: &Flag, name: &str, args: &[String]) -> Result<Value, UsageError> {
    let text = args.first().map_or("", String::as_str);
    let bad = |kind| UsageError::BadValue { flag: flag.title(), kind, value: text.to_owned() };
    match flag.kind {
        Kind::Help | Kind::Switch => Ok(Value::Bool(true)),
        Kind::TriState => Ok(Value::Bool(!name.starts_with("--no-"))),
        // The engine may accept formats that this table does not.
        Kind::Int if flag.is_passed_on() => Ok(python_int(text).unwrap_or_else(|| Value::from(text))),
        Kind::Float if flag.is_passed_on() => Ok(python_float(text).map_or_else(|| Value::from(text), Value::Float)),
        Kind::OptionalStr if args.is_empty() => Ok(Value::Bool(true)),
        Kind::Str | Kind::OptionalStr => Ok(Value::from(text)),
        Kind::Float | Kind::Seconds => python_float(text).map(Value::Float).ok_or_else(|| bad("float")),
        Kind::Json => parse_json(text).map_err(|_| bad("loads")),
        Kind::AnyNumber | Kind::OneOrMore | Kind::Repeated | Kind::Rest(_) => Ok(Value::List(words_of(args.to_vec()))),
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
