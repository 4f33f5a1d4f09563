//! A worker and servers with several addresses, some of them dead or silent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tacho_core::{Clock, Observation, Request, SystemClock};
use tacho_loadgen::{Target, Worker, WorkerStats};

use super::{Exchange, Slot};
use crate::client::{Client, ClientPlan};
use crate::transport::addresses::{Address, Addresses};
use crate::{BackendKind, EndpointSpec, PayloadSpec, TimestampSource, Url};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 65\r\nConnection: close\r\n\r\n\
    data: {\"choices\":[{\"text\":\"a\",\"index\":0}]}\n\ndata: [DONE]\n\n\n\n";

/// Responds to one request per connection.
fn live() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 4096];
            while !seen.ends_with(b"}") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => seen.extend_from_slice(&buffer[..count]),
                }
            }
            let _ = stream.write_all(ANSWER.as_bytes());
        }
    });
    address
}

fn dead() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A listener that never accepts and whose queue is full: connection attempts get no reply.
struct Silent {
    listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Silent {
    #[expect(unsafe_code, reason = "the standard library does not set the length of a queue")]
    fn new() -> Silent {
        use std::os::fd::AsRawFd;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: no pointers.
        unsafe { libc::listen(listener.as_raw_fd(), 0) };
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
        let queued = (0..8).map_while(|_| connect()).collect();
        Silent { listener, _queued: queued }
    }
}

/// A client with this many requests for a name with these addresses.
pub(super) fn client(addresses: &[SocketAddr], count: usize, timestamps: TimestampSource) -> Client {
    let url = Url::parse("http://127.0.0.1:1/v1/completions").unwrap();
    let timeout = Duration::from_secs(20);
    let endpoint = EndpointSpec { timeout, timestamps, ..EndpointSpec::new(url, BackendKind::OpenAi) };
    let requests = vec![Request::text("once", 1, 1); count];
    let (plan, clock) = (ClientPlan::default(), SystemClock::start());
    let mut client = Client::new(endpoint, &PayloadSpec::default(), &requests, plan, clock).unwrap();
    client.replicas.only_mut().route.addresses =
        Addresses::fixed(addresses.iter().copied().map(Address::Tcp).collect());
    client
}

/// Sends this many requests, one at a time or all at once, to a name with these addresses.
fn send(addresses: &[SocketAddr], count: usize, at_once: bool) -> (Vec<Observation>, WorkerStats) {
    let client = client(addresses, count, TimestampSource::Kernel);
    let clock = client.clock;
    let mut worker = client.worker(0, 1).unwrap();
    let mut rows = Vec::new();
    for index in 0..count {
        worker.issue(Observation::dispatched(index, clock.now(), clock.now()));
        while rows.len() <= index && (!at_once || index + 1 == count) {
            worker.poll(clock.now() + Duration::from_secs(30), &mut rows);
        }
    }
    (rows, worker.stats())
}

#[test]
fn no_request_is_lost_to_a_dead_address() {
    let (live, dead) = (live(), dead());
    let missing: SocketAddr = "[100::1]:9".parse().unwrap();
    for addresses in [&[dead, live][..], &[live, dead], &[dead, missing, live, dead]] {
        for at_once in [false, true] {
            let (rows, stats) = send(addresses, 20, at_once);
            let failed = rows.iter().find_map(|row| row.outcome.failure());
            assert_eq!((failed, rows.len(), stats.connect_failures), (None, 20, 0), "{addresses:?} {at_once}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn clocks_that_disagree_matter_to_kernel_timestamps_only() {
    for (source, contradicts) in [(TimestampSource::Kernel, true), (TimestampSource::User, false)] {
        let client = client(&[live()], 1, source);
        let mut worker = client.worker(0, 1).unwrap();
        worker.wall.set_back();
        let (now, mut rows) = (client.clock.now(), Vec::new());
        worker.issue(Observation::dispatched(0, now, now));
        worker.poll(now + Duration::from_secs(30), &mut rows);
        assert!(rows[0].outcome.is_complete(), "{:?}", rows[0].outcome);
        assert_eq!(worker.stats().timestamp_anomalies > 0, contradicts, "{source:?}");
        assert_eq!(worker.stats().kernel_timestamps, source == TimestampSource::Kernel);
    }
}

#[test]
fn where_all_are_dead_the_failure_names_each() {
    let addresses = [dead(), dead()];
    let (rows, stats) = send(&addresses, 1, false);
    let message = &rows[0].outcome.failure().unwrap().message;
    assert!(addresses.iter().all(|address| message.contains(&address.to_string())), "{message}");
    assert_eq!(stats.connect_failures, 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_silent_address_costs_a_quarter_of_a_second_once() {
    let (silent, live) = (Silent::new(), live());
    let (rows, _) = send(&[silent.listener.local_addr().unwrap(), live], 6, false);
    for (at, row) in rows.iter().enumerate() {
        assert!(row.outcome.is_complete(), "{:?}", row.outcome);
        let waited = Duration::from_nanos(row.connect_ns);
        if at == 0 {
            assert!(waited >= Duration::from_millis(240) && waited < Duration::from_secs(5), "{waited:?}");
        } else {
            // It is not tried again.
            assert!(waited < Duration::from_millis(240), "{at}: {waited:?}");
        }
    }
}

/// With 10,000 streams, every sweep over the slots reads this many bytes, and the run keeps them in memory.
#[test]
fn a_waiting_stream_is_small() {
    assert!(size_of::<Option<Slot>>() <= 64, "{}", size_of::<Option<Slot>>());
    assert!(size_of::<Exchange>() <= 1024, "{}", size_of::<Exchange>());
}
