//! Processes that left the command's process group: daemons in separate sessions. On Linux, they become children of
//! the supervisor when their parents exit, so it can find them. Other systems do not support this.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, getpid};

/// Makes this process the reaper of orphaned descendants.
pub(super) fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

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
