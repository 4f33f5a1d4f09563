//! Supervisor of commands: this program as a separate process between a sweep or a run and the command. It
//! terminates the command's process group when the other end of its input is closed, also by a kill.
//! Processes that the command started in separate sessions are terminated too.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs, path::Path, thread};

use anyhow::Context;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process_group};

/// First argument that selects the supervisor. It is internal, not a command.
pub(crate) const WORD: &str = "__supervise";

const GRACE: Duration = Duration::from_secs(10);

/// Grace period of Nsight Systems, which writes its report then.
const REPORT: Duration = Duration::from_secs(600);

/// How long child processes may outlive the command.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// The words that start a command under the supervisor.
pub(super) fn launcher() -> anyhow::Result<Vec<OsString>> {
    let this = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(vec![this.into_os_string(), WORD.into()])
}

pub(crate) fn supervised_command(mut args: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    (args.nth(1)? == WORD).then(|| args.collect())
}

pub(crate) fn run(command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else { return ExitCode::from(127) };
    adopt();
    let mut child = match Command::new(program).args(args).stdin(Stdio::null()).process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", program.to_string_lossy());
            return ExitCode::from(127);
        }
    };
    let group = Pid::from_child(&child);
    let grace = grace(program);
    thread::spawn(move || {
        // Nothing is ever sent: end of file means that the sweep has ended.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        end(group, grace);
    });
    let status = child.wait();
    end(group, LEFTOVERS);
    let code = status.map_or(1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn grace(program: &OsString) -> Duration {
    let is_nsys = Path::new(program).file_name().is_some_and(|name| name == "nsys");
    if is_nsys { REPORT } else { GRACE }
}

/// Terminates a process group and its orphans, and kills those that remain.
fn end(group: Pid, grace: Duration) {
    let began = Instant::now();
    let _ = kill_process_group(group, Signal::TERM);
    let mut signalled = HashSet::new();
    loop {
        let others = descendants();
        if others.is_empty() && test_kill_process_group(group).is_err() {
            return;
        }
        let patient = began.elapsed() <= grace;
        if !patient {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for pid in others {
            if signalled.insert(pid) || !patient {
                let _ = kill_process(pid, if patient { Signal::TERM } else { Signal::KILL });
            }
        }
        if began.elapsed() > grace + LEFTOVERS {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Makes this process the reaper of descendants that left the process group. Only Linux supports this.
fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in running() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut open = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(below.iter().filter_map(|&pid| Pid::from_raw(pid)));
        open.extend(below);
    }
    found
}

fn running() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let of = |name: &str| {
        let pid: i32 = name.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain any character, including a parenthesis.
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        (!matches!(state, "Z" | "X")).then_some((pid, parent))
    };
    entries.flatten().filter_map(|entry| of(entry.file_name().to_str()?)).collect()
}
