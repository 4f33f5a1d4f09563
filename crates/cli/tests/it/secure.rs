//! TLS and proxies from the command line: certificates, tunnels, and exceptions to the proxy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, mpsc::Sender};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::tacho::{Place, stderr, stdout};

type Secured = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// A server that responds to every POST with one token; its certificate is in `ca.pem` of the directory.
pub(crate) fn start(place: &Place) -> SocketAddr {
    listen(place, WebPkiClientVerifier::no_client_auth())
}

/// The same server, which requires the certificate of `other.pem` from clients.
pub(crate) fn start_knowing_other(place: &Place) -> SocketAddr {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(tacho_testkit::certificate("other.pem").as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    listen(place, WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap())
}

fn listen(place: &Place, clients: Arc<dyn ClientCertVerifier>) -> SocketAddr {
    let certificate = tacho_testkit::certificate("server.pem");
    std::fs::write(place.path().join("ca.pem"), &certificate).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(tacho_testkit::certificate("server.key").as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_client_cert_verifier(clients).with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tls = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            std::thread::spawn(move || answer_all(BufReader::new(tls)));
        }
    });
    address
}

fn answer_all(mut stream: Secured) {
    while let Some(line) = read_request(&mut stream) {
        let token = r#"data: {"choices": [{"text": "a"}]}"#;
        let usage = r#"data: {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}"#;
        let body = format!("{token}\n\n{usage}\n\ndata: [DONE]\n\n");
        let status = if line.starts_with("POST /v1/completions ") { "200 OK" } else { "404 Not Found" };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads the next request, skips its body, and returns the first line.
fn read_request(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end().to_lowercase();
        match header.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(line)
}

/// A proxy that connects to any host and reports the requested ones.
fn start_proxy() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, heard) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            lead(client, &asked);
        }
    });
    (address, heard)
}

fn lead(mut client: TcpStream, asked: &Sender<String>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let Some(line) = read_request(&mut reader) else { return };
    let server = TcpStream::connect(line.split(' ').nth(1).unwrap()).unwrap();
    let _ = asked.send(line.trim_end().to_owned());
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
    let pass = |mut from: Box<dyn Read + Send>, mut to: TcpStream| {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        })
    };
    pass(Box::new(reader), server.try_clone().unwrap());
    pass(Box::new(server), client);
}

const LOAD: [&str; 11] = [
    "--model",
    "m",
    "--tokenizer",
    "golden/tokenizers/gpt2",
    "--num-prompts",
    "3",
    "--random-input-len",
    "4",
    "--random-output-len",
    "1",
    "--disable-tqdm",
];

/// Runs against the server with these flags and variables.
fn bench(place: &Place, server: SocketAddr, flags: &[&str], env: &[(&str, &str)]) -> std::process::Output {
    let url = format!("https://{server}");
    let mut command = place.command(&[&["serve", "--base-url", &url], &LOAD[..], flags].concat());
    for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.envs(env.iter().copied()).output().unwrap()
}

#[test]
fn a_certificate_is_known_by_its_file_or_not_asked_for() {
    let place = Place::new();
    let server = start(&place);
    let unknown = bench(&place, server, &[], &[]);
    assert_eq!(unknown.status.code(), Some(1), "{}", stdout(&unknown));
    assert!(stderr(&unknown).contains("--ca-file"), "{}", stderr(&unknown));
    // If the server does not offer HTTP/2, `--http2` falls back to HTTP/1.1.
    for flags in [&["--ca-file", "ca.pem"][..], &["--insecure"], &["--insecure", "--http2"]] {
        let output = bench(&place, server, flags, &[]);
        assert!(output.status.success(), "{flags:?}: {}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("Successful requests:                     3"), "{}", stdout(&output));
    }
    std::fs::write(place.path().join("empty.pem"), "").unwrap();
    for file in ["none.pem", "empty.pem"] {
        let output = bench(&place, server, &["--ca-file", file], &[]);
        assert_eq!(output.status.code(), Some(1), "{file}: {}", stdout(&output));
        assert!(stderr(&output).contains(file), "{}", stderr(&output));
    }
}

#[test]
fn proxies_are_gone_through_and_around_as_the_environment_says() {
    let place = Place::new();
    let server = start(&place);
    let (proxy, asked) = start_proxy();
    let proxy = format!("http://{proxy}");
    let through =
        bench(&place, server, &["--insecure"], &[("HTTPS_PROXY", &proxy), ("HTTP_PROXY", "http://192.0.2.1:9")]);
    assert!(through.status.success(), "{}{}", stdout(&through), stderr(&through));
    assert_eq!(asked.recv().unwrap(), format!("CONNECT {server} HTTP/1.1"));
    while asked.try_recv().is_ok() {}
    let around = [("HTTPS_PROXY", proxy.as_str()), ("NO_PROXY", "example.org, 127.0.0.1")];
    let output = bench(&place, server, &["--insecure"], &around);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(asked.try_recv().is_err(), "the proxy was asked");
}
