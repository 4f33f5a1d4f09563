//! Batch mode: runs a JSON list of tunings in order and writes each outcome back into the list.

use std::{fs, io::Write, path::Path};

use anyhow::{anyhow, bail};
use tacho_args::near::nearest;
use tacho_core::json::{Dict, Value, dumps_indented, parse, python_str};
use tacho_report::json::write_text;
use tacho_run::experiment::program_exists;

use super::unused;
use crate::args::auto_tune::{self, AutoTuneArgs, TuneSettings};
use crate::{commands::screen::Screen, commands::sweep::supervised, exit::Exit};

pub(super) fn run(args: &AutoTuneArgs, file: &Path, upload: Option<&str>, sink: &Screen) -> anyhow::Result<Exit> {
    let mut entries = read(file)?;
    // Validate all entries before the first run.
    let checked = entries.iter().enumerate().map(|(at, entry)| {
        settings(args, entry).map_err(|problem| anyhow!("{}: item {at}: {problem}", file.display()))
    });
    let settings: Vec<TuneSettings> = checked.collect::<Result<_, _>>()?;
    if upload.is_some() && !program_exists("gcloud") {
        bail!("results cannot be uploaded: gcloud is not installed; install it, or omit the GCS path");
    }
    let mut failed = Vec::new();
    for at in 0..entries.len() {
        let is = |key: &str| entries[at].text(key).map(str::to_owned);
        if args.resume.is_some() && is("status").as_deref() == Some("SUCCESS") {
            continue;
        }
        let all = settings[at].base.join("auto-benchmark");
        let begun =
            is("run_id").map(|name| all.join(name)).filter(|directory| args.resume.is_some() && directory.is_dir());
        let directory = match begun {
            Some(directory) => directory,
            None => unused(&all)?,
        };
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !args.dry_run {
            // Set before the run, so that an interrupted tuning can be found.
            entries[at].set("run_id", name.as_str());
            write(file, &entries)?;
        }
        let outcome = super::tune(args, &settings[at], &directory, variables(&entries[at]), sink);
        if args.dry_run {
            outcome?;
            continue;
        }
        let status = conclude(&mut entries[at], outcome, &directory);
        if let Some(upload) = upload {
            let destination = format!("{}/{name}/", upload.trim_end_matches('/'));
            entries[at].set("gcs_results", destination.as_str());
            let argv = ["gcloud", "storage", "rsync", "--recursive", &directory.display().to_string(), &destination];
            if let Err(failure) = supervised(!args.live.screen)?.run(&argv.map(str::to_owned)) {
                tracing::warn!("the results in {} were not uploaded: {failure}", directory.display());
            }
        }
        write(file, &entries)?;
        if let Err(reason) = status {
            failed.push(format!("item {at} ({name}): {reason}"));
        }
    }
    let done = entries.len() - failed.len();
    sink.close();
    let mut out = tacho_report::out();
    writeln!(out, "Successful runs: {done}\nFailed runs: {}", failed.len())?;
    if failed.is_empty() { Ok(Exit::Done) } else { Err(anyhow!("these failed:\n  {}", failed.join("\n  "))) }
}

fn settings(args: &AutoTuneArgs, entry: &Dict) -> anyhow::Result<TuneSettings> {
    let variables = variables(entry);
    if let Some((typed, meant)) = mistyped(&variables) {
        bail!("nothing reads {typed}; did you mean {meant}?");
    }
    let of = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone());
    Ok(args.settings(&of)?)
}

/// Writes the outcome, or the error, into the entry.
fn conclude(
    entry: &mut Dict,
    outcome: anyhow::Result<tacho_run::auto_tune::TuneReport>,
    directory: &Path,
) -> Result<(), String> {
    let text = fs::read_to_string(directory.join("result.txt"));
    let result = match (&outcome, &text) {
        (Err(error), _) => Err(format!("{error:#}")),
        (Ok(report), _) if report.measured == 0 => Err(report.failures.join("; ")),
        (Ok(_), Err(_)) => Err("no result.txt".to_owned()),
        (Ok(_), Ok(_)) => Ok(()),
    };
    let status = match (&result, &text) {
        (Ok(()), _) => "SUCCESS",
        (Err(_), Err(_)) if outcome.is_ok() => "WARNING_NO_RESULT_FILE",
        (Err(_), _) => "FAILURE",
    };
    entry.set("status", status);
    entry.set("results", text.unwrap_or_default());
    result
}

fn read(file: &Path) -> anyhow::Result<Vec<Dict>> {
    let text = fs::read_to_string(file).map_err(|error| anyhow!("{}: cannot be read: {error}", file.display()))?;
    let value = parse(&text).map_err(|fault| anyhow!("{}: not JSON: {fault}", file.display()))?;
    let Value::List(items) = value else { bail!("{}: must be a list of objects", file.display()) };
    let object = |(at, item): (usize, Value)| match item {
        Value::Dict(entry) => Ok(entry),
        _ => Err(anyhow!("{}: item {at} must be an object of settings", file.display())),
    };
    items.into_iter().enumerate().map(object).collect()
}

fn write(file: &Path, entries: &[Dict]) -> anyhow::Result<()> {
    let list = Value::List(entries.iter().cloned().map(Value::Dict).collect());
    let text = dumps_indented(&list, 2) + "\n";
    Ok(write_text(file, &text)?)
}

/// The entry as environment variables: names in upper case, reduced to valid characters, without outcomes.
fn variables(entry: &Dict) -> Vec<(String, String)> {
    let outcome = ["run_id", "status", "results", "gcs_results"];
    let name = |key: &str| {
        let capitals = key.to_ascii_uppercase();
        capitals.chars().filter(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect::<String>()
    };
    let text = |value: &Value| match value {
        Value::List(items) => items.iter().map(python_str).collect::<Vec<_>>().join(" "),
        other => python_str(other),
    };
    let given = entry.iter().filter(|(key, _)| !outcome.contains(key));
    given.map(|(key, value)| (name(key), text(value))).filter(|(name, _)| !name.is_empty()).collect()
}

/// Returns a key that looks like a misspelled setting. Other unknown keys are variables for the server.
fn mistyped(variables: &[(String, String)]) -> Option<(&str, String)> {
    let known: Vec<String> = auto_tune::variables().collect();
    let mut unknown =
        variables.iter().map(|(name, _)| name.as_str()).filter(|name| !known.iter().any(|known| known == name));
    unknown.find_map(|name| Some((name, nearest(name, known.iter().map(String::as_str))?.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_become_variables() {
        let entry = parse(r#"{"model": "m", "num_seqs_list": [1, 2], "a-b.c": 3, "status": "SUCCESS"}"#).unwrap();
        let expected = [("MODEL", "m"), ("NUM_SEQS_LIST", "1 2"), ("ABC", "3")];
        assert_eq!(
            variables(entry.as_dict().unwrap()),
            expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn a_slip_in_a_key_is_seen_and_other_variables_are_not() {
        let entry = |text: &str| variables(parse(text).unwrap().as_dict().unwrap());
        assert_eq!(mistyped(&entry(r#"{"model": "m", "VLLM_USE_V1": 1}"#)), None);
        assert_eq!(mistyped(&entry(r#"{"modle": "m"}"#)), Some(("MODLE", "MODEL".to_owned())));
    }
}
