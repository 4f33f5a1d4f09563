//! Compares requests with those of vLLM's request functions: the request line, the headers, the body byte for byte.

use std::{path::Path, time::Duration};

use base64::Engine;
use serde_json::Value as Json;
use tacho_client::backends::{BUILT_IN_FILES, built_in_file};
use tacho_client::{BackendKind, Client, ClientPlan, EndpointSpec, PayloadSpec, Rules, Url, proxy_for};
use tacho_core::json::{Dict, Value};
use tacho_core::{Content, Counters, Kept, Observation, Request, Secret, SystemClock};
use tacho_loadgen::{Drive, ScheduleSpec, StopSignal, WorkerStats, drive};
use tacho_pyrand::randomstate::RandomState;
use tacho_testkit::{golden_files, golden_json};

use crate::scripted::{Keep, Script, Scripted, Seen, WHOLE, serve, write_stream};

pub(crate) fn endpoint(url: &str, backend: BackendKind, rules: Rules) -> EndpointSpec {
    EndpointSpec {
        rules,
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(20),
        ..EndpointSpec::new(Url::parse(url).unwrap(), backend)
    }
}

/// Sends all requests at once on one worker.
pub(crate) fn send(endpoint: EndpointSpec, payload: &PayloadSpec, requests: &[Request]) -> Vec<Observation> {
    run(endpoint, payload, requests, 1).rows
}

/// The result of some requests.
pub(crate) struct Ran {
    pub(crate) rows: Vec<Observation>,
    pub(crate) workers: Vec<WorkerStats>,
}

/// Sends the requests with this concurrency on one worker.
pub(crate) fn run(endpoint: EndpointSpec, payload: &PayloadSpec, requests: &[Request], max_concurrency: usize) -> Ran {
    let clock = SystemClock::start();
    let client = Client::new(endpoint, payload, requests, ClientPlan::default(), clock).unwrap();
    let spec = ScheduleSpec::Rate { rate: f64::INFINITY, burstiness: 1.0 };
    let timeline = spec.plan(requests.len(), &mut RandomState::new(0)).unwrap();
    let (stop, counters) = (StopSignal::default(), Counters::default());
    let plan = Drive { max_concurrency: Some(max_concurrency), ..Drive::of(&timeline, &clock, &stop, &counters) };
    let mut kept = Kept::default();
    let driven = drive(&client, &plan, &mut kept).unwrap();
    Ran { rows: kept.into_rows(), workers: driven.workers }
}

fn answering() -> Scripted {
    let script: Script = Box::new(|_, stream| {
        write_stream(stream, &WHOLE);
        Keep::Open
    });
    serve(script)
}

/// Converts a recorded value; `{"$float": …}` stands for a float that JSON lacks.
fn ours(json: &Json) -> Value {
    match json.get("$float").and_then(Json::as_str) {
        Some("NaN") => Value::Float(f64::NAN),
        Some("Infinity" | "inf") => Value::Float(f64::INFINITY),
        Some(_) => Value::Float(f64::NEG_INFINITY),
        None => match json {
            Json::Array(items) => Value::List(items.iter().map(ours).collect()),
            Json::Object(members) => {
                Value::Dict(members.iter().map(|(key, value)| (key.clone(), ours(value))).collect())
            }
            other => tacho_core::json::parse(&other.to_string()).unwrap(),
        },
    }
}

fn member(input: &Json, name: &str) -> Option<Value> {
    input.get(name).filter(|value| !value.is_null()).map(ours)
}

/// Writes the audio file that a case names and replaces its name by its full path.
fn with_file(media: Value, directory: &Path) -> Value {
    let (Some(name), Some(pcm)) = (media.get("audio_path").and_then(Value::as_str), media.get("pcm")) else {
        return media;
    };
    let samples: Vec<u8> =
        pcm.as_list().unwrap().iter().flat_map(|s| (s.as_i64().unwrap() as i16).to_le_bytes()).collect();
    let rate = media.get("sr").and_then(Value::as_i64).unwrap() as u32;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + samples.len() as u32).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(rate.to_le_bytes());
    wav.extend((rate * 2).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend((samples.len() as u32).to_le_bytes());
    wav.extend(samples);
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join(name);
    std::fs::write(&path, wav).unwrap();
    let mut dict = Dict::new();
    dict.set("audio_path", path.to_str().unwrap());
    dict.into()
}

/// Numbers that serde_json cannot represent (big integers) are parsed from the recorded body.
fn extra_body(case: &Json) -> Dict {
    let Some(Value::Dict(mut extra)) = member(&case["input"], "extra_body") else { return Dict::new() };
    let text = case["requests"][0]["body_text"].as_str().unwrap_or("null");
    if let Ok(Value::Dict(body)) = tacho_core::json::parse(text) {
        for (key, value) in body.iter() {
            if matches!(value, Value::BigInt(_)) {
                extra.set(key, value.clone());
            }
        }
    }
    extra
}

pub(crate) fn request_of(input: &Json) -> Request {
    Request {
        content: Content::from_json(member(input, "prompt").unwrap_or(Value::from(""))),
        id: input["request_id"].as_str().map(str::to_owned),
        media: member(input, "multi_modal_content"),
        chat_messages: member(input, "chat_messages"),
        ..Request::text("", input["prompt_len"].as_u64().unwrap_or(0), input["output_len"].as_i64().unwrap_or(0))
    }
}

fn payload_of(case: &Json) -> PayloadSpec {
    let input = &case["input"];
    PayloadSpec {
        model: input["model_name"].as_str().or(input["model"].as_str()).unwrap().to_owned(),
        logprobs: input["logprobs"].as_i64(),
        ignore_eos: input["ignore_eos"].as_bool().unwrap_or(false),
        chat_temperature: None,
        extra_body: extra_body(case),
        audio_speed: None,
        pcm: None,
        keeps_nulls: true,
        keeps_logprobs: false,
    }
}

fn endpoint_of(case: &Json, backend: BackendKind, port: u16) -> Result<EndpointSpec, tacho_client::Error> {
    let place = |text: &str| text.replace("{port}", &port.to_string());
    let mut endpoint = endpoint(&place(case["api_url"].as_str().unwrap()), backend, Rules::Vllm);
    let env = |name: &str| case["env"][name].as_str().map(place);
    endpoint.api_key = env("OPENAI_API_KEY").filter(|key| !key.is_empty()).map(Secret::new);
    endpoint.proxy = proxy_for(&endpoint.url, &env)?;
    if let Some(headers) = case["input"]["extra_headers"].as_object() {
        let pair = |(name, value): (&String, &Json)| (name.clone(), value.as_str().unwrap().to_owned());
        endpoint.headers = headers.iter().map(pair).collect();
    }
    endpoint.check()?;
    Ok(endpoint)
}

/// Headers without those that depend on the HTTP library, names in lower case, sorted.
fn comparable(headers: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.to_lowercase(), value))
        .filter(|(name, _)| !matches!(name.as_str(), "host" | "content-length" | "user-agent"))
        .collect();
    headers.sort();
    headers
}

fn check(name: &str, seen: &Seen, recorded: &Json, port: u16) {
    let path = recorded["path"].as_str().unwrap();
    assert_eq!(seen.line, format!("POST {path} HTTP/1.1"), "{name}");
    let theirs = recorded["headers"].as_array().unwrap().iter();
    let theirs = theirs.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned()));
    let boundary = seen.body.strip_prefix(b"--").and_then(|body| body.split(|&byte| byte == b'\r').next());
    let boundary = String::from_utf8_lossy(boundary.unwrap_or(b"none")).into_owned();
    let ours = seen.headers.iter().map(|(key, value)| (key.clone(), value.replace(&boundary, "{boundary}")));
    assert_eq!(comparable(ours), comparable(theirs.clone()), "{name}");
    let host = theirs.clone().find(|(key, _)| key == "Host").unwrap().1.replace("{port}", &port.to_string());
    assert_eq!(seen.header("host"), Some(host.as_str()), "{name}");
    match recorded["body_layout"].as_str() {
        None => assert_eq!(String::from_utf8_lossy(&seen.body), recorded["body_text"].as_str().unwrap(), "{name}"),
        Some(layout) => {
            let (before, after) = layout.split_once("{file:file}").unwrap();
            let part = |text: &str| text.replace("{boundary}", &boundary).into_bytes();
            let engine = base64::engine::general_purpose::STANDARD;
            let file = engine.decode(recorded["multipart"][0]["body_b64"].as_str().unwrap()).unwrap();
            assert_eq!(seen.body, [part(before), file, part(after)].concat(), "{name}");
        }
    }
}

/// Checks the properties of a request that the metrics need.
fn check_facts(name: &str, backend: BackendKind, request: &Request, output: &Json) {
    assert_eq!(backend.input_sequences(request), output["num_input_sequences"].as_u64().unwrap(), "{name}");
    let seconds = output["input_audio_duration"].as_f64().unwrap();
    assert_eq!(backend.audio_seconds(request), Ok(seconds), "{name}");
}

fn run_case(file: &str, backend: BackendKind, directory: &Path) -> bool {
    let case = golden_json(file);
    let server = answering();
    let port = server.address.port();
    let refused = case.get("raises").is_some() || file.contains("url-userinfo-and-key");
    let sent = endpoint_of(&case, backend, port).map(|endpoint| {
        let mut request = request_of(&case["input"]);
        request.media = request.media.map(|media| with_file(media, directory));
        let payload = payload_of(&case);
        let fits = backend.body(&payload, &request).is_ok();
        fits.then(|| {
            check_facts(file, backend, &request, &case["output"]);
            send(endpoint, &payload, &[request])
        })
    });
    match sent {
        Err(_) | Ok(None) => {
            assert!(refused, "{file} was refused: {sent:?}");
            false
        }
        Ok(Some(rows)) => {
            assert!(!refused, "{file} was not refused");
            assert_eq!(rows.len(), 1);
            let seen = server.seen.recv_timeout(Duration::from_secs(5)).unwrap();
            check(file, &seen, &case["requests"][0], port);
            true
        }
    }
}

#[test]
fn requests_equal_the_recorded_ones() {
    let directory = std::env::temp_dir().join(format!("tacho-wire-{}", std::process::id()));
    let mut checked = 0;
    for backend in BackendKind::ALL.into_iter().filter(|backend| !backend.is_legacy()) {
        for path in golden_files(&format!("wire/{}", backend.name()), ".json") {
            let file = format!("wire/{}/{}", backend.name(), path.file_name().unwrap().to_string_lossy());
            checked += usize::from(run_case(&file, backend, &directory));
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
    assert!(checked > 380, "only {checked} requests were compared");
}

#[test]
fn files_send_what_the_built_in_backends_send() {
    let directory = std::env::temp_dir().join(format!("tacho-file-wire-{}", std::process::id()));
    let (mut checked, mut kinds) = (0, 0);
    for (name, text) in BUILT_IN_FILES {
        let backend = BackendKind::from_text(text, "file").unwrap();
        assert_eq!(backend.name(), *name);
        if BackendKind::from_name(name).unwrap().is_legacy() {
            continue;
        }
        let before = checked;
        for path in golden_files(&format!("wire/{name}"), ".json") {
            let file = format!("wire/{name}/{}", path.file_name().unwrap().to_string_lossy());
            // A file may be sent to any path.
            if golden_json(&file).get("raises").is_none() {
                checked += usize::from(run_case(&file, backend, &directory));
            }
        }
        kinds += usize::from(checked > before);
    }
    let _ = std::fs::remove_dir_all(&directory);
    assert!(checked > 300 && kinds >= 10, "only {checked} requests of {kinds} kinds were compared");
}

/// Requests of the legacy backends and the demonstration server, which were not recorded.
#[test]
fn older_protocols_are_spoken_as_they_were() {
    let payload = PayloadSpec { model: "m".into(), ignore_eos: true, ..PayloadSpec::default() };
    let request = Request::text("p", 7, 5);
    let body = |name: &str| {
        let backend = BackendKind::from_name(name).unwrap();
        let own = backend.body(&payload, &request).unwrap();
        let file = BackendKind::from_text(built_in_file(name).unwrap(), name).unwrap();
        assert_eq!(file.body(&payload, &request).unwrap(), own, "{name} as a file");
        String::from_utf8(own).unwrap()
    };
    assert_eq!(
        body("tgi"),
        r#"{"inputs": "p", "parameters": {"max_new_tokens": 5, "do_sample": true, "temperature": 0.01, "top_p": 0.99, "truncate": 7, "ignore_eos_token": true}}"#
    );
    assert_eq!(
        body("tensorrt-llm"),
        r#"{"accumulate_tokens": true, "text_input": "p", "temperature": 0.0, "top_p": 1.0, "max_tokens": 5, "stream": true, "min_length": 5}"#
    );
    assert_eq!(
        body("deepspeed-mii"),
        r#"{"model": "m", "prompt": "p", "max_tokens": 5, "temperature": 0.01, "top_p": 1.0}"#
    );
    for name in ["sglang", "lmdeploy", "scalellm", "llama.cpp"] {
        assert_eq!(
            body(name),
            r#"{"model": "m", "prompt": "p", "temperature": 0.0, "repetition_penalty": 1.0, "max_tokens": 5, "logprobs": null, "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true}"#
        );
    }
    assert_eq!(body("vllm-generate"), r#"{"prompt": "p", "max_tokens": 5, "stream": true, "ignore_eos": true}"#);
}

#[test]
fn an_api_key_goes_only_where_it_is_known() {
    let authorization = |name: &str, key: Option<&str>| {
        let backend = BackendKind::from_name(name).unwrap();
        let mut endpoint = endpoint(&format!("http://h{}", backend.default_endpoint()), backend, Rules::Standard);
        endpoint.api_key = key.map(Secret::new);
        endpoint.check().unwrap();
        let headers = endpoint.request_headers(None);
        headers.iter().find(|(name, _)| *name == "Authorization").map(|(_, value)| value.to_owned())
    };
    for name in ["sglang", "deepspeed-mii", "vllm-pooling", "openai-audio"] {
        assert_eq!(authorization(name, Some("k")).as_deref(), Some("Bearer k"), "{name}");
        assert_eq!(authorization(name, None), None, "{name}");
    }
    for name in ["tgi", "tensorrt-llm"] {
        assert_eq!(authorization(name, Some("k")), None, "{name}");
    }
}

/// `random-mm` has a list of media for each request.
#[test]
fn the_file_of_infinity_takes_a_list_with_one_image() {
    let backend = BackendKind::from_text(built_in_file("infinity-embeddings-clip").unwrap(), "clip").unwrap();
    let payload = PayloadSpec { model: "m".into(), ..PayloadSpec::default() };
    let body = |media: Value| {
        let request = Request { media: Some(media), ..Request::text("a prompt", 2, 1) };
        backend.body(&payload, &request).unwrap()
    };
    let image = tacho_core::json::parse(r#"{"type": "image_url", "image_url": {"url": "data:x"}}"#).unwrap();
    assert_eq!(body(Value::List(vec![image.clone()])), body(image));
}
