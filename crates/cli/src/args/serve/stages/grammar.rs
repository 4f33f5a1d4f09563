//! The grammar of stages.

use std::path::Path;

use tacho_args::repr::quoted;
use tacho_core::json::{Dict, Value, dumps, float_repr};
use tacho_core::yaml;
use tacho_loadgen::{Curve, Stage, StageLength, StageLoad};

use super::StageArg;
use crate::args::error::ArgumentError;

/// The keys of a stage in a file; others are flags of its dataset.
const KEYS: [&str; 8] =
    ["name", "duration", "requests", "rate", "concurrency", "burstiness", "input_len", "output_len"];

/// A stage, or a part of it, that cannot be read.
struct Problem(String);

impl Problem {
    fn of(self, stage: &str) -> ArgumentError {
        ArgumentError::other(format!("--stages {}: {}", quoted(stage), self.0))
    }
}

type Read<T> = Result<T, Problem>;

fn problem<T>(text: impl Into<String>) -> Read<T> {
    Err(Problem(text.into()))
}

/// Reads all stages of a flag; `burstiness` is that of stages without their own.
pub(super) fn read(words: &[String], burstiness: f64) -> Result<Vec<StageArg>, ArgumentError> {
    let mut stages = Vec::new();
    for word in words.iter().map(|word| word.trim()) {
        let is_file = [".yaml", ".yml", ".json"].iter().any(|ending| word.ends_with(ending));
        if word.starts_with('{') {
            let value =
                tacho_core::json::parse(word).map_err(|error| Problem(format!("not valid JSON: {error}")).of(word))?;
            stages.push(mapping(&value, burstiness)?);
        } else if is_file && !word.contains('@') {
            stages.extend(file(Path::new(word), burstiness)?);
        } else {
            for text in split(word, |c| c == ',') {
                let stage = compact(text, burstiness);
                stages.push(stage.map_err(|problem| problem.of(text))?);
            }
        }
    }
    Ok(stages)
}

/// Reads a file: a list of stages, or a mapping with such a list under `stages`.
fn file(path: &Path, burstiness: f64) -> Result<Vec<StageArg>, ArgumentError> {
    let invalid = |problem: String| ArgumentError::other(format!("--stages: {}: {problem}", path.display()));
    let text =
        tacho_core::files::read_settings_text(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    let document = yaml::document(&text).map_err(|problem| invalid(problem.to_string()))?;
    let value = document.map_or(Value::Null, |node| node.value());
    let list = value.as_list().or_else(|| value.get("stages")?.as_list());
    let list = list.ok_or_else(|| invalid("write a list of stages, or a mapping with the key stages".to_owned()))?;
    let mut stages = Vec::new();
    for stage in list {
        match stage.as_str() {
            Some(text) => stages.extend(read(&[text.to_owned()], burstiness)?),
            None => stages.push(mapping(stage, burstiness)?),
        }
    }
    Ok(stages)
}

/// Parses `NAME:LENGTH@LOAD [OPTION=VALUE ...]`.
fn compact(text: &str, burstiness: f64) -> Read<StageArg> {
    let mut words = split(text, char::is_whitespace).into_iter();
    let core = words.next().unwrap_or_default();
    let parts = core.split_once(':').and_then(|(name, rest)| Some((name, rest.split_once('@')?)));
    let Some((name, (length, load))) = parts else {
        return problem("write NAME:LENGTH@LOAD, such as peak:60s@40");
    };
    let mut options = Dict::new();
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if !KEYS[..5].contains(&key) => options.set(key, value),
            _ => {
                let known = "burstiness=, input_len=, output_len= or a flag of its dataset, such as dataset-name=";
                return problem(format!("{} is not {known}", quoted(word)));
            }
        }
    }
    stage(name, length, load, &options, burstiness)
}

fn mapping(value: &Value, burstiness: f64) -> Result<StageArg, ArgumentError> {
    let read = || {
        let Some(dict) = value.as_dict() else {
            return problem(format!("a stage is a mapping with {} and flags of its dataset", KEYS.join(", ")));
        };
        let text = |key: &str| dict.get(key).filter(|value| !matches!(value, Value::Null)).map(words);
        let either = |first: &str, second: &str| match (text(first), text(second)) {
            (Some(first), None) => Ok((true, first)),
            (None, Some(second)) => Ok((false, second)),
            _ => problem(format!("it needs either {first} or {second}")),
        };
        let length = match either("duration", "requests")? {
            (true, duration) if duration.parse::<f64>().is_ok() => format!("{duration}s"),
            (true, duration) => duration,
            (false, requests) => format!("{requests}r"),
        };
        let (rated, load) = either("rate", "concurrency")?;
        let load = if rated { load } else { format!("c{load}") };
        stage(&text("name").unwrap_or_default(), &length, &load, dict, burstiness)
    };
    read().map_err(|problem| problem.of(&dumps(value)))
}

/// A value of a file as the text of a flag.
fn words(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        Value::Float(number) => float_repr(*number),
        other => dumps(other),
    }
}

fn stage(name: &str, length: &str, load: &str, options: &Dict, burstiness: f64) -> Read<StageArg> {
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return problem("its name needs letters, digits, - or _");
    }
    let option = |key: &str| options.get(key).filter(|value| !matches!(value, Value::Null)).map(words);
    let burstiness = match option("burstiness") {
        Some(text) => text.parse().map_err(|_| Problem(format!("burstiness {} is not a number", quoted(&text))))?,
        None => burstiness,
    };
    let stage = Stage { name: name.to_owned(), length: length_of(length)?, load: load_of(load)?, burstiness };
    let flags = options.iter().filter(|(key, _)| !KEYS.contains(key));
    let flags = flags.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    Ok(StageArg { stage, lengths: [option("input_len"), option("output_len")], flags })
}

fn length_of(text: &str) -> Read<StageLength> {
    if let Some(count) = text.strip_suffix('r') {
        let count = count.parse().map_err(|_| Problem(format!("{} is not a number of requests", quoted(count))))?;
        return Ok(StageLength::Requests(count));
    }
    seconds(text).map(StageLength::Seconds).ok_or_else(|| {
        Problem(format!("its length {} is not a time or a number of requests: write 30s, 5m, 1h or 200r", quoted(text)))
    })
}

fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) = units.into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    Some(number.trim().parse::<f64>().ok()? * unit)
}

fn load_of(text: &str) -> Read<StageLoad> {
    let wrong = || {
        Problem(format!(
            "its load {} is not a rate (5), ramp (5..40), steps (5..40/4), sine (20~15/60s) or concurrency limit (c32)",
            quoted(text)
        ))
    };
    let rate = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    if let Some(limit) = text.strip_prefix('c') {
        return limit.parse().map(StageLoad::Concurrency).map_err(|_| wrong());
    }
    Ok(StageLoad::Rate(if let Some((mean, rest)) = text.split_once('~') {
        let (amplitude, period) = rest.split_once('/').ok_or_else(wrong)?;
        Curve::Sine { mean: rate(mean)?, amplitude: rate(amplitude)?, period: seconds(period).ok_or_else(wrong)? }
    } else if let Some((from, rest)) = text.split_once("..") {
        match rest.split_once('/') {
            Some((to, count)) => {
                Curve::Steps { from: rate(from)?, to: rate(to)?, count: count.trim().parse().map_err(|_| wrong())? }
            }
            None => Curve::Linear { from: rate(from)?, to: rate(rest)? },
        }
    } else {
        let rate = rate(text)?;
        Curve::Linear { from: rate, to: rate }
    }))
}

/// Splits a text where `at` holds outside of parentheses; parts are trimmed, empty ones dropped.
fn split(text: &str, at: impl Fn(char) -> bool) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && at(c)
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests;
