//! The supervisor of a sweep's commands: this program, started as a separate process between the sweep and the
//! command. It ends the command's whole process group when the sweep closes the pipe, and a sweep that is killed
//! closes it too. What the command started in separate sessions ends with it.

mod orphans;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use orphans::descendants;

/// The word that asks for it. No command of its own: it is not for users.
pub(crate) const WORD: &str = "__supervise";

/// How long a command may take to end when asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How long Nsight Systems may: it writes its report then.
const REPORT: Duration = Duration::from_secs(600);

/// How long its children may outlive it.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// The command to supervise, if that is what this process is for.
pub(crate) fn asked(mut args: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    (args.nth(1)? == WORD).then(|| args.collect())
}

/// Runs the command and ends with its code.
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
        // Nothing is ever sent: the pipe only says whether the sweep is alive.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        end(group, grace);
    });
    let status = child.wait();
    end(group, LEFTOVERS);
    let code = status.map_or(1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// How long a program may take to end when asked to.
fn grace(program: &OsString) -> Duration {
    let is_nsys = Path::new(program).file_name().is_some_and(|name| name == "nsys");
    if is_nsys { REPORT } else { GRACE }
}

/// Asks a group and all that it left behind to end, and makes them end when they do not.
fn end(group: Pid, grace: Duration) {
    let began = Instant::now();
    let _ = kill_process_group(group, Signal::TERM);
    let mut asked = HashSet::new();
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
            if asked.insert(pid) || !patient {
                let _ = kill_process(pid, if patient { Signal::TERM } else { Signal::KILL });
            }
        }
        if began.elapsed() > grace + LEFTOVERS {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
