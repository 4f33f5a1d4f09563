//! `/v1/audio/transcriptions` and `/v1/audio/translations`: a form with an audio file.

use std::{borrow::Cow, path::Path};

use tacho_core::Request;
use tacho_core::json::{Dict, Value, python_str};

use super::audio_file::{AudioFile, file_seconds};
use super::{PayloadSpec, form::Form};

/// Content types by file extension, as in Python's `mimetypes`.
const TYPES: [(&str, &str); 32] = [
    ("3g2", "audio/3gpp2"),
    ("3gp", "audio/3gpp"),
    ("3gpp", "audio/3gpp"),
    ("aac", "audio/aac"),
    ("adts", "audio/aac"),
    ("aif", "audio/x-aiff"),
    ("aifc", "audio/x-aiff"),
    ("aiff", "audio/x-aiff"),
    ("amr", "audio/AMR"),
    ("au", "audio/basic"),
    ("avi", "video/x-msvideo"),
    ("awb", "audio/AMR-WB"),
    ("flac", "audio/flac"),
    ("m4a", "audio/mp4"),
    ("mid", "audio/sp-midi"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp2", "audio/mpeg"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("mpga", "audio/mpeg"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("ra", "audio/x-pn-realaudio"),
    ("snd", "audio/basic"),
    ("spx", "audio/ogg"),
    ("wav", "audio/x-wav"),
    ("webm", "video/webm"),
    ("wma", "audio/x-ms-wma"),
];

/// The form fields, before the fields that all backends share.
pub(super) fn fields(payload: &PayloadSpec, request: &Request) -> Result<Dict, &'static str> {
    Ok(tacho_core::dict! {
        "model": payload.model_for(request),
        "max_completion_tokens": request.output_len,
        "stream": true,
        "language": "en",
        "stream_include_usage": true,
        "stream_continuous_usage_stats": true,
    })
}

/// The form with these fields and the request's audio file.
pub(super) fn body(fields: &Dict, request: &Request) -> Result<Vec<u8>, &'static str> {
    let mut form = Form::default();
    match clip(request)? {
        Clip::Samples(sound) => form.file("file", "audio.wav", "audio/wav", &sound.to_wav()),
        Clip::File { path, bytes } => {
            let name = path.file_name().map_or(Cow::Borrowed(""), |name| name.to_string_lossy());
            form.file("file", &name, content_type(path), &bytes);
        }
    }
    for (name, value) in fields.iter() {
        form.text(name, &python_str(value));
    }
    Ok(form.finish())
}

pub(super) fn seconds(request: &Request) -> Result<f64, &'static str> {
    match clip(request)? {
        Clip::Samples(sound) => Ok(sound.seconds()),
        Clip::File { bytes, .. } => file_seconds(&bytes).ok_or("its audio file is of no known kind"),
    }
}

pub(super) fn samples(request: &Request, rate: u32) -> Result<Vec<i16>, &'static str> {
    let file = match clip(request)? {
        Clip::Samples(sound) => sound,
        Clip::File { bytes, .. } => AudioFile::from_wav(&bytes)
            .ok_or("its audio file is not a WAV file of PCM: convert it, such as with ffmpeg -i a.mp3 a.wav")?,
    };
    Ok(file.mono(rate))
}

enum Clip<'r> {
    Samples(AudioFile),
    File { path: &'r Path, bytes: Vec<u8> },
}

fn clip(request: &Request) -> Result<Clip<'_>, &'static str> {
    let media = request.media.as_ref();
    let member = |key| media.and_then(|media| media.get(key));
    if let Some(audio) = member("audio") {
        let dtype = member("dtype").and_then(Value::as_str);
        return AudioFile::from_json(audio, dtype)
            .map(Clip::Samples)
            .ok_or("its audio is not a list of samples and a rate");
    }
    let path = member("audio_path").and_then(Value::as_str);
    let path = Path::new(path.ok_or("its media is not an object with audio or audio_path")?);
    let bytes = tacho_core::files::read_data(path).map_err(|_| "its audio file cannot be read")?;
    Ok(Clip::File { path, bytes })
}

fn content_type(path: &Path) -> &'static str {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let known = TYPES.iter().find(|(name, _)| extension.as_deref() == Some(name));
    known.map_or("application/octet-stream", |(_, content_type)| content_type)
}
