//! `tacho convert trace`: sessions of any format as the one model, or as another format.

use std::io::Write;

use anyhow::Context;
use tacho_report::json::write_whole;
use tacho_workload::sessions::{self, Format, Options};

use crate::args::convert::trace::TraceArgs;
use crate::exit::{Exit, Misused, saved};

/// The format that a flag names.
fn named(flag: &str, name: &str) -> anyhow::Result<Format> {
    Format::named(name).map_err(|error| Misused(format!("{flag} {error}")).into())
}

/// Reads, scales and writes.
pub(crate) fn run(args: &TraceArgs) -> anyhow::Result<Exit> {
    let format = args.format.as_deref().map(|name| named("--format", name)).transpose()?;
    let options = Options::parse(args.options.iter().map(String::as_str))?;
    let to = args.to.as_deref().map(|name| named("--to", name)).transpose()?.unwrap_or(Format::Model);
    let mut trace = sessions::read(&args.input, format, &options)?;
    trace.scale(&args.scaling)?;
    let text = trace.written_as(to)?;
    let sessions = trace.trees().1;
    tracing::info!(format = trace.format.label(), sessions, requests = trace.steps.len(), "trace read");
    for notice in &trace.notices {
        tracing::warn!("{notice}");
    }
    let told = trace.reading(to);
    if !told.is_empty() {
        tracing::warn!("the file does not say it: read it with --option {}", told.join(" --option "));
    }
    match &args.output {
        Some(path) => {
            write_whole(path, |out| out.write_all(text.as_bytes()))?;
            saved(path);
        }
        None => tacho_report::out().write_all(text.as_bytes()).context("cannot print the trace")?,
    }
    Ok(Exit::Done)
}
