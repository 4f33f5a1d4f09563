//! `--on-row-command`: finished rows as JSON lines for a command of the user. A thread converts and writes them; the
//! run never waits for it. What the command does not get in time is dropped and counted.

use std::io::{Write, stderr};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::{os::fd::AsFd, sync::Arc, time::Duration};

use tacho_core::command::{ChildGroup, Messages, ended_how, shell};
use tacho_core::{Observation, Timestamp, Watcher};
use tacho_metrics::{Caveat, Sample};

use crate::Error;

const MAX_WAITING: u64 = 1 << 14;
const PART: usize = 64;
/// How long messages are waited for after the end.
const MESSAGES_TIMEOUT: Duration = Duration::from_secs(1);

/// Appends a row as a line; the number is the origin of times in seconds.
pub type WriteRow = fn(&Sample, f64, &mut Vec<u8>);

/// A command that gets the finished rows.
#[derive(Debug, Clone)]
pub struct RowCommandPlan {
    pub line: String,
    pub write: WriteRow,
    /// How long the command may take to read the rest and end after the run.
    pub grace: Duration,
}

/// Numbers that the run and the thread share.
#[derive(Debug, Default)]
struct Shared {
    accepted: AtomicU64,
    /// Rows that the thread has written, or could not.
    handled: AtomicU64,
    written: AtomicU64,
    closed: AtomicBool,
}

/// The watcher of a run with such a command.
pub(crate) struct RowCommand<'s> {
    grace: Duration,
    group: ChildGroup,
    messages: Messages,
    rows: Option<Sender<Vec<Observation>>>,
    began: Option<Sender<Timestamp>>,
    writer: Option<ScopedJoinHandle<'s, ()>>,
    shared: Arc<Shared>,
    seen: u64,
}

impl<'s> RowCommand<'s> {
    /// Starts the command and the thread that writes to it. `lines` converts rows; their times start at the timestamp.
    pub(crate) fn start(
        scope: &'s Scope<'s, '_>,
        plan: &RowCommandPlan,
        lines: impl Fn(&[Observation], Timestamp) -> Vec<u8> + Send + 's,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Thread { name: "--on-row-command", source };
        // The report alone goes to standard output.
        let output = stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        let mut command = shell(&[], &plan.line);
        command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped());
        let mut group = ChildGroup::start(&mut command).map_err(failed)?;
        let messages = group.messages();
        let shared = Arc::new(Shared::default());
        let ((rows, waiting), (began, origin)) = (channel(), channel());
        let (input, counts) = (group.child.stdin.take(), Arc::clone(&shared));
        let work = move || input.into_iter().for_each(|input| write(input, &waiting, &origin, &lines, &counts));
        let thread = std::thread::Builder::new().name("on-row".to_owned()).spawn_scoped(scope, work);
        let (rows, began, writer) = (Some(rows), Some(began), Some(thread.map_err(failed)?));
        Ok(RowCommand { grace: plan.grace, group, messages, rows, began, writer, shared, seen: 0 })
    }

    /// Lets the command read the rest and end. Returns the number of rows that it missed, and why.
    pub(crate) fn finish(mut self) -> (u64, Option<Caveat>) {
        let problem = self.end();
        let missed = self.seen.saturating_sub(self.shared.written.load(Ordering::Relaxed));
        let problem = match (problem, missed) {
            (None, 0) => return (0, None),
            (Some(problem), _) => problem,
            (None, _) if self.shared.closed.load(Ordering::Relaxed) => "stopped reading".to_owned(),
            (None, _) => "read them too slowly".to_owned(),
        };
        (missed, Some(Caveat::RowCommand { missed, rows: self.seen, problem }))
    }

    /// Why the command did not end well.
    fn end(&mut self) -> Option<String> {
        drop((self.rows.take(), self.began.take()));
        let status = self.group.exit_within(self.grace);
        // Children of the command may hold its input: the thread must not wait for them.
        self.group.end();
        let _ = self.writer.take().map(ScopedJoinHandle::join);
        match status {
            Some(status) if status.success() => None,
            Some(status) => {
                let last_message = self.messages.last_line(MESSAGES_TIMEOUT);
                let colon = if last_message.is_empty() { "" } else { ": " };
                Some(format!("{}{colon}{last_message}", ended_how(status)))
            }
            None => Some(format!("had not ended {} s after the run and was killed", self.grace.as_secs_f64())),
        }
    }
}

impl Drop for RowCommand<'_> {
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.grace = Duration::ZERO;
            self.end();
        }
    }
}

impl Watcher for RowCommand<'_> {
    fn began(&mut self, origin: Timestamp) {
        if let Some(began) = &self.began {
            let _ = began.send(origin);
        }
    }

    fn rows(&mut self, rows: &[Observation]) {
        let count = rows.len() as u64;
        self.seen += count;
        let Shared { accepted, handled, closed, .. } = &*self.shared;
        let waiting = accepted.load(Ordering::Relaxed) - handled.load(Ordering::Relaxed);
        let Some(sender) = &self.rows else { return };
        if !closed.load(Ordering::Relaxed) && waiting + count <= MAX_WAITING && sender.send(rows.to_vec()).is_ok() {
            accepted.fetch_add(count, Ordering::Relaxed);
        }
    }
}

fn write(
    mut input: ChildStdin,
    waiting: &Receiver<Vec<Observation>>,
    began: &Receiver<Timestamp>,
    lines: &impl Fn(&[Observation], Timestamp) -> Vec<u8>,
    shared: &Shared,
) {
    let mut origin = Timestamp::ZERO;
    for rows in waiting {
        origin = began.try_iter().last().unwrap_or(origin);
        for part in rows.chunks(PART) {
            let is_closed = shared.closed.load(Ordering::Relaxed);
            if !is_closed && input.write_all(&lines(part, origin)).is_err() {
                shared.closed.store(true, Ordering::Relaxed);
            } else if !is_closed {
                shared.written.fetch_add(part.len() as u64, Ordering::Relaxed);
            }
            shared.handled.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// What a command missed of this many rows, each of a kilobyte, and how long its end took.
    fn missed(line: &str, rows: usize, grace: f64) -> (Option<Caveat>, Duration) {
        let plan = RowCommandPlan { line: line.to_owned(), write: |_, _, _| {}, grace: Duration::from_secs_f64(grace) };
        let lines = |rows: &[Observation], _: Timestamp| vec![b'x'; rows.len() * 1000];
        let began = Instant::now();
        let caveat = std::thread::scope(|scope| {
            let mut command = RowCommand::start(scope, &plan, lines).unwrap();
            command.began(Timestamp(7));
            let row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
            (0..rows / 100).for_each(|_| command.rows(&vec![row.clone(); 100]));
            assert!(began.elapsed() < Duration::from_secs(5), "the run does not wait");
            command.finish().1
        });
        (caveat, began.elapsed())
    }

    #[test]
    fn a_reader_gets_everything() {
        assert_eq!(missed("cat > /dev/null", 5000, 60.0).0, None);
    }

    #[test]
    fn what_is_dropped_is_counted() {
        let (caveat, took) = missed("sleep 60", 30_000, 0.5);
        let Some(Caveat::RowCommand { missed, rows: 30_000, problem }) = caveat else { panic!("{caveat:?}") };
        assert!(
            (29_000..=30_000).contains(&missed) && problem.contains("had not ended 0.5 s after"),
            "{missed} {problem}"
        );
        assert!(took < Duration::from_secs(30), "{took:?}");
        let (caveat, _) = missed_all("exec <&-; sleep 1");
        assert!(caveat.text().contains("missed") && caveat.text().contains("stopped reading"), "{}", caveat.text());
    }

    fn missed_all(line: &str) -> (Caveat, Duration) {
        let (caveat, took) = missed(line, 2000, 60.0);
        (caveat.unwrap(), took)
    }
}
