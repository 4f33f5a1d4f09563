//! Rows that a command of the user prints: one JSON object per line, read until there are enough.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{ffi::OsString, path::Path, process::Stdio};

use ring::digest::{Context, SHA256};
use tacho_core::command::{ChildGroup, Messages, ended_how, shell};

use super::hex;
use super::jsonl::{Line, parse_object};
use crate::Error;
use crate::limits::{MAX_COMMAND_LINE_BYTES, MAX_COMMAND_ROWS, MAX_UNPACKED};

pub(crate) const NAME: &str = "--dataset-command";
/// Lines that are read ahead.
const AHEAD: usize = 64;
/// How long a command may take to exit after it closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long messages are waited for after the exit.
const MESSAGES_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq)]
pub struct CommandSpec {
    pub line: String,
    /// Starts the command, and ends it and its children when its own standard input is closed. Empty: no launcher.
    pub launcher: Vec<OsString>,
    /// Longest time without a row.
    pub timeout: Duration,
    /// The model of the run, if it is known.
    pub model: Option<String>,
}

/// The rows of a command, and the SHA-256 of what was read.
pub(crate) struct Printed {
    pub(crate) lines: Vec<Line>,
    pub(crate) digest: String,
}

impl CommandSpec {
    /// Reads `wanted` rows, or all of them, and ends the command.
    pub(crate) fn rows(&self, seed: i64, wanted: Option<usize>) -> Result<Printed, Error> {
        let (mut running, lines) = self.start(seed, wanted)?;
        let mut reader = Reader { spec: self, wanted, lines: Vec::new(), hash: Context::new(&SHA256), bytes: 0 };
        if !reader.read(&mut running, &lines)? {
            running.check(reader.lines.len(), wanted)?;
        }
        match reader.lines.is_empty() && wanted != Some(0) {
            true => Err(data!("--dataset-command printed no rows: write one JSON object per line to standard output")),
            false => Ok(Printed { lines: reader.lines, digest: hex(reader.hash) }),
        }
    }

    fn start(&self, seed: i64, wanted: Option<usize>) -> Result<(Running, Receiver<Piece>), Error> {
        let mut command = shell(&self.launcher, &self.line);
        command
            .env("TACHO_SEED", seed.to_string())
            .env("TACHO_NUM_PROMPTS", wanted.unwrap_or(0).to_string())
            .envs(self.model.iter().map(|model| ("TACHO_MODEL", model)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = match self.launcher.is_empty() {
            true => ChildGroup::start(&mut command),
            false => ChildGroup::supervised(&mut command),
        };
        let mut group = started.map_err(|source| Error::CommandStart { source })?;
        let (sender, lines) = sync_channel(AHEAD);
        let stdout = group.child.stdout.take();
        std::thread::spawn(move || stdout.map(|stdout| split(stdout, MAX_COMMAND_LINE_BYTES, &sender)));
        let messages = group.messages();
        Ok((Running { group, messages }, lines))
    }
}

/// What the thread that reads the output sends.
enum Piece {
    Line(Vec<u8>),
    TooLong,
}

/// Sends the lines of a stream until the receiver is gone.
fn split(stream: impl Read, limit: usize, lines: &SyncSender<Piece>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let read = stream.by_ref().take(limit as u64 + 1).read_until(b'\n', &mut line);
        let piece = match read {
            Ok(0) | Err(_) => return,
            Ok(_) if line.len() > limit => Piece::TooLong,
            Ok(_) => Piece::Line(line),
        };
        let last = matches!(piece, Piece::TooLong);
        if lines.send(piece).is_err() || last {
            return;
        }
    }
}

struct Reader<'s> {
    spec: &'s CommandSpec,
    wanted: Option<usize>,
    lines: Vec<Line>,
    hash: Context,
    bytes: u64,
}

impl Reader<'_> {
    /// Returns whether there are enough rows; if not, the command closed its output.
    fn read(&mut self, running: &mut Running, lines: &Receiver<Piece>) -> Result<bool, Error> {
        let (mut number, mut last_row) = (0, Instant::now());
        while self.wanted.is_none_or(|wanted| self.lines.len() < wanted) {
            number += 1;
            let left = self.spec.timeout.saturating_sub(last_row.elapsed());
            match lines.recv_timeout(left) {
                // Blank lines are not rows: the time goes on.
                Ok(Piece::Line(_)) if left.is_zero() => return Err(self.silent(running)),
                Ok(Piece::Line(line)) => {
                    if self.take(number, &line)? {
                        last_row = Instant::now();
                    }
                }
                Ok(Piece::TooLong) => {
                    return Err(Error::LongLine { path: NAME.into(), line: number, limit: MAX_COMMAND_LINE_BYTES });
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.silent(running)),
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn take(&mut self, number: usize, line: &[u8]) -> Result<bool, Error> {
        self.hash.update(line);
        self.bytes += line.len() as u64;
        let too_large = |what: &str, limit| Error::TooLarge { path: NAME.into(), what: what.to_owned(), limit };
        if self.bytes > MAX_UNPACKED {
            return Err(too_large("it printed too many bytes", MAX_UNPACKED));
        }
        if self.wanted.is_none() && self.lines.len() >= MAX_COMMAND_ROWS {
            return Err(too_large("it printed too many rows without a --num-prompts", MAX_COMMAND_ROWS as u64));
        }
        let text = std::str::from_utf8(line).map_err(|_| Error::NotUtf8 { path: NAME.into(), line: number })?;
        if text.trim().is_empty() {
            return Ok(false);
        }
        self.lines.push(parse_object(Path::new(NAME), number, text.trim_end())?);
        Ok(true)
    }

    fn silent(&self, running: &mut Running) -> Error {
        running.group.end();
        let (seconds, rows) = (self.spec.timeout.as_secs_f64(), self.lines.len());
        let last_message = running.last_message("; its last message: ");
        data!(
            "--dataset-command printed no line for {seconds} s after {rows} rows and was ended: raise \
             --dataset-command-timeout{last_message}"
        )
    }
}

/// A started command, which is ended when this is dropped.
struct Running {
    group: ChildGroup,
    messages: Messages,
}

impl Running {
    /// Its last message after `separator`; empty without one.
    fn last_message(&self, separator: &str) -> String {
        let last_message = self.messages.last_line(MESSAGES_TIMEOUT);
        if last_message.is_empty() { last_message } else { format!("{separator}{last_message}") }
    }

    /// Checks how the command ended, which has closed its output after this many rows.
    fn check(&mut self, rows: usize, wanted: Option<usize>) -> Result<(), Error> {
        let how = match self.group.exit_within(EXIT_TIMEOUT) {
            Some(status) if status.success() => return Ok(()),
            Some(status) => ended_how(status),
            None => {
                self.group.end();
                "closed its output and went on".to_owned()
            }
        };
        let wanted = wanted.map_or_else(|| "all".to_owned(), |wanted| wanted.to_string());
        Err(data!("--dataset-command {how} after {rows} of {wanted} rows{}", self.last_message(": ")))
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::json::Value;

    use super::*;

    fn rows_within(timeout: Duration, line: &str, wanted: Option<usize>) -> Result<Printed, Error> {
        let (line, model) = (line.to_owned(), Some("m".to_owned()));
        CommandSpec { line, launcher: Vec::new(), timeout, model }.rows(7, wanted)
    }

    fn rows(line: &str, wanted: Option<usize>) -> Result<Printed, Error> {
        rows_within(Duration::from_secs(60), line, wanted)
    }

    /// Checks the one-line error of each command line, all at once.
    fn rejects(timeout: Duration, cases: &[(&str, Option<usize>, &str)]) {
        std::thread::scope(|scope| {
            for &(line, wanted, expected) in cases {
                scope.spawn(move || {
                    let error = rows_within(timeout, line, wanted).err().unwrap();
                    let cause =
                        std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
                    let message = format!("{error}{cause}");
                    assert!(message.contains(expected), "{line}: {message}");
                    assert_eq!(message.lines().count(), 1, "{message}");
                });
            }
        });
    }

    #[test]
    fn reading_stops_when_there_are_enough_rows() {
        let printed = rows("while :; do echo '{\"a\": 1}'; done", Some(3)).unwrap();
        assert_eq!(printed.lines.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3]);
        let same = rows("echo '{\"a\": 1}'; echo '{\"a\": 1}'; echo '{\"a\": 1}'; exit 3", Some(3)).unwrap();
        assert_eq!(printed.digest, same.digest, "the digest is that of the lines up to the last row");
        let other = rows("echo '{\"a\": 2}'", None).unwrap();
        assert_ne!(printed.digest, other.digest);
    }

    #[test]
    fn the_command_knows_the_run() {
        let line = r#"echo "{\"a\": \"$TACHO_SEED $TACHO_NUM_PROMPTS $TACHO_MODEL\"}""#;
        let seen = |wanted| rows(line, wanted).unwrap().lines[0].object.get("a").cloned();
        assert_eq!(seen(Some(1)), Some(Value::from("7 1 m")));
        assert_eq!(seen(None), Some(Value::from("7 0 m")));
    }

    #[test]
    fn a_command_without_lines_is_ended() {
        let cases = [
            ("sleep 30", Some(1), "printed no line for 1.5 s after 0 rows"),
            ("yes ''", Some(1), "printed no line for 1.5 s after 0 rows"),
            ("echo '{}'; echo loading >&2; sleep 30", Some(2), "last message: loading"),
        ];
        rejects(Duration::from_millis(1500), &cases);
    }

    #[test]
    fn what_goes_wrong_is_one_line() {
        let cases = [
            (
                "echo '{}'; echo first >&2; echo 'Error: gone' >&2; exit 3",
                Some(2),
                "failed with exit code 3 after 1 of 2 rows: Error: gone",
            ),
            ("kill -9 $$", None, "was killed (signal: 9 (SIGKILL)) after 0 of all rows"),
            ("true", Some(2), "printed no rows"),
            ("echo; echo", None, "printed no rows"),
            ("echo '{}'; echo '[1]'", Some(2), "--dataset-command, line 2: must be a JSON object"),
            ("echo '{\"a\": '", Some(1), "--dataset-command, line 1: not valid JSON"),
            (r"printf '{}\n{\377}\n'", Some(2), "--dataset-command, line 2: not UTF-8"),
            (r#"printf '{"a": "\000"}\n'"#, Some(1), "--dataset-command, line 1: not valid JSON"),
            ("head -c 70000000 /dev/zero", Some(1), "--dataset-command, line 1: longer than 67108864 bytes"),
            ("no-such-program-anywhere", Some(1), "exit code 127"),
        ];
        rejects(Duration::from_secs(60), &cases);
    }

    #[test]
    fn a_last_line_without_an_end_is_a_row() {
        assert_eq!(rows("printf '{}\\r\\n\\n{}'", None).unwrap().lines.len(), 2);
    }

    #[test]
    fn endless_output_is_bounded_without_a_number() {
        let spec = CommandSpec { line: String::new(), launcher: Vec::new(), timeout: Duration::ZERO, model: None };
        let line = Line { number: 1, object: tacho_core::json::Dict::new() };
        let (wanted, hash) = (None, Context::new(&SHA256));
        let mut reader = Reader { spec: &spec, wanted, lines: vec![line; MAX_COMMAND_ROWS], hash, bytes: 0 };
        let error = reader.take(9, b"{}\n").unwrap_err().to_string();
        assert!(error.contains("too many rows") && error.contains("1048576"), "{error}");
        reader.bytes = MAX_UNPACKED;
        assert!(reader.take(9, b"{}\n").unwrap_err().to_string().contains("too many bytes"));
    }
}
