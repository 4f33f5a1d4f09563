//! `--grade-command`: the outputs as JSON lines for a command of the user, which writes a line of scores for each. It
//! runs after the run: however slow a grader is, no request waits for it.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use tacho_core::command::{ChildGroup, ended_how, shell};
use tacho_core::json::{Dict, Value, dumps, parse};

use crate::Error;

/// How long the command may take to end after its last line, and its messages to arrive.
const GRACE: Duration = Duration::from_secs(10);

/// The scores of each line.
///
/// # Errors
/// When the command fails, or a line of it is not an object of numbers for its row.
pub(super) fn scores(command: &str, lines: &[Value]) -> Result<Vec<Value>, Error> {
    let failed = |problem: String| Error::Grader { problem };
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
        let read = BufReader::new(output.into_iter().next().ok_or_else(|| failed("has no output".to_owned()))?);
        let rows = read.lines().map_while(Result::ok).filter(|line| !line.trim().is_empty());
        rows.take(lines.len() + 1).map(|line| checked(&line).map_err(failed)).collect()
    });
    let status = group.exit_within(GRACE);
    group.end();
    let said = || messages.last_line(GRACE);
    match status {
        Some(status) if !status.success() => Err(failed(format!("{}: {}", ended_how(status), said()))),
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
        let graded = scores(r#"while read -r line; do echo '{"length": 2, "ok": true}'; done"#, &lines).unwrap();
        assert_eq!((graded.len(), dumps(&graded[0])), (3000, r#"{"length": 2.0, "ok": 1.0}"#.to_owned()));
        let problem = |command: &str| scores(command, &lines[..2]).unwrap_err().to_string();
        assert!(problem("echo '{}'").contains("wrote 1 lines of scores for 2 outputs"), "{}", problem("echo '{}'"));
        assert!(problem("echo 7").contains("not an object of numbers"));
        assert!(problem("echo no judge >&2; exit 3").contains("no judge"));
    }
}
