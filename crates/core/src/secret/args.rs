//! Redaction of command lines, and the list of redacted secrets.

use super::redact::{hide_header_value, redact_header_text, redact_json_text, redact_url};
use super::{REDACTED, Secret, is_secret_flag, is_secret_name};

/// The arguments of a command for display: redacts the values of secret flags and variables, header values, and secrets
/// in URLs and JSON.
pub fn redact_args(args: &[String]) -> Vec<String> {
    redact(args, hide_header_value)
}

/// Redacts the text of a header.
type HeaderRule = fn(&str) -> String;

fn redact(args: &[String], header: HeaderRule) -> Vec<String> {
    let mut flag = "";
    args.iter().map(|word| redact_word(word, &mut flag, header)).collect()
}

/// The secrets among the arguments. A header value that does not look like a credential is redacted in commands but not
/// listed here: it may be a common word.
pub fn secrets_of(args: &[String]) -> Vec<Secret> {
    let shown = redact(args, redact_header_text);
    args.iter().zip(&shown).flat_map(|(word, shown)| hidden_in(word, shown)).collect()
}

/// Redacts one argument. `flag` is the option that it is a value of; an argument that is an option becomes the new
/// `flag`.
fn redact_word<'w>(word: &'w str, flag: &mut &'w str, header: HeaderRule) -> String {
    if let Some(body) = word.strip_prefix('-').filter(|body| body.starts_with(|c: char| c == '-' || c.is_alphabetic()))
    {
        let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
        *flag = name.trim_start_matches('-');
        return match value {
            Some(value) => format!("-{name}={}", redact_value(flag, value, header)),
            None => word.to_owned(),
        };
    }
    let shown = redact_value(flag, word, header);
    // A key takes one argument; headers may take several.
    if !is_header(flag) {
        *flag = "";
    }
    shown
}

fn is_header(flag: &str) -> bool {
    flag.eq_ignore_ascii_case("header") || flag == "H"
}

fn redact_value(flag: &str, value: &str, header: HeaderRule) -> String {
    if is_header(flag) {
        return header(value);
    }
    // The key of tacho verify is a file.
    if is_secret_flag(flag) && !flag.is_empty() && !value.ends_with(".pem") {
        return REDACTED.to_owned();
    }
    redact_free(value, header)
}

/// Redacts an argument that is not a value of an option: a variable, JSON, a URL, a command in one argument.
fn redact_free(word: &str, header: HeaderRule) -> String {
    if word.trim_start().starts_with(['{', '[']) {
        return redact_json_text(word);
    }
    // A command may hold JSON, whose spaces are not those between its arguments.
    if let (Some(start), Some(end)) = (word.find('{'), word.rfind('}'))
        && word.contains(char::is_whitespace)
        && let json = &word[start..=end.max(start)]
        && redact_json_text(json) != json
    {
        let (before, after) = (redact_free(&word[..start], header), redact_free(&word[end + 1..], header));
        return format!("{before}{}{after}", redact_json_text(json));
    }
    if word.contains(char::is_whitespace) {
        let parts: Vec<String> = word.split_whitespace().map(str::to_owned).collect();
        let shown = redact(&parts, header);
        return if shown == parts { word.to_owned() } else { shown.join(" ") };
    }
    match word.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_name(name) && is_secret_name(name) => {
            format!("{name}={REDACTED}")
        }
        _ if word.contains("://") || word.starts_with('/') && word.contains('?') => redact_url(word),
        _ => word.to_owned(),
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// The parts of an argument that its redacted form lacks.
fn hidden_in(word: &str, shown: &str) -> Vec<Secret> {
    if word == shown {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut rest = word;
    let mut kept = shown.split(REDACTED);
    let Some(first) = kept.next() else { return found };
    let Some(after) = rest.strip_prefix(first) else { return vec![Secret::new(word)] };
    rest = after;
    for part in kept {
        let end = if part.is_empty() { Some(rest.len()) } else { rest.find(part) };
        let Some(end) = end else { return vec![Secret::new(word)] };
        found.extend(pieces(&rest[..end]));
        rest = &rest[end + part.len()..];
    }
    found
}

/// A credential and its parts: the scheme before a token, the user before a password.
fn pieces(hidden: &str) -> Vec<Secret> {
    let hidden = hidden.trim();
    let mut pieces = vec![hidden];
    pieces.extend(hidden.split([' ', ':']).filter(|piece| !is_scheme(piece)));
    pieces.into_iter().filter(|piece| !piece.is_empty()).map(Secret::new).collect()
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "digest", "negotiate"].contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &[&str]) -> Vec<String> {
        line.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn commands_lose_their_secrets_and_keep_the_rest() {
        for (typed, shown) in [
            (
                &["serve", "--header", "Authorization=Bearer sk-1", "X-Team=red"][..],
                &["serve", "--header", "Authorization=***", "X-Team=***"][..],
            ),
            (&["--header=Authorization=Bearer sk-1"], &["--header=Authorization=***"]),
            (&["--api-key", "sk-1", "m"], &["--api-key", "***", "m"]),
            (&["--api-key=sk-1", "--seed", "1"], &["--api-key=***", "--seed", "1"]),
            (
                &["--extra-body.api_key", "K", "--extra-body.min_tokens", "8"],
                &["--extra-body.api_key", "***", "--extra-body.min_tokens", "8"],
            ),
            (&["--extra-body", r#"{"token": "K"}"#], &["--extra-body", r#"{"token": "***"}"#]),
            (&["--base-url", "http://u:PW@h/v1"], &["--base-url", "http://***@h/v1"]),
            (&["--endpoint", "/v1/completions?key=K"], &["--endpoint", "/v1/completions?key=***"]),
            (&["env", "HF_TOKEN=hf_1", "vllm", "serve"], &["env", "HF_TOKEN=***", "vllm", "serve"]),
            (&["bash", "-c", "vllm serve --api-key K  --port 1"], &["bash", "-c", "vllm serve --api-key *** --port 1"]),
            (
                &["--class", "a=1: --extra-body '{\"api_key\": \"K\"}' --header X-A=v w=1"],
                &["--class", "a=1: --extra-body '{\"api_key\": \"***\"}' --header X-A=*** w=***"],
            ),
            (&["--temperature", "-0.5", "--max-tokens", "5"], &["--temperature", "-0.5", "--max-tokens", "5"]),
        ] {
            assert_eq!(redact_args(&args(typed)), args(shown));
        }
    }

    #[test]
    fn what_was_taken_out_is_known() {
        let line =
            ["--header", "Authorization=Bearer sk-1", "--base-url", "http://u:PW@h/v1", "--api-key", "K2", "x=1"];
        let known: Vec<String> = secrets_of(&args(&line)).iter().map(|secret| secret.expose().to_owned()).collect();
        for secret in ["sk-1", "PW", "K2"] {
            assert!(known.iter().any(|text| text == secret), "{secret}: {known:?}");
        }
        assert!(secrets_of(&args(&["--header", "X-Team=default"])).is_empty());
        assert!(!known.iter().any(|text| text == "x=1" || text == "Bearer"), "{known:?}");
    }
}
