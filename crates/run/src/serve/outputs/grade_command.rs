//! `--grade-command`: the outputs as JSON lines for a command of the user, which writes a line of scores for each. It
//! runs after the run: however slow a grader is, no request waits for it.

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};
use std::{process::Stdio, sync::mpsc::RecvTimeoutError};

use tacho_core::command::{ChildGroup, ended_how, shell};
use tacho_core::json::{Dict, Value, dumps, parse};
use tacho_core::secret::redact_known;
use tacho_loadgen::StopSignal;

use crate::Error;

/// How long the command may take to end after its last line, and its messages to arrive.
const GRACE: Duration = Duration::from_secs(10);
/// How long it may take for a line.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time between two looks whether the user stopped the program.
const POLL: Duration = Duration::from_millis(50);

/// The scores of each line. Fails when the command fails or writes nothing for long, a line of it is not an object of
/// numbers for its row, or the user stopped the program: the measurements are then kept without scores.
pub(super) fn scores(command: &str, lines: &[Value], stop: &StopSignal) -> Result<Vec<Value>, Error> {
    let failed = |problem: String| Error::Grader { problem: format!("--grade-command {problem}") };
    if stop.draining() {
        return Err(failed("was interrupted".to_owned()));
    }
    let mut child = shell(&[], command);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = ChildGroup::start(&mut child).map_err(|error| failed(error.to_string()))?;
    let messages = group.messages();
    let (input, output) = (group.child.stdin.take(), group.child.stdout.take());
    let answers: Result<Vec<Value>, Error> = std::thread::scope(|scope| {
        // The command may write before it has read everything.
        scope.spawn(move || {
            let mut input = input?;
            lines.iter().try_for_each(|line| writeln!(input, "{}", dumps(line))).ok()
        });
        let (sender, receiver) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let rows = output.into_iter().flat_map(|output| BufReader::new(output).lines().map_while(Result::ok));
            let rows = rows.filter(|line| !line.trim().is_empty()).take(lines.len() + 1);
            rows.map(|line| sender.send(redact_known(&line))).take_while(Result::is_ok).for_each(drop);
        });
        let mut answers = Vec::new();
        let mut since = Instant::now();
        loop {
            match receiver.recv_timeout(POLL) {
                Ok(line) => {
                    answers.push(checked(&line).map_err(failed));
                    since = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => return answers.into_iter().collect(),
                Err(RecvTimeoutError::Timeout) if stop.draining() || since.elapsed() > PATIENCE => {
                    // Ends both threads.
                    group.end();
                    let slow = format!("wrote no scores for {} s", PATIENCE.as_secs());
                    return Err(failed(if stop.draining() { "was interrupted".to_owned() } else { slow }));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    });
    if stop.draining() {
        return answers;
    }
    let status = group.exit_within(GRACE);
    group.end();
    let last_message = || messages.last_line(GRACE);
    match status {
        Some(status) if !status.success() && answers.is_ok() => {
            let problem = format!("{}: {}", ended_how(status), last_message());
            Err(failed(problem.trim_end_matches(": ").to_owned()))
        }
        _ => {
            let answers = answers?;
            let count = answers.len();
            let wrong = || failed(format!("wrote {count} lines of scores for {} outputs", lines.len()));
            if count == lines.len() { Ok(answers) } else { Err(wrong()) }
        }
    }
}

/// A line of scores; booleans count as 0 and 1.
fn checked(line: &str) -> Result<Value, String> {
    let wrong = || format!("wrote {line:?}, which is not an object of numbers");
    let Ok(Value::Dict(scores)) = parse(line) else { return Err(wrong()) };
    let number = |value: &Value| match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        other => other.as_f64().filter(|number| number.is_finite()),
    };
    let scores = scores.iter().map(|(name, value)| Some((name.to_owned(), Value::Float(number(value)?))));
    scores.collect::<Option<Dict>>().map(Value::Dict).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_output_gets_its_scores_or_the_run_says_why_not() {
        let lines: Vec<Value> = (0..3000_u64).map(|at| tacho_core::dict! { "output": at }.into()).collect();
        let stop = StopSignal::default();
        let command = r#"while read -r line; do echo '{"length": 2, "ok": true}'; done"#;
        let graded = scores(command, &lines, &stop).unwrap();
        assert_eq!((graded.len(), dumps(&graded[0])), (3000, r#"{"length": 2.0, "ok": 1.0}"#.to_owned()));
        let problem = |command: &str| scores(command, &lines[..2], &stop).unwrap_err().to_string();
        assert!(problem("echo '{}'").contains("wrote 1 lines of scores for 2 outputs"), "{}", problem("echo '{}'"));
        assert!(problem("echo 7").contains("not an object of numbers"));
        assert!(problem("echo no judge >&2; exit 3").contains("no judge"));
        let began = Instant::now();
        let problem = std::thread::scope(|scope| {
            let graded = scope.spawn(|| scores("sleep 1000", &lines, &stop));
            stop.request_stop();
            graded.join().unwrap().unwrap_err().to_string()
        });
        assert!(problem.contains("interrupted") && began.elapsed() < GRACE, "{problem}");
    }
}
