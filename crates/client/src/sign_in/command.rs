//! Runs the command that prints a token.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tacho_core::command::{ended_how, last_line, shell};
use tacho_core::secret::{REDACTED, ServerText, looks_secret};

use super::token::{self, Token};
use super::unix_seconds;

/// Time limit of the command.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two checks whether the command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time limit for the rest of the output after the end; a process that the command left behind may keep it open.
const AFTER_END: Duration = Duration::from_secs(1);
/// Bytes of output that are read.
const MAX_OUTPUT: u64 = 1 << 20;

/// Runs a command in a shell; its output is the token.
pub(super) fn run(command: &str) -> Result<Token, String> {
    run_within(command, TIMEOUT)
}

fn run_within(command: &str, timeout: Duration) -> Result<Token, String> {
    // A group of its own, so that what the command started ends with it.
    let mut child = shell(&[], command)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("--token-command cannot be started: {error}"))?;
    let (output, errors) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Err(format!("--token-command has not ended within {} s", timeout.as_secs_f64()));
            }
            Err(error) => return Err(format!("--token-command is lost: {error}")),
        }
    };
    let output = output.recv_timeout(AFTER_END).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    if !status.success() {
        let errors = errors.recv_timeout(AFTER_END).unwrap_or_default();
        return Err(failure(status, &output, &String::from_utf8_lossy(&errors)));
    }
    token::read(&output, unix_seconds()).map_err(|reason| format!("--token-command printed no token: {reason}"))
}

/// One line about a failed command, with the last line of its messages. A token that it printed is not shown.
fn failure(status: ExitStatus, output: &str, errors: &str) -> String {
    let printed: Vec<&str> = output.split_whitespace().filter(|word| word.len() >= 4).collect();
    let is_token = |word: &str| looks_secret(word) || printed.iter().any(|token| word.contains(token));
    let line = ServerText::new(&last_line(errors));
    let said: Vec<&str> = line.split(' ').map(|word| if is_token(word) { REDACTED } else { word }).collect();
    let said = said.join(" ");
    let colon = if said.is_empty() { "" } else { ": " };
    format!("--token-command {}{colon}{said}", ended_how(status))
}

/// Reads a stream to its end on another thread.
fn read_all(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(MAX_OUTPUT).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_command_is_its_token() {
        let token = run("echo warning >&2; printf 'tok-1\\nmore\\n'").unwrap();
        assert_eq!((token.secret.expose(), token.lifetime), ("tok-1", None));
        let token = run(r#"echo '{"access_token": "tok-2", "expires_in": 60}'"#).unwrap();
        assert_eq!((token.secret.expose(), token.lifetime), ("tok-2", Some(Duration::from_secs(60))));
        // A process that is left behind holds the output, but not the caller.
        assert_eq!(run("echo tok-3; sleep 30 >/dev/null &").unwrap().secret.expose(), "tok-3");
    }

    #[test]
    fn a_failed_command_is_one_line_without_its_output() {
        for (command, wanted) in [
            ("echo tok-secret; echo first >&2; echo 'no: tok-secret' >&2; exit 3", "failed with exit code 3: no: ***"),
            ("echo 'no: tok-Zr5mPq8Kx1secret' >&2; exit 3", "failed with exit code 3: no: ***"),
            ("exit 1", "failed with exit code 1"),
            ("kill -9 $$", "was killed"),
            ("true", "printed no token: it is empty"),
            ("echo tok-secret and more", "its first line is not a token"),
        ] {
            let message = run(command).unwrap_err();
            assert!(message.contains(wanted) && !message.contains("tok-secret"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
    #[test]
    fn nothing_that_a_command_started_outlives_its_timeout() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let message = run_within(&format!("(sleep 0.6; echo late > {path}) & sleep 60"), Duration::from_millis(200));
        assert!(message.unwrap_err().contains("has not ended within 0.2 s"));
        std::thread::sleep(Duration::from_millis(900));
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
    }
}
