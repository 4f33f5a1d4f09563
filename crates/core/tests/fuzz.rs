//! Broken JSON and texts with secrets in them: an error or a value, never a panic, an abort or memory without end; and no
//! key in what is shown.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-core --test fuzz -- --nocapture --test-threads=1` tries a
//! million of each kind on all cores.

use tacho_core::json::{dumps, parse, parse_prefix};
use tacho_core::secret::{
    Secret, redact_header_text, redact_json_text, redact_text, redact_url, redact_words, secrets_of,
};
use tacho_testkit::{Counted, fuzz};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Inputs of each kind in an ordinary run.
const FEW: u64 = 400;

#[test]
fn fuzz_json() {
    let good = [
        &br#"{"a": [1, -2.5e-3, true, null, NaN, -Infinity], "b": {"c": "\u00e9\ud83d\ude42\n"}, "": 12345678901234567890}"#[..],
        br#"[[[[{"x": "y"}]]], 0.1, 1E400]"#,
        "\u{feff}{\"k\": \"é\"} trailing".as_bytes(),
    ];
    fuzz("values", &good.map(<[u8]>::to_vec), FEW, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = parse_prefix(&text).is_ok();
        if let Ok(value) = parse(&text) {
            let written = dumps(&value);
            let again = parse(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(dumps(&again), written);
        }
    });
}

#[test]
fn fuzz_secrets() {
    let good = [
        &b"https://user:hunter2@h/v1?api_key=hunter2&x=1#f"[..],
        b"Authorization=Bearer hunter2",
        br#"{"api_key": "hunter2", "nested": [{"password": "hunter2"}]}"#,
        b"--header\nX-Api-Key: hunter2\n--extra-body\n{\"token\": \"hunter2\"}\n--base-url=http://u:hunter2@h",
    ];
    let key = [Secret::new("hunter2")];
    fuzz("secrets", &good.map(<[u8]>::to_vec), FEW, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let words: Vec<String> = text.lines().map(str::to_owned).collect();
        let _ = (redact_url(&text), redact_header_text(&text), redact_json_text(&text));
        let _ = (redact_words(&words), secrets_of(&words).len());
        assert!(!redact_text(&text, &key).contains("hunter2"));
    });
}
