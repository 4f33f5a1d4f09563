//! Fuzzes the JSON parser and the redaction: an error or a value, never a panic, an abort or unbounded memory, and no
//! key in redacted text. `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-core --test fuzz -- --nocapture
//! --test-threads=1` tries a million inputs of each kind on all cores.

use tacho_core::bounded::{Pause, RequestCount, TokenCount};
use tacho_core::json::{Value, dumps, parse, parse_prefix};
use tacho_core::secret::{
    Secret, redact_args, redact_header_text, redact_json_text, redact_known, redact_url, remember, secrets_of,
};
use tacho_testkit::{Counted, fuzz};

#[global_allocator]
static COUNTED: Counted = Counted;

#[test]
fn fuzz_json() {
    let good = [
        &br#"{"a": [1, -2.5e-3, true, null, NaN, -Infinity], "b": {"c": "\u00e9\ud83d\ude42\n"}, "": 12345678901234567890}"#[..],
        br#"[[[[{"x": "y"}]]], 0.1, 1E400]"#,
        "\u{feff}{\"k\": \"é\"} trailing".as_bytes(),
    ];
    fuzz("values", &good, |bytes| {
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
    remember([Secret::new("hunter2")]);
    fuzz("secrets", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let words: Vec<String> = text.lines().map(str::to_owned).collect();
        let _ = (redact_url(&text), redact_header_text(&text), redact_json_text(&text));
        let _ = (redact_args(&words), secrets_of(&words).len());
        assert!(!redact_known(&text).contains("hunter2"));
    });
}

#[test]
fn fuzz_numbers() {
    let good = [
        &b"0"[..],
        b"-1",
        b"1000000000000",
        b"1e300",
        b"-1e-300",
        b"18446744073709551616",
        b"NaN",
        b"Infinity",
        b"9007199254740993.5",
    ];
    fuzz("numbers", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let value = parse(&text).unwrap_or(Value::Null);
        let count = TokenCount::from_json("n", &value);
        assert!(count.is_err() || count.is_ok_and(|count| count.get() <= TokenCount::MAX));
        let number: f64 = text.trim().parse().unwrap_or(f64::NAN);
        let mut bits = [0; 8];
        bits.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        for number in [number, f64::from_le_bytes(bits)] {
            if let Ok(count) = RequestCount::from_f64("n", number) {
                assert!(count.get() <= RequestCount::MAX && count.get() as f64 <= number);
            }
            if let Ok(pause) = Pause::from_millis("t", number) {
                // A bounded pause can be added to any time of a run.
                let _ = std::time::Instant::now() + pause.get();
            }
        }
        let _ = RequestCount::new("n", u64::from_le_bytes(bits)).and_then(|count| count.checked_add("n", count));
    });
}
