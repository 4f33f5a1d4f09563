//! Rows to write: arbitrary ones from proptest, and plausible ones.

use std::path::Path;

use proptest::prelude::*;
use proptest::{collection::vec, option::of};
use tacho_core::json::Value;
use tacho_core::{
    Drafts, FailureKind, Judged, Labels, Media, Observation, Outcome, OutputCheck, ServerTimes, Timestamp,
    TokenCountSource, Usage, dict,
};
use tacho_rowlog::{Log, Manifest, Origin, RequestInfo, Row, Stored, this_host};

pub(crate) const ORIGIN: Origin = Origin { timestamp: Timestamp(5_000_000), unix_ns: 1_800_000_000_000_000_000 };

pub(crate) fn manifest() -> Manifest {
    Manifest {
        tacho: "0.1.0".into(),
        command: vec!["serve".into(), "--seed".into(), "7".into()],
        seed: Some(7),
        workload: Some("sha256:00ff".into()),
        requests: Some(10),
        host: this_host(),
        clock: "CLOCK_MONOTONIC".into(),
        more: Value::from("what\u{e9}ver"),
    }
}

/// Any row: every field with any value of its type, and timestamps within the longest supported run.
pub(crate) fn any_row() -> impl Strategy<Value = Row> {
    let timestamp = || (0..31 * 24 * 3600 * 1_000_000_000u64).prop_map(|nanos| Timestamp(ORIGIN.timestamp.0 + nanos));
    let outcome = (any::<Option<(u8, u16)>>(), ".{0,20}").prop_map(|(kind, message)| match kind {
        None => Outcome::Complete,
        Some((kind, status)) => Outcome::failed(failure(kind, status), message),
    });
    let moments =
        (timestamp(), timestamp(), timestamp(), timestamp(), of(timestamp()), of(timestamp()), of(timestamp()));
    let lists =
        (vec(timestamp(), 0..20), vec(any::<u32>(), 0..20), vec(any::<(u32, u32)>(), 0..20), any::<Option<bool>>());
    let counts = (0..usize::MAX >> 1, any::<u64>(), any::<Option<u64>>(), any::<u32>(), any::<u32>());
    let said = (outcome, vec(any::<u8>(), 0..30), any::<Option<u64>>(), any::<Option<u64>>());
    let request = (any::<u64>(), any::<i64>(), any::<u64>(), any::<f64>(), of(".{0,9}"), of(".{0,9}"));
    (moments, lists, counts, said, request.prop_map(request_of)).prop_map(|(moments, lists, counts, said, request)| {
        let (scheduled, dispatched, sent, done, first_byte, first_content, first_answer) = moments;
        let (chunks, text_ends, token_counts, source) = lists;
        let (index, connect_ns, reasoning_tokens, retries, coalesced) = counts;
        let (outcome, text, prompt_tokens, completion_tokens) = said;
        let token_count_source =
            source.map(|usage| if usage { TokenCountSource::Usage } else { TokenCountSource::Logprobs });
        let drafts = reasoning_tokens.map(|tokens| Drafts {
            steps: (index % 2 == 1).then_some(retries),
            tokens: tokens as u32,
            accepted: coalesced,
        });
        let times = ServerTimes {
            queue: ServerTimes::micros(coalesced.into()),
            prefill: prompt_tokens.and_then(|tokens| ServerTimes::micros(tokens as f64)),
            decode: completion_tokens.and_then(|tokens| ServerTimes::micros(tokens as f64)),
        };
        let usage = Usage { prompt_tokens, completion_tokens, cached_tokens: prompt_tokens, drafts };
        let media = match retries % 4 {
            0 => None,
            1 => Some(Media::Images(coalesced)),
            2 => Some(Media::UnknownAudio),
            _ => Some(Media::Audio { rate: coalesced | 1, frame_bytes: coalesced as u16 | 1 }),
        };
        let check = (index % 3 == 1).then(|| OutputCheck {
            reference: retries,
            first_difference: completion_tokens.map(|tokens| tokens as u32),
            edits: coalesced,
            alone_differs: [None, Some(true), Some(false)][index % 7 % 3],
            belongs_to: prompt_tokens.map(|tokens| tokens as u32),
            flaws: coalesced % 16,
            first_token: reasoning_tokens.map(|tokens| tokens as u32),
            mean_kl: prompt_tokens.map(|tokens| tokens as f64 / 3e9),
            max_kl: completion_tokens.map(|tokens| tokens as f64 / 7e9),
            expected: request.lora.clone().unwrap_or_default(),
        });
        let scores = (index % 5 == 1).then(|| dict! { "exact": connect_ns as i64, "f1": 0.25 }.into());
        let has_both = check.is_some() || scores.is_some();
        let judged = has_both.then(|| Box::new(Judged { check, scores, ..Judged::default() }));
        let observation = Observation {
            judged,
            impossible_usage: index % 2 == 1,
            times,
            media,
            sent,
            done,
            input_end: first_byte,
            first_byte,
            first_content,
            first_answer,
            chunks,
            text_ends,
            token_counts,
            token_count_source,
            connect_ns,
            reasoning_tokens,
            retries,
            coalesced,
            outcome,
            text,
            usage,
            // A log holds the labels of both.
            labels: request.labels.clone(),
            ..Observation::dispatched(index, scheduled, dispatched)
        };
        Row { request, observation }
    })
}

type AskedParts = (u64, i64, u64, f64, Option<String>, Option<String>);

fn request_of((prompt_len, output_len, input_sequences, audio_seconds, lora, request_id): AskedParts) -> RequestInfo {
    // A NaN is not equal to itself.
    let audio_seconds = if audio_seconds.is_nan() { 0.5 } else { audio_seconds };
    let labels = lora.as_deref().map_or(Labels::NONE, |name| Labels::NONE.with("class", name));
    RequestInfo { prompt_len, output_len, input_sequences, audio_seconds, lora, request_id, labels }
}

fn failure(kind: u8, status: u16) -> FailureKind {
    use FailureKind::*;
    let kinds = [
        Connect,
        ConnectionLost,
        Http(status),
        TimedOut,
        Truncated,
        ErrorInStream,
        Empty,
        Malformed,
        Aborted,
        Cancelled,
    ];
    kinds[kind as usize % kinds.len()]
}

/// A row of a run with a token about every ten milliseconds.
pub(crate) fn plausible(index: usize, tokens: usize) -> Row {
    // Any noise is good enough; this is a linear congruential generator.
    let mut state = index as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut noise = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let scheduled = Timestamp(6_000_000 + index as u64 * 1_000_000);
    let sent = Timestamp(scheduled.0 + noise(90_000));
    let mut now = sent.0 + 50_000_000 + noise(5_000_000);
    let chunks: Vec<Timestamp> = (0..tokens)
        .map(|_| {
            now += 9_000_000 + noise(2_000_000);
            Timestamp(now)
        })
        .collect();
    let observation = Observation {
        sent,
        first_byte: chunks.first().map(|first| Timestamp(first.0 - 4_000)),
        first_content: chunks.first().copied(),
        chunks,
        done: Timestamp(now + noise(300_000)),
        usage: Usage { prompt_tokens: Some(512), completion_tokens: Some(tokens as u64), ..Usage::default() },
        ..Observation::dispatched(index, scheduled, sent)
    };
    let request =
        RequestInfo { prompt_len: 512, output_len: tokens as i64, input_sequences: 1, ..RequestInfo::default() };
    Row { request, observation }
}

/// A row as a run logs it: with its ID, and its times rounded.
pub(crate) fn measured(index: usize, tokens: usize) -> Row {
    let mut row = plausible(index, tokens);
    row.request.request_id = Some(format!("bench-0c57608e-{index}"));
    row.observation.round(ORIGIN.timestamp);
    row
}

pub(crate) fn parts(rows: &[Row]) -> impl Iterator<Item = (&RequestInfo, &Observation)> {
    rows.iter().map(|row| (&row.request, &row.observation))
}

/// A log of one segment with these batches, not finished.
pub(crate) fn log(directory: &Path, batches: &[Vec<Row>]) -> Log {
    let mut log = Log::create(directory, &manifest()).unwrap();
    log.begin(ORIGIN).unwrap();
    batches.iter().for_each(|batch| log.append(parts(batch)).unwrap());
    log
}

pub(crate) fn read(directory: &Path) -> Vec<Row> {
    let stored = Stored::open(directory).unwrap();
    let batches = stored.segments().iter().flat_map(|segment| segment.batches().unwrap());
    batches.flat_map(Result::unwrap).collect()
}
