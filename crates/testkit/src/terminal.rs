//! A pseudo-terminal to run a program in, which a test can close.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs::File, io::Read, os::fd::OwnedFd, sync::Arc, thread::JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A pseudo-terminal with a program in it. Its output is read and discarded.
pub struct Terminal {
    closed: Arc<AtomicBool>,
    watcher: JoinHandle<()>,
    /// The program, in a new session with this terminal.
    pub child: Child,
}

impl Terminal {
    /// Runs a command in a new terminal; with `nohup` it survives the terminal's end. Panics if the machine has no
    /// pseudo-terminals, or no `setsid` and `env`.
    pub fn run(command: &Command, nohup: bool) -> Terminal {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("the machine has terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let open = || File::options().read(true).write(true).open(name.to_str().expect("a path")).expect("it is there");
        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait", "env"]).args(nohup.then_some("--ignore-signal=HUP"));
        session.arg(command.get_program()).args(command.get_args());
        session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        session.current_dir(command.get_current_dir().expect("a test runs somewhere"));
        session.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        let child = session.spawn().expect("setsid can be started");
        let closed = Arc::new(AtomicBool::new(false));
        let signal = closed.clone();
        let watcher = std::thread::spawn(move || watch(master, &signal));
        Terminal { closed, watcher, child }
    }

    /// Closes the terminal and returns the program. Panics if the watching thread panicked.
    pub fn close(self) -> Child {
        self.closed.store(true, Ordering::Release);
        self.watcher.join().expect("it only reads");
        self.child
    }
}

/// Reads until `closed`: a program that shows progress prints several times a second.
fn watch(master: OwnedFd, closed: &AtomicBool) {
    let (mut master, mut buffer) = (File::from(master), [0; 4096]);
    while !closed.load(Ordering::Acquire) && master.read(&mut buffer).is_ok_and(|count| count > 0) {}
}
