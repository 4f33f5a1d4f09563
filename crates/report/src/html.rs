//! Pages for a browser: each one file, with nothing fetched from anywhere.

pub mod run;
pub mod timeline;

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

pub use crate::escape::escape;

const PAGE_STYLE: &str = include_str!("html/page.css");

/// JSON text that cannot end the element it is in.
pub(crate) fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Bytes for a page's script to unpack.
pub(crate) fn packed(bytes: &[u8]) -> io::Result<String> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

/// A page of text, tables and pictures.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{body}</body>\n</html>\n",
        escape(title)
    )
}

/// A page of named pictures.
pub fn picture_page(title: &str, pictures: &[(String, crate::plots::Scene)]) -> String {
    let picture = |(name, scene): &(String, crate::plots::Scene)| {
        format!("<h2>{}</h2>\n{}", escape(name), crate::plots::svg(scene))
    };
    page(title, &pictures.iter().map(picture).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_others_stays_text() {
        assert_eq!(escape("<script>\"a\" & 'b'\u{202e}"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\\u202e");
    }
}
