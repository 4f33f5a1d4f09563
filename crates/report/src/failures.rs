//! The failed requests of a run by kind, each with one text.

use tacho_core::{FailureKind, json::parse};
use tacho_record::RunRecord;

use crate::style::harmless_line;

#[derive(Debug, PartialEq)]
pub(crate) struct Failures {
    pub(crate) kind: String,
    pub(crate) count: usize,
    pub(crate) text: String,
}

/// The failures by kind, the most frequent first.
pub(crate) fn by_kind(record: &RunRecord) -> Vec<Failures> {
    let mut kinds: Vec<Failures> = Vec::new();
    for sample in &record.measured.samples {
        let Some(kind) = sample.failure.map(name) else { continue };
        match kinds.iter_mut().find(|known| known.kind == kind) {
            Some(known) => known.count += 1,
            None => kinds.push(Failures { kind, count: 1, text: message(&sample.error) }),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds
}

fn name(kind: FailureKind) -> String {
    match kind {
        FailureKind::Http(status) => format!("HTTP {status}"),
        other => other.name().replace('_', " "),
    }
}

/// An error as one line: of a JSON object of the server, its message.
fn message(error: &str) -> String {
    let message = |at: usize| {
        let object = parse(&error[at..]).ok()?;
        let found = object.get("error").and_then(|inner| inner.get("message")).or_else(|| object.get("message"))?;
        Some(format!("{}{}", &error[..at], found.as_str().filter(|text| !text.is_empty())?))
    };
    harmless_line(&error.find('{').and_then(message).unwrap_or_else(|| error.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_server_are_their_messages() {
        let text = r#"Bad Request (400): {"error":{"message":"too\nlong","code":400}}"#;
        assert_eq!(message(text), "Bad Request (400): too\\x0along");
        assert_eq!(message(r#"{"message":"out of memory"}"#), "out of memory");
        assert_eq!([message("{x"), message("reset by peer")], ["{x", "reset by peer"]);
    }
}
