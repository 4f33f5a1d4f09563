//! Runs the command that prints a token.

use std::process::{ExitStatus, Stdio};
use std::{io::Read, sync::mpsc::channel, time::Duration};

use tacho_core::command::{ChildGroup, ended_how, shell};
use tacho_core::secret::{REDACTED, ServerText, looks_secret};

use super::token::{self, Token};
use super::unix_seconds;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the rest of the output after the end; a process that the command left behind may keep it open.
const AFTER_END: Duration = Duration::from_secs(1);
const MAX_OUTPUT: u64 = 1 << 20;

/// Runs a command in a shell; its output is the token.
pub(super) fn run(command: &str) -> Result<Token, String> {
    run_within(command, TIMEOUT)
}

fn run_within(command: &str, timeout: Duration) -> Result<Token, String> {
    let mut group =
        ChildGroup::start(shell(&[], command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
            .map_err(|error| format!("--token-command cannot be started: {error}"))?;
    let messages = group.messages();
    let (sender, output) = channel();
    let stdout = group.child.stdout.take();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.map(|stdout| stdout.take(MAX_OUTPUT).read_to_end(&mut bytes));
        let _ = sender.send(bytes);
    });
    let status = group
        .exit_within(timeout)
        .ok_or_else(|| format!("--token-command has not ended within {} s", timeout.as_secs_f64()))?;
    let output = output.recv_timeout(AFTER_END).unwrap_or_default();
    let output = String::from_utf8_lossy(&output);
    if !status.success() {
        return Err(failure(status, &output, &messages.last_line(AFTER_END)));
    }
    token::read(&output, unix_seconds()).map_err(|reason| format!("--token-command printed no token: {reason}"))
}

/// One line about a failed command, with the last line of its messages. A token that it printed is not shown.
fn failure(status: ExitStatus, output: &str, last_line: &str) -> String {
    let printed: Vec<&str> = output.split_whitespace().filter(|word| word.len() >= 4).collect();
    let is_token = |word: &str| looks_secret(word) || printed.iter().any(|token| word.contains(token));
    let line = ServerText::new(last_line);
    let reason: Vec<&str> = line.split(' ').map(|word| if is_token(word) { REDACTED } else { word }).collect();
    let reason = reason.join(" ");
    let colon = if reason.is_empty() { "" } else { ": " };
    format!("--token-command {}{colon}{reason}", ended_how(status))
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
