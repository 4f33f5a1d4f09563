//! What a template may make in one step and in all. Its numbers are anybody's: a width of 10^16 is refused, not tried.

use std::io;

use minijinja::value::{Kwargs, Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};

/// The greatest width, precision, indentation or count that a template may ask for, as many as `range` may have items.
const MOST: usize = 100_000;
/// Bytes that a text may have, and a rendering.
const LONGEST: usize = 128 << 20;
/// Items that a filter takes into a list.
const MOST_ITEMS: usize = 4_000_000;

type Check = fn(&[Value]) -> Result<(), Error>;

/// Puts a check before each of the engine's filters that makes more than it is given, or a list of it.
pub(super) fn add(environment: &mut Environment<'_>) {
    let checked: [(&'static str, Value, Check); 19] = [
        ("batch", Value::from_function(filters::batch), numbers),
        ("slice", Value::from_function(filters::slice), numbers),
        ("indent", Value::from_function(filters::indent), indented),
        ("format", Value::from_function(filters::format), |args| widths(directives(text(args)))),
        ("replace", Value::from_function(filters::replace), replaced),
        ("join", Value::from_function(filters::join), joined),
        ("list", Value::from_function(filters::list), items),
        ("sort", Value::from_function(filters::sort), items),
        ("unique", Value::from_function(filters::unique), items),
        ("reverse", Value::from_function(filters::reverse), items),
        ("map", Value::from_function(filters::map), items),
        ("select", Value::from_function(filters::select), items),
        ("reject", Value::from_function(filters::reject), items),
        ("selectattr", Value::from_function(filters::selectattr), items),
        ("rejectattr", Value::from_function(filters::rejectattr), items),
        ("groupby", Value::from_function(filters::groupby), items),
        ("dictsort", Value::from_function(filters::dictsort), items),
        ("zip", Value::from_function(filters::zip), items),
        ("chain", Value::from_function(filters::chain), items),
    ];
    for (name, filter, check) in checked {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
                let args = args.into_values();
                check(&args)?;
                filter.call(state, &args)
            },
        );
    }
}

fn text(args: &[Value]) -> &str {
    args.first().and_then(Value::as_str).unwrap_or_default()
}

fn refused(what: &str, asked: impl std::fmt::Display, most: usize) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what} of {asked} is more than {most}, the most there may be"))
}

/// A number that a template gives.
pub(super) fn number(what: &str, asked: usize) -> Result<usize, Error> {
    if asked > MOST { Err(refused(what, asked, MOST)) } else { Ok(asked) }
}

/// How long a text would become.
pub(super) fn length(bytes: usize) -> Result<(), Error> {
    if bytes > LONGEST { Err(refused("a text", format_args!("{bytes} bytes"), LONGEST)) } else { Ok(()) }
}

/// That a list that is to be made of the first argument is none too long.
pub(super) fn items(args: &[Value]) -> Result<(), Error> {
    match args.first().and_then(Value::len) {
        Some(count) if count > MOST_ITEMS => Err(refused("a list", format_args!("{count} items"), MOST_ITEMS)),
        _ => Ok(()),
    }
}

/// The same, and that no number among the others is too great.
fn numbers(args: &[Value]) -> Result<(), Error> {
    let named = args.last().filter(|last| last.is_kwargs()).and_then(|last| Kwargs::try_from(last.clone()).ok());
    let named = named.iter().flat_map(|named| named.args().filter_map(|name| named.peek::<Value>(name).ok()));
    let given: Vec<Value> = args.iter().skip(1).cloned().chain(named).collect();
    for asked in given.iter().filter_map(Value::as_usize) {
        number("a number", asked)?;
    }
    items(args)
}

fn indented(args: &[Value]) -> Result<(), Error> {
    numbers(args)?;
    length(text(args).split('\n').count().saturating_mul(args.iter().skip(1).find_map(widest).unwrap_or(0)))
}

/// The number that an argument is or holds under a name.
fn widest(value: &Value) -> Option<usize> {
    let named = || value.get_attr("width").ok().and_then(|width| width.as_usize());
    value.as_usize().or_else(|| value.is_kwargs().then(named).flatten())
}

/// `text, old, new`.
pub(super) fn replaced(args: &[Value]) -> Result<(), Error> {
    let texts: Vec<&str> = args.iter().take(3).filter_map(Value::as_str).collect();
    let [text, old, new] = texts[..] else { return Ok(()) };
    let count = text.matches(old).count();
    length((text.len() - count * old.len()).saturating_add(count.saturating_mul(new.len())))
}

/// `items, separator`.
pub(super) fn joined(args: &[Value]) -> Result<(), Error> {
    items(args)?;
    let [list, rest @ ..] = args else { return Ok(()) };
    if list.as_str().is_some() || list.len().is_none() {
        return Ok(());
    }
    let between = rest.first().and_then(Value::as_str).map_or(0, str::len);
    let bytes = list.try_iter()?.map(|item| item.as_str().map_or(0, str::len).saturating_add(between));
    length(bytes.fold(0, usize::saturating_add))
}

/// Widths and precisions in their digits.
pub(super) fn widths(found: Vec<&str>) -> Result<(), Error> {
    found
        .into_iter()
        .try_for_each(|digits| number("a width or precision", digits.parse().unwrap_or(usize::MAX)).map(drop))
}

/// The numbers behind the `%` of a format; a key in brackets stands before them, and `%%` is no directive.
pub(super) fn directives(format: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_ascii_digit() || "#-+ .".contains(c));
    let key = |part: &str| if part.starts_with('(') { part.find(')').map_or(0, |end| end + 1) } else { 0 };
    let parts = format.split("%%").flat_map(|plain| plain.split('%').skip(1)).map(|part| &part[key(part)..]);
    parts.flat_map(|part| runs(&part[..part.find(ends).unwrap_or(part.len())])).collect()
}

/// The numbers behind the `:` of fields in braces.
pub(super) fn fields(format: &str) -> Vec<&str> {
    let specs = format.split('{').skip(1).filter_map(|part| part.split('}').next()?.split_once(':'));
    specs.flat_map(|(_, spec)| runs(spec)).collect()
}

fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty())
}

/// Bytes that have been printed so far, into the answer or into a variable.
#[derive(Default)]
struct Printed(usize);

/// Counts a value that is about to be printed.
pub(super) fn print(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let printed = state.get_or_insert_extension(Printed::default());
    printed.0 = printed.0.saturating_add(value.as_str().map_or(0, str::len));
    length(printed.0)
}

/// A rendering while it grows.
#[derive(Default)]
pub(super) struct Rendering(Vec<u8>);

impl Rendering {
    /// All of it.
    pub(super) fn text(self) -> String {
        String::from_utf8(self.0).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl io::Write for Rendering {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > LONGEST {
            return Err(io::Error::other(format!("the text is longer than {LONGEST} bytes, the most there may be")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
