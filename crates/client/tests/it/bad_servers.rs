//! Every fault of a server, for every backend, over real sockets: one failed request with a typed outcome and a short
//! message, never a success, never a hang.

use std::time::{Duration, Instant};
use std::{io::Write, net::TcpStream, sync::mpsc::channel};

use flate2::{Compression, write::GzEncoder};
use tacho_client::{BackendKind, EndpointSpec, PayloadSpec, Rules, backends::Task};
use tacho_core::json::{Dict, parse};
use tacho_core::{Content, FailureKind, Observation, Outcome, Request};

use crate::scripted::{Keep, Scripted, serve};
use crate::wire::{endpoint, send};

/// Whether a response is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Streamed,
    Whole,
}

/// A backend and whether its responses are streamed.
#[derive(Debug, Clone, Copy)]
struct Asked {
    backend: BackendKind,
    way: Way,
}

impl Asked {
    /// Every backend as it is, and those with optional streaming also without it.
    fn all() -> Vec<Asked> {
        let unstreamed = ["openai", "openai-chat", "openai-responses", "openai-audio", "sglang", "anthropic-messages"];
        // Audio is any bytes: most of these faults are not visible in it. Those of a WebSocket are tested with it.
        let is_speech = |backend: &BackendKind| backend.default_endpoint() == "/v1/audio/speech";
        let mut all: Vec<Asked> = BackendKind::ALL
            .into_iter()
            .filter(|backend| !is_speech(backend) && *backend != BackendKind::OpenAiRealtime)
            .map(|backend| {
                let whole = backend.task() != Task::Generation || backend == BackendKind::DeepSpeedMii;
                Asked { backend, way: if whole { Way::Whole } else { Way::Streamed } }
            })
            .collect();
        let backends = unstreamed.into_iter().map(|name| BackendKind::from_name(name).unwrap());
        all.extend(backends.map(|backend| Asked { backend, way: Way::Whole }));
        all
    }

    fn is_streamed(self) -> bool {
        self.way == Way::Streamed
    }

    /// Whether a response has an end marker.
    fn marks_its_end(self) -> bool {
        !matches!(self.backend, BackendKind::TensorRtLlm | BackendKind::VllmGenerate)
    }

    /// One token, as a message of the stream.
    fn token(self) -> &'static str {
        match self.backend {
            BackendKind::OpenAiChat | BackendKind::OpenAiAudio => {
                "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n"
            }
            BackendKind::OpenAiResponses => "data: {\"type\": \"response.output_text.delta\", \"delta\": \"a\"}\n\n",
            BackendKind::AnthropicMessages => {
                "data: {\"type\": \"content_block_delta\", \"delta\": {\"type\": \"text_delta\", \"text\": \"a\"}}\n\n"
            }
            BackendKind::Tgi => "data:{\"token\": {\"text\": \"a\"}, \"generated_text\": null}\n\n",
            BackendKind::TensorRtLlm => "data: {\"text_output\": \"a\"}\n\n",
            BackendKind::VllmGenerate => "{\"text\": [\"once a\"]}\n",
            _ => "data: {\"choices\": [{\"text\": \"a\"}]}\n\n",
        }
    }

    /// The end of the stream.
    fn end(self) -> &'static str {
        match self.backend {
            BackendKind::OpenAiResponses => {
                "data: {\"type\": \"response.completed\", \"response\": {\"usage\": {\"output_tokens\": 1}}}\n\n"
            }
            BackendKind::AnthropicMessages => "data: {\"type\": \"message_stop\"}\n\n",
            BackendKind::Tgi => "data:{\"token\": {\"text\": \"b\"}, \"generated_text\": \"ab\"}\n\n",
            BackendKind::TensorRtLlm | BackendKind::VllmGenerate => "",
            _ => "data: [DONE]\n\n",
        }
    }

    /// A complete, valid response.
    fn good(self) -> String {
        let whole = match self.backend {
            _ if self.is_streamed() => return self.token().to_owned() + self.end(),
            BackendKind::OpenAiChat => {
                r#"{"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": 1}}"#
            }
            BackendKind::OpenAiResponses => {
                r#"{"output": [{"content": [{"text": "a"}]}], "usage": {"output_tokens": 1}}"#
            }
            BackendKind::AnthropicMessages => {
                r#"{"content": [{"type": "text", "text": "a"}], "usage": {"output_tokens": 1}}"#
            }
            BackendKind::OpenAiAudio => r#"{"text": "a"}"#,
            backend if backend.task() == Task::Generation => r#"{"choices": [{"text": "a"}]}"#,
            BackendKind::VllmRerank => r#"{"results": [{"index": 0}], "usage": {"prompt_tokens": 2}}"#,
            _ => r#"{"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 2}}"#,
        };
        whole.to_owned()
    }

    /// A token with invalid UTF-8.
    fn invalid_utf8(self) -> Vec<u8> {
        let text = self.good();
        let mut bytes = text.into_bytes();
        let mark: &[u8] = if self.backend == BackendKind::VllmGenerate { b"a\"" } else { b"\"a\"" };
        match bytes.windows(mark.len()).position(|window| window == mark) {
            Some(at) => bytes.insert(at + mark.len() - 1, 0xff),
            None => drop(bytes.splice(1..1, *b"\"x\": \"\xff\", ")),
        }
        bytes
    }

    fn request(self) -> Request {
        let mut request = Request::text("once", 3, 4);
        if self.backend == BackendKind::VllmRerank {
            request.content = Content::Texts(vec!["q".into(), "d".into()]);
        }
        if self.backend == BackendKind::OpenAiAudio {
            request.media = Some(parse(r#"{"audio": [[0.0], 8000]}"#).unwrap());
        }
        if self.backend == BackendKind::OpenAiImageEdits {
            request.media = Some(parse(r#"{"image_url": {"url": "data:image/png;base64,eHl6"}}"#).unwrap());
        }
        request
    }

    fn payload(self) -> PayloadSpec {
        let mut extra_body = Dict::new();
        if !self.is_streamed() && self.backend.task() == Task::Generation {
            extra_body.set("stream", false);
        }
        PayloadSpec { model: "m".into(), extra_body, ..PayloadSpec::default() }
    }

    fn endpoint(self, server: &Scripted) -> EndpointSpec {
        let url = format!("http://{}{}", server.address, self.backend.default_endpoint());
        endpoint(&url, self.backend, Rules::Standard)
    }

    /// Sends a request to a server that responds with these bytes.
    fn ask(self, response: Vec<u8>, keep: Keep) -> Observation {
        let server = serve(Box::new(move |_, stream| {
            // The client may close the connection early.
            let _ = stream.write_all(&response);
            keep
        }));
        self.ask_server(self.endpoint(&server))
    }

    fn ask_server(self, endpoint: EndpointSpec) -> Observation {
        let began = Instant::now();
        let mut rows = send(endpoint, &self.payload(), &[self.request()]);
        assert!(began.elapsed() < Duration::from_secs(15), "{self:?}: it hung");
        rows.remove(0)
    }
}

fn head(status: &str, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}\r\n").into_bytes()
}

fn sized(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut response = head(status, &format!("Content-Length: {}\r\n{headers}", body.len()));
    response.extend_from_slice(body);
    response
}

fn chunked(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut response = head("200 OK", &format!("Transfer-Encoding: chunked\r\n{headers}"));
    if !body.is_empty() {
        response.extend(format!("{:x}\r\n", body.len()).into_bytes());
        response.extend_from_slice(body);
        response.extend_from_slice(b"\r\n");
    }
    response.extend_from_slice(b"0\r\n\r\n");
    response
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A response and its expected outcome.
struct Fault {
    name: &'static str,
    response: Vec<u8>,
    keep: Keep,
    expected: FailureKind,
    /// A part of the expected message.
    says: &'static str,
}

fn fault(name: &'static str, response: Vec<u8>, expected: FailureKind, says: &'static str) -> Fault {
    Fault { name, response, keep: Keep::Open, expected, says }
}

/// Statuses other than 200, with various bodies.
fn http_faults() -> Vec<Fault> {
    use FailureKind::Http;
    let json = br#"{"error": {"message": "too long", "code": 400}}"#;
    let html = b"<html>\n<h1>Bad gateway</h1></html>";
    let endless = [
        head("500 Internal Server Error", "Transfer-Encoding: chunked\r\n"),
        b"ffffff\r\n".to_vec(),
        vec![b'x'; 1 << 20],
    ]
    .concat();
    vec![
        fault("400 without a body", sized("400 Bad Request", "", b""), Http(400), "Bad Request"),
        fault(
            "400 with JSON",
            sized("400 Bad Request", "Content-Type: application/json\r\n", json),
            Http(400),
            "too long",
        ),
        fault("502 with HTML", sized("502 Bad Gateway", "Content-Type: text/html\r\n", html), Http(502), "Bad gateway"),
        fault("503 without a phrase", sized("503", "", b"busy"), Http(503), "HTTP 503: busy"),
        fault("429", sized("429 Too Many Requests", "Retry-After: 1\r\n", b""), Http(429), "Too Many"),
        fault("204", head("204 No Content", ""), Http(204), "No Content"),
        fault("206", sized("206 Partial Content", "", b"data"), Http(206), "Partial"),
        fault("an endless error", endless, Http(500), "Internal Server Error"),
        fault("a redirect elsewhere", sized("307 T", "Location: http://192.0.2.1/\r\n", b""), Http(307), "--base-url"),
        fault("a redirect nowhere", sized("302 Found", "", b""), Http(302), "Found"),
    ]
}

/// Bytes that are not HTTP or have wrong framing.
fn framing_faults(asked: Asked) -> Vec<Fault> {
    use FailureKind::{ConnectionLost, Malformed};
    let good = asked.good().into_bytes();
    let garbage = [head("200 OK", "Transfer-Encoding: chunked\r\n"), b"zz\r\nhello\r\n".to_vec()].concat();
    let huge_chunk = [head("200 OK", "Transfer-Encoding: chunked\r\n"), b"ffffffffffffffffff\r\n".to_vec()].concat();
    let bad_end = [head("200 OK", "Transfer-Encoding: chunked\r\n"), b"1\r\n{x1\r\n".to_vec()].concat();
    let too_long = [head("200 OK", &format!("Content-Length: {}\r\n", good.len() + 9)), good.clone()].concat();
    let too_short = [head("200 OK", &format!("Content-Length: {}\r\n", good.len() - 3)), good.clone()].concat();
    let cut_chunk = chunked("", &good);
    let cut_chunk = cut_chunk[..cut_chunk.len() - 5].to_vec();
    let many_headers = head("200 OK", &"X-A: b\r\n".repeat(500));
    let long_header = head("200 OK", &format!("X-A: {}\r\n", "b".repeat(1 << 20)));
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(20).into_bytes();
    let closing = |name, response, expected, says| Fault { keep: Keep::Close, ..fault(name, response, expected, says) };
    // A response with an end marker needs no other end.
    let unended = vec![
        closing("less than its length", too_long, ConnectionLost, "before the response was complete"),
        closing("no last chunk", cut_chunk, ConnectionLost, "before the response was complete"),
    ];
    let mut faults = vec![
        fault("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec(), Malformed, "not HTTP/1.1"),
        fault("chunks that are none", garbage, Malformed, "chunks are broken"),
        fault("a chunk beyond all numbers", huge_chunk, Malformed, "chunks are broken"),
        fault("a chunk without an end", bad_end, Malformed, "chunks are broken"),
        fault("a length that is no number", head("200 OK", "Content-Length: -5\r\n"), Malformed, "not HTTP/1.1"),
        fault("too many headers", many_headers, Malformed, "96 lines"),
        fault("an endless header", long_header, Malformed, "64 KiB"),
        fault(
            "another protocol after an upgrade",
            b"HTTP/1.1 101 Switching\r\n\r\n\x00\x01\x02\x03\r\n\r\n".to_vec(),
            Malformed,
            "not HTTP/1.1",
        ),
        closing("nothing at all", Vec::new(), ConnectionLost, "closed the connection"),
        closing("hints and no response", interim, ConnectionLost, "closed the connection"),
        closing("half a head", b"HTTP/1.1 200 OK\r\nConte".to_vec(), ConnectionLost, "closed the connection"),
        fault("more than its length", too_short, Malformed, "longer than its framing"),
    ];
    if !(asked.is_streamed() && asked.marks_its_end()) {
        faults.extend(unended);
    }
    faults
}

/// Responses with valid framing and a wrong body.
fn body_faults(asked: Asked) -> Vec<Fault> {
    use FailureKind::{Empty, ErrorInStream, Malformed, Truncated};
    let (good, token) = (asked.good(), asked.token());
    let html = b"<!doctype html><title>Sign in</title>";
    let error = br#"{"error": {"message": "out of memory", "code": 500}}"#;
    let events = "Content-Type: text/event-stream\r\n";
    let mut packed = gzipped(good.as_bytes());
    packed.truncate(packed.len() - 4);
    let in_stream = match asked.backend {
        BackendKind::VllmGenerate => [token.as_bytes(), error, b"\n"].concat(),
        _ => [token.as_bytes(), b"data: ", error, b"\n\n"].concat(),
    };
    let lone_error = if asked.is_streamed() { in_stream.clone() } else { error.to_vec() };
    let mut faults = vec![
        fault("an empty 200", sized("200 OK", "", b""), Empty, ""),
        fault("an empty stream", chunked(events, b""), Empty, ""),
        fault("HTML on 200", sized("200 OK", "Content-Type: text/html\r\n", html), Malformed, "Sign in"),
        fault("an error object", chunked("", &lone_error), ErrorInStream, "out of memory"),
        fault(
            "plain text that says gzip",
            chunked("Content-Encoding: gzip\r\n", good.as_bytes()),
            Malformed,
            "compression is broken",
        ),
        fault(
            "a coding that was not requested",
            chunked("Content-Encoding: br\r\n", good.as_bytes()),
            Malformed,
            "not requested",
        ),
        fault("gzip cut short", chunked("Content-Encoding: gzip\r\n", &packed), Truncated, "compressed"),
        fault(
            "JSON that is no object",
            chunked(
                "",
                if asked.is_streamed() && asked.backend != BackendKind::VllmGenerate {
                    b"data: [1]\n\n"
                } else {
                    b"[1]"
                },
            ),
            Malformed,
            "",
        ),
    ];
    if !asked.is_streamed() {
        faults.push(fault("bytes that are no text", chunked("", &asked.invalid_utf8()), Malformed, ""));
    }
    if asked.is_streamed() {
        let cut = [token.as_bytes(), &token.as_bytes()[..token.len() / 2]].concat();
        faults.push(fault("an end inside an event", chunked(events, &cut), Truncated, ""));
        faults.push(Fault {
            keep: Keep::Reset,
            ..fault(
                "a reset in mid-stream",
                [
                    head("200 OK", "Transfer-Encoding: chunked\r\n"),
                    format!("{:x}\r\n{token}", token.len() + 9).into_bytes(),
                ]
                .concat(),
                FailureKind::ConnectionLost,
                "",
            )
        });
        // Without an end marker, the framing must show the end.
        let open_ended = [head("200 OK", events), token.as_bytes().to_vec()].concat();
        faults.push(Fault { keep: Keep::Close, ..fault("an end with the connection", open_ended, Truncated, "") });
        if asked.marks_its_end() {
            faults.push(fault("no closing mark", chunked(events, token.as_bytes()), Truncated, ""));
            faults.push(fault(
                "a closing mark alone",
                chunked(events, if asked.backend == BackendKind::Tgi { b"" } else { asked.end().as_bytes() }),
                Empty,
                "",
            ));
        }
    } else {
        let half = &good.as_bytes()[..good.len() / 2];
        faults.push(fault("half a response", chunked("", half), Malformed, "not JSON"));
        faults.push(fault("no data", chunked("", br#"{"id": "x"}"#), Empty, ""));
    }
    faults
}

#[test]
fn every_fault_is_one_failed_request_for_every_backend() {
    let check = |asked: Asked| {
        let faults = http_faults().into_iter().chain(framing_faults(asked)).chain(body_faults(asked));
        for Fault { name, response, keep, expected, says } in faults {
            let row = asked.ask(response, keep);
            let Outcome::Failed(failure) = &row.outcome else { panic!("{asked:?}, {name}: a success") };
            assert_eq!(failure.kind, expected, "{asked:?}, {name}: {}", failure.message);
            assert!(failure.message.contains(says), "{asked:?}, {name}: {}", failure.message);
            let short = !failure.message.is_empty() && failure.message.chars().count() < 400;
            assert!(short && !failure.message.contains('\n'), "{asked:?}, {name}: {}", failure.message);
            assert!(row.text.is_empty(), "{asked:?}, {name}: a failed request has no text");
        }
    };
    std::thread::scope(|scope| {
        for asked in Asked::all() {
            scope.spawn(move || check(asked));
        }
    });
}

#[test]
fn what_is_odd_but_allowed_is_no_fault() {
    for asked in Asked::all() {
        let good = asked.good();
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        for (name, response) in [
            ("hints before the response", [interim.as_bytes().to_vec(), chunked("", good.as_bytes())].concat()),
            ("gzip", chunked("Content-Encoding: gzip\r\n", &gzipped(good.as_bytes()))),
            ("a line end after the body", [sized("200 OK", "", good.as_bytes()), b"\r\n".to_vec()].concat()),
            ("a wrong content type", sized("200 OK", "Content-Type: text/plain\r\n", good.as_bytes())),
            ("lengths that agree", sized("200 OK", &format!("Content-Length: {}\r\n", good.len()), good.as_bytes())),
        ] {
            let row = asked.ask(response, Keep::Open);
            assert!(row.outcome.is_complete(), "{asked:?}, {name}: {:?}", row.outcome);
        }
    }
}

#[test]
fn redirects_end() {
    for asked in Asked::all() {
        let row = asked.ask(sized("308 Permanent Redirect", "Location: /again\r\n", b""), Keep::Open);
        assert_eq!(row.outcome.failure().map(|failure| failure.kind), Some(FailureKind::Http(308)), "{asked:?}");
    }
}

#[test]
fn stalls_end_at_their_time_limits() {
    let check = |asked: Asked| {
        let token = if asked.is_streamed() { asked.token() } else { "{" };
        let first = [
            head("200 OK", "Transfer-Encoding: chunked\r\n"),
            format!("{:x}\r\n{token}\r\n", token.len()).into_bytes(),
        ];
        let limit = Duration::from_millis(60);
        let total = |endpoint: EndpointSpec| EndpointSpec { timeout: limit, ..endpoint };
        let to_token = |endpoint: EndpointSpec| EndpointSpec { first_token_timeout: Some(limit), ..endpoint };
        let stall = |response: Vec<u8>, limited: &dyn Fn(EndpointSpec) -> EndpointSpec, says: &str| {
            let server = serve(Box::new(move |_, stream: &mut TcpStream| {
                let _ = stream.write_all(&response);
                Keep::Open
            }));
            let row = asked.ask_server(limited(asked.endpoint(&server)));
            let failure = row.outcome.failure().unwrap_or_else(|| panic!("{asked:?}, {says}: a success"));
            assert_eq!(failure.kind, FailureKind::TimedOut, "{asked:?}: {}", failure.message);
            assert_eq!(failure.message, format!("{says} within 0.06 s"), "{asked:?}");
            // Not at a default limit, which is an hour or more; a busy machine is late by seconds.
            let took = row.done.since(row.sent);
            assert!(took >= limit && took < limit + Duration::from_secs(10), "{asked:?}: {took:?}");
        };
        stall(Vec::new(), &total, "no complete response");
        stall(first.concat(), &total, "no complete response");
        if asked.is_streamed() {
            stall(first[0].clone(), &to_token, "no first token");
        }
    };
    std::thread::scope(|scope| {
        for asked in Asked::all() {
            scope.spawn(move || check(asked));
        }
    });
}

/// One at a time: each may take as much memory as the limit allows.
#[test]
fn a_line_of_100_megabytes_is_given_up() {
    for asked in Asked::all() {
        let (written, heard) = channel();
        let server = serve(Box::new(move |_, stream: &mut TcpStream| {
            let block = [&b"100000\r\n"[..], &vec![b'a'; 1 << 20], b"\r\n"].concat();
            let _ = stream.write_all(&head("200 OK", "Transfer-Encoding: chunked\r\n"));
            let _ = written.send((0..100).take_while(|_| stream.write_all(&block).is_ok()).count());
            Keep::Close
        }));
        let row = asked.ask_server(asked.endpoint(&server));
        let failure = row.outcome.failure().unwrap();
        assert_eq!(failure.kind, FailureKind::Malformed, "{asked:?}: {}", failure.message);
        assert!(heard.recv().unwrap() < 60, "{asked:?}: the client went on reading");
    }
}
