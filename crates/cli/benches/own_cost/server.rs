//! The reference server in a separate process on the first core.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::{net::SocketAddr, time::Duration};

use tacho_core::SystemClock;
use tacho_sim::{ReferenceServer, ReferenceSpec};

use crate::{Load, system};

/// Serves until standard input ends.
pub(crate) fn serve(spec: &str) {
    system::pin(system::cores().0);
    let numbers: Vec<u64> = spec.split(',').map(|number| number.parse().unwrap()).collect();
    let (gap, first) = (Duration::from_nanos(numbers[1]), Duration::from_nanos(numbers[2]));
    let spec = ReferenceSpec { tokens: numbers[0] as usize, gap, first };
    let server = ReferenceServer::start(spec, SystemClock::start()).unwrap();
    println!("{}", server.addr());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A server process, stopped when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(load: Load) -> Self {
        // Turns of a conversation need a short TTFT; otherwise, all streams are open before the first token.
        let first = Duration::from_millis(if load.turns > 1 { 20 } else { 500 });
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env("TACHO_BENCH_SERVER", format!("{},{},{}", load.tokens, load.gap.as_nanos(), first.as_nanos()))
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
