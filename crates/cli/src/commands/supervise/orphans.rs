//! Processes that left the command's group: daemons in separate sessions. On Linux they come to the supervisor as
//! its children when their parents end, so that they can be found; elsewhere there is no way to.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, getpid};

/// Makes this process the parent of all orphans below it.
pub(super) fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// All processes below this one that still run.
pub(super) fn descendants() -> Vec<Pid> {
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

/// Each process that has not ended, with its parent.
fn running() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let of = |name: &str| {
        let pid: i32 = name.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, a parenthesis too.
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        (!matches!(state, "Z" | "X")).then_some((pid, parent))
    };
    entries.flatten().filter_map(|entry| of(entry.file_name().to_str()?)).collect()
}
