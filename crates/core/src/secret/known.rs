//! The secrets of this process, and the entry for text of a server, which may repeat them.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::{collections::VecDeque, ops::Deref};

use super::find::{Needle, find};
use super::{REDACTED, Secret};
use crate::json::{Dict, Value};
use crate::shown::harmless;

/// Shortest secret: shorter ones occur in any text.
const SHORTEST: usize = 4;
/// Shortest secret in a generated text, where `EMPTY` or a tenant's short name is an ordinary word.
const SHORTEST_IN_GENERATED: usize = 6;
/// Credentials that expire and are remembered at once. Servers do not echo older ones.
const MAX_RENEWED: usize = 64;

static KNOWN: RwLock<KnownSecret> = RwLock::new(KnownSecret { given: Vec::new(), renewed: VecDeque::new() });

struct KnownSecret {
    given: Vec<Needle>,
    renewed: VecDeque<Needle>,
}

impl KnownSecret {
    fn all(&self) -> impl Iterator<Item = &Needle> + Clone {
        self.given.iter().chain(&self.renewed)
    }

    fn read() -> RwLockReadGuard<'static, KnownSecret> {
        KNOWN.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(secrets: impl IntoIterator<Item = Secret>, push: impl Fn(&mut KnownSecret, Needle)) {
        for secret in secrets.into_iter().filter(|secret| secret.expose().trim().len() >= SHORTEST) {
            if !KnownSecret::read().all().any(|needle| needle.is(&secret)) {
                push(&mut KNOWN.write().unwrap_or_else(PoisonError::into_inner), Needle::new(secret));
            }
        }
    }
}

/// Remembers secrets of this process: from now on they are redacted in every text of a server that enters it.
pub fn remember(secrets: impl IntoIterator<Item = Secret>) {
    KnownSecret::add(secrets, |known, needle| known.given.push(needle));
}

/// Like [`remember`], for credentials that are replaced: only the latest ones are remembered.
pub fn remember_renewed(secrets: impl IntoIterator<Item = Secret>) {
    KnownSecret::add(secrets, |known, needle| {
        known.renewed.push_back(needle);
        if known.renewed.len() > MAX_RENEWED {
            known.renewed.pop_front();
        }
    });
}

/// A text without the secrets of this process.
pub fn redact_known(text: &str) -> String {
    redact(text.as_bytes(), false)
}

fn redact(text: &[u8], is_cut: bool) -> String {
    let mut out = String::new();
    let mut from = 0;
    for range in find(text, KnownSecret::read().all(), is_cut) {
        out += &String::from_utf8_lossy(&text[from..range.start]);
        out += REDACTED;
        from = range.end;
    }
    out + &String::from_utf8_lossy(&text[from..])
}

/// Text of a server, without the secrets of this process and without control characters.
///
/// ```
/// use tacho_core::secret::{Secret, ServerText, remember};
///
/// remember([Secret::new("sk-9f3a")]);
/// assert_eq!(&*ServerText::new(r#"{"error": "bad key sk-9f3a"}"#), r#"{"error": "bad key ***"}"#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerText(String);

impl ServerText {
    /// The whole text.
    pub fn new(text: &str) -> ServerText {
        ServerText(harmless(&redact(text.as_bytes(), false)))
    }

    /// The beginning of a text: at most `max` bytes of it. A secret is not cut in two.
    pub fn beginning(text: &[u8], max: usize) -> ServerText {
        let mut text = harmless(&redact_beginning(text, max).0);
        truncate(&mut text, max);
        ServerText(text)
    }

    /// The beginning of a text on one line, with an ellipsis if there is more.
    pub fn line(text: &[u8], max: usize) -> ServerText {
        let (text, is_cut) = redact_beginning(text, max);
        let mut line = harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        if line.len() > max || is_cut {
            truncate(&mut line, max);
            line.push('…');
        }
        ServerText(line)
    }
}

/// Cuts a text at the last character that ends within `max` bytes.
fn truncate(text: &mut String, max: usize) {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    text.truncate(end.unwrap_or(0));
}

/// Redacts more of a text than the `max` bytes that are needed, since it gets shorter; and whether there is more.
fn redact_beginning(text: &[u8], max: usize) -> (String, bool) {
    let window = &text[..text.len().min(max.saturating_mul(8))];
    let is_cut = window.len() < text.len();
    (redact(window, is_cut), is_cut)
}

impl Deref for ServerText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ServerText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ServerText> for String {
    fn from(text: ServerText) -> String {
        text.0
    }
}

/// JSON of a server, with the secrets of this process redacted in all its strings.
pub fn redact_known_json(value: Value) -> Value {
    match value {
        Value::Str(text) => Value::Str(redact_known(&text)),
        Value::List(items) => Value::List(items.into_iter().map(redact_known_json).collect()),
        Value::Dict(dict) => {
            let entry = |(name, value): (&str, &Value)| (redact_known(name), redact_known_json(value.clone()));
            dict.iter().map(entry).collect::<Dict>().into()
        }
        other => other,
    }
}

/// Overwrites secrets in a generated text byte by byte, so that the ends of token events keep their positions.
pub fn mask_known(text: &mut [u8]) {
    let ranges = find(text, KnownSecret::read().all().filter(|needle| needle.len() >= SHORTEST_IN_GENERATED), false);
    ranges.into_iter().for_each(|range| text[range].fill(b'*'));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base64;

    #[test]
    fn a_secret_is_found_in_every_form() {
        let secret = "kn0wn-\"s/é+1";
        remember([Secret::new(secret), Secret::new("wörd+ two")]);
        for (text, shown) in [
            (format!("as {secret} is"), "as *** is"),
            ("a kn0wn-%22s%2F%C3%a9%2b1 b".to_owned(), "a *** b"),
            ("a kn0wn-%2522s%252F%25C3%25A9%252B1 b".to_owned(), "a *** b"),
            (r#"{"a": "kn0wn-\"s\/\u00e9+1"}"#.to_owned(), r#"{"a": "***"}"#),
            (r#"{"a": "{\"b\": \"kn0wn-\\\"s/\\u00e9+1\"}"}"#.to_owned(), r#"{"a": "{\"b\": \"***\"}"}"#),
            ("<p>kn0wn-&quot;s/&#xe9;+1</p>".to_owned(), "<p>***</p>"),
            (format!("Basic {}.", base64::encode(secret.as_bytes())), "Basic ***."),
            (format!("Basic {}.", base64::encode(format!("u:{secret}").as_bytes())), "Basic ***."),
            (format!("Basic {}.", base64::encode(format!("me:{secret}!").as_bytes())), "Basic ***."),
            (base64::encode(format!("abc{secret}x").as_bytes()).replace('+', "-").replace('/', "_"), "***"),
            (base64::encode(secret.as_bytes()).replace('+', "%2B").replace('=', "%3D"), "***"),
            (format!("{secret}{secret}, kn0wn-"), "***, kn0wn-"),
            ("w%C3%B6rd%2B+two,w\u{f6}rd%2B%20two".to_owned(), "***,***"),
            // What looks like an escape sequence of one kind is text in another.
            ("kn0wn-\\u0022s/é+1".to_owned(), "***"),
            ("kn0wn-&quot;s/é+1 \\n \\u0041".to_owned(), "*** \\n \\u0041"),
            ("50% of \\users & more".to_owned(), "50% of \\users & more"),
        ] {
            assert_eq!(redact_known(&text), shown, "{text}");
        }
    }

    #[test]
    fn a_secret_that_looks_like_an_escape_sequence_is_found() {
        remember([Secret::new("esc\\ret%41&lt;")]);
        for text in ["esc\\ret%41&lt;", "esc%5Cret%2541%26lt;", r#"esc\\ret%41&lt;"#, "esc\\ret%41&amp;lt;"] {
            assert_eq!(redact_known(text), "***", "{text}");
        }
    }

    #[test]
    fn a_text_is_not_cut_inside_a_secret() {
        let secret = "c0t-in-two-".repeat(9);
        remember([Secret::new(secret.clone())]);
        for at in 0..40 {
            for copies in [1, 12] {
                let text = format!("{}{}", "x".repeat(at), secret.repeat(copies));
                for max in [8, 20, 30] {
                    let (line, start) =
                        (ServerText::line(text.as_bytes(), max), ServerText::beginning(text.as_bytes(), max));
                    assert!(!line.contains("c0t-") && !start.contains("c0t-"), "{at} {copies} {max}: {line} {start}");
                }
            }
        }
        assert_eq!(&*ServerText::line(b"a\x1b[2J \n b", 300), "a\\x1b[2J b");
        assert_eq!(&*ServerText::line(&[b'x'; 400], 300), format!("{}…", "x".repeat(300)));
    }

    #[test]
    fn numbers_and_short_words_stay_readable() {
        remember([Secret::new("8271"), Secret::new("abc"), Secret::new("tnt-7")]);
        assert_eq!(redact_known("8271 18271 8271.5 82719 abc"), "*** 18271 ***.5 82719 abc");
        let mut text = b"tnt-7".to_vec();
        mask_known(&mut text);
        assert_eq!(text, b"tnt-7");
        assert_eq!(redact_known("tnt-7"), "***");
    }

    #[test]
    fn a_secret_in_generated_text_is_masked_and_lengths_stay() {
        remember([Secret::new("mask-1234567")]);
        let mut text = b"mask-1234567 and mask%2D1234567, not mask-123".to_vec();
        mask_known(&mut text);
        assert_eq!(text, b"************ and **************, not mask-123");
    }

    #[test]
    fn given_secrets_outlive_any_number_of_renewed_ones() {
        remember([Secret::new("given-secret")]);
        remember_renewed((0..1000).map(|at| Secret::new(format!("renewed-{at:04}"))));
        assert_eq!(redact_known("given-secret renewed-0999"), "*** ***");
        assert!(KnownSecret::read().renewed.len() <= MAX_RENEWED);
    }
}
