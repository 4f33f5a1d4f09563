//! Decodes bodies into rows without sockets: protocols without recordings, and properties of all protocols.

use tacho_client::backends::{Expected, Flow, ResponseDecoder};
use tacho_client::{BackendKind, PayloadSpec, Rules};
use tacho_core::{Content, FailureKind, Observation, Outcome, Request, Timestamp, json::parse};

pub(crate) const RULES: [Rules; 2] = [Rules::Standard, Rules::Vllm];

fn request(backend: BackendKind) -> Request {
    let mut request = Request::text("once", 3, 4);
    if backend.name() == "vllm-rerank" {
        request.content = Content::Texts(vec!["q".into(), "d".into()]);
    }
    if backend == BackendKind::OpenAiAudio {
        request.media = Some(parse(r#"{"audio": [[0.0], 8000]}"#).unwrap());
    }
    if backend == BackendKind::OpenAiImageEdits {
        let image = r#"{"image_url": {"url": "data:image/png;base64,eHl6"}}"#;
        request.media = Some(tacho_core::json::parse(image).unwrap());
    }
    request
}

pub(crate) fn expected(backend: BackendKind, extra_body: &str) -> Expected {
    let extra_body = parse(extra_body).unwrap().as_dict().unwrap().clone();
    let payload = PayloadSpec { ignore_eos: true, extra_body, ..PayloadSpec::default() };
    backend.encode(&payload, &request(backend)).unwrap().expected
}

/// Decodes a body in these pieces; each arrives one nanosecond after the previous one.
pub(crate) fn read(backend: BackendKind, rules: Rules, expected: &Expected, pieces: &[&[u8]]) -> Observation {
    let mut decoder = ResponseDecoder::new(backend, rules, expected);
    decoder.head(Some("application/json"), Some(r#"{"usage": {"prompt_tokens": 6}}"#));
    let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
    for (at, piece) in pieces.iter().enumerate() {
        if decoder.feed(piece, Timestamp(at as u64), &mut row) == Flow::Stop {
            row.outcome = decoder.verdict(&mut row);
            return row;
        }
    }
    row.outcome = decoder.finish(Timestamp(pieces.len() as u64), &mut row);
    row
}

fn read_as(name: &str, rules: Rules, pieces: &[&str]) -> Observation {
    let backend = BackendKind::from_name(name).unwrap();
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    read(backend, rules, &expected(backend, "{}"), &pieces)
}

fn failure(row: &Observation) -> Option<FailureKind> {
    row.outcome.failure().map(|failure| failure.kind)
}

fn text(row: &Observation) -> &str {
    std::str::from_utf8(&row.text).unwrap()
}

#[test]
fn tgi_takes_the_text_of_its_last_event() {
    let token = |text: &str, whole: &str| {
        format!(
            "data:{{\"index\":1,\"token\":{{\"id\":7,\"text\":\"{text}\",\"special\":false}},\"generated_text\":{whole}}}\n\n"
        )
    };
    let pieces = [token(" a", "null"), token(" b", "\" a b\"")];
    for rules in RULES {
        let row = read_as("tgi", rules, &[&pieces[0], &pieces[1]]);
        assert_eq!((&row.outcome, text(&row), row.chunks.len()), (&Outcome::Complete, " a b", 2));
        // `ignore_eos` was set, so the length is known.
        assert_eq!(row.usage.completion_tokens, Some(4));
        let cut = read_as("tgi", rules, &[&pieces[0]]);
        assert_eq!(failure(&cut), (rules == Rules::Standard).then_some(FailureKind::Truncated));
        assert_eq!(failure(&read_as("tgi", rules, &[": ping\n\n"])), Some(FailureKind::Empty));
    }
    let counted = token(" b", "\" a b\",\"details\":{\"generated_tokens\":2}");
    assert_eq!(read_as("tgi", Rules::Standard, &[&counted]).usage.completion_tokens, Some(2));
    let error = "data:{\"error\":\"overloaded\",\"error_type\":\"overloaded\"}\n\n";
    assert_eq!(failure(&read_as("tgi", Rules::Standard, &[&pieces[0], error])), Some(FailureKind::ErrorInStream));
}

#[test]
fn tensorrt_llm_adds_up_its_texts() {
    let pieces = ["data: {\"model_name\":\"e\",\"text_output\":\" a\"}\n\n", "data: {\"text_output\":\"\\u00e9\"}\n\n"];
    for rules in RULES {
        let row = read_as("tensorrt-llm", rules, &pieces);
        assert_eq!((&row.outcome, text(&row), row.chunks.len()), (&Outcome::Complete, " aé", 2));
        assert_eq!(row.usage.completion_tokens, None);
        let other = read_as("tensorrt-llm", rules, &["data: {\"output\": 1}\n\n"]);
        assert_eq!(failure(&other), Some(FailureKind::Malformed));
    }
    assert_eq!(failure(&read_as("tensorrt-llm", Rules::Standard, &[""])), Some(FailureKind::Empty));
    assert_eq!(read_as("tensorrt-llm", Rules::Vllm, &[""]).outcome, Outcome::Complete);
}

#[test]
fn deepspeed_mii_answers_whole() {
    for rules in RULES {
        let of = |body: &str| read_as("deepspeed-mii", rules, &[&body[..3], &body[3..]]);
        let row = of(r#"{"choices": [{"text": "a"}], "text": ["b"]}"#);
        assert_eq!((&row.outcome, text(&row), row.chunks.len()), (&Outcome::Complete, "a", 0));
        assert_eq!(text(&of(r#"{"text": ["b"]}"#)), "b");
        assert_eq!(failure(&of("{bad")), Some(FailureKind::Malformed));
        assert_eq!(failure(&of("{  }")), (rules == Rules::Standard).then_some(FailureKind::Empty));
    }
    let error = read_as("deepspeed-mii", Rules::Standard, &[r#"{"error": {"message": "m"}}"#]);
    assert_eq!(failure(&error), Some(FailureKind::ErrorInStream));
}

#[test]
fn older_completions_take_usage_from_any_event_but_not_for_the_prompt() {
    let event = r#"{"choices": [{"text": "a"}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}"#;
    let body = format!("data: {event}\ndata: [DONE]\n");
    let strict = read_as("sglang", Rules::Vllm, &[&body]);
    assert_eq!((strict.usage.completion_tokens, strict.usage.prompt_tokens), (Some(3), None));
    let body = format!("data: {event}\n\ndata: [DONE]\n\n");
    let row = read_as("llama.cpp", Rules::Standard, &[&body]);
    assert_eq!((row.usage.completion_tokens, row.usage.prompt_tokens), (Some(3), Some(9)));
    assert_eq!(row.outcome, Outcome::Complete);
    let comment = read_as("lmdeploy", Rules::Vllm, &[": ping\n", &body]);
    assert_eq!(failure(&comment), Some(FailureKind::Malformed));
}

#[test]
fn generate_lines_grow_past_the_prompt() {
    let lines = [
        "{\"text\": [\"once\"]}\n",
        "{\"text\": [\"once upon\"]}\n",
        "{\"text\": [\"once upon\"]}\n",
        "{\"text\": [\"once upon\\n\"]}\n",
    ];
    for rules in RULES {
        let row = read_as("vllm-generate", rules, &lines);
        assert_eq!((&row.outcome, text(&row)), (&Outcome::Complete, " upon\n"));
        assert_eq!(row.chunks, [Timestamp(1), Timestamp(3)]);
        // A non-streamed response is one line, which need not have a line end.
        let whole = read_as("vllm-generate", rules, &["{\"text\": [\"once ", "upon\"]}"]);
        assert_eq!((&whole.outcome, text(&whole), whole.chunks.len()), (&Outcome::Complete, " upon", 1));
        assert_eq!(failure(&read_as("vllm-generate", rules, &lines[..1])), Some(FailureKind::Empty));
    }
    let cut = read_as("vllm-generate", Rules::Standard, &[lines[1], "{\"text\": [\"once up"]);
    assert_eq!(failure(&cut), Some(FailureKind::Truncated));
    let error = read_as("vllm-generate", Rules::Standard, &["{\"error\": \"aborted\"}\n"]);
    assert_eq!(failure(&error), Some(FailureKind::ErrorInStream));
}

#[test]
fn a_tool_call_alone_is_an_answer() {
    let body = "data: {\"type\": \"response.function_call_arguments.delta\", \"delta\": \"{\"}\n\n\
                data: {\"type\": \"response.completed\", \"response\": {\"usage\": {\"output_tokens\": 1}}}\n\n";
    let row = read_as("openai-responses", Rules::Standard, &[body]);
    assert_eq!((&row.outcome, row.chunks.len(), row.first_content), (&Outcome::Complete, 1, Some(Timestamp(0))));
    assert_eq!(failure(&read_as("openai-responses", Rules::Vllm, &[body])), Some(FailureKind::Empty));
}

#[test]
fn reasoning_and_tool_calls_are_told_from_the_answer() {
    let event = |delta: &str, usage: &str| format!("data: {{\"choices\": [{{\"delta\": {delta}}}]{usage}}}\n\n");
    let chat = |usages: [&str; 5]| {
        let deltas = [
            r#"{"role": "assistant", "content": ""}"#,
            r#"{"reasoning": "hm"}"#,
            r#"{"reasoning_content": "so"}"#,
            r#"{"content": "a"}"#,
            r#"{"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}"#,
        ];
        let mut pieces: Vec<String> = deltas.iter().zip(usages).map(|(delta, usage)| event(delta, usage)).collect();
        pieces.push("data: [DONE]\n\n".into());
        read_as("openai-chat", Rules::Standard, &pieces.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let row = chat([""; 5]);
    assert_eq!((&row.outcome, text(&row), row.chunks.len()), (&Outcome::Complete, "a", 5));
    assert_eq!((row.first_content, row.first_answer), (Some(Timestamp(1)), Some(Timestamp(3))));
    assert_eq!(row.reasoning_tokens, Some(2), "one token an event");
    // Cumulative counts show how many tokens each event contained.
    let running = [
        r#", "usage": {"completion_tokens": 0}"#,
        r#", "usage": {"completion_tokens": 3}"#,
        r#", "usage": {"completion_tokens": 7}"#,
        r#", "usage": {"completion_tokens": 8}"#,
        r#", "usage": {"completion_tokens": 12}"#,
    ];
    assert_eq!(chat(running).reasoning_tokens, Some(7));
    // Without them, the number of tokens per event is unknown.
    let total = ["", "", "", "", r#", "usage": {"completion_tokens": 12}"#];
    assert_eq!(chat(total).reasoning_tokens, None);
    let told = r#", "usage": {"completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 6}}"#;
    assert_eq!(chat(["", "", "", "", told]).reasoning_tokens, Some(6));
}

#[test]
fn what_is_not_streamed_is_read_whole() {
    let of = |name: &str, body: &str| {
        let backend = BackendKind::from_name(name).unwrap();
        read(backend, Rules::Standard, &expected(backend, r#"{"stream": false}"#), &[body.as_bytes()])
    };
    let usage = r#""usage": {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}"#;
    let own = r#""usage": {"input_tokens": 3, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}"#;
    for (name, body) in [
        ("openai", format!(r#"{{"choices": [{{"text": "a\n"}}, {{"text": "b"}}], {usage}}}"#)),
        ("sglang", format!(r#"{{"choices": [{{"text": "a\n"}}], {usage}}}"#)),
        ("openai-chat", format!(r#"{{"choices": [{{"message": {{"reasoning": "r", "content": "a\n"}}}}], {usage}}}"#)),
        ("openai-audio", format!(r#"{{"text": "a\n", {usage}}}"#)),
        (
            "openai-responses",
            format!(
                r#"{{"error": null, "output": [{{"type": "reasoning"}}, {{"content": [{{"text": "a"}}, {{"text": "\n"}}]}}], {own}}}"#
            ),
        ),
    ] {
        let row = of(name, &body);
        assert_eq!((&row.outcome, text(&row), row.chunks.len()), (&Outcome::Complete, "a\n", 0), "{name}");
        let counts = (row.usage.prompt_tokens, row.usage.completion_tokens, row.reasoning_tokens);
        assert_eq!(counts, (Some(3), Some(2), Some(1)), "{name}");
    }
    let tools = format!(r#"{{"choices": [{{"message": {{"content": null, "tool_calls": [{{}}]}}}}], {usage}}}"#);
    assert_eq!(of("openai-chat", &tools).outcome, Outcome::Complete);
    assert_eq!(failure(&of("openai-chat", r#"{"choices": []}"#)), Some(FailureKind::Empty));
    let error = of("openai-responses", r#"{"status": "failed", "error": {"message": "m"}, "output": []}"#);
    assert_eq!(failure(&error), Some(FailureKind::ErrorInStream));
}

#[test]
fn byte_encodings_are_read_as_asked() {
    let backend = BackendKind::OpenAiEmbeddings;
    for (encoding, tokens) in [("bytes", 6), ("bytes_only", 3)] {
        let expected = expected(backend, &format!(r#"{{"encoding_format": "{encoding}"}}"#));
        for rules in RULES {
            let row = read(backend, rules, &expected, &[b"\x00\xff"]);
            assert_eq!((&row.outcome, row.usage.prompt_tokens), (&Outcome::Complete, Some(tokens)));
            let bare = read(backend, rules, &expected, &[]);
            assert_eq!(failure(&bare), (rules == Rules::Standard).then_some(FailureKind::Empty));
        }
    }
}
