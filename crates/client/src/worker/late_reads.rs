//! What a worker says about events that it read together: whether they may have arrived one by one, and how far apart.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, sleep};
use std::time::Duration;

use tacho_core::{Clock, Observation};
use tacho_loadgen::{Target, Worker, WorkerStats};

use super::ClientWorker;
use super::tests::client;
use crate::TimestampSource;
use crate::client::Client;

const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
const EVENT: &str = "data: {\"choices\":[{\"text\":\"a\",\"index\":0}]}\n\n";

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Sends so many events in one write, at each of these times in milliseconds after the request; one script per connection.
fn server(scripts: &'static [&'static [(u64, usize)]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (stream, script) in listener.incoming().zip(scripts) {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
                while !seen.ends_with(b"}") {
                    let count = stream.read(&mut buffer).unwrap();
                    seen.extend_from_slice(&buffer[..count]);
                }
                stream.write_all(HEAD.as_bytes()).unwrap();
                let mut now = 0;
                for &(at, events) in *script {
                    sleep(ms(at - std::mem::replace(&mut now, at)));
                    stream.write_all(EVENT.repeat(events).as_bytes()).unwrap();
                }
                sleep(ms(300));
                stream.write_all(b"data: [DONE]\n\n").unwrap();
            });
        }
    });
    address
}

/// Sends as many requests as there are scripts, 20 ms apart, and runs `act`; then waits for all ends.
fn run(
    scripts: &'static [&'static [(u64, usize)]],
    act: impl FnOnce(&Client, &mut ClientWorker<'_>, &mut Vec<Observation>),
) -> WorkerStats {
    let client = client(&[server(scripts)], scripts.len(), TimestampSource::Kernel);
    let (clock, mut rows) = (client.clock, Vec::new());
    let mut worker = client.worker(0, 1).unwrap();
    for index in 0..scripts.len() {
        worker.issue(Observation::dispatched(index, clock.now(), clock.now()));
        worker.poll(clock.now() + ms(20), &mut rows);
    }
    act(&client, &mut worker, &mut rows);
    while rows.len() < scripts.len() {
        worker.poll(clock.now() + Duration::from_secs(30), &mut rows);
    }
    assert!(rows.iter().all(|row| row.outcome.is_complete()), "{rows:?}");
    worker.stats()
}

/// A busy machine may keep the worker from its core in any one of them.
#[test]
fn a_bundle_after_an_idle_wait_is_the_server_s() {
    let mut tries = (0..20).map(|_| {
        run(&[&[(120, 2)]], |_, worker, rows| {
            // Long work, after which the worker waits for the bundle.
            sleep(ms(5));
            worker.poll(worker.client.clock.now() + ms(200), rows);
        })
    });
    let exact = |stats: WorkerStats| (stats.coalesced, stats.late_coalesced) == (1, 0);
    assert!(tries.any(exact), "the worker was idle when it came");
}

#[test]
fn events_that_came_during_work_may_have_come_apart() {
    let stats = run(&[&[(60, 1), (90, 1)]], |_, _, _| sleep(ms(400)));
    assert_eq!((stats.coalesced, stats.late_coalesced), (1, 1));
    assert!(stats.late_spans_ns[0] > 20_000_000, "{stats:?}");
}

#[test]
fn events_that_came_while_the_process_was_stopped_may_have_come_apart() {
    let stats = run(&[&[(60, 1), (90, 1)]], |client, worker, _| {
        let stopped = client.clock.now();
        sleep(ms(400));
        // As a wait that SIGCONT ended: no socket is ready.
        (worker.slept, worker.woke) = (stopped, client.clock.now());
        worker.absent = worker.woke.since(stopped);
        worker.ready.clear();
    });
    assert_eq!((stats.coalesced, stats.late_coalesced), (1, 1));
    assert!(stats.late_spans_ns[0] > 20_000_000, "{stats:?}");
}

/// The first connection's event ends a wait; what comes on the second one afterwards came after it.
#[test]
fn a_delay_counts_once_for_the_sockets_that_it_ended_with() {
    let (mut looked, mut read) = (0, 0);
    let stats = run(&[&[(600, 1)], &[(700, 2)]], |client, worker, rows| {
        worker.watch_tokens();
        worker.poll(client.clock.now() + Duration::from_secs(30), rows);
        assert_eq!(worker.take_tokens(), 1);
        looked = worker.woke.0;
        // That wait took long, because the worker was off its core.
        worker.absent = Duration::from_secs(10);
        sleep(ms(300));
        worker.poll(client.clock.now() + Duration::from_secs(30), rows);
        read = client.clock.now().0;
    });
    assert_eq!((stats.coalesced, stats.late_coalesced), (1, 1));
    assert!(stats.late_spans_ns[0] <= read - looked, "{stats:?}: it read all {} ns before", read - looked);
}
