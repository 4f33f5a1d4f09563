//! Child processes: a process group that ends as a whole, shell commands of the user, and what they said when they
//! failed.

use crate::Mutex;
use crate::secret::redact_known;
use std::io::{self, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::str::Chars;
use std::time::{Duration, Instant};
use std::{collections::VecDeque, ffi::OsString, os::unix::process::CommandExt, sync::Arc, thread::JoinHandle};

use rustix::process::{Pid, Signal, kill_process_group};

/// Bytes of messages that are kept.
const KEPT: usize = 1 << 16;
/// Longest excerpt of a message, in characters.
const SHOWN: usize = 300;
/// Time between two checks whether a process or a reader has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The command that runs `line` in a shell. The words of `launcher`, if any, start it.
pub fn shell(launcher: &[OsString], line: &str) -> Command {
    let mut command = Command::new(launcher.first().map_or("sh".as_ref(), OsString::as_os_str));
    if let [_, args @ ..] = launcher {
        command.args(args).arg("sh");
    }
    command.args(["-c", line]);
    command
}

/// The words of a command, by the quoting rules of a POSIX shell. Fails with what is missing at its end.
pub fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let unclosed = "no closing quotation";
    let mut args = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => args.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or(unclosed)? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut rest, word.get_or_insert_default()).ok_or(unclosed)?,
            '\\' => word.get_or_insert_default().push(rest.next().ok_or("no escaped character")?),
            c => word.get_or_insert_default().push(c),
        }
    }
    args.extend(word);
    Ok(args)
}

/// Words from which a shell reads these.
pub fn quoted(args: &[String]) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    args.iter().map(word).collect()
}

fn double_quoted(rest: &mut Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            '"' => return Some(()),
            '\\' => match rest.next()? {
                c @ ('"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

/// A process in a group of its own. Unless it has exited, dropping it ends the group.
#[derive(Debug)]
pub struct ChildGroup {
    /// Its streams may be taken.
    pub child: Child,
    /// Standard input of a supervisor, which ends the command as soon as it is closed, for any reason.
    supervisor: Option<ChildStdin>,
    ended: bool,
}

impl ChildGroup {
    /// Starts a command. Fails if it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // Interrupts of the terminal reach this process only, which ends the group.
        Ok(ChildGroup { child: command.process_group(0).spawn()?, supervisor: None, ended: false })
    }

    /// Starts a supervisor, which ends its command when its standard input is closed. Fails if it cannot be started.
    pub fn supervised(command: &mut Command) -> io::Result<Self> {
        let mut group = ChildGroup::start(command.stdin(Stdio::piped()))?;
        group.supervisor = group.child.stdin.take();
        Ok(group)
    }

    /// The messages on standard error, if it is a pipe.
    pub fn messages(&mut self) -> Messages {
        self.child.stderr.take().map_or_else(|| Messages::of(io::empty()), Messages::of)
    }

    /// Its exit status, if it exits within this time.
    pub fn exit_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + time;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.ended = true;
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends the group, also what a process that has exited left behind.
    pub fn end(&mut self) {
        if self.supervisor.take().is_none() {
            // The group may be gone already.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
        self.ended = true;
    }
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

/// How a command ended, for a message: `failed with exit code 3`.
pub fn ended_how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("failed with exit code {code}"),
        None => format!("was killed ({status})"),
    }
}

/// The last non-blank line of a text, without control characters and not too long.
pub fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().map(|one| if one.is_control() { ' ' } else { one }).take(SHOWN).collect()
}

/// The end of a stream of messages, which another thread reads so that the command never waits.
#[derive(Debug)]
pub struct Messages {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
}

impl Messages {
    /// Reads the stream to its end.
    pub fn of(mut stream: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let end = Arc::clone(&kept);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                let mut end = end.lock();
                end.extend(&bytes[..count]);
                let surplus = end.len().saturating_sub(KEPT);
                end.drain(..surplus);
            }
        });
        Messages { kept, reader }
    }

    /// Its last line, once the stream has ended or `patience` is over.
    pub fn last_line(&self, patience: Duration) -> String {
        last_line(&self.text(patience))
    }

    /// What is kept of it without the secrets of this process, once the stream has ended or `patience` is over.
    pub fn text(&self, patience: Duration) -> String {
        let deadline = Instant::now() + patience;
        while !self.reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        let bytes: Vec<u8> = self.kept.lock().iter().copied().collect();
        redact_known(&String::from_utf8_lossy(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_many_is_kept() {
        let mut text = "x".repeat(3 * KEPT).into_bytes();
        text.extend(b"\nValueError: no\x1b[31m rows\xff\n\n");
        let messages = Messages::of(std::io::Cursor::new(text));
        assert_eq!(messages.last_line(Duration::from_secs(5)), "ValueError: no [31m rows\u{fffd}");
        assert_eq!(last_line(""), "");
        assert_eq!(last_line(&"y".repeat(9999)).len(), SHOWN);
    }

    #[test]
    fn commands_split_as_in_a_shell() {
        assert_eq!(split(r#"a 'b c' "d \" \n" e\ f'' """#).unwrap(), ["a", "b c", "d \" \\n", "e f", ""]);
        assert_eq!(split(r#"a 'b c' "d \"e" f\ g '' h"#).unwrap(), ["a", "b c", "d \"e", "f g", "", "h"]);
        assert_eq!(["a 'b", "a \\", "  "].map(|text| split(text).is_ok()), [false, false, true]);
    }

    #[test]
    fn a_launcher_gets_the_shell_and_its_line() {
        let args = |command: &Command| {
            let all = std::iter::once(command.get_program()).chain(command.get_args());
            all.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(args(&shell(&[], "a b")), ["sh", "-c", "a b"]);
        assert_eq!(args(&shell(&["me".into(), "watch".into()], "a b")), ["me", "watch", "sh", "-c", "a b"]);
    }
}
