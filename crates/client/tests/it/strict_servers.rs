//! Servers and proxies that are particular about headers and fields.

use tacho_client::{BackendKind, EndpointSpec, PayloadSpec, Rules};
use tacho_core::json::{Value, parse};

use crate::behaviour::{payload, requests};
use crate::scripted::{Keep, Seen, WHOLE, serve, write_stream};
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
