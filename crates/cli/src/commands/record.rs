//! `tacho record`: passes requests on to a server and writes a trace of them without their content.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};
use std::{fs::OpenOptions, sync::mpsc, sync::mpsc::RecvTimeoutError};

use anyhow::{Context, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tacho_core::json::{Value, dumps};
use tacho_sim::{Exchange, start_recorder};
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::sessions::{RecordedExchange, Recording};

use super::{say, sim::load};
use crate::args::record::RecordArgs;
use crate::exit::{Exit, note};

/// How often the end of the recording is looked for.
const POLL: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<Exit> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let path = args.output.display();
    let tokenizer = match &args.tokenizer {
        Some(name) => load(name, None, TokenizerMode::Auto)?,
        None => Tokenizer::builtin(),
    };
    let (sender, finished) = mpsc::channel();
    let began = Instant::now();
    // An address that cannot be used leaves no file.
    let mut recorder = start_recorder(args.listen, &args.to, sender)
        .with_context(|| format!("--to {}: cannot be recorded at {}", args.to, args.listen))?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(&args.output).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow!("--output {path} exists: choose another name, or remove it"),
            _ => anyhow!(error).context(format!("--output {path} cannot be created")),
        })?;
    say(&[format!("recording {} to {path}: use http://{} instead, Ctrl-C ends it", args.to, recorder.addr())])?;
    let mut trace = Trace { recording: Recording::new(tokenizer), began, rows: 0, others: 0 };
    loop {
        match finished.recv_timeout(POLL) {
            Ok(exchange) => trace.write(&exchange, &mut file).with_context(|| format!("cannot write {path}"))?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if signals.pending().next().is_some() => recorder.stop(),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    file.sync_all().with_context(|| format!("cannot write {path}"))?;
    let Trace { rows, others, recording, .. } = trace;
    note(&format!("saved: {path}   ({rows} requests; {others} others passed on and not recorded)"));
    if recording.estimated > 0 {
        note(&format!(
            "warning: the server did not report the tokens of {} requests: they are counted by the tokenizer and by events",
            recording.estimated
        ));
    }
    Ok(Exit::Done)
}

struct Trace {
    recording: Recording,
    began: Instant,
    rows: u64,
    /// Requests that are no generation, failed, or were cut off.
    others: u64,
}

impl Trace {
    /// Writes the row of an exchange at once: what is recorded survives a crash.
    fn write(&mut self, exchange: &Exchange, file: &mut impl Write) -> std::io::Result<()> {
        let since = |at: Instant| at.duration_since(self.began).as_secs_f64() * 1e3;
        let response = exchange.response.concat();
        let recorded = RecordedExchange {
            path: &exchange.path,
            request: &exchange.request,
            response: &response,
            arrived_ms: since(exchange.arrived),
            ended_ms: since(exchange.ended),
        };
        let is_recorded = exchange.is_complete && (200..300).contains(&exchange.status);
        match is_recorded.then(|| self.recording.row(&recorded)).flatten() {
            Some(row) => {
                self.rows += 1;
                file.write_all((dumps(&Value::Dict(row)) + "\n").as_bytes())
            }
            None => {
                self.others += 1;
                Ok(())
            }
        }
    }
}
