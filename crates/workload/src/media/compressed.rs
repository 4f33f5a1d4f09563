//! Ogg Vorbis and MP3. The decoders are not libsndfile's, so samples can differ in their last bits.

use std::io::Cursor;

use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

use super::pcm::Audio;
use crate::limits::MAX_SAMPLES;

/// Decodes an audio file; `None` if the format is unknown or the file is broken.
pub(super) fn decode(file: &[u8]) -> Option<Audio> {
    // The library searches for a start anywhere in the file and prints its own warning if there is none.
    if !matches!(file, [b'O', b'g', b'g', b'S', ..] | [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..]) {
        return None;
    }
    let source = MediaSourceStream::new(Box::new(Cursor::new(file.to_vec())), Default::default());
    let probe = symphonia::default::get_probe();
    let mut format = probe.probe(&Hint::new(), source, FormatOptions::default(), MetadataOptions::default()).ok()?;
    let track = format.default_track(TrackType::Audio)?;
    let (id, parameters) = (track.id, track.codec_params.as_ref()?.audio()?.clone());
    let mut decoder =
        symphonia::default::get_codecs().make_audio_decoder(&parameters, &AudioDecoderOptions::default()).ok()?;
    let mut audio = Audio { samples: Vec::new(), channels: 0, rate: parameters.sample_rate? };
    let mut block: Vec<f32> = Vec::new();
    while let Some(packet) = format.next_packet().ok()? {
        if packet.track_id != id {
            continue;
        }
        match decoder.decode(&packet) {
            Ok(decoded) => {
                audio.channels = decoded.spec().channels().count();
                decoded.copy_to_vec_interleaved(&mut block);
                audio.samples.extend(block.iter().map(|&sample| f64::from(sample)));
                if audio.samples.len() > MAX_SAMPLES {
                    return None;
                }
            }
            // An invalid frame is skipped, as players do.
            Err(Error::DecodeError(_)) => {}
            Err(_) => return None,
        }
    }
    (audio.channels > 0).then_some(audio)
}
