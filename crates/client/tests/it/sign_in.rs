//! Credentials that change during a run, and client certificates.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io::Write, net::TcpStream, path::PathBuf, sync::Arc};

use ring::{digest, hmac};
use tacho_client::control::{Caller, first_model};
use tacho_client::sign_in::{AwsKeySource, AwsKeys, AwsSpec, OAuthSpec};
use tacho_client::{BackendKind, ClientCertificate, EndpointSpec, Rules, SignIn, SignInSpec, Url};
use tacho_core::{FailureKind, Observation, Request, Secret};
use tacho_testkit::wire::write_plain;

use crate::behavior::{payload, requests};
use crate::scripted::{Keep, Scripted, Seen, WHOLE, read_request, write_stream};
use crate::secure::{Secure, Secured};
use crate::wire::{endpoint, run, send};

/// Prints a token that holds the time of its making, in milliseconds.
const DATED: &str = r#"printf '{"access_token": "tok-%s", "expires_in": 0.5}' $(date +%s%3N)"#;

fn to(server: &Scripted, spec: SignInSpec) -> EndpointSpec {
    let url = format!("{}/v1/completions", server.url());
    EndpointSpec { sign_in: Some(SignIn::new(spec)), ..endpoint(&url, BackendKind::OpenAi, Rules::Standard) }
}

fn by_command(server: &Scripted, command: &str) -> EndpointSpec {
    to(server, SignInSpec::Command { command: command.to_owned(), refresh: None })
}

fn refuse(stream: &mut TcpStream, status: u16, body: &str) -> Keep {
    write_plain(stream, status, "No", "application/json", body.as_bytes()).unwrap();
    Keep::Open
}

fn accept(stream: &mut TcpStream) -> Keep {
    write_stream(stream, &WHOLE);
    Keep::Open
}

fn milliseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// Accepts a token of `DATED` for half a second.
fn strict() -> Scripted {
    Scripted::start(|seen, stream| {
        let made = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer tok-")?.parse().ok());
        std::thread::sleep(Duration::from_millis(5));
        match made {
            Some(made) if milliseconds().saturating_sub(made) < 500 => accept(stream),
            _ => refuse(stream, 401, r#"{"error": "token expired"}"#),
        }
    })
}

/// A file of the tests' certificates.
fn certificate_file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tacho-sign-in-{}-{name}", std::process::id()));
    std::fs::write(&path, tacho_testkit::certificate(name)).unwrap();
    path
}

fn failures(rows: &[Observation]) -> Vec<String> {
    rows.iter().filter_map(|row| row.outcome.failure()).map(|failure| failure.message.clone()).collect()
}

#[test]
fn tokens_that_expire_are_renewed_and_no_request_fails() {
    let server = strict();
    let endpoint = by_command(&server, DATED);
    let rows = run(endpoint, &payload(), &requests(1200), 4).rows;
    assert_eq!(failures(&rows), [""; 0]);
    let calls = server.calls();
    let mut tokens: Vec<&str> = calls.iter().filter_map(|seen| seen.header("authorization")).collect();
    tokens.dedup();
    assert!(tokens.len() >= 3, "{} tokens in {} requests", tokens.len(), calls.len());
    // Each request has its line, then its host, as servers expect.
    assert!(calls.iter().all(|seen| seen.headers[0].0 == "Host" && seen.line == "POST /v1/completions HTTP/1.1"));
}

/// Refuses all requests from the `from`-th to the `to`-th.
fn moody(from: usize, to: usize) -> (Scripted, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = count.clone();
    let server = Scripted::start(move |_, stream| match asked.fetch_add(1, Ordering::Relaxed) {
        at if (from..to).contains(&at) => refuse(stream, 401, r#"{"error": "tok-secret is not accepted"}"#),
        _ => accept(stream),
    });
    (server, count)
}

#[test]
fn a_refused_request_is_sent_again_once_with_a_new_token() {
    let file = std::env::temp_dir().join(format!("tacho-tokens-{}", std::process::id()));
    let count = format!("echo x >> {0}; echo tok-secret-$(wc -l < {0})", file.display());
    let (server, _) = moody(3, 4);
    let rows = send(by_command(&server, &count), &payload(), &requests(8));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(failures(&rows), [""; 0]);
    assert_eq!(rows.iter().map(|row| row.retries).collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0, 0, 0]);
    let calls = server.calls();
    let used: Vec<_> = calls.iter().map(|seen| seen.header("authorization").unwrap().replace("Bearer ", "")).collect();
    assert_eq!(used[..4], vec!["tok-secret-1"; 4]);
    assert_eq!(used[4..], vec!["tok-secret-2"; 5]);
    // Latency counts from the first attempt.
    assert_eq!(calls[3].header("x-request-id"), calls[4].header("x-request-id"));
    assert!(rows[3].done.since(rows[3].sent) > rows[2].done.since(rows[2].sent));
}

#[test]
fn a_request_that_is_refused_twice_fails_and_says_why() {
    let (server, count) = moody(0, usize::MAX);
    let rows = send(by_command(&server, "echo tok-secret"), &payload(), &requests(2));
    assert_eq!(count.load(Ordering::Relaxed), 4);
    for row in rows {
        let failure = row.outcome.failure().unwrap();
        assert_eq!((failure.kind, row.retries), (FailureKind::Http(401), 1));
        assert!(failure.message.contains("*** is not accepted"), "{}", failure.message);
    }
    // A command that fails the second time is named.
    let file = std::env::temp_dir().join(format!("tacho-once-{}", std::process::id()));
    let once =
        format!("test -e {0} && {{ echo expired login >&2; exit 7; }}; touch {0}; echo tok-secret", file.display());
    let rows = send(by_command(&server, &once), &payload(), &requests(1));
    std::fs::remove_file(&file).unwrap();
    let message = &rows[0].outcome.failure().unwrap().message;
    assert!(message.contains("; --token-command failed with exit code 7: expired login"), "{message}");
}

#[test]
fn a_command_that_fails_at_first_sends_nothing() {
    let (server, count) = moody(0, 0);
    let endpoint = by_command(&server, "echo tok-secret; exit 1");
    let caller = Caller::new(&endpoint, "", Duration::from_secs(5)).unwrap();
    let message = first_model(&caller).unwrap_err().to_string();
    assert_eq!(message, "cannot sign in: --token-command failed with exit code 1");
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn control_calls_sign_in_too() {
    let asked = AtomicUsize::new(0);
    let server = Scripted::start(move |seen, stream| {
        let signed = seen.header("authorization") == Some("Bearer tok-1");
        match asked.fetch_add(1, Ordering::Relaxed) {
            0 => refuse(stream, 401, ""),
            _ => refuse(stream, if signed { 200 } else { 403 }, r#"{"data": [{"id": "n"}]}"#),
        }
    });
    let caller = Caller::new(&by_command(&server, "echo tok-1"), "/base", Duration::from_secs(5)).unwrap();
    assert_eq!(first_model(&caller).unwrap().name, "n");
    assert_eq!(server.paths(), ["/base/v1/models"; 2]);
}

#[test]
fn a_body_that_the_socket_takes_in_pieces_follows_its_head() {
    let server = Scripted::start(|seen, stream| {
        let sent = seen.json()["prompt"].as_str().map_or(0, str::len);
        match (seen.header("authorization"), sent) {
            (Some("Bearer tok-1"), 20_000_000) => accept(stream),
            other => refuse(stream, 403, &format!("{other:?}")),
        }
    });
    let large = Request::text("x".repeat(20_000_000), 1, 4);
    let rows = send(by_command(&server, "echo tok-1"), &payload(), &[large.clone(), large]);
    assert_eq!(failures(&rows), [""; 0]);
}

#[test]
fn a_redirect_is_followed_with_the_token() {
    let server = Scripted::start(|seen, stream| match seen.path() {
        "/v1/completions" => {
            let head = "HTTP/1.1 307 Moved\r\nLocation: /v2/completions\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            Keep::Open
        }
        _ if seen.header("authorization") == Some("Bearer tok-1") && !seen.body.is_empty() => accept(stream),
        _ => refuse(stream, 403, ""),
    });
    let rows = send(by_command(&server, "echo tok-1"), &payload(), &requests(2));
    assert_eq!(failures(&rows), [""; 0]);
    assert_eq!(server.count("/v2/completions"), 2);
}

fn oauth(server: &Scripted, path: &str, secret: &str) -> SignInSpec {
    let url = Url::parse(&format!("{}{path}", server.url())).unwrap();
    SignInSpec::OAuth(OAuthSpec {
        endpoint: Box::new(EndpointSpec::new(url, BackendKind::OpenAi)),
        client_id: "bench".to_owned(),
        client_secret: Secret::new(secret),
        scope: Some("llm.read llm.write".to_owned()),
    })
}

/// A token endpoint for `bench` with the secret `s3cr+t`; every token has a number and a lifetime of 0.5 s.
fn token_server() -> Scripted {
    let count = AtomicUsize::new(0);
    Scripted::start(move |seen, stream| {
        let at = count.fetch_add(1, Ordering::Relaxed);
        // base64 of bench:s3cr%2Bt
        let is_known = seen.header("authorization") == Some("Basic YmVuY2g6czNjciUyQnQ=");
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let is_asked = body == "grant_type=client_credentials&scope=llm.read%20llm.write"
            && seen.header("content-type") == Some("application/x-www-form-urlencoded");
        match seen.path() {
            "/token" if is_known && is_asked => refuse(
                stream,
                200,
                &format!(r#"{{"access_token": "at-{at}", "token_type": "Bearer", "expires_in": 0.5}}"#),
            ),
            "/token" => {
                let told = r#"{"error": "invalid_client", "error_description": "bad secret wr0ng-secret"}"#;
                refuse(stream, 401, told)
            }
            "/html" => refuse(stream, 200, "<html>log in</html>"),
            _ => refuse(stream, 200, r#"{"token_type": "Bearer"}"#),
        }
    })
}

#[test]
fn oauth_tokens_are_fetched_and_renewed() {
    let tokens = token_server();
    let server = Scripted::start(|seen, stream| {
        std::thread::sleep(Duration::from_millis(5));
        match seen.header("authorization") {
            Some(value) if value.starts_with("Bearer at-") => accept(stream),
            _ => refuse(stream, 401, ""),
        }
    });
    let rows = run(to(&server, oauth(&tokens, "/token", "s3cr+t")), &payload(), &requests(400), 2).rows;
    assert_eq!(failures(&rows), [""; 0]);
    assert!((2..10).contains(&tokens.count("/token")), "{}", tokens.count("/token"));
}

#[test]
fn what_a_token_endpoint_says_is_passed_on_without_secrets() {
    let tokens = token_server();
    let nobody = token_server();
    for (path, secret, wanted) in [
        ("/token", "wr0ng-secret", "/token answered 401: invalid_client: bad secret ***"),
        ("/html", "s3cr+t", "/html returned no token: its first line is not a token"),
        ("/empty", "s3cr+t", "/empty returned no token: its JSON has no access_token"),
    ] {
        let endpoint = to(&nobody, oauth(&tokens, path, secret));
        let caller = Caller::new(&endpoint, "", Duration::from_secs(5)).unwrap();
        let message = first_model(&caller).unwrap_err().to_string();
        assert!(message.contains(wanted) && message.lines().count() == 1, "{message}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = Url::parse(&format!("http://{closed}/token")).unwrap();
    let SignInSpec::OAuth(mut spec) = oauth(&tokens, "/token", "s3cr+t") else { unreachable!() };
    spec.endpoint.url = url;
    let caller = Caller::new(&to(&nobody, SignInSpec::OAuth(spec)), "", Duration::from_secs(5)).unwrap();
    let message = first_model(&caller).unwrap_err().to_string();
    assert!(message.starts_with("cannot sign in: cannot reach the token endpoint http://127.0.0.1:"), "{message}");
}

const AWS_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Recomputes the signature of a request as it arrived, by the published rules.
fn is_signed_by_aws(seen: &Seen, canonical_path: &str, canonical_query: &str) -> bool {
    let authorization = seen.header("authorization").unwrap();
    let field = |name: &str| authorization.split([' ', ',']).find_map(|part| part.strip_prefix(name)).unwrap();
    let (names, date) = (field("SignedHeaders="), seen.header("x-amz-date").unwrap());
    for needed in ["host", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256", "content-type"] {
        assert!(names.split(';').any(|name| name == needed) || seen.header(needed).is_none(), "{needed} in {names}");
    }
    let body_hash = hex(digest::digest(&digest::SHA256, &seen.body).as_ref());
    assert_eq!(seen.header("x-amz-content-sha256"), Some(body_hash.as_str()));
    let headers: String = names.split(';').map(|name| format!("{name}:{}\n", seen.header(name).unwrap())).collect();
    let canonical = format!("{}\n{canonical_path}\n{canonical_query}\n{headers}\n{names}\n{body_hash}", seen.method());
    let scope = format!("{}/eu-west-1/bedrock/aws4_request", &date[..8]);
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}");
    let sign = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    let mut key = sign(format!("AWS4{AWS_SECRET}").as_bytes(), &date[..8]);
    for part in ["eu-west-1", "bedrock", "aws4_request"] {
        key = sign(key.as_ref(), part);
    }
    let wanted = hex(sign(key.as_ref(), &to_sign).as_ref());
    field("Credential=") == format!("AKIDEXAMPLE/{scope}") && field("Signature=") == wanted
}

fn aws() -> SignInSpec {
    let keys = AwsKeys {
        id: Secret::new("AKIDEXAMPLE"),
        secret: Secret::new(AWS_SECRET),
        session: Some(Secret::new("session-token-1")),
    };
    SignInSpec::Aws(AwsSpec {
        service: "bedrock".to_owned(),
        region: "eu-west-1".to_owned(),
        source: AwsKeySource::Given(keys),
    })
}

#[test]
fn aws_signatures_are_those_that_a_server_computes() {
    let server = Scripted::start(|seen, stream| {
        let (path, query) = match seen.path() {
            "/v1/completions" => ("/v1/completions", ""),
            "/model/a:1%20b/completions?b=2&a=1" => ("/model/a%3A1%2520b/completions", "a=1&b=2"),
            "/v1/models" => ("/v1/models", ""),
            other => panic!("{other}"),
        };
        match (is_signed_by_aws(seen, path, query), seen.method()) {
            (false, _) => refuse(stream, 403, "InvalidSignatureException"),
            (true, "GET") => refuse(stream, 200, r#"{"data": [{"id": "n"}]}"#),
            (true, _) => accept(stream),
        }
    });
    let mut endpoint = to(&server, aws());
    endpoint.headers.set("X-Amzn-Bedrock-Trace", "ENABLED");
    let rows = send(endpoint.clone(), &payload(), &requests(20));
    assert_eq!(failures(&rows), [""; 0]);
    let caller = Caller::new(&endpoint, "", Duration::from_secs(5)).unwrap();
    assert_eq!(first_model(&caller).unwrap().name, "n");
    endpoint.url = endpoint.url.with_path("/model/a:1%20b/completions?b=2&a=1");
    let rows = send(endpoint, &payload(), &requests(3));
    assert_eq!(failures(&rows), [""; 0]);
    assert!(server.calls().iter().all(|seen| seen.header("x-amz-security-token") == Some("session-token-1")));
}

#[test]
fn aws_keys_of_a_file_are_read_again_when_they_are_refused() {
    let path = std::env::temp_dir().join(format!("tacho-aws-{}", std::process::id()));
    let write = |id: &str| {
        let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {AWS_SECRET}\n");
        std::fs::write(&path, text).unwrap();
    };
    write("AKIDOLD");
    let renewed = path.clone();
    let server = Scripted::start(move |seen, stream| {
        if seen.header("authorization").unwrap().contains("AKIDNEW/") {
            return accept(stream);
        }
        let text = std::fs::read_to_string(&renewed).unwrap();
        std::fs::write(&renewed, text.replace("AKIDOLD", "AKIDNEW")).unwrap();
        refuse(stream, 403, "ExpiredTokenException")
    });
    let source = AwsKeySource::Profile { name: "default".into(), credentials: path.clone(), config: path.clone() };
    let spec = AwsSpec { service: "sagemaker".into(), region: "us-east-1".into(), source };
    let rows = send(to(&server, SignInSpec::Aws(spec)), &payload(), &requests(3));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(failures(&rows), [""; 0]);
    assert_eq!(rows.iter().map(|row| row.retries).collect::<Vec<_>>(), [1, 0, 0]);
}

fn answer_all(stream: &mut Secured) {
    while read_request(stream).is_some() {
        write_stream(stream.get_mut(), &WHOLE);
    }
}

fn with_certificate(server: &Secure, certificate: &str, key: &str) -> EndpointSpec {
    let files = ClientCertificate { certificate: certificate_file(certificate), key: certificate_file(key) };
    EndpointSpec {
        insecure: true,
        client_certificate: Some(files),
        ..endpoint(&server.url(), BackendKind::OpenAi, Rules::Standard)
    }
}

#[test]
fn a_server_knows_its_clients_by_their_certificates() {
    let server = Secure::knowing_other(answer_all);
    let rows = send(with_certificate(&server, "other.pem", "other.key"), &payload(), &requests(3));
    assert_eq!(failures(&rows), [""; 0]);
    // A token over TLS is written in the same records as the rest of its request.
    let mut both = with_certificate(&server, "other.pem", "other.key");
    both.sign_in = Some(SignIn::new(SignInSpec::Command { command: "echo t".to_owned(), refresh: None }));
    assert_eq!(failures(&send(both, &payload(), &requests(3))), [""; 0]);
    for (endpoint, wanted) in [
        (with_certificate(&server, "server.pem", "server.key"), "--client-cert"),
        (
            EndpointSpec { client_certificate: None, ..with_certificate(&server, "other.pem", "other.key") },
            "pass --client-cert and --client-key",
        ),
    ] {
        let rows = send(endpoint, &payload(), &requests(1));
        let message = &failures(&rows)[0];
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let server = Secure::start(&[], answer_all);
    let nothing = certificate_file("named.pem").with_extension("empty");
    std::fs::write(&nothing, "").unwrap();
    let missing = PathBuf::from("/nonexistent/client.pem");
    let (other, key) = (certificate_file("other.pem"), certificate_file("other.key"));
    for (certificate, key, wanted) in [
        (&other, &certificate_file("server.key"), "is not the key of the certificate of --client-cert"),
        (&missing, &key, "--client-cert /nonexistent/client.pem: "),
        (&other, &missing, "--client-key /nonexistent/client.pem: "),
        (&nothing, &key, "it holds no certificate in PEM form"),
        (&other, &other, "it holds no private key in PEM form"),
    ] {
        let files = ClientCertificate { certificate: certificate.clone(), key: key.clone() };
        let mut endpoint = with_certificate(&server, "other.pem", "other.key");
        endpoint.client_certificate = Some(files);
        let error = Caller::new(&endpoint, "", Duration::from_secs(5)).unwrap_err();
        let message = std::error::Error::source(&error).unwrap().to_string();
        assert!(message.contains(wanted), "{message}");
        assert!(!message.contains("BEGIN"), "{message}");
    }
}
