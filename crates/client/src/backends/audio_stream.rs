//! Responses of generated audio, as bytes or in events.

use std::ops::Range;

use tacho_core::{AudioFormat, Failure, FailureKind, Media, Observation, Outcome, Timestamp};

use super::event::{TextField, UsageField, UsageNames, read_text, read_usage};
use super::members::{Members, members, read_word};
use super::row::{error_in_stream, excerpt, malformed};
use super::scan::{Cursor, unescape};
use super::{Flow, sse::Standard, wav::Start};
use crate::base64;

/// Bytes kept of a body that is not audio.
const MAX_EXCERPT: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct AudioDecoder {
    /// The format of audio without a header; `None` if it is unknown.
    pcm: Option<AudioFormat>,
    /// Splits the body into events, if it is a stream of these.
    events: Option<Box<Standard>>,
    /// The content type, if it is not one of audio.
    other_type: Option<String>,
    /// The first bytes, until they show what follows.
    start: Vec<u8>,
    begun: bool,
    received: u32,
    /// Bytes of audio that a header states.
    length: Option<u32>,
    /// The decoded bytes of an event.
    decoded: Vec<u8>,
    closed: bool,
}

impl AudioDecoder {
    pub(super) fn new(pcm: Option<AudioFormat>) -> Self {
        AudioDecoder { pcm, ..AudioDecoder::default() }
    }

    /// Whether the body is bytes without an end marker.
    pub(super) fn is_bytes(&self) -> bool {
        self.events.is_none()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes the content type, which determines how to read the body.
    pub(super) fn head(&mut self, content_type: Option<&str>) {
        let mime = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match mime.as_str() {
            "text/event-stream" => self.events = Some(Box::default()),
            "" | "application/octet-stream" => {}
            audio if audio.starts_with("audio/") || audio == "application/ogg" || audio == "video/mp4" => {}
            _ => self.other_type = Some(mime),
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        if self.other_type.is_some() {
            let available = MAX_EXCERPT.saturating_sub(self.start.len()).min(bytes.len());
            self.start.extend_from_slice(&bytes[..available]);
            return Ok(());
        }
        let Some(mut events) = self.events.take() else { return self.audio(bytes, timestamp, row) };
        let mut failure = None;
        let fed = events.feed(bytes, &mut |data| match self.event(data, timestamp, row) {
            Ok(()) => Flow::Continue,
            Err(found) => {
                failure = Some(found);
                Flow::Stop
            }
        });
        self.events = Some(events);
        match (failure, fed) {
            (Some(failure), _) => Err(failure),
            (None, Err(_)) => Err(malformed("a message is longer than any real one", b"")),
            (None, Ok(_)) => Ok(()),
        }
    }

    fn event(&mut self, data: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        if data == b"[DONE]" {
            self.closed = true;
            return Ok(());
        }
        if data.trim_ascii().is_empty() {
            return Ok(());
        }
        let (event, ..) = Event::read(data).map_err(|_| malformed("an event is not JSON", data))?;
        error_in_stream(event.error, data)?;
        if let Some(usage) = &event.usage {
            usage.note(row);
            // Tokens of audio are not tokens of text.
            row.usage.completion_tokens = None;
        }
        self.closed |= event.is_last;
        let TextField::Text(text) = event.audio else { return Ok(()) };
        let mut decoded = std::mem::take(&mut self.decoded);
        decoded.clear();
        let raw = &data[text.span];
        let read = if text.escaped {
            let mut plain = Vec::with_capacity(raw.len());
            unescape(raw, &mut plain);
            base64::decode(&plain, &mut decoded)
        } else {
            base64::decode(raw, &mut decoded)
        };
        let fed = match read {
            Some(()) => self.audio(&decoded, timestamp, row),
            None => Err(malformed("the audio of an event is not Base64", data)),
        };
        self.decoded = decoded;
        fed
    }

    /// Takes bytes of audio, which may begin with a header.
    fn audio(&mut self, bytes: &[u8], timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        if self.begun {
            self.note(bytes.len(), timestamp, row);
            return Ok(());
        }
        self.start.extend_from_slice(bytes);
        let (format, at) = match Start::of(&self.start) {
            Start::Unknown => return Ok(()),
            Start::Broken => return Err(malformed("the response is a WAV file with a broken header", b"")),
            Start::Other => (self.pcm, 0),
            Start::Wav { format, at, length } => {
                self.length = length;
                (format, at)
            }
        };
        self.begun = true;
        row.media = Some(Media::audio(format));
        let count = self.start.len() - at;
        self.start = Vec::new();
        self.note(count, timestamp, row);
        Ok(())
    }

    /// Counts bytes of audio. Those of one read arrive at the same time and are one event.
    fn note(&mut self, count: usize, timestamp: Timestamp, row: &mut Observation) {
        let left = self.length.map_or(u32::MAX, |length| length) - self.received;
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(left);
        if count == 0 {
            return;
        }
        self.received += count;
        row.first_content.get_or_insert(timestamp);
        match (row.chunks.last(), row.text_ends.last_mut()) {
            (Some(last), Some(end)) if *last == timestamp => *end = self.received,
            _ => {
                row.chunks.push(timestamp);
                row.text_ends.push(self.received);
            }
        }
    }

    /// Takes the last event of a body that ends without an empty line.
    pub(super) fn end(&mut self, timestamp: Timestamp, row: &mut Observation) -> Result<(), Failure> {
        let Some(mut events) = self.events.take() else { return Ok(()) };
        let mut read = Ok(());
        events.finish(&mut |data| read = self.event(data, timestamp, row));
        self.events = Some(events);
        read
    }

    /// The outcome, after the body has ended as framed.
    pub(super) fn finish(&mut self, row: &Observation) -> Outcome {
        if let Some(mime) = &self.other_type {
            let message = format!("the response is {mime}, not audio: {}", excerpt(&self.start));
            return Outcome::failed(FailureKind::Malformed, message);
        }
        if self.received == 0 {
            return Outcome::failed(FailureKind::Empty, "the response has no audio");
        }
        if self.events.is_some() && !self.closed {
            let message = format!("the stream ended without speech.audio.done after {} events", row.chunks.len());
            return Outcome::failed(FailureKind::Truncated, message);
        }
        match self.length {
            Some(length) if self.received < length => {
                let message = format!("the audio has {} of the {length} bytes that its header states", self.received);
                Outcome::failed(FailureKind::Truncated, message)
            }
            _ => Outcome::Complete,
        }
    }
}

members! {
    struct Event {
        audio: TextField = b"audio" | b"delta" => read_text,
        usage: Option<UsageField>,
        error: Option<Range<usize>> = b"error" => Cursor::truthy_span,
        is_last: bool,
    } else |event, cursor| {
        b"type" => event.is_last = read_word(cursor)? == b"speech.audio.done",
        b"usage" => event.usage = read_usage(cursor, UsageNames::Responses)?,
    }
}

#[cfg(test)]
mod tests {
    use super::super::speech::PCM;
    use super::*;

    const MONO: AudioFormat = AudioFormat { rate: 8000, frame_bytes: 2 };

    /// The row and the outcome of a body that arrives in these parts, one per millisecond.
    fn read(pcm: Option<AudioFormat>, content_type: &str, parts: &[&[u8]]) -> (Observation, Outcome) {
        let mut decoder = AudioDecoder::new(pcm);
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        decoder.head(Some(content_type));
        let mut time = Timestamp::ZERO;
        for part in parts {
            time = Timestamp(time.0 + 1_000_000);
            if let Err(failure) = decoder.feed(part, time, &mut row) {
                return (row, Outcome::Failed(failure));
            }
        }
        let ended = decoder.end(time, &mut row);
        let outcome = decoder.finish(&row);
        (row, ended.map_or_else(Outcome::Failed, |()| outcome))
    }

    fn header(length: u32) -> Vec<u8> {
        let mut bytes = b"RIFF____WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data".to_vec();
        bytes.extend(length.to_le_bytes());
        bytes
    }

    fn milliseconds(row: &Observation) -> Vec<u64> {
        row.chunks.iter().map(|time| time.0 / 1_000_000).collect()
    }

    #[test]
    fn the_first_audio_of_a_wav_file_comes_after_its_header() {
        let head = header(u32::MAX);
        let (row, outcome) = read(None, "audio/wav", &[&head[..10], &head[10..], b"abcd", b"ef"]);
        assert_eq!((outcome, row.media), (Outcome::Complete, Some(Media::audio(Some(MONO)))));
        assert_eq!((milliseconds(&row), row.text_ends), (vec![3, 4], vec![4, 6]));
        let together = [&head[..], b"abcd"].concat();
        let (row, _) = read(None, "", &[&together]);
        assert_eq!((milliseconds(&row), row.text_ends), (vec![1], vec![4]));
    }

    #[test]
    fn bytes_without_a_header_are_pcm_where_that_was_requested() {
        let (row, outcome) = read(Some(PCM), "audio/pcm", &[b"ab", b"cdef"]);
        assert_eq!((outcome, row.media), (Outcome::Complete, Some(Media::audio(Some(PCM)))));
        assert_eq!(row.text_ends, [2, 6]);
        let (row, outcome) = read(None, "audio/mpeg", &[b"\xff\xfb..", b".."]);
        assert_eq!((outcome, row.media), (Outcome::Complete, Some(Media::UnknownAudio)));
        assert_eq!(row.text_ends, [4, 6]);
    }

    #[test]
    fn events_carry_audio_in_base64() {
        let first = b"data: {\"type\": \"speech.audio.delta\", \"audio\": \"AAECAw==\"}\n\n";
        let last =
            b"data: {\"type\": \"speech.audio.done\", \"usage\": {\"input_tokens\": 7, \"output_tokens\": 9}}\n\n";
        let (row, outcome) = read(Some(PCM), "text/event-stream", &[&first[..20], &first[20..], first, last]);
        assert_eq!((outcome, milliseconds(&row), row.text_ends), (Outcome::Complete, vec![2, 3], vec![4, 8]));
        assert_eq!((row.usage.prompt_tokens, row.usage.completion_tokens), (Some(7), None));
        let kind =
            |parts: &[&[u8]]| read(Some(PCM), "text/event-stream", parts).1.failure().map(|failure| failure.kind);
        assert_eq!(kind(&[first]), Some(FailureKind::Truncated));
        assert_eq!(kind(&[last]), Some(FailureKind::Empty));
        assert_eq!(kind(&[first, b"data: {\"error\": {\"message\": \"m\"}}\n\n"]), Some(FailureKind::ErrorInStream));
        assert_eq!(kind(&[b"data: {\"audio\": \"*\"}\n\n"]), Some(FailureKind::Malformed));
    }

    #[test]
    fn responses_without_audio_or_with_less_than_stated_fail() {
        let kind = |content_type: &str, parts: &[&[u8]]| {
            let failure = read(Some(PCM), content_type, parts).1.failure().cloned();
            failure.map(|failure| (failure.kind, failure.message))
        };
        assert_eq!(kind("audio/wav", &[&header(8), b"abcd"]).unwrap().0, FailureKind::Truncated);
        assert_eq!(kind("audio/wav", &[&header(4), b"abcdLIST"]), None);
        assert_eq!(kind("audio/pcm", &[]).unwrap().0, FailureKind::Empty);
        let (kind, message) = kind("application/json", &[b"{\"detail\":", b" \"no voice\"}"]).unwrap();
        assert_eq!(kind, FailureKind::Malformed);
        assert_eq!(message, "the response is application/json, not audio: {\"detail\": \"no voice\"}");
    }

    #[test]
    fn bytes_of_one_read_are_one_event() {
        let mut decoder = AudioDecoder::new(Some(PCM));
        let mut row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
        for (part, time) in [(&b"abcd"[..], 5), (b"ef", 5), (b"gh", 9)] {
            decoder.feed(part, Timestamp(time), &mut row).unwrap();
        }
        assert_eq!((row.chunks, row.text_ends), (vec![Timestamp(5), Timestamp(9)], vec![6, 8]));
    }
}
