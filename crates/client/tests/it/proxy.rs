//! Proxies: tunnels to TLS servers, refusals. (Plain requests through a proxy are recorded.)

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tacho_client::{BackendKind, EndpointSpec, Rules, Url, control::Caller};
use tacho_core::FailureKind;

use crate::behavior::{payload, requests};
use crate::scripted::{Seen, WHOLE, read_request, write_stream};
use crate::secure::Secure;
use crate::wire::{endpoint, send};

/// A proxy that responds to each CONNECT with `reply` and, if that is a success, forwards bytes to `server`, beginning
/// with `greeting` in the same packet as the reply.
fn proxy(reply: &'static str, greeting: &'static [u8], server: SocketAddr) -> (SocketAddr, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let _ = sender.send(read_request(&mut reader).unwrap());
            let _ = client.write_all(&[reply.as_bytes(), greeting].concat());
            if reply.contains(" 200 ") {
                tunnel(client, reader, TcpStream::connect(server).unwrap());
            } else {
                // A refusal need not close the connection.
                let _ = reader.fill_buf();
            }
        }
    });
    (address, seen)
}

fn tunnel(client: TcpStream, from_client: BufReader<TcpStream>, server: TcpStream) {
    let copy = |mut from: Box<dyn Read + Send>, mut to: TcpStream| {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        })
    };
    copy(Box::new(from_client), server.try_clone().unwrap());
    copy(Box::new(server), client);
}

fn through(proxy: SocketAddr, url: &str) -> EndpointSpec {
    let mut endpoint = endpoint(url, BackendKind::OpenAi, Rules::Standard);
    endpoint.insecure = true;
    endpoint.proxy = Some(Url::parse(&format!("http://user:p%40ss@{proxy}")).unwrap());
    endpoint
}

fn https_server() -> Secure {
    Secure::start(&["http/1.1"], |stream| {
        while let Some(seen) = read_request(stream) {
            assert_eq!(seen.header("proxy-authorization"), None, "the proxy's password went to the server");
            write_stream(stream.get_mut(), &WHOLE);
        }
    })
}

#[test]
fn a_tunnel_leads_to_a_tls_server() {
    let server = https_server();
    let reply = "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n";
    let (address, seen) = proxy(reply, b"", server.address);
    let rows = send(through(address, &server.url()), &payload(), &requests(3));
    assert!(rows.iter().all(|row| row.outcome.is_complete()), "{rows:?}");
    let asked = seen.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(asked.line, format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.address.port()));
    assert_eq!(asked.header("proxy-authorization"), Some("Basic dXNlcjpwQHNz"));
    let caller = Caller::new(&through(address, &server.url()), "", Duration::from_secs(5)).unwrap();
    assert_eq!(caller.get("/v1/models", caller.user_headers()).unwrap().status, 200);
}

#[test]
fn what_follows_the_proxys_answer_belongs_to_tls() {
    // An alert record (fatal, handshake failure) right after the reply: only TLS can interpret it.
    let server = https_server();
    let alert = b"\x15\x03\x03\x00\x02\x02\x28";
    let (address, _seen) = proxy("HTTP/1.1 200 OK\r\n\r\n", alert, server.address);
    let rows = send(through(address, &server.url()), &payload(), &requests(1));
    let failure = rows[0].outcome.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Connect);
    assert!(failure.message.contains("HandshakeFailure"), "{}", failure.message);
}

#[test]
fn a_refusal_is_a_connect_failure_that_names_it() {
    let body = "Content-Length: 6\r\n\r\nno way";
    let reply = format!("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n{body}");
    let (address, _seen) = proxy(reply.leak(), b"", "127.0.0.1:1".parse().unwrap());
    let rows = send(through(address, "https://server.example/v1/completions"), &payload(), &requests(1));
    let failure = rows[0].outcome.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::Connect);
    assert!(failure.message.contains("the proxy refused: HTTP/1.1 407 Proxy Auth"), "{}", failure.message);
    assert!(failure.message.contains(&address.to_string()), "{}", failure.message);
}

#[test]
fn a_direct_caller_goes_past_the_proxy() {
    let server = https_server();
    let (address, seen) = proxy("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", b"", server.address);
    let caller = Caller::new(&through(address, &server.url()), "", Duration::from_secs(5)).unwrap();
    assert!(caller.get("/tokenize", caller.user_headers()).is_err());
    assert!(seen.recv_timeout(Duration::from_secs(5)).is_ok());
    let direct = caller.without_proxy();
    assert_eq!(direct.get("/tokenize", direct.user_headers()).unwrap().status, 200);
    assert!(seen.try_recv().is_err());
}
