//! Renders chat templates in a helper process with limits on memory, stack and time: a template that exceeds them ends
//! the helper, not this process. The helper is this program, started with another argument.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tacho_core::packed::Pack;

use crate::error::TemplateError;
use crate::template::{Local, Variables};

/// This program on Linux, even if its file was replaced.
const LINUX_PROGRAM: &str = "/proc/self/exe";
/// Assumed address space of the program if /proc does not state it.
const ASSUMED_BYTES: u64 = 1 << 30;

/// How to start the helper, and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sandbox {
    pub(crate) args: &'static [&'static str],
    /// Memory beyond that of the program itself.
    pub(crate) bytes: u64,
    /// Time limit for compiling the template, and for each rendering.
    pub(crate) time: Duration,
}

static SANDBOX: OnceLock<Sandbox> = OnceLock::new();

/// Renders templates in helper processes from now on: this program with `args`, which must call [`serve_templates`].
/// The limits are far above the needs of any conversation.
pub fn sandbox_templates(args: &'static [&'static str]) {
    let _ = SANDBOX.set(Sandbox { args, bytes: 512 << 20, time: Duration::from_secs(30) });
}

/// The sandbox of this process, if it uses one.
pub(crate) fn sandbox() -> Option<Sandbox> {
    SANDBOX.get().copied()
}

/// A template in a helper process.
pub(crate) struct Helper {
    sandbox: Sandbox,
    process: Mutex<Process>,
}

impl Helper {
    /// Starts a helper and compiles the template there.
    pub(crate) fn start(sandbox: Sandbox, source: &str) -> Result<Self, TemplateError> {
        let process = Process::start(sandbox)
            .map_err(|error| TemplateError(format!("the helper process cannot be started: {error}")))?;
        let helper = Helper { sandbox, process: Mutex::new(process) };
        helper.exchange(&(sandbox.bytes, source.to_owned())).map(|_| helper)
    }

    pub(crate) fn render(&self, variables: &Variables) -> Result<String, TemplateError> {
        self.exchange(variables)
    }

    fn exchange(&self, message: &impl Pack) -> Result<String, TemplateError> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = send(&mut process.stream, message).and_then(|()| receive::<Reply>(&mut process.stream));
        match reply {
            Ok((true, text)) => Ok(text),
            Ok((false, problem)) => Err(TemplateError(problem)),
            Err(error) => {
                let _ = process.child.kill();
                Err(TemplateError(self.limit(&error)))
            }
        }
    }

    fn limit(&self, error: &io::Error) -> String {
        let Sandbox { bytes, time, .. } = self.sandbox;
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("it takes longer than {} s, the limit of a template", time.as_secs())
            }
            _ => format!("it exceeds {} MiB of memory or the stack, the limit of a template", bytes >> 20),
        }
    }
}

/// Whether the template was rendered, and its text or the error.
type Reply = (bool, String);

struct Process {
    child: Child,
    stream: UnixStream,
}

impl Process {
    fn start(sandbox: Sandbox) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_read_timeout(Some(sandbox.time))?;
        stream.set_write_timeout(Some(sandbox.time))?;
        // The helper must not receive terminal interrupts, nor secrets from the environment.
        let mut child = Command::new(program()?)
            .args(sandbox.args)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(nowhere())
            .stderr(nowhere())
            .process_group(0)
            .spawn()?;
        // A pipe that nobody reads.
        drop((child.stdout.take(), child.stderr.take()));
        Ok(Process { child, stream })
    }
}

/// Discards the output of the helper; some sandboxes lack /dev/null.
fn nowhere() -> Stdio {
    if Path::new("/dev/null").exists() { Stdio::null() } else { Stdio::piped() }
}

/// The file of this program; on Linux without /proc, the path it was started with.
pub fn program() -> io::Result<PathBuf> {
    let linked = Path::new(LINUX_PROGRAM);
    if linked.exists() {
        return Ok(linked.to_owned());
    }
    std::env::current_exe().or_else(|error| {
        let started = PathBuf::from(std::env::args_os().next().unwrap_or_default());
        started_as(&started, std::env::var_os("PATH").as_deref()).ok_or(error)
    })
}

/// The file of a program that a shell was asked for by `name`.
fn started_as(name: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_bare = name.components().count() == 1 && !name.has_root();
    let directories = path.filter(|_| is_bare).into_iter().flat_map(std::env::split_paths);
    let found = directories.map(|directory| directory.join(name)).find(|file| file.is_file());
    found.or_else(|| Some(name.to_owned()).filter(|_| !is_bare && name.is_file()))
}

/// Bytes of address space that this process uses, where /proc states it.
pub fn address_space() -> Option<u64> {
    const PAGE: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split(' ').next()?.parse::<u64>().ok().map(|pages| pages * PAGE)
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The helper process: compiles and renders templates from standard input until it is closed.
pub fn serve_templates() -> io::Result<()> {
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (bytes, source): (u64, String) = receive(&mut stream)?;
    limit_memory(bytes)?;
    let local = match Local::new(source) {
        Ok(local) => local,
        Err(TemplateError(problem)) => return send(&mut stream, &(false, problem)),
    };
    send(&mut stream, &(true, String::new()))?;
    loop {
        let variables: Variables = receive(&mut stream)?;
        let reply: Reply = match local.render(&variables) {
            Ok(text) => (true, text),
            Err(TemplateError(problem)) => (false, problem),
        };
        send(&mut stream, &reply)?;
    }
}

/// Limits the address space to the current use plus `bytes`; a process that exceeds it leaves no core dump.
fn limit_memory(bytes: u64) -> io::Result<()> {
    let used = address_space().unwrap_or(ASSUMED_BYTES);
    for (resource, most) in [(Resource::As, used + bytes), (Resource::Core, 0)] {
        let most = Some(getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most)));
        setrlimit(resource, Rlimit { current: most, maximum: most })?;
    }
    Ok(())
}

fn send(stream: &mut UnixStream, value: &impl Pack) -> io::Result<()> {
    let mut bytes = vec![0; size_of::<u64>()];
    value.pack(&mut bytes);
    let len = (bytes.len() - size_of::<u64>()) as u64;
    bytes[..size_of::<u64>()].copy_from_slice(&len.to_le_bytes());
    stream.write_all(&bytes)
}

fn receive<T: Pack>(stream: &mut UnixStream) -> io::Result<T> {
    let mut len = [0; size_of::<u64>()];
    stream.read_exact(&mut len)?;
    let mut bytes = Vec::new();
    stream.take(u64::from_le_bytes(len)).read_to_end(&mut bytes)?;
    T::unpack(&mut bytes.as_slice()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_proc_a_program_is_found_as_a_shell_finds_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let path = std::env::join_paths([Path::new("/nonexistent"), directory.path()]).unwrap();
        assert_eq!(started_as(Path::new("tool"), Some(&path)), Some(file.clone()));
        assert_eq!(started_as(&file, None), Some(file.clone()));
        assert_eq!(started_as(Path::new("other"), Some(&path)), None);
        assert_eq!(started_as(&directory.path().join("other"), Some(&path)), None);
    }
}
