//! Servers and proxies that are particular about headers and fields.

use std::io::Write;
use std::time::{Duration, Instant};

use tacho_client::control::{Caller, TokenizeServer, first_model, metrics_page};
use tacho_client::{BackendKind, EndpointSpec, PayloadSpec, Rules};
use tacho_core::json::{Value, parse};

use crate::behavior::{payload, requests};
use crate::scripted::{Keep, Scripted, Seen, WHOLE, serve, write_stream};
use crate::wire::{endpoint, send};

/// The request as a server receives it.
fn seen(backend: BackendKind, payload: &PayloadSpec, change: impl Fn(&mut EndpointSpec)) -> Seen {
    let server = serve(Box::new(|_, stream| {
        write_stream(stream, &WHOLE);
        Keep::Open
    }));
    let mut endpoint = endpoint(&format!("{}/v1/completions", server.url()), backend, Rules::Standard);
    change(&mut endpoint);
    send(endpoint, payload, &requests(1));
    server.seen.recv().unwrap()
}

fn by_file(request: &str) -> BackendKind {
    let text =
        format!("request: {{ path: /v1/completions, {request} body: {{}} }}\nresponse: {{ framing: sse, text: t }}");
    BackendKind::from_text(&text, "file").unwrap()
}

#[test]
fn the_request_id_can_be_set_and_left_out() {
    let id = |backend, change: &dyn Fn(&mut EndpointSpec)| {
        seen(backend, &payload(), change).header("x-request-id").map(str::to_owned)
    };
    let id = |backend, change: &dyn Fn(&mut EndpointSpec)| id(backend, change).unwrap_or_default();
    let own = |endpoint: &mut EndpointSpec| endpoint.headers.set("X-Request-ID", "7b5e");
    let strict = |endpoint: &mut EndpointSpec| (endpoint.rules, _) = (Rules::Vllm, own(endpoint));
    let without = |endpoint: &mut EndpointSpec| endpoint.sends_request_id = false;
    assert_eq!(id(BackendKind::OpenAi, &|_| ()), "r0");
    assert_eq!(id(BackendKind::OpenAi, &own), "7b5e");
    assert_eq!(id(BackendKind::OpenAi, &strict), "r0");
    assert_eq!(id(BackendKind::OpenAi, &without), "");
    // A file lists what is sent.
    assert_eq!(id(by_file(""), &|_| ()), "");
    assert_eq!(id(by_file("request_id: X-Request-Id,"), &|_| ()), "r0");
    assert_eq!(seen(by_file("request_id: X-Trace,"), &payload(), |_| ()).header("x-trace"), Some("r0"));
}

#[test]
fn null_removes_a_field_of_ours_and_no_other() {
    let extra = r#"{"ignore_eos": null, "logprobs": null, "theirs": null, "top_k": 3}"#;
    let mut payload = PayloadSpec { ignore_eos: true, ..payload() };
    let Value::Dict(extra_body) = parse(extra).unwrap() else { unreachable!() };
    payload.extra_body = extra_body;
    let fields = |payload: &PayloadSpec| {
        let body = seen(BackendKind::OpenAi, payload, |_| ()).json();
        body.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(fields(&payload), "model prompt repetition_penalty max_tokens stream stream_options theirs top_k");
    payload.keeps_nulls = true;
    let all = "model prompt repetition_penalty max_tokens logprobs stream stream_options ignore_eos theirs top_k";
    assert_eq!(fields(&payload), all);
}

#[test]
fn only_streams_refuse_compression_and_not_like_vllm() {
    let accepted = |backend, change: &dyn Fn(&mut EndpointSpec)| {
        seen(backend, &payload(), change).header("accept-encoding").unwrap().to_owned()
    };
    assert_eq!(accepted(BackendKind::OpenAi, &|_| ()), "identity");
    assert_eq!(accepted(BackendKind::OpenAi, &|endpoint| endpoint.headers.set("accept-encoding", "gzip")), "gzip");
    assert_eq!(accepted(BackendKind::OpenAi, &|endpoint| endpoint.rules = Rules::Vllm), "gzip, deflate");
    let pooling = |endpoint: &mut EndpointSpec| endpoint.url.path = "/v1/embeddings".to_owned();
    assert_eq!(accepted(BackendKind::OpenAiEmbeddings, &pooling), "gzip, deflate");
    let whole = PayloadSpec { extra_body: [("stream".to_owned(), Value::Null)].into_iter().collect(), ..payload() };
    assert_eq!(seen(BackendKind::OpenAi, &whole, |_| ()).header("accept-encoding"), Some("gzip, deflate"));
}

/// A sticky load balancer: the first response sets a cookie, also on a redirect.
#[test]
fn cookies_of_a_named_server_are_returned() {
    let cookies = |host: &str, status: &str| {
        let (head, mut first) = (format!("HTTP/1.1 {status}\r\nSet-Cookie: route=b; Path=/\r\n"), true);
        let server = serve(Box::new(move |_, stream| {
            if std::mem::take(&mut first) {
                write!(stream, "{head}Set-Cookie: x=1; Path=/v9\r\nContent-Length: 0\r\n\r\n").unwrap();
            } else {
                write_stream(stream, &WHOLE);
            }
            Keep::Open
        }));
        let url = format!("http://{host}:{}/v1/completions", server.address.port());
        let endpoint = endpoint(&url, BackendKind::OpenAi, Rules::Standard);
        send(endpoint.clone(), &payload(), &requests(2));
        metrics_page(&Caller::new(&endpoint, "", Duration::from_secs(5)).unwrap()).unwrap();
        let sent = |seen: Seen| seen.header("cookie").unwrap_or("-").to_owned();
        server.seen.try_iter().map(sent).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(cookies("localhost", "500 No"), "- route=b route=b");
    assert_eq!(cookies("localhost", "307 T\r\nLocation: /v2/completions"), "- route=b route=b route=b");
    assert_eq!(cookies("127.0.0.1", "500 No"), "- - -");
}

/// llama.cpp reads `content` where vLLM reads `prompt`, and Infinity has no `/v1`.
#[test]
fn side_paths_are_found_where_other_servers_have_them() {
    let server = serve(Box::new(|seen, stream| {
        let json = seen.json();
        let text = json["content"].as_str().unwrap_or_default();
        let (status, body) = match seen.path() {
            "/tokenize" => ("200 OK", format!("{{\"tokens\": {:?}}}", text.bytes().collect::<Vec<_>>())),
            "/detokenize" => ("200 OK", "{\"content\": \"ab\"}".to_owned()),
            "/models" => ("200 OK", "{\"data\": [{\"id\": \"emb\"}]}".to_owned()),
            _ => ("404 Not Found", String::new()),
        };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        Keep::Close
    }));
    let endpoint = endpoint(&format!("{}/embeddings", server.url()), BackendKind::InfinityEmbeddings, Rules::Standard);
    let caller = Caller::new(&endpoint, "", Duration::from_secs(5)).unwrap();
    let tokenizer = |signed| TokenizeServer { caller: &caller, model: "m", signed };
    assert_eq!(tokenizer(true).tokenize("abc").unwrap(), [97, 98, 99]);
    assert_eq!(tokenizer(true).detokenize(&[97, 98]).unwrap(), "ab");
    // As vLLM asks.
    assert_eq!(tokenizer(false).tokenize("abc").unwrap(), [0; 0]);
    assert_eq!(first_model(&caller).unwrap().name, "emb");
}

#[test]
fn a_retry_comes_when_the_server_asks_for_it() {
    let mut first = true;
    let server: Scripted = serve(Box::new(move |_, stream| {
        if std::mem::take(&mut first) {
            write!(stream, "HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n").unwrap();
        } else {
            write_stream(stream, &WHOLE);
        }
        Keep::Open
    }));
    let mut endpoint = endpoint(&format!("{}/v1/completions", server.url()), BackendKind::OpenAi, Rules::Standard);
    endpoint.retries = 1;
    let began = Instant::now();
    let rows = send(endpoint, &payload(), &requests(1));
    assert!(rows[0].outcome.is_complete() && rows[0].retries == 1, "{:?}", rows[0].outcome);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}
