//! `multipart/form-data`: texts and one file.

use super::problem::Problem;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) file: Option<Vec<u8>>,
}

impl Form {
    pub(crate) fn parse(content_type: Option<&str>, body: &[u8]) -> Result<Form, Problem> {
        let broken = || Problem::bad_request("There was an error parsing the body");
        let boundary = content_type.and_then(boundary).ok_or_else(broken)?;
        let mark = format!("--{boundary}");
        let mut form = Form::default();
        let mut rest = &body[find(body, mark.as_bytes()).ok_or_else(broken)? + mark.len()..];
        while !rest.starts_with(b"--") {
            let part = rest.strip_prefix(b"\r\n").ok_or_else(broken)?;
            let end = find(part, format!("\r\n{mark}").as_bytes()).ok_or_else(broken)?;
            form.take(&part[..end]).ok_or_else(broken)?;
            rest = &part[end + 2 + mark.len()..];
        }
        Ok(form)
    }

    fn take(&mut self, part: &[u8]) -> Option<()> {
        let split = find(part, b"\r\n\r\n")?;
        let (head, content) = (String::from_utf8_lossy(&part[..split]), &part[split + 4..]);
        let disposition = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
        let name = parameter(disposition, "name")?;
        match parameter(disposition, "filename") {
            Some(_) => self.file = Some(content.to_vec()),
            None => self.texts.push((name, String::from_utf8_lossy(content).into_owned())),
        }
        Some(())
    }
}

fn boundary(content_type: &str) -> Option<String> {
    content_type.to_ascii_lowercase().starts_with("multipart/form-data").then(|| parameter(content_type, "boundary"))?
}

/// A parameter of a header, quoted or not.
fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').skip(1).find_map(|item| {
        let (key, value) = item.trim().split_once('=')?;
        (key == name).then(|| value.trim_matches('"').to_owned())
    })
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_the_file_are_separated() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRI\r\nFF\r\n\
            --x\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n";
        let form = Form::parse(Some("multipart/form-data; boundary=x"), body).unwrap();
        assert_eq!(form.file.as_deref(), Some(&b"RI\r\nFF"[..]));
        assert_eq!(form.texts, [("model".to_owned(), "m".to_owned())]);
    }

    #[test]
    fn invalid_forms_are_refused() {
        assert!(Form::parse(Some("application/json"), b"{}").is_err());
        assert!(Form::parse(Some("multipart/form-data; boundary=x"), b"--x\r\nname").is_err());
        assert!(Form::parse(None, b"").is_err());
    }
}
