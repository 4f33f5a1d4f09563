//! The least any client must do: wait, read, stamp, find the ends of events. No protocol, no text, no verdict.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Instant;

use tacho_sim::metronome;

use crate::server::Server;
use crate::{Load, Seen, system};

pub(crate) fn run(load: Load) -> Seen {
    let server = Server::start(load);
    let mut epoll = system::Epoll::new();
    let mut sockets: Vec<TcpStream> = (0..load.streams).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for (token, socket) in sockets.iter_mut().enumerate() {
        epoll.add(socket.as_raw_fd(), token as u64);
        socket.write_all(&request(load, 0)).unwrap();
    }
    // Later turns carry what was said before; the least is to send as many bytes, made beforehand.
    let later: Vec<Vec<u8>> = (0..load.turns).map(|turn| request(load, turn)).collect();
    let mut turns = vec![1_usize; load.streams];
    // Two line ends per event; the usage event and the closing mark come after the tokens.
    let lines_in_all = 2 * (load.tokens + 2);
    let mut lines = vec![0_usize; load.streams];
    let mut stamps: Vec<Vec<u64>> = (0..load.streams).map(|_| Vec::with_capacity(load.tokens + 2)).collect();
    let mut buffer = vec![0; 256 << 10];
    let mut left = load.streams;
    let origin = Instant::now();
    let before = system::cpu_time();
    while left > 0 {
        epoll.wait(|token| {
            let count = sockets[token].read(&mut buffer).unwrap();
            stamps[token].push(origin.elapsed().as_nanos() as u64);
            let open = lines[token] < lines_in_all;
            // The line ends of HTTP's own framing come behind carriage returns.
            let found = memchr::memchr_iter(b'\n', &buffer[..count]).filter(|&at| at == 0 || buffer[at - 1] != b'\r');
            lines[token] += found.count();
            if open && lines[token] >= lines_in_all {
                match later.get(turns[token]) {
                    Some(request) => {
                        sockets[token].write_all(request).unwrap();
                        (lines[token], turns[token]) = (0, turns[token] + 1);
                    }
                    None => left -= 1,
                }
            }
        });
    }
    let cpu = system::cpu_time() - before;
    let gaps = stamps.iter().flat_map(|stamps| stamps.windows(2).map(|pair| pair[1] - pair[0])).collect();
    Seen { tokens: load.streams * load.turns * load.tokens, cpu, gaps, ..Seen::default() }
}

/// A request as long as that of this turn: what was asked and answered before stands in it.
fn request(load: Load, turn: usize) -> Vec<u8> {
    let body = vec![b' '; 2 + turn * load.tokens * metronome::DIGITS];
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}
