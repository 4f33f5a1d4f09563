//! Flags of `tacho serve` for audio.

use std::time::Duration;

use tacho_args::declare::*;

use crate::args::shared::tags::{NEEDS_SERVER, SAVED, SAVED_DEFAULT};

pub(super) static MEDIA: Group =
    group("audio options", "tacho options", "Speech: its format, its speed and its playback.").tagged(NEEDS_SERVER);

flags! {
    MediaArgs {
        FLAGS [
            pcm_sample_rate: i64 = tacho(&["--pcm-sample-rate"], Int, "HZ", DefaultValue::Int(24_000), &MEDIA,
                "Sample rate of audio with a response_format of pcm, which has no header. WAV files state their own.").between(1.0, 1e9).tagged(SAVED_DEFAULT);
            pcm_channels: i64 = tacho(&["--pcm-channels"], Int, "N", DefaultValue::Int(1), &MEDIA,
                "Channels of audio with a response_format of pcm. Samples have 16 bits.").between(1.0, 64.0).tagged(SAVED_DEFAULT);
            playback_buffer: Duration = tacho(&["--playback-buffer"], Seconds, "SEC", DefaultValue::Float(0.0), &MEDIA,
                "Seconds from the first audio of a response to the start of its playback. Audio that arrives later than it is played is \
                 an underrun.");
            audio_speed: f64 = tacho(&["--audio-speed"], Float, "FACTOR", DefaultValue::Float(1.0), &MEDIA,
                "Speed at which openai-realtime sends audio. 1 is real time, as a microphone records it; inf sends it at once.").between(0.001, f64::INFINITY).tagged(SAVED);
            omni: bool = switch(&["--omni"], &MEDIA,
                "Accepted for commands of vLLM-Omni, where it enables the backends for speech and images. Here they always are.");
        ]
    }
}
