//! A worker's own count of its connections, with servers that close them at inconvenient times.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tacho_core::{Clock, Observation, Request, SystemClock};
use tacho_loadgen::{Target, Worker};

use super::ClientWorker;
use crate::client::{Client, ClientPlan};
use crate::{BackendKind, EndpointSpec, PayloadSpec, Url};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n\
    data: {\"choices\":[{\"text\":\"a\",\"index\":0}]}\n\ndata: [DONE]\n\n\n\n";

/// Resets every second connection: at once, after a while, or after the request; responds on the others.
fn fickle() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            std::thread::spawn(move || {
                let _ = serve(at, stream);
            });
        }
    });
    address
}

fn serve(at: usize, mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    match at % 6 {
        1 => return Ok(()),
        3 => {
            std::thread::sleep(Duration::from_millis(3));
            return Ok(());
        }
        5 => return stream.read(&mut buffer).map(drop),
        _ => {}
    }
    loop {
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => seen.extend_from_slice(&buffer[..count]),
            }
        }
        stream.write_all(ANSWER.as_bytes())?;
    }
}

fn opening(worker: &ClientWorker<'_>) -> usize {
    worker.slots.iter().flatten().filter(|slot| !slot.link.is_open()).count()
}

#[test]
fn connections_that_are_being_opened_are_counted_whatever_becomes_of_them() {
    let url = Url::parse(&format!("http://{}/v1/completions", fickle())).unwrap();
    let endpoint = EndpointSpec { timeout: Duration::from_secs(2), ..EndpointSpec::new(url, BackendKind::OpenAi) };
    let clock = SystemClock::start();
    let requests = vec![Request::text("once", 1, 1); 300];
    let plan = ClientPlan { preconnect: 12, spare: true, at_most: None };
    let client = Client::new(endpoint, &PayloadSpec::default(), &requests, plan, clock).unwrap();
    let mut worker = client.worker(0, 1).unwrap();
    let mut rows = Vec::new();
    for index in 0..requests.len() {
        worker.issue(Observation::dispatched(index, clock.now(), clock.now()));
        assert_eq!(worker.pools[0].opening, opening(&worker), "after request {index}");
        worker.poll(clock.now() + Duration::from_millis(1), &mut rows);
        assert_eq!(worker.pools[0].opening, opening(&worker), "after request {index} and a turn");
    }
    let deadline = clock.now() + Duration::from_secs(30);
    while rows.len() < requests.len() && clock.now() < deadline {
        worker.poll(clock.now() + Duration::from_millis(5), &mut rows);
        assert_eq!(worker.pools[0].opening, opening(&worker));
    }
    assert_eq!(rows.len(), requests.len());
    assert!(rows.iter().any(|row| row.outcome.is_complete()));
}
