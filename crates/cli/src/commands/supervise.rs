//! Supervisor of commands: this program as a separate process between a sweep or a run and the command. It
//! terminates the command's process group when the other end of its input is closed, also by a kill.
//! Processes that the command started in separate sessions are terminated too.

mod orphans;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use orphans::descendants;

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

/// Returns the command to supervise, if this process is a supervisor.
pub(crate) fn supervised_command(mut args: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    (args.nth(1)? == WORD).then(|| args.collect())
}

pub(crate) fn run(command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else { return ExitCode::from(127) };
    orphans::adopt();
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
