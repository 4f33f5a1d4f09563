//! `multipart/form-data` in aiohttp's format.

use crate::url::percent_encoded;

/// Unlikely to occur in any file. It is constant because the header that names it is.
macro_rules! boundary {
    () => {
        "tacho-8d1f2c0b6e934a57b1c7f04e95a3d26c"
    };
}

pub(super) const CONTENT_TYPE: &str = concat!("multipart/form-data; boundary=", boundary!());
const DELIMITER: &str = concat!("--", boundary!());

#[derive(Debug, Default)]
pub(super) struct Form {
    bytes: Vec<u8>,
}

impl Form {
    pub(super) fn file(&mut self, name: &str, filename: &str, content_type: &str, content: &[u8]) {
        let filename = percent_encoded(filename.bytes(), b"");
        self.part(content_type, &format!("{}; filename=\"{filename}\"", field_name(name)), content);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.part("text/plain; charset=utf-8", &field_name(name), value.as_bytes());
    }

    fn part(&mut self, content_type: &str, parameters: &str, content: &[u8]) {
        let head = format!(
            "{DELIMITER}\r\nContent-Type: {content_type}\r\nContent-Disposition: form-data; {parameters}\r\n\r\n"
        );
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(content);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(format!("{DELIMITER}--\r\n").as_bytes());
        self.bytes
    }
}

/// The `name` parameter: quoted if its characters allow it, else in the extended form.
fn field_name(name: &str) -> String {
    if !name.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) {
        return format!("name*=utf-8''{}", percent_encoded(name.bytes(), b""));
    }
    let mut quoted = String::from("name=\"");
    for c in name.chars() {
        if matches!(c, ' ' | '\t' | '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_or_extended() {
        assert_eq!(field_name("model"), "name=\"model\"");
        assert_eq!(field_name("a \"b\\"), "name=\"a\\ \\\"b\\\\\"");
        assert_eq!(field_name("é"), "name*=utf-8''%C3%A9");
    }

    #[test]
    fn a_form_ends_with_its_last_delimiter() {
        let mut form = Form::default();
        form.text("k", "v");
        let text = String::from_utf8(form.finish()).unwrap();
        let expected = "--B\r\nContent-Type: text/plain; charset=utf-8\r\n\
                        Content-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n--B--\r\n";
        assert_eq!(text.replace(DELIMITER, "--B"), expected);
    }
}
