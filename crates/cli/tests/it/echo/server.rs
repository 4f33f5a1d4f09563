//! A server that repeats every secret it is sent, in every form and at every place of a response.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::{collections::BTreeSet, io::Write, net::TcpStream, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::{Seen, write_plain};

use super::TOKEN;

pub(super) fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn as_json(text: &str) -> String {
    json!(text).to_string().trim_matches('"').to_owned()
}

fn as_ascii_json(text: &str) -> String {
    let escape = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    as_json(text).chars().map(escape).collect()
}

/// A text in every form in which a server may repeat it.
fn forms(text: &str) -> Vec<String> {
    let html = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let basic = BASE64_STANDARD.encode(format!("user:{text}"));
    let of_url = BASE64_STANDARD.encode(text).replace('+', "-").replace('/', "_");
    let lower = percent(text).replace("%2F", "%2f").replace("%2B", "%2b").replace("%C3%A9", "%c3%a9");
    let twice = as_json(&as_json(text));
    let coded = BASE64_STANDARD.encode(text);
    let plain = [text.to_owned(), percent(text), lower, as_json(text), as_ascii_json(text), twice, html];
    let of_forms = [text.replace(' ', "+"), percent(text).replace("%20", "+"), as_json(text).replace(' ', "+")];
    [&plain[..], &of_forms, &[coded, basic, of_url]].concat()
}

/// The parts of forms that give a secret away: padding and the last digit of base64 depend on what follows.
pub(super) fn telling(secret: &str) -> BTreeSet<String> {
    let cut = |form: String| form.trim_end_matches('=').chars().collect::<Vec<_>>();
    let shortened = |form: Vec<char>| form[..form.len() - 1].iter().collect::<String>();
    forms(secret).into_iter().map(cut).map(shortened).filter(|form| form.len() > 8).collect()
}

/// The server, and the secrets that it was sent.
pub(super) struct Echo {
    pub(super) server: Scripted,
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl Echo {
    pub(super) fn start() -> Echo {
        let told = Arc::<Mutex<BTreeSet<String>>>::default();
        let (heard, count) = (told.clone(), AtomicUsize::new(0));
        let server = Scripted::start(move |seen, stream| {
            let mut told = heard.lock().unwrap();
            told.extend(sent(seen));
            let all: Vec<String> = told.iter().flat_map(|text| forms(text)).collect();
            drop(told);
            respond(seen, &all, count.fetch_add(1, Ordering::Relaxed), stream);
            Keep::Close
        });
        Echo { server, told }
    }

    /// That the server knows these secrets, so that it repeats them.
    pub(super) fn assert_told(&self, secrets: &[&str]) {
        let told = self.told.lock().unwrap();
        for secret in secrets {
            assert!(told.iter().any(|text| text.contains(secret)), "{secret} was not sent: {told:?}");
        }
    }
}

/// What may be secret of a request: header values, parameters, and fields of its body.
fn sent(seen: &Seen) -> Vec<String> {
    let ordinary = ["accept", "accept-encoding", "connection", "host", "user-agent", "x-request-id", "x-amz-date"];
    let mut found = Vec::new();
    for (name, value) in &seen.headers {
        let name = name.to_ascii_lowercase();
        if !ordinary.contains(&name.as_str()) && !name.starts_with("content-") && name != "x-amz-content-sha256" {
            found.extend(
                [Some(value.as_str()), value.split_once(' ').map(|(_, bare)| bare)]
                    .into_iter()
                    .flatten()
                    .map(str::to_owned),
            );
        }
    }
    let basic = found.iter().filter_map(|text| String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok());
    let basic: Vec<String> =
        basic.filter_map(|pair| pair.split_once(':').map(|(_, password)| password.to_owned())).collect();
    found.extend(basic);
    // A signature differs in each request, and tells nothing.
    let key_id = |text: String| match text.split_once("Credential=") {
        Some((_, rest)) => rest.split('/').next().unwrap_or_default().to_owned(),
        None => text,
    };
    let mut found: Vec<String> = found.into_iter().map(key_id).collect();
    let query = seen.path().split_once("api_key=").map(|(_, value)| value.split('&').next().unwrap_or(value));
    found.extend(query.map(|value| value.replace("%2F", "/").replace("%26", "&")));
    found.extend(seen.json()["nested"][0]["api_key"].as_str().map(str::to_owned));
    found.retain(|text| text.len() >= 4);
    found
}

fn respond(seen: &Seen, told: &[String], count: usize, stream: &mut TcpStream) {
    let all = told.join(" , ");
    let (line, label) = (all.replace(['\r', '\n'], " "), as_json(&all));
    let plain = |stream: &mut TcpStream, status: u16, kind: &str, body: &str| {
        let head =
            format!("HTTP/1.1 {status} {line}\r\nX-Echo: {line}\r\nConnection: close\r\nContent-Type: {kind}\r\n");
        let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
    };
    let short = |at: usize| told.get((count + at) % told.len().max(1)).cloned().unwrap_or_default();
    let path = seen.path().split('?').next().unwrap_or_default();
    match path {
        "/token" => {
            let token = json!({"access_token": TOKEN, "expires_in": 60}).to_string();
            write_plain(stream, 200, "OK", "application/json", token.as_bytes()).unwrap_or_default();
        }
        "/version" | "/get_server_info" | "/info" | "/server_info" => {
            plain(
                stream,
                200,
                "application/json",
                &json!({"version": short(0), "dtype": short(1), "tp_size": short(2)}).to_string(),
            );
        }
        "/v1/models" => {
            let model = json!({"id": short(0), "root": short(1), "max_model_len": short(2)});
            plain(stream, 200, "application/json", &json!({"data": [model]}).to_string());
        }
        "/metrics" => {
            let info = format!("vllm:cache_config_info{{block_size=\"{label}\",cache_dtype=\"{label}\"}} 1\n");
            let counts = format!(
                "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{model_name=\"{label}\"}} 1\n"
            );
            plain(stream, 200, "text/plain", &format!("{counts}{info}{line}{{a=\"b\"}} 1\n"));
        }
        path if path.starts_with("/otlp") => plain(stream, 200, "application/json", &all),
        "/health" => plain(stream, 200, "text/plain", ""),
        "/tokenize" => plain(stream, 200, "application/json", &json!({"tokens": [1, 2], "prompt": all}).to_string()),
        path if path.ends_with("/completions") => {
            let count = if seen.json()["model"] == "calm" { CALM } else { count };
            generate(path.contains("chat"), (&all, count), &plain, stream);
        }
        _ => plain(stream, 500, "application/json", &all),
    }
}

/// The response with tokens one after the other, without errors.
const CALM: usize = 7;

type Plain<'p> = &'p dyn Fn(&mut TcpStream, u16, &str, &str);

/// A response to a request: a text in pieces, or one of several errors.
fn generate(is_chat: bool, (all, count): (&str, usize), plain: Plain<'_>, stream: &mut TcpStream) {
    let event = |text: &str| {
        let choice =
            if is_chat { json!({"index": 0, "delta": {"content": text}}) } else { json!({"index": 0, "text": text}) };
        format!("data: {}\n\n", json!({"choices": [choice]}))
    };
    let letters: Vec<char> = all.chars().collect();
    let named = format!("data: {}\n\n", json!({"id": all, "model": all, "system_fingerprint": all, "choices": []}));
    let pieces: String = letters.chunks(5).map(|piece| event(&piece.iter().collect::<String>())).collect();
    let pieces = named + &pieces;
    let end = format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": 4, "note": all}})
    );
    match count % 8 {
        0 => plain(stream, 401, "application/json", &json!({"error": {"message": all}}).to_string()),
        1 => plain(stream, 400, "text/html", &format!("<html>{}{all}", "x".repeat(290))),
        2 => plain(
            stream,
            200,
            "text/event-stream",
            &format!("{}data: {}\n\n", event("a"), json!({"error": {"message": all}})),
        ),
        3 => plain(stream, 200, "text/event-stream", &format!("data: {{\"choices\": [{all}\n\n")),
        4 => plain(stream, 200, &all.replace(';', ","), &format!("not events: {all}")),
        5 => {
            let location = format!("http://elsewhere.invalid/{}", all.replace(' ', "+"));
            let _ = write!(
                stream,
                "HTTP/1.1 307 Away\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        6 => plain(stream, 200, "text/event-stream", &format!("{pieces}{end}")),
        CALM.. => {
            let b = event("b");
            let head = format!("X-Echo: {all}\r\nConnection: close\r\nContent-Type: text/event-stream");
            for piece in [&*format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"), &event(all), &b, &b, &b, &end] {
                let _ = stream.write_all(piece.as_bytes());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
