//! Media given by reference: OpenAI content parts from paths and URLs.

use base64::{Engine, engine::general_purpose::STANDARD};
use tacho_core::json::Value;

use crate::sampling::chat::object;

/// Prefixes of references that are sent unchanged.
const URLS: [&str; 3] = ["http://", "https://", "file://"];

/// The content part of an image given as a path or a URL; `None` for anything but a string.
pub(crate) fn image_reference(image: &Value) -> Option<Value> {
    image.as_str().map(|text| image_part(&image_url(text)))
}

/// The URL of an image given as a path or a URL. Paths are not escaped and stay relative.
pub(crate) fn image_url(text: &str) -> String {
    if text.starts_with("data:image/") { text.to_owned() } else { url(text) }
}

/// The content part of a video given as a path or a URL; `None` for anything but a string.
pub(crate) fn video_reference(video: &Value) -> Option<Value> {
    video.as_str().map(|text| video_part(&url(text)))
}

fn url(text: &str) -> String {
    if URLS.iter().any(|scheme| text.starts_with(scheme)) { text.to_owned() } else { format!("file://{text}") }
}

pub(crate) fn image_part(url: &str) -> Value {
    object([("type", Value::from("image_url")), ("image_url", object([("url", Value::from(url))]))])
}

pub(crate) fn video_part(url: &str) -> Value {
    object([("type", Value::from("video_url")), ("video_url", object([("url", Value::from(url))]))])
}

pub(crate) fn data_url(mime: &str, bytes: &[u8]) -> String {
    format!("data:{mime};base64,{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_beginnings_are_urls() {
        assert_eq!(image_url("data:image/png;base64,AA"), "data:image/png;base64,AA");
        assert_eq!(image_url("a b.png"), "file://a b.png");
        assert_eq!(image_url("HTTP://x"), "file://HTTP://x");
        assert_eq!(url("data:video/mp4;base64,AA"), "file://data:video/mp4;base64,AA");
        assert_eq!(image_reference(&Value::Int(3)), None);
    }
}
