//! `tacho convert trace`: converts traces of any format to the session model or to another format.

use std::io::{BufWriter, Write};

use anyhow::Context;
use tacho_args::near::nearest;
use tacho_report::json::write_whole;
use tacho_workload::sessions::{self, Format, Options};

use crate::args::convert::trace::TraceArgs;
use crate::exit::{Exit, Misused, saved};

pub(crate) fn named(flag: &str, name: &str) -> anyhow::Result<Format> {
    let hint = |meant| Misused(format!("{flag} {name:?} is not a known format; did you mean {meant}?"));
    let meant = || nearest(name, Format::words()).map(hint);
    Format::named(name).map_err(|error| meant().unwrap_or_else(|| Misused(format!("{flag} {error}"))).into())
}

pub(crate) fn run(args: &TraceArgs) -> anyhow::Result<Exit> {
    let format = args.format.as_deref().map(|name| named("--format", name)).transpose()?;
    let options = Options::parse(args.options.iter().map(String::as_str))?;
    let to = args.to.as_deref().map(|name| named("--to", name)).transpose()?.unwrap_or(Format::Model);
    let scaling = args.scaling();
    scaling.check()?;
    let mut trace = sessions::read(&args.input[0], format, &options)?;
    trace.scale(&scaling)?;
    // The model is streamed to the output; other formats are validated completely before anything is written.
    let text = if to == Format::Model { None } else { Some(trace.written_as(to)?) };
    let write = |out: &mut dyn Write| match &text {
        Some(text) => out.write_all(text.as_bytes()),
        None => trace.write_model(out),
    };
    let sessions = trace.trees().1;
    tracing::info!(format = trace.format.label(), sessions, requests = trace.steps.len(), "trace read");
    for notice in &trace.notices {
        tracing::warn!("{notice}");
    }
    let missing = trace.reading(to);
    if !missing.is_empty() {
        tracing::warn!("the file does not say it: read it with --option {}", missing.join(" --option "));
    }
    match &args.output {
        Some(path) => {
            write_whole(path, |out| write(out))?;
            saved(path);
        }
        None => {
            let mut out = BufWriter::new(tacho_report::out());
            write(&mut out).and_then(|()| out.flush()).context("cannot print the trace")?;
        }
    }
    Ok(Exit::Done)
}
