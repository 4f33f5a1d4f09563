//! The metronome in a process of its own, on the first core.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tacho_core::SystemClock;
use tacho_sim::{Metronome, MetronomeSpec};

use crate::{Load, system};

/// Serves until standard input ends.
pub(crate) fn serve(spec: &str) {
    system::pin(system::cores().0);
    let (tokens, gap) = spec.split_once(',').unwrap();
    let gap = Duration::from_nanos(gap.parse().unwrap());
    let spec = MetronomeSpec { tokens: tokens.parse().unwrap(), gap, first: Duration::from_millis(500) };
    let metronome = Metronome::start(spec, SystemClock::start()).unwrap();
    println!("{}", metronome.addr());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A server process; it ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(load: Load) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env("TACHO_BENCH_SERVER", format!("{},{}", load.tokens, load.gap.as_nanos()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { child, address: line.trim().parse().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
