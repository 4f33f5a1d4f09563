//! `/v1/images/generations` and `/v1/images/edits`: the bodies. Responses are read whole.

use tacho_core::Request;
use tacho_core::json::{Dict, Value, python_str};

use super::{PayloadSpec, form::Form};
use crate::base64;

pub(super) fn body(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(tacho_core::dict! {
        "model": payload.model_for(request),
        "prompt": request.content.as_text().ok_or("its prompt is not a text")?,
        "n": 1_u64,
        "size": "1024x1024",
    })
}

/// The form of an edit: the request's images and these fields.
pub(super) fn form(fields: &Dict, request: &Request) -> Result<Vec<u8>, &'static str> {
    let parts = match &request.media {
        Some(Value::List(parts)) => parts.as_slice(),
        Some(part @ Value::Dict(_)) => std::slice::from_ref(part),
        _ => &[],
    };
    let urls: Vec<&str> = parts.iter().filter_map(|part| part.get("image_url")?.text("url")).collect();
    if urls.is_empty() {
        return Err("it has no image");
    }
    let name = if urls.len() == 1 { "image" } else { "image[]" };
    let mut form = Form::default();
    for url in urls {
        let (mime, bytes) = file(url).ok_or("its image is not a data URL")?;
        let extension = mime.strip_prefix("image/").unwrap_or("png");
        form.file(name, &format!("image.{extension}"), mime, &bytes);
    }
    for (name, value) in fields.iter() {
        form.text(name, &python_str(value));
    }
    Ok(form.finish())
}

/// The type and the content of a data URL.
fn file(url: &str) -> Option<(&str, Vec<u8>)> {
    let (mime, text) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let mut bytes = Vec::new();
    base64::decode(text.as_bytes(), &mut bytes)?;
    Some((mime, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::parse;

    fn edit(media: &str) -> Result<String, &'static str> {
        let request = Request { media: parse(media).ok(), ..Request::text("a cat", 2, 1) };
        let payload = PayloadSpec { model: "m".into(), ..PayloadSpec::default() };
        form(&body(&payload, &request)?, &request).map(|form| String::from_utf8_lossy(&form).into_owned())
    }

    #[test]
    fn an_edit_is_a_form_with_the_images_of_the_request() {
        let image = r#"{"type": "image_url", "image_url": {"url": "data:image/png;base64,eHl6"}}"#;
        let one = edit(&format!("[{image}]")).unwrap();
        assert!(one.contains("name=\"image\"; filename=\"image.png\"\r\n\r\nxyz\r\n"), "{one}");
        assert!(one.contains("name=\"prompt\"\r\n\r\na cat\r\n") && one.contains("name=\"n\"\r\n\r\n1\r\n"), "{one}");
        assert_eq!(edit(&format!("[{image}, {image}]")).unwrap().matches("name=\"image[]\"").count(), 2);
        assert_eq!(edit("[]"), Err("it has no image"));
        let elsewhere = r#"{"image_url": {"url": "http://example.com/a.png"}}"#;
        assert_eq!(edit(elsewhere), Err("its image is not a data URL"));
    }
}
