//! Fuzzes what sign-in reads: tokens, key files and explanations of servers. An error or a value, never a panic, and
//! nothing that breaks out of a header.

use tacho_testkit::fuzz;

use super::aws::{AwsKeySource, AwsSigner, AwsSpec};
use super::{aws::keys::profile, oauth, token};

#[test]
fn fuzz_tokens() {
    let good = [
        &br#"{"access_token": "a.eyJleHAiOiAxODAwMDAwMDAwfQ.c", "expires_in": 3600, "token_type": "Bearer"}"#[..],
        br#"{"kind": "ExecCredential", "status": {"token": "t", "expirationTimestamp": "2026-01-02T03:04:05Z"}}"#,
        br#"{"error": "invalid_client", "error_description": "no such client", "expires_on": "1e300"}"#,
        b"a.eyJleHAiOiAxODAwMDAwMDAwfQ.c\nsecond line",
    ];
    fuzz("tokens", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(token) = token::read(&text, 1.7e9) {
            assert!(token.secret.expose().bytes().all(|byte| byte.is_ascii_graphic()));
        }
        assert!(oauth::explanation(&text).len() <= 4096);
    });
}

#[test]
fn fuzz_aws_keys() {
    let good = [
        &b"# c\n[default]\naws_access_key_id = A1\naws_secret_access_key=S1=\n[profile ci]\naws_session_token = T\n"[..],
        b"[default]\r\naws_access_key_id=A\r\naws_secret_access_key = S\r\naws_session_token = T\r\n",
    ];
    fuzz("key files", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let Some(keys) = profile(&text, "default") else { return };
        let (service, region) = ("bedrock".to_owned(), "us-east-1".to_owned());
        let spec = AwsSpec { service, region, source: AwsKeySource::Given(keys.clone()) };
        let lines =
            AwsSigner::new(keys, &spec).header_lines("POST", &text.replace(' ', "%"), "h", bytes, 1_700_000_000);
        assert!(lines.split("\r\n").all(|line| !line.contains(['\r', '\n'])), "{lines:?}");
    });
}
