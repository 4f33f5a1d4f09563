//! Servers that need sign-in: tokens that expire during the run, client certificates, OAuth 2, AWS signatures.

use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::{Seen, WHOLE, write_plain, write_stream};

use crate::secure;
use crate::tacho::{Place, stderr, stdout};

fn milliseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

fn answer(stream: &mut TcpStream, status: u16, body: &str) -> Keep {
    let _ = write_plain(stream, status, "Said", "application/json", body.as_bytes());
    Keep::Open
}

fn complete(stream: &mut TcpStream) -> Keep {
    std::thread::sleep(Duration::from_millis(5));
    write_stream(stream, &WHOLE);
    Keep::Open
}

/// Accepts tokens `tok-TIME` for this long after their time.
fn strict(lifetime_ms: u128) -> Scripted {
    Scripted::start(move |seen, stream| {
        let made = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer tok-")?.parse().ok());
        match made {
            Some(made) if milliseconds().saturating_sub(made) < lifetime_ms => complete(stream),
            _ => answer(stream, 401, r#"{"error": "token expired"}"#),
        }
    })
}

fn is_request(seen: &&Seen) -> bool {
    seen.path() == "/v1/completions"
}

/// The arguments of a short run without a tokenizer download.
fn args<'w>(url: &'w str, count: &'w str, flags: &[&'w str]) -> Vec<&'w str> {
    let model = ["serve", "--base-url", url, "--model", "m", "--tokenizer", "golden/tokenizers/gpt2", "--disable-tqdm"];
    let load = ["--random-input-len", "4", "--random-output-len", "1", "--num-prompts", count];
    [&model[..], &load, flags].concat()
}

fn assert_all_done(output: &Output, count: usize) {
    let shown = stdout(output);
    assert!(output.status.success(), "{shown}{}", stderr(output));
    assert!(shown.contains(&format!("Successful requests:                     {count}")), "{shown}");
    assert!(shown.contains("Failed requests:                         0"), "{shown}");
}

#[test]
fn a_run_outlives_its_tokens() {
    let server = strict(500);
    let url = server.url();
    let command = r#"printf '{"access_token": "tok-%s", "expires_in": 0.5}' $(date +%s%3N)"#;
    let place = Place::new();
    let flags = ["--token-command", command, "--request-rate", "100", "--burstiness", "1"];
    let output = place.run(&args(&url, "300", &flags));
    assert_all_done(&output, 300);
    let calls = server.calls();
    let mut tokens: Vec<_> = calls.iter().filter(is_request).filter_map(|seen| seen.header("authorization")).collect();
    tokens.dedup();
    assert!(tokens.len() >= 5, "{} tokens in about 3 s", tokens.len());
}

#[test]
fn a_refusal_in_mid_run_costs_a_retry_and_no_request() {
    let revoked = std::sync::atomic::AtomicUsize::new(0);
    let server = Scripted::start(move |seen, stream| {
        let at = revoked.fetch_add(usize::from(is_request(&seen)), std::sync::atomic::Ordering::Relaxed);
        // The first token is revoked after ten requests.
        match seen.header("authorization") {
            Some("Bearer tok-1") if at < 10 => complete(stream),
            Some("Bearer tok-1") | None => answer(stream, 401, "{}"),
            Some(_) => complete(stream),
        }
    });
    let (url, place) = (server.url(), Place::new());
    let command = "echo x >> runs; echo tok-$(wc -l < runs)";
    let flags = ["--token-command", command, "--max-concurrency", "4", "--save-result", "--result-filename", "r.json"];
    let output = place.run(&args(&url, "40", &flags));
    assert_all_done(&output, 40);
    let runs = std::fs::read_to_string(place.file("runs")).unwrap();
    assert_eq!(runs.lines().count(), 2, "one renewal serves all refused requests");
    let retries = place.json("r.json")["tacho"]["retries"].as_u64();
    assert!(retries.is_some_and(|retries| (1..=4).contains(&retries)), "{retries:?}");
}

#[test]
fn bad_flags_are_one_line_and_send_nothing() {
    let place = Place::new();
    place.write("empty", "\n");
    for (flags, wanted) in [
        (&["--token-refresh", "60"][..], "--token-refresh needs --token-command"),
        (&["--token-command", "echo t", "--api-key", "k"], "--token-command and --api-key exclude each other"),
        (&["--token-command", "echo t", "--header", "Authorization=x"], "--token-command and --header exclude"),
        (&["--token-command", "echo t", "--aws-sigv4", "bedrock"], "--token-command and --aws-sigv4 exclude"),
        (&["--token-command", " "], "--token-command"),
        (&["--client-cert", "a.pem"], "--client-cert needs --client-key"),
        (&["--client-key", "a.key"], "--client-key needs --client-cert"),
        (&["--client-cert", "a.pem", "--client-key", "a.key"], "--client-cert needs an https:// server"),
        (&["--oauth-token-url", "https://id.example/token"], "--oauth-token-url needs --oauth-client-id"),
        (&["--oauth-scope", "a"], "--oauth-scope needs --oauth-token-url"),
        (&["--aws-region", "us-east-1"], "--aws-region needs --aws-sigv4"),
    ] {
        let output = place.run(&args("http://127.0.0.1:1", "1", flags));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "{flags:?}: {}", stderr(&output));
    }
    let oauth = ["--oauth-token-url", "https://id.example/token", "--oauth-client-id", "c"];
    let file = |name| [&oauth[..], &["--oauth-client-secret-file", name]].concat();
    for (flags, wanted) in [
        (oauth.to_vec(), "set OAUTH_CLIENT_SECRET, or pass --oauth-client-secret-file FILE"),
        (file("none"), "--oauth-client-secret-file none cannot be read"),
        (file("empty"), "--oauth-client-secret-file empty is empty"),
        (vec!["--aws-sigv4", "bedrock"], "pass --aws-region, or set AWS_REGION"),
        (
            vec!["--aws-sigv4", "bedrock", "--aws-region", "us-east-1"],
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set",
        ),
        (
            vec!["--token-command", "echo said >&2; exit 9"],
            "cannot sign in: --token-command failed with exit code 9: said",
        ),
    ] {
        let mut command = place.command(&args("http://127.0.0.1:1", "1", &flags));
        for name in ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "OAUTH_CLIENT_SECRET"] {
            command.env_remove(name);
        }
        let output = command.env("HOME", place.path()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {said}");
        assert!(said.contains(wanted), "{flags:?}: {said}");
        assert_eq!(said.lines().filter(|line| !line.starts_with('[')).count(), 1, "{said}");
    }
}

#[test]
fn other_commands_sign_in_too() {
    let server = Scripted::start(|seen, stream| match seen.header("authorization") {
        Some("Bearer tok-7") if seen.path() == "/v1/chat/completions" => {
            let event = r#"data: {"choices": [{"index": 0, "delta": {"content": "a"}}]}"#;
            write_stream(stream, &[&format!("{event}\n\n"), WHOLE[1], WHOLE[2]]);
            Keep::Open
        }
        Some("Bearer tok-7") => complete(stream),
        _ => answer(stream, 401, "{}"),
    });
    let url = server.url();
    let sign_in = ["--token-command", "echo tok-7"];
    let small = ["--model", "golden/tokenizers/gpt2", "--num-prompts", "2", "--input-len", "8", "--output-len", "1"];
    let scenario = ["--backend", "openai", "--base-url", &url];
    let conversations = "golden/scenarios/converter/raw.right-ascii.json";
    for args in [
        [&["throughput"][..], &scenario, &small, &sign_in].concat(),
        [&["prioritization"][..], &scenario, &small, &sign_in].concat(),
        [&["multi-turn", "-i", conversations, "-m", "golden/tokenizers/gpt2", "--url", &url, "-n", "2"], &sign_in[..]]
            .concat(),
    ] {
        let output = Place::new().run(&args);
        assert!(output.status.success(), "{args:?}: {}{}", stdout(&output), stderr(&output));
    }
    assert!(server.calls().iter().filter(|seen| seen.method() == "POST").count() >= 6);
    assert!(server.calls().iter().all(|seen| seen.header("authorization") == Some("Bearer tok-7")));
    let refused = Place::new().run(&[&["throughput"], &small[..], &sign_in].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

#[test]
fn a_token_goes_over_http2_too() {
    let args =
        ["serve", "--sim", "--http2", "--num-prompts", "4", "--random-input-len", "8", "--random-output-len", "2"];
    let output = Place::new().run(&[&args[..], &["--token-command", "echo tok-1"]].concat());
    assert_all_done(&output, 4);
}

fn over_tls(place: &Place, server: SocketAddr, flags: &[&str]) -> Output {
    let url = format!("https://{server}");
    place.run(&[&args(&url, "3", flags)[..], &["--ca-file", "ca.pem"]].concat())
}

#[test]
fn a_client_certificate_is_shown_to_servers_that_ask() {
    let place = Place::new();
    let server = secure::start_knowing_other(&place);
    for name in ["other.pem", "other.key", "server.key"] {
        place.write(name, &tacho_testkit::certificate(name));
    }
    let output = over_tls(&place, server, &["--client-cert", "other.pem", "--client-key", "other.key"]);
    assert_all_done(&output, 3);
    for (flags, wanted) in [
        (&[][..], "pass --client-cert and --client-key"),
        (&["--client-cert", "other.pem", "--client-key", "server.key"], "server.key is not the key of the certificate"),
        (&["--client-cert", "none.pem", "--client-key", "other.key"], "--client-cert none.pem: "),
        (&["--client-cert", "other.pem", "--client-key", "none.key"], "--client-key none.key: "),
    ] {
        let output = over_tls(&place, server, flags);
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {}", stdout(&output));
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains(wanted), "{flags:?}: {said}");
    }
}
