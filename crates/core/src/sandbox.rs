//! Templates of others in a helper process with limits on memory, stack and time: a template that exceeds them ends the
//! helper, not this process. The helper is this program, started with another argument.

use crate::Mutex;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{ffi::OsStr, os::unix::net::UnixStream, sync::OnceLock, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{command::ChildGroup, packed::Pack};

/// This program on Linux, even if its file was replaced.
const LINUX_PROGRAM: &str = "/proc/self/exe";
/// Assumed address space of the program if /proc does not state it.
const ASSUMED_BYTES: u64 = 1 << 30;
/// Maximum size of a message, and thus of what is rendered.
const MAX_MESSAGE: u64 = 64 << 20;

/// How to start the helper, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Sandbox {
    /// Arguments of the helper, which must call [`serve`].
    pub args: &'static [&'static str],
    /// Memory beyond that of the program itself.
    pub bytes: u64,
    /// Time limit of each exchange.
    pub time: Duration,
}

static SANDBOX: OnceLock<&'static [&'static str]> = OnceLock::new();

impl Sandbox {
    /// Starts helpers from now on: this program with `args`, which must call [`serve`].
    pub fn enable(args: &'static [&'static str]) {
        let _ = SANDBOX.set(args);
    }

    /// The sandbox of this process with these limits, if it uses one.
    pub fn enabled(bytes: u64, time: Duration) -> Option<Self> {
        SANDBOX.get().map(|args| Sandbox { args, bytes, time })
    }
}

/// A helper process; dropping it ends it.
#[derive(Debug)]
pub struct Helper {
    sandbox: Sandbox,
    process: Mutex<Process>,
}

impl Helper {
    /// Starts a helper for a service of [`serve`]. Fails if it cannot be started, in one line.
    pub fn start(sandbox: Sandbox, service: &str) -> Result<Self, String> {
        let process = Process::start(sandbox).and_then(|mut process| {
            send(&mut process.stream, &(service.to_owned(), sandbox.bytes))?;
            Ok(process)
        });
        let process = process.map_err(|error| format!("the helper process cannot be started: {error}"))?;
        Ok(Helper { sandbox, process: Mutex::new(process) })
    }

    /// Sends a message and waits for the reply. Fails if the helper exceeded a limit, in one line.
    pub fn exchange<R: Pack>(&self, message: &impl Pack) -> Result<R, String> {
        let mut process = self.process.lock();
        let reply = send(&mut process.stream, message).and_then(|()| receive(&mut process.stream));
        reply.map_err(|error| {
            process.group.end();
            self.limit(&error)
        })
    }

    fn limit(&self, error: &io::Error) -> String {
        let Sandbox { bytes, time, .. } = self.sandbox;
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("it takes longer than {} s, the limit of a template", time.as_secs())
            }
            io::ErrorKind::FileTooLarge => {
                format!("its text exceeds {} MiB, the limit of a template", MAX_MESSAGE >> 20)
            }
            _ => format!("it exceeds {} MiB of memory or the stack, the limit of a template", bytes >> 20),
        }
    }
}

#[derive(Debug)]
struct Process {
    group: ChildGroup,
    stream: UnixStream,
}

impl Process {
    fn start(sandbox: Sandbox) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_read_timeout(Some(sandbox.time))?;
        stream.set_write_timeout(Some(sandbox.time))?;
        // The helper must not receive secrets from the environment.
        let mut command = Command::new(program()?);
        command.args(sandbox.args).env_clear().stdin(OwnedFd::from(theirs)).stdout(nowhere()).stderr(nowhere());
        let mut group = ChildGroup::start(&mut command)?;
        // A pipe that nobody reads.
        drop((group.child.stdout.take(), group.child.stderr.take()));
        Ok(Process { group, stream })
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

/// What a helper does for its parent until the connection is closed, under its name.
pub type Service = (&'static str, fn(&mut UnixStream) -> io::Result<()>);

/// The helper process: limits itself and runs the service that its parent asks for over standard input. Fails if the
/// parent closes the connection, or asks for an unknown service.
pub fn serve(services: &[Service]) -> io::Result<()> {
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (name, bytes): (String, u64) = receive(&mut stream)?;
    limit_memory(bytes)?;
    let service = services.iter().find(|(known, _)| *known == name);
    service.map_or_else(|| Err(io::ErrorKind::NotFound.into()), |(_, run)| run(&mut stream))
}

/// Limits the address space to the current use plus `bytes`; a process that exceeds it leaves no core dump.
fn limit_memory(bytes: u64) -> io::Result<()> {
    let used = address_space().unwrap_or(ASSUMED_BYTES);
    for (resource, max) in [(Resource::As, used + bytes), (Resource::Core, 0)] {
        let max = Some(getrlimit(resource).maximum.map_or(max, |maximum| maximum.min(max)));
        setrlimit(resource, Rlimit { current: max, maximum: max })?;
    }
    Ok(())
}

/// Sends a message. Fails if the connection is closed or too slow.
pub fn send(stream: &mut UnixStream, value: &impl Pack) -> io::Result<()> {
    let mut bytes = vec![0; size_of::<u64>()];
    value.pack(&mut bytes);
    let len = (bytes.len() - size_of::<u64>()) as u64;
    bytes[..size_of::<u64>()].copy_from_slice(&len.to_le_bytes());
    stream.write_all(&bytes)
}

/// Receives a message. Fails if the connection is closed or too slow, or if the message is too long or cannot be read.
pub fn receive<T: Pack>(stream: &mut UnixStream) -> io::Result<T> {
    let mut len = [0; size_of::<u64>()];
    stream.read_exact(&mut len)?;
    let len = u64::from_le_bytes(len);
    if len > MAX_MESSAGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    stream.take(len).read_to_end(&mut bytes)?;
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
