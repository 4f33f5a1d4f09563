//! `--class`: several classes of traffic in one run, each with request and dataset flags of its own.

use tacho_args::declare::*;
use tacho_args::{grammar::Parsed, near::nearest, repr::quoted};
use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_core::secret::{REDACTED, looks_secret};
use tacho_run::experiment::split;

use super::stages::{FLAG, StageArg};
use super::{ServeArgs, TABLE};
use crate::args::error::{ArgumentError, UsageError};
use crate::args::shared::tags::{PER_CLASS, PER_STAGE, WHOLE_RUN};

/// Options that only a stage has.
const OF_STAGES: [&str; 3] = ["burstiness", "input_len", "output_len"];

#[derive(Debug, Clone)]
pub(crate) struct ClassArgs {
    pub(crate) name: String,
    pub(crate) weight: Option<f64>,
    /// The run's arguments with those of the class.
    pub(crate) args: ServeArgs,
    pub(crate) class_flags: Values,
}

/// The classes of the run, each with the arguments of a run of that class alone.
pub(super) fn read(args: &ServeArgs) -> Result<Vec<ClassArgs>, ArgumentError> {
    let mut classes: Vec<ClassArgs> = Vec::new();
    for text in &args.tacho.class {
        let invalid =
            |problem: String| ArgumentError::other(format!("--class {}: {problem}", quoted(class_name(text))));
        let given = ClassText::read(text).map_err(invalid)?;
        if classes.iter().any(|class| class.name == given.name) {
            return Err(invalid(format!("the name {} is given twice", given.name)));
        }
        let (args, class_flags) = with(args, "--class", &given.args).map_err(invalid)?;
        classes.push(ClassArgs { name: given.name, weight: given.weight, args, class_flags });
    }
    Ok(classes)
}

/// The name of a class: the rest of its text may hold headers and keys.
fn class_name(text: &str) -> &str {
    let end = |c: char| !(c.is_alphanumeric() || "-_".contains(c));
    let name = text.split(end).next().unwrap_or_default();
    if looks_secret(name) { REDACTED } else { name }
}

/// The stages of the run as classes, if one of them has dataset flags of its own.
pub(super) fn of_stages(args: &ServeArgs) -> Result<Vec<ClassArgs>, ArgumentError> {
    if !args.stages.have_datasets() {
        return Ok(Vec::new());
    }
    if !args.tacho.class.is_empty() {
        return Err(ArgumentError::Together { flag: "a dataset in --stages", other: "--class" });
    }
    let class = |(stage, requests): (&StageArg, usize)| {
        let name = stage.stage.name.clone();
        let invalid = |problem: String| ArgumentError::other(format!("--stages: stage {name:?}: {problem}"));
        check_names(FLAG, &stage.flags, &OF_STAGES).map_err(invalid)?;
        let mut argv = args_of(&stage.flags);
        for (flag, text) in ["--input-len-dist", "--output-len-dist"].iter().zip(&stage.lengths) {
            argv.extend(text.as_ref().map(|text| format!("{flag}={text}")));
        }
        let (args, class_flags) = with(args, FLAG, &argv).map_err(invalid)?;
        Ok(ClassArgs { name, weight: Some(requests as f64), args, class_flags })
    };
    args.stages.with_requests().map(class).collect()
}

/// The run's arguments without `flag`, and with those of a class or a stage.
fn with(args: &ServeArgs, flag: &'static str, argv: &[String]) -> Result<(ServeArgs, Values), String> {
    let options = own_values(flag, argv)?;
    let mut values = args.values.clone();
    values.forget(flag);
    values.take_over(&options);
    let args = ServeArgs::new(values).map_err(|error| error.to_string())?;
    if args.self_timed() {
        let name = args.dataset.kind.name;
        return Err(format!("{name} sets its own send times, and the run has one schedule"));
    }
    super::check::check_class(&args).map_err(|error| error.to_string())?;
    Ok((args, options))
}

struct ClassText {
    name: String,
    weight: Option<f64>,
    args: Vec<String>,
}

impl ClassText {
    /// Reads `NAME=WEIGHT: FLAGS`, or a JSON object with the keys `name`, `weight` and the names of flags.
    fn read(text: &str) -> Result<Self, String> {
        let class = if text.trim_start().starts_with('{') { Self::object(text)? } else { Self::line(text)? };
        let plain = |character: char| character.is_alphanumeric() || "-_".contains(character);
        if class.name.is_empty() || !class.name.chars().all(plain) {
            return Err("its name is not made of letters, digits, - and _: write NAME=WEIGHT: FLAGS".to_owned());
        }
        if class.weight.is_some_and(|weight| !(weight > 0.0 && weight.is_finite())) {
            return Err("its weight is not a number above 0".to_owned());
        }
        Ok(class)
    }

    fn line(text: &str) -> Result<Self, String> {
        let (head, flags) = text.split_once(':').unwrap_or((text, ""));
        let (name, weight) = head.split_once('=').unwrap_or((head, ""));
        let weight = Some(weight.trim()).filter(|weight| !weight.is_empty()).map(str::parse).transpose();
        let weight = weight.map_err(|_| "its weight is not a number above 0".to_owned())?;
        let empty = flags.trim().is_empty();
        let args = if empty { Vec::new() } else { split("--class", flags).map_err(|error| error.to_string())? };
        Ok(ClassText { name: name.trim().to_owned(), weight, args })
    }

    fn object(text: &str) -> Result<Self, String> {
        let value = parse(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let mut dict = value.as_dict().cloned().unwrap_or_default();
        let name = dict.remove("name").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
        let weight = dict.remove("weight").map(|weight| weight.as_f64().unwrap_or(f64::NAN));
        check_names("--class", &dict, &["name", "weight"])?;
        Ok(ClassText { name, weight, args: args_of(&dict) })
    }
}

/// The values of the flags of a class or a stage, which only concern its requests.
fn own_values(outer: &str, args: &[String]) -> Result<Values, String> {
    let values = match Values::defaults(&TABLE).read(args).map_err(|error| with_nearest(outer, &error))? {
        Parsed::Values(values) => values,
        Parsed::Help(_) => return Err("ask tacho serve itself for its help".to_owned()),
    };
    values.check_ranges().map_err(|error| error.to_string())?;
    let foreign = values.set_flags().find(|flag| !is_allowed(outer, flag));
    match foreign {
        Some(flag) => Err(format!("{} applies to the whole run: write it outside of {outer}", flag.names[0])),
        None => Ok(values),
    }
}

/// A usage error, with the nearest flag that can be set.
fn with_nearest(outer: &str, error: &UsageError) -> String {
    if let UsageError::BadValue { kind: "loads", flag, .. } = error {
        return format!("{error}: write {flag}.KEY VALUE, such as {flag}.priority 1, or quote the JSON again");
    }
    let UsageError::Unrecognized { tokens } = error else { return error.to_string() };
    let names =
        || TABLE.flags.iter().filter(|flag| is_allowed(outer, flag)).flat_map(|flag| flag.names.iter().copied());
    let meant = tokens.iter().filter(|token| token.starts_with("--")).find_map(|token| nearest(token, names()));
    meant.map_or_else(|| error.to_string(), |meant| format!("{error}: did you mean {meant}?"))
}

fn is_allowed(outer: &str, flag: &Flag) -> bool {
    !flag.has(WHOLE_RUN) && flag.has(if outer == "--class" { PER_CLASS | PER_STAGE } else { PER_STAGE })
}

/// Rejects keys that are neither in `own` nor the whole name of a flag, with the nearest that can be set.
fn check_names(outer: &str, dict: &Dict, options: &[&str]) -> Result<(), String> {
    let defaults = Values::defaults(&TABLE);
    let plain = |key: &str| key.replace('_', "-");
    let names = |flag: &'static Flag| flag.names.iter().filter_map(|name| name.strip_prefix("--"));
    let is_flag = |key: &str| defaults.iter().any(|(flag, _)| names(flag).any(|name| name == plain(key)));
    let Some((key, _)) = dict.iter().find(|(key, _)| !is_flag(key)) else { return Ok(()) };
    let flags = defaults.iter().filter(|(flag, _)| is_allowed(outer, flag)).flat_map(|(flag, _)| names(flag));
    let meant = nearest(key, options.iter().copied().chain(flags));
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    Err(format!("unknown option {}{meant}", quoted(key)))
}

/// Flags from an object: `true` sets a switch, a list gives several values.
fn args_of(dict: &Dict) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| dumps(value), str::to_owned);
    let args = |(key, value): (&str, &Value)| match value {
        Value::Bool(true) => vec![format!("--{key}")],
        Value::Bool(false) | Value::Null => Vec::new(),
        Value::List(items) => std::iter::once(format!("--{key}")).chain(items.iter().map(text)).collect(),
        other => vec![format!("--{key}={}", text(other))],
    };
    dict.iter().flat_map(args).collect()
}
