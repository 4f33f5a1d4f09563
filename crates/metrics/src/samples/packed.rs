//! Binary encoding of samples.

use tacho_core::packed::{Pack, pack_bytes, unpack_bytes};

use crate::{Audio, Gaps, Media, TokenSource};

impl Pack for Gaps {
    fn pack(&self, out: &mut Vec<u8>) {
        pack_bytes(out, self.as_bytes());
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        unpack_bytes(from).map(Gaps::from_bytes)
    }
}

impl Pack for Media {
    fn pack(&self, out: &mut Vec<u8>) {
        let (audio, images) = match self {
            Media::Audio(audio) => (Some(*audio), 0),
            Media::Images(images) => (None, *images),
        };
        audio.pack(out);
        images.pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let (audio, images) = (Option::<Option<Audio>>::unpack(from)?, u64::unpack(from)?);
        Some(audio.map_or(Media::Images(images), Media::Audio))
    }
}

impl Pack for TokenSource {
    fn pack(&self, out: &mut Vec<u8>) {
        pack_bytes(out, self.name().as_bytes());
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let name = unpack_bytes(from)?;
        TokenSource::ALL.into_iter().find(|source| source.name().as_bytes() == name)
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::{Drafts, FailureKind, Labels, OutputCheck, ServerTimes, json::Value};

    use super::*;
    use crate::{BoxedRareFields, PerToken, RareFields, Sample};

    fn full() -> Sample {
        Sample {
            index: 1 << 40,
            scheduled: -0.0,
            dispatched: 1.0 / 3.0,
            sent: 2.5,
            done: f64::INFINITY,
            ttft: 0.1,
            itl: vec![0.001, 0.25, -1.0].into(),
            latency: f64::MIN_POSITIVE,
            first_content: Some(0.5),
            first_answer: Some(0.0),
            has_text: true,
            retries: u32::MAX,
            connect: 1e-9,
            coalesced: 128,
            output_tokens: Some(u64::MAX),
            output_len: 300,
            prompt_len: 127,
            cached_tokens: Some(0),
            num_input_sequences: 1,
            failure: Some(FailureKind::Http(503)),
            rare: BoxedRareFields::from(RareFields {
                session: Some((u32::MAX, 7)),
                labels: Labels::NONE.with("adapter", "ä"),
                per_token: Some(PerToken { source: TokenSource::Retokenised, gaps: vec![0.1, 0.2] }),
                reasoning_tokens: Some(5),
                drafts: Some(Drafts { steps: None, tokens: 9, accepted: 3 }),
                times: ServerTimes { queue: ServerTimes::micros(7.0), ..ServerTimes::default() },
                input_audio_duration: 1.5,
                input_end: Some(1.75),
                media: Some(Media::Audio(Some(Audio { frames: 9, duration: 0.5, underrun: 0.25, underruns: 1 }))),
                check: Some(OutputCheck {
                    reference: 3,
                    first_difference: Some(9),
                    expected: "é".into(),
                    ..<_>::default()
                }),
                scores: Some(Value::Float(0.5)),
                error: "late\n".to_owned(),
                text: vec![0xed, 0xa0, 0x80],
            }),
        }
    }

    #[test]
    fn everything_comes_back() {
        let mut packed = Vec::new();
        let samples = [full(), Sample::default(), Sample { itl: vec![0.012; 4].into(), ..Sample::default() }];
        samples.iter().for_each(|sample| sample.pack(&mut packed));
        let mut from = packed.as_slice();
        for sample in &samples {
            assert_eq!(Sample::unpack(&mut from).as_ref(), Some(sample));
        }
        assert!(from.is_empty() && Sample::unpack(&mut from).is_none());
        for source in TokenSource::ALL {
            let rare = RareFields { per_token: Some(PerToken { source, gaps: Vec::new() }), ..RareFields::default() };
            packed.clear();
            Sample { rare: rare.clone().into(), ..Sample::default() }.pack(&mut packed);
            assert_eq!(Sample::unpack(&mut packed.as_slice()).unwrap().rare, rare.into());
        }
    }

    #[test]
    fn truncated_bytes_hold_no_sample() {
        let mut packed = Vec::new();
        full().pack(&mut packed);
        for end in 0..packed.len() {
            assert_eq!(Sample::unpack(&mut &packed[..end]), None);
        }
    }
}
