//! Escapes text for HTML.

use crate::style::harmless_line;

/// `text` as HTML text or attribute value; control and bidirectional characters are made visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in harmless_line(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
