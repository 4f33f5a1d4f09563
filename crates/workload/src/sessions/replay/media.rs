//! Images, audio and videos of a file as content parts of a chat message.

use tacho_core::json::{Dict, Value};

use crate::sampling::chat::object;

/// The fields that contain media, and the content part that each becomes.
const MEDIA: [(&str, &str); 6] = [
    ("image", "image_url"),
    ("images", "image_url"),
    ("audio", "audio_url"),
    ("audios", "audio_url"),
    ("video", "video_url"),
    ("videos", "video_url"),
];

/// The media of a content, in order; the error names the one that cannot be sent.
pub(super) fn parts(content: &Dict) -> Result<Vec<Value>, String> {
    let mut parts = Vec::new();
    for (name, kind) in MEDIA {
        let items = match content.get(name) {
            None => continue,
            Some(Value::List(items)) => items.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        for item in items {
            let unknown = || format!("cannot send its {name}: it is neither a link nor a data URL");
            parts.push(part(kind, item).ok_or_else(unknown)?);
        }
    }
    Ok(parts)
}

fn part(kind: &str, item: &Value) -> Option<Value> {
    let link = item.as_str().or_else(|| item.text("url"));
    let link = link.filter(|link| ["http://", "https://", "data:"].iter().any(|start| link.starts_with(start)))?;
    Some(object([("type", kind.into()), (kind, object([("url", link.into())]))]))
}
