//! `/v1/images/generations` and `/v1/images/edits`: a prompt in, small images out after a known time.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::app::App;
use crate::server::request::{Fields, Problem};

/// A PNG file of one transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
/// Denoising steps of a request that sets none.
const STEPS: i64 = 20;
const MAX_IMAGES: i64 = 10;

#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) model: Option<String>,
    pub(crate) prompt: String,
    images: u32,
    steps: u32,
    as_url: bool,
}

impl Ask {
    pub(crate) fn read(fields: &Fields) -> Result<Self, Problem> {
        let limited = |name: &str, preset: i64, max: i64| {
            let number = fields.int(name)?.unwrap_or(preset);
            let wrong = || Problem::parameter(name, &format!("expected an integer from 1 to {max}, got {number}"));
            if (1..=max).contains(&number) { Ok(number as u32) } else { Err(wrong()) }
        };
        Ok(Ask {
            model: fields.model()?,
            prompt: fields.required_text("prompt")?,
            images: limited("n", 1, MAX_IMAGES)?,
            steps: limited("num_inference_steps", STEPS, 1000)?,
            as_url: fields.text("response_format")? == Some("url"),
        })
    }

    /// Time to generate the images, one after the other.
    pub(crate) fn takes(&self, step: Duration) -> Duration {
        step * self.steps * self.images
    }

    pub(crate) fn respond(&self, app: &App) -> Value {
        let item = |index: u32| match self.as_url {
            true => json!({"url": format!("http://127.0.0.1/images/{index}.png")}),
            false => json!({"b64_json": PIXEL}),
        };
        json!({"created": app.unix_time(), "data": (0..self.images).map(item).collect::<Vec<_>>()})
    }
}
