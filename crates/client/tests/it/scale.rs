//! Very many concurrent streams on one worker, and their cost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tacho_client::{BackendKind, Rules};

use crate::behavior::{payload, requests};
use crate::scripted::WHOLE;
use crate::wire::{endpoint, run};

const ROUNDS: usize = 4;

/// Resident memory in bytes: before the first request, when all wait, when all have received a token.
#[derive(Debug)]
struct Memory {
    before: usize,
    waiting: usize,
    streaming: usize,
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// Responds when all of `count` requests have arrived, then to all of them in rounds.
fn serve(count: usize) -> (SocketAddr, Receiver<Memory>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, memory) = channel();
    std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = Vec::with_capacity(count);
        let mut buffer = vec![0; 4096];
        let first = listener.accept().unwrap().0;
        let before = resident();
        streams.push(first);
        streams.extend((1..count).map(|_| listener.accept().unwrap().0));
        for stream in &mut streams {
            stream.set_nodelay(true).unwrap();
            assert!(stream.read(&mut buffer).unwrap() > 0, "a request came");
        }
        let waiting = resident();
        let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunk(WHOLE[0]));
        to_all(&mut streams, &head);
        // The client has read everything when it is idle; a short wait is enough.
        std::thread::sleep(Duration::from_millis(500));
        let streaming = resident();
        for _ in 1..ROUNDS {
            to_all(&mut streams, &chunk(WHOLE[0]));
        }
        to_all(&mut streams, &format!("{}{}0\r\n\r\n", chunk(WHOLE[1]), chunk(WHOLE[2])));
        sender.send(Memory { before, waiting, streaming }).unwrap();
    });
    (address, memory)
}

fn chunk(event: &str) -> String {
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn to_all(streams: &mut [TcpStream], bytes: &str) {
    for stream in streams {
        stream.write_all(bytes.as_bytes()).unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "a measurement is there to be read")]
fn stream_at_once(count: usize) -> Memory {
    let (address, memory) = serve(count);
    let url = format!("http://{address}/v1/completions");
    let endpoint = endpoint(&url, BackendKind::OpenAi, Rules::Standard);
    let requests: Vec<_> = requests(count);
    let began = Instant::now();
    let driven = run(endpoint, &payload(), &requests, count);
    assert!(driven.rows.iter().all(|row| row.outcome.is_complete()), "{:?}", driven.rows[0].outcome);
    assert!(driven.rows.iter().all(|row| row.chunks.len() == ROUNDS));
    assert_eq!(driven.workers.len(), 1);
    assert_eq!(driven.workers[0].events as usize, count * ROUNDS);
    let latest_start = driven.rows.iter().map(|row| row.sent).max().unwrap();
    let first_token = driven.rows.iter().filter_map(|row| row.chunks.first()).min().unwrap();
    assert!(latest_start < *first_token, "all were under way at once");
    let memory = memory.recv().unwrap();
    let each = |now: usize| now.saturating_sub(memory.before) / count;
    println!(
        "{count} streams in {:.2} s: {} bytes each while waiting, {} while streaming",
        began.elapsed().as_secs_f64(),
        each(memory.waiting),
        each(memory.streaming),
    );
    memory
}

#[test]
fn a_thousand_streams_run_at_once_on_one_worker() {
    stream_at_once(1000);
}

#[test]
#[ignore = "measures the memory of the process: run it alone"]
fn ten_thousand_streams_cost_two_kib_each_at_most() {
    // Ten thousand, less a margin that keeps both ends of all connections below a limit of 20,000 open files.
    let count = 9_900;
    let memory = stream_at_once(count);
    assert!((memory.waiting - memory.before) / count <= 2048, "{memory:?}");
    assert!((memory.streaming - memory.before) / count <= 2048, "{memory:?}");
}
