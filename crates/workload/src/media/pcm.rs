//! Audio samples, and their formats in requests.

use base64::{Engine, engine::general_purpose::STANDARD};
use tacho_core::{json::Value, wav};

use crate::sampling::chat::object;

/// Samples as fractions of full scale.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Audio {
    pub(crate) samples: Vec<f64>,
    pub(crate) channels: usize,
    pub(crate) rate: u32,
}

impl Audio {
    pub(crate) fn frames(&self) -> usize {
        self.samples.len() / self.channels.max(1)
    }

    /// Rounds to single precision, as a decoder for 32-bit floats does.
    pub(crate) fn into_single(mut self) -> Audio {
        for sample in &mut self.samples {
            *sample = f64::from(*sample as f32);
        }
        self
    }

    /// The samples and their rate in the request's format: one number per frame, or one list.
    pub(crate) fn to_media(&self) -> Value {
        let frames = if self.channels == 1 {
            self.samples.iter().map(|&sample| Value::Float(sample)).collect()
        } else {
            let frame = |frame: &[f64]| Value::List(frame.iter().map(|&sample| Value::Float(sample)).collect());
            self.samples.chunks_exact(self.channels).map(frame).collect()
        };
        object([("audio", Value::List(vec![Value::List(frames), Value::Int(i64::from(self.rate))]))])
    }

    /// The content part of a chat message.
    pub(crate) fn to_chat_part(&self) -> Value {
        let audio = object([("data", Value::from(STANDARD.encode(self.to_wav()))), ("format", Value::from("wav"))]);
        object([("type", Value::from("input_audio")), ("input_audio", audio)])
    }

    pub(super) fn to_wav(&self) -> Vec<u8> {
        wav::file(self.channels as u16, self.rate, self.samples.iter().map(|&sample| sixteen_bits(sample)))
    }
}

/// Scales as libsndfile does: to 32 bits, rounded to even and clamped, of which the upper half is kept.
pub(super) fn sixteen_bits(share: f64) -> i16 {
    ((share * 2_147_483_648.0).round_ties_even() as i32 >> 16) as i16
}
