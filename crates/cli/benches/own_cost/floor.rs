//! Lower bound of a client's work: wait, read, timestamp, find the ends of events. No protocol, text, or verdict.

use std::io::{Read, Write};
use std::time::{Duration, Instant};
use std::{cmp::Reverse, collections::BinaryHeap, net::TcpStream, os::fd::AsRawFd};

use tacho_sim::reference_server;

use crate::sessions::{BEGIN, PAUSE};
use crate::{Load, Seen, server::Server, system};

pub(crate) fn run(load: Load) -> Seen {
    let server = Server::start(load);
    let mut epoll = system::Epoll::new();
    let mut sockets: Vec<TcpStream> = (0..load.streams).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // Later turns contain the conversation so far; the lower bound is to send as many prepared bytes.
    let turns: Vec<Vec<u8>> = (0..load.turns).map(|turn| request(load, turn)).collect();
    let mut sent = vec![0_usize; load.streams];
    let mut due: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for (token, socket) in sockets.iter_mut().enumerate() {
        epoll.add(socket.as_raw_fd(), token as u64);
        due.push(Reverse((begins(load, token), token)));
    }
    // Two newlines per event; the usage event and the end marker follow the tokens.
    let lines_in_all = 2 * (load.tokens + 2);
    let mut lines = vec![0_usize; load.streams];
    let mut timestamps: Vec<Vec<u64>> = (0..load.streams).map(|_| Vec::with_capacity(load.tokens + 2)).collect();
    let mut buffer = vec![0; 256 << 10];
    let mut left = load.streams;
    let origin = Instant::now();
    let now = || origin.elapsed().as_nanos() as u64;
    let before = system::cpu_time();
    while left > 0 {
        while let Some(&Reverse((_, token))) = due.peek().filter(|Reverse((at, _))| *at <= now()) {
            due.pop();
            sockets[token].write_all(&turns[sent[token]]).unwrap();
            (lines[token], sent[token]) = (0, sent[token] + 1);
        }
        let until = due.peek().map(|Reverse((at, _))| Duration::from_nanos(at.saturating_sub(now())));
        epoll.wait(until, |token| {
            let count = sockets[token].read(&mut buffer).unwrap();
            let timestamp = now();
            timestamps[token].push(timestamp);
            let open = lines[token] < lines_in_all;
            // The newlines of HTTP's chunk framing follow carriage returns.
            let found = memchr::memchr_iter(b'\n', &buffer[..count]).filter(|&at| at == 0 || buffer[at - 1] != b'\r');
            lines[token] += found.count();
            if open && lines[token] >= lines_in_all {
                match sent[token] < load.turns {
                    true => due.push(Reverse((timestamp + PAUSE.as_nanos() as u64, token))),
                    false => left -= 1,
                }
            }
        });
    }
    let cpu = system::cpu_time() - before;
    let gaps = timestamps.iter().flat_map(|timestamps| timestamps.windows(2).map(|pair| pair[1] - pair[0])).collect();
    Seen { tokens: load.streams * load.turns * load.tokens, cpu, gaps, ..Seen::default() }
}

/// The start of a stream. Conversations start as the client's do, so that their tokens are spread equally.
fn begins(load: Load, token: usize) -> u64 {
    if load.turns == 1 { 0 } else { (BEGIN * 1e9) as u64 * token as u64 / load.streams as u64 }
}

/// A request of the same length as that of this turn, which contains the conversation so far.
fn request(load: Load, turn: usize) -> Vec<u8> {
    let body = vec![b' '; 2 + turn * load.tokens * reference_server::DIGITS];
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}
