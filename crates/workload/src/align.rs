//! Re-alignment with the server's tokenizer, as a pure state machine: the caller queries the server and asks here for
//! the next step. Applies only to datasets marked in the table, and only to plain text prompts.

use tacho_core::{Content, Request};

/// The action for one request after the server has tokenized its prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alignment {
    Keep,
    /// The prompt is too long: replace it by the server's text for these IDs.
    Detokenize(Vec<u32>),
}

/// The prompt to tokenize for the check, if the workload starts with plain text.
pub fn probe(requests: &[Request]) -> Option<&str> {
    requests.first().and_then(prompt)
}

/// Whether each request must be checked: the server's count for the first prompt differs.
pub fn needs_alignment(first: &Request, server_count: usize) -> bool {
    server_count as u64 != first.prompt_len
}

pub fn prompt(request: &Request) -> Option<&str> {
    match &request.content {
        Content::Text(text) => Some(text),
        _ => None,
    }
}

/// The action for a request whose prompt the server tokenized as `server_ids`.
pub fn plan(request: &Request, server_ids: &[u32]) -> Alignment {
    match server_ids.get(..usize::try_from(request.prompt_len).unwrap_or(usize::MAX)) {
        Some(head) if head.len() < server_ids.len() => Alignment::Detokenize(head.to_vec()),
        _ => Alignment::Keep,
    }
}

/// Replaces the prompt by the server's text; the length stays as planned.
pub fn replace_prompt(request: &mut Request, text: String) {
    request.content = Content::Text(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prompts_that_are_too_long_are_cut() {
        let request = Request::text("abc", 2, 1);
        assert_eq!(plan(&request, &[7]), Alignment::Keep);
        assert_eq!(plan(&request, &[7, 8]), Alignment::Keep);
        assert_eq!(plan(&request, &[7, 8, 9]), Alignment::Detokenize(vec![7, 8]));
        assert!(needs_alignment(&request, 3) && needs_alignment(&request, 1) && !needs_alignment(&request, 2));
    }

    #[test]
    fn lists_are_not_probed() {
        let mut request = Request::text("abc", 2, 1);
        assert_eq!(probe(std::slice::from_ref(&request)), Some("abc"));
        request.content = Content::Texts(vec!["abc".to_owned()]);
        assert_eq!(probe(&[request]), None);
        assert_eq!(probe(&[]), None);
    }
}
