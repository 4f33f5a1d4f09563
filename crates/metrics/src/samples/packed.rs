//! A sample as bytes and back.

use tacho_core::FailureKind;
use tacho_core::packed::{
    bytes, float, maybe, number, take_byte, take_bytes, take_float, take_maybe, take_number, take_text,
};

use crate::{Gaps, PerToken, Rare, Rarely, Sample, TokenSource};

/// Appends a sample to `out`.
pub(super) fn pack(out: &mut Vec<u8>, sample: &Sample) {
    let Sample { index, due, released, sent, done, ttft, itl, latency, first_content, first_answer, .. } = sample;
    let Sample { said, retries, connect, coalesced, output_tokens, output_len, prompt_len, .. } = sample;
    let Sample { cached_tokens, num_input_sequences, failure, rare, .. } = sample;
    number(out, *index as u64);
    [due, released, sent, done, ttft, latency, connect].into_iter().for_each(|value| float(out, *value));
    [first_content, first_answer]
        .into_iter()
        .for_each(|value| maybe(out, value.as_ref(), |out, value| float(out, *value)));
    out.push(u8::from(*said));
    [u64::from(*retries), u64::from(*coalesced), *output_len, *prompt_len, *num_input_sequences]
        .into_iter()
        .for_each(|value| number(out, value));
    [output_tokens, cached_tokens]
        .into_iter()
        .for_each(|value| maybe(out, value.as_ref(), |out, value| number(out, *value)));
    bytes(out, itl.as_bytes());
    maybe(out, failure.as_ref(), |out, kind| {
        bytes(out, kind.name().as_bytes());
        number(out, if let FailureKind::Http(status) = kind { u64::from(*status) } else { 0 });
    });
    maybe(out, rare.get(), pack_rare);
}

fn pack_rare(out: &mut Vec<u8>, rare: &Rare) {
    let Rare { session, lora, per_token, reasoning_tokens, input_audio_duration, error, text } = rare;
    maybe(out, session.as_ref(), |out, (session, turn)| {
        number(out, u64::from(*session));
        number(out, u64::from(*turn));
    });
    maybe(out, lora.as_ref(), |out, lora| bytes(out, lora.as_bytes()));
    maybe(out, per_token.as_ref(), |out, per_token| {
        bytes(out, per_token.source.name().as_bytes());
        number(out, per_token.gaps.len() as u64);
        per_token.gaps.iter().for_each(|gap| float(out, *gap));
    });
    maybe(out, reasoning_tokens.as_ref(), |out, tokens| number(out, *tokens));
    float(out, *input_audio_duration);
    bytes(out, error.as_bytes());
    bytes(out, text);
}

/// Takes a sample off the front of `from`; none where that holds none.
pub(super) fn unpack(from: &mut &[u8]) -> Option<Sample> {
    let index = usize::try_from(take_number(from)?).ok()?;
    let (due, released, sent, done) = (take_float(from)?, take_float(from)?, take_float(from)?, take_float(from)?);
    let (ttft, latency, connect) = (take_float(from)?, take_float(from)?, take_float(from)?);
    let (first_content, first_answer) = (take_maybe(from, take_float)?, take_maybe(from, take_float)?);
    let said = take_byte(from)? != 0;
    let (retries, coalesced) = (take_number(from)? as u32, take_number(from)? as u32);
    let (output_len, prompt_len, num_input_sequences) = (take_number(from)?, take_number(from)?, take_number(from)?);
    let (output_tokens, cached_tokens) = (take_maybe(from, take_number)?, take_maybe(from, take_number)?);
    Some(Sample {
        index,
        due,
        released,
        sent,
        done,
        ttft,
        itl: Gaps::from_bytes(take_bytes(from)?),
        latency,
        first_content,
        first_answer,
        said,
        retries,
        connect,
        coalesced,
        output_tokens,
        output_len,
        prompt_len,
        cached_tokens,
        num_input_sequences,
        failure: take_maybe(from, take_failure)?,
        rare: take_maybe(from, take_rare)?.map_or_else(Rarely::default, Rarely::from),
    })
}

fn take_rare(from: &mut &[u8]) -> Option<Rare> {
    Some(Rare {
        session: take_maybe(from, |from| Some((take_number(from)? as u32, take_number(from)? as u32)))?,
        lora: take_maybe(from, take_text)?.map(String::into_boxed_str),
        per_token: take_maybe(from, take_per_token)?,
        reasoning_tokens: take_maybe(from, take_number)?,
        input_audio_duration: take_float(from)?,
        error: take_text(from)?,
        text: take_bytes(from)?.to_vec(),
    })
}

fn take_failure(from: &mut &[u8]) -> Option<FailureKind> {
    let name = take_text(from)?;
    FailureKind::from_name(&name, take_number(from)? as u16)
}

fn take_per_token(from: &mut &[u8]) -> Option<PerToken> {
    let name = take_text(from)?;
    let source = TokenSource::ALL.into_iter().find(|source| source.name() == name)?;
    let gaps = (0..take_number(from)?).map(|_| take_float(from)).collect::<Option<Vec<f64>>>()?;
    Some(PerToken { source, gaps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Sample {
        Sample {
            index: 1 << 40,
            due: -0.0,
            released: 1.0 / 3.0,
            sent: 2.5,
            done: f64::INFINITY,
            ttft: 0.1,
            itl: vec![0.001, 0.25, -1.0].into(),
            latency: f64::MIN_POSITIVE,
            first_content: Some(0.5),
            first_answer: Some(0.0),
            said: true,
            retries: u32::MAX,
            connect: 1e-9,
            coalesced: 128,
            output_tokens: Some(u64::MAX),
            output_len: 300,
            prompt_len: 127,
            cached_tokens: Some(0),
            num_input_sequences: 1,
            failure: Some(FailureKind::Http(503)),
            rare: Rarely::from(Rare {
                session: Some((u32::MAX, 7)),
                lora: Some("ä".into()),
                per_token: Some(PerToken { source: TokenSource::Retokenised, gaps: vec![0.1, 0.2] }),
                reasoning_tokens: Some(5),
                input_audio_duration: 1.5,
                error: "late\n".to_owned(),
                text: vec![0xed, 0xa0, 0x80],
            }),
        }
    }

    #[test]
    fn everything_comes_back() {
        let mut packed = Vec::new();
        let samples = [full(), Sample::default(), Sample { itl: vec![0.012; 4].into(), ..Sample::default() }];
        samples.iter().for_each(|sample| pack(&mut packed, sample));
        let mut from = packed.as_slice();
        for sample in &samples {
            assert_eq!(unpack(&mut from).as_ref(), Some(sample));
        }
        assert!(from.is_empty() && unpack(&mut from).is_none());
        for source in TokenSource::ALL {
            let rare = Rare { per_token: Some(PerToken { source, gaps: Vec::new() }), ..Rare::default() };
            packed.clear();
            pack(&mut packed, &Sample { rare: rare.clone().into(), ..Sample::default() });
            assert_eq!(unpack(&mut packed.as_slice()).unwrap().rare, rare.into());
        }
    }

    #[test]
    fn what_is_cut_off_is_no_sample() {
        let mut packed = Vec::new();
        pack(&mut packed, &full());
        for end in 0..packed.len() {
            assert_eq!(unpack(&mut &packed[..end]), None);
        }
    }
}
