//! Where the milliseconds of each request went, from the outside: the tokens of all streams of a server cluster into engine
//! iterations, a cost model says how long their contents should take, and each request is charged with the iterations it
//! waited for or took part in. Pure functions of samples.

mod iterations;
mod model;
mod requests;

use std::collections::BTreeMap;

use tacho_core::ServerTimes;
use tacho_engine::Machine;
use tacho_metrics::{Attribution, Sample, Samples, replicas::REPLICA};

use crate::fit::{Traced, limits::budget::Held};

use self::iterations::Timeline;
use self::model::{Load, Model};

/// Fewest iterations of a run whose costs can be estimated.
const MIN_ITERATIONS: usize = 50;
const MAX_TOKENS_PER_EVENT: f64 = 1.1;
/// Largest fraction of token events that have no arrival time of their own.
const MAX_COALESCED: f64 = 0.2;
/// Fraction of TTFT by which the first token has to follow an event without content to be distinguished.
const MIN_CONTENT_LAG: f64 = 0.01;
/// Largest part of an iteration in which its tokens arrive.
const MAX_APART: f64 = 0.6;

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ExplainError {
    #[error(
        "no request has the times of its tokens: explain a run of a streaming generation server, from its log (--log) or a result with --save-detailed"
    )]
    NoTokens,
    #[error(
        "an event carries {per_event:.1} tokens on average, so that iterations cannot be separated; restart the server with \
         --stream-interval 1 and without speculative decoding"
    )]
    Bundled { per_event: f64 },
    #[error(
        "{percent:.0}% of the token events were read together with a later one, so that iterations cannot be separated: the client \
         was starved; run it again on a free core"
    )]
    ReadLate { percent: f64 },
    #[error("{found} engine iterations were found, at least {MIN_ITERATIONS} are needed: explain a longer run")]
    TooFew { found: usize },
    #[error(
        "tokens of different streams do not arrive together but over {percent:.0}% of an iteration: several engines behind \
         one address cannot be separated; benchmark one, or pass their addresses as replicas"
    )]
    Apart { percent: f64 },
}

/// What is known about a run apart from its requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownModel<'a> {
    /// Whether the load followed a schedule (open loop).
    pub is_paced: bool,
    /// The server's costs, if they were fitted before; otherwise they are estimated from the run.
    pub machine: Option<&'a Machine>,
    /// Whether the server schedules asynchronously, if it says so; otherwise the run shows it.
    pub async_scheduling: Option<bool>,
}

pub fn explain(samples: &Samples, known: KnownModel<'_>) -> Result<Attribution, ExplainError> {
    let mut replicas: BTreeMap<String, Vec<Stream>> = BTreeMap::new();
    let (mut tokens, mut events, mut coalesced) = (0.0, 0.0, 0.0);
    let (mut lag, mut ttft, mut count) = (0, 0, 0_usize);
    for sample in samples.iter() {
        let Some(stream) = Stream::of(&sample) else { continue };
        if stream.is_attributed {
            tokens += sample.output_len.max(1) as f64;
            events += sample.events() as f64;
            coalesced += f64::from(sample.coalesced);
            (lag, ttft, count) = (lag + stream.content_lag_ns, ttft + stream.ttft_ns, count + 1);
        }
        replicas.entry(sample.labels.get(REPLICA).unwrap_or_default().to_owned()).or_default().push(stream);
    }
    let has_gaps = |stream: &Stream| stream.is_attributed && stream.traced.tokens.len() > 1;
    if !replicas.values().flatten().any(has_gaps) {
        return Err(ExplainError::NoTokens);
    }
    if tokens / events > MAX_TOKENS_PER_EVENT {
        return Err(ExplainError::Bundled { per_event: tokens / events });
    }
    if coalesced > MAX_COALESCED * events {
        return Err(ExplainError::ReadLate { percent: coalesced / events * 100.0 });
    }
    let mut all = Attribution { from_schedule: known.is_paced, ..Attribution::default() };
    for streams in replicas.into_values() {
        let stated = known.machine.map(|machine| machine.engine.async_scheduling).or(known.async_scheduling);
        let (timeline, model) = reconstructed(&streams, known.machine, stated)?;
        all.append(requests::attribute(&timeline, &model, known.is_paced));
    }
    let is_later = lag as f64 > MIN_CONTENT_LAG * ttft as f64;
    all.content_lag = is_later.then(|| lag as f64 / 1e9 / count as f64);
    all.requests.sort_unstable_by_key(|request| request.index);
    Ok(all)
}

/// The iterations of an engine, and their costs; whether it schedules asynchronously is read from them if it is not stated.
fn reconstructed<'a, 'm>(
    streams: &'a [Stream],
    machine: Option<&'m Machine>,
    async_scheduling: Option<bool>,
) -> Result<(Timeline<'a>, Model<'m>), ExplainError> {
    let mut timeline = Timeline::new(streams, async_scheduling.unwrap_or(false));
    let (found, apart) = (timeline.iterations.len(), timeline.apart);
    match () {
        () if found < MIN_ITERATIONS => return Err(ExplainError::TooFew { found }),
        () if apart > MAX_APART => return Err(ExplainError::Apart { percent: apart * 100.0 }),
        () => {}
    }
    let mut model = timeline.price(machine);
    if async_scheduling.is_none() && timeline.seems_async() {
        timeline = Timeline::new(streams, true);
        model = timeline.price(machine);
    }
    Ok((timeline, model))
}

/// The most tokens of an iteration, where prompts fill iterations up to it with their parts, and its bounds.
pub(crate) fn token_limit(traced: &[Traced], async_scheduling: Option<bool>) -> Option<Held> {
    let stream = |(index, traced): (usize, &Traced)| Stream { index, traced: traced.clone(), ..Stream::default() };
    let streams: Vec<Stream> = traced.iter().filter(|one| !one.tokens.is_empty()).enumerate().map(stream).collect();
    let (timeline, _) = reconstructed(&streams, None, async_scheduling).ok()?;
    let limit = Some(timeline.caps[2]).filter(|max| max.is_finite()).map(|max| max.round() as usize)?;
    // A power of two is the usual limit, unless the bounds exclude it.
    let held = timeline.held.filter(|held| held.has(limit as f64) || held.is_close());
    Some(match held {
        Some(held) if held.is_close() => held,
        _ => Held { limit, between: held.map_or((limit, limit), |held| held.between) },
    })
}

/// One response as it arrived.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Send time, prompt tokens and token times in seconds.
    traced: Traced,
    index: usize,
    cached: Option<u64>,
    times: ServerTimes,
    /// From scheduled to dispatched, from dispatched to sent, and connecting, in seconds.
    client: [f64; 3],
    /// From sending to the first token and the last event, in nanoseconds.
    ttft_ns: i64,
    latency_ns: i64,
    /// From the first event to the first token.
    content_lag_ns: i64,
    /// Whether its latencies count; a failed or cancelled one only occupies the engine.
    is_attributed: bool,
    /// Whether its time to the first token has attempts that failed.
    is_retried: bool,
}

impl Stream {
    fn of(sample: &Sample) -> Option<Self> {
        if sample.ttft <= 0.0 || (sample.success() && sample.latency <= 0.0) {
            return None;
        }
        let nanos = |seconds: f64| (seconds * 1e9).round() as i64;
        let gaps = sample.itl.to_vec();
        let (lead, tail) = silent(sample, &gaps);
        let mut at = sample.sent + sample.ttft;
        let later = gaps.iter().map(|gap| {
            at += gap;
            at
        });
        let mut tokens: Vec<f64> = std::iter::once(sample.sent + sample.ttft).chain(later).collect();
        tokens.truncate((tokens.len() - tail).max(lead + 1));
        tokens.drain(..lead);
        let (first_ns, content_lag_ns) =
            (nanos(sample.ttft), gaps[..lead.min(gaps.len())].iter().map(|gap| nanos(*gap)).sum::<i64>());
        Some(Stream {
            traced: Traced { sent: sample.sent, prompt: sample.prompt_len.max(1), tokens },
            index: sample.index,
            cached: sample.cached_tokens,
            times: sample.times,
            client: [sample.dispatched - sample.scheduled, sample.sent - sample.dispatched, sample.connect],
            ttft_ns: first_ns + content_lag_ns,
            content_lag_ns,
            latency_ns: first_ns + gaps.iter().map(|gap| nanos(*gap)).sum::<i64>(),
            is_attributed: sample.success(),
            is_retried: sample.retries > 0,
        })
    }

    /// Its whole prompt.
    fn prefill(&self) -> Load {
        Load::prefill(self.traced.prompt as f64 - self.computed(), self.computed())
    }

    /// Prompt tokens that are not cached.
    fn computed(&self) -> f64 {
        self.traced.prompt.saturating_sub(self.cached.unwrap_or(0)).max(1) as f64
    }
}

/// Events without a token at the start and the end of a stream. Results do not keep which event has the first content:
/// there, an event directly before another is the role of a chat message.
fn silent(sample: &Sample, gaps: &[f64]) -> (usize, usize) {
    if sample.first_content.is_some() || !sample.success() {
        return sample.silent_events();
    }
    let silent = sample.events().saturating_sub(sample.output_len.max(1) as usize);
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let lead = usize::from(silent > 0 && gaps.first().is_some_and(|gap| *gap < 0.05 * mean));
    (lead, (silent - lead).min(gaps.len() - lead.min(gaps.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_metrics::{Gaps, attribution::Part};

    fn sample(index: usize, sent: f64, ttft: f64, gaps: &[f64]) -> Sample {
        Sample {
            index,
            sent,
            scheduled: sent,
            dispatched: sent,
            ttft,
            latency: ttft + gaps.iter().sum::<f64>(),
            itl: Gaps::from(gaps.to_vec()),
            prompt_len: 10,
            output_len: gaps.len() as u64 + 1,
            ..Sample::default()
        }
    }

    #[test]
    fn what_has_no_basis_is_refused() {
        let of = |samples: Vec<Sample>| explain(&samples.into(), KnownModel::default()).unwrap_err();
        assert_eq!(of(vec![sample(0, 0.0, 0.5, &[])]), ExplainError::NoTokens);
        let bundled = Sample { output_len: 8, ..sample(0, 0.0, 0.5, &[0.1; 3]) };
        assert_eq!(of(vec![bundled]), ExplainError::Bundled { per_event: 2.0 });
        let late = Sample { coalesced: 5, ..sample(0, 0.0, 0.5, &[0.1; 9]) };
        assert_eq!(of(vec![late]), ExplainError::ReadLate { percent: 50.0 });
        assert_eq!(of(vec![sample(0, 0.0, 0.5, &[0.1; 9])]), ExplainError::TooFew { found: 10 });
        let apart = |at: usize| sample(at, 0.0, 0.1 + 0.031 * at as f64, &[0.1; 60]);
        let refused = of((0..3).map(apart).collect());
        assert!(matches!(refused, ExplainError::Apart { percent } if (percent - 62.0).abs() < 1.0), "{refused}");
    }

    #[test]
    fn events_without_a_token_are_left_out() {
        let chat = Sample { output_len: 4, ..sample(0, 0.0, 0.5, &[1e-4, 0.1, 0.1, 0.1, 1e-5]) };
        let stream = Stream::of(&chat).unwrap();
        assert_eq!((stream.traced.tokens.len(), stream.latency_ns), (4, 800_110_000));
        assert!((stream.traced.tokens[0] - 0.5001).abs() < 1e-9);
        assert_eq!((stream.ttft_ns, stream.content_lag_ns), (500_100_000, 100_000));
    }

    /// Where every request meets an idle engine, no iteration shows what a prompt costs: the wait for longer ones does.
    #[test]
    fn one_request_at_a_time_shows_its_prefill_by_its_length() {
        // 20 ms to the engine, 30 ms for an iteration, 0.3 ms for a prompt token.
        let request = |at: usize| {
            let prompt = 100 + 40 * (at as u64 % 7);
            Sample { prompt_len: prompt, ..sample(at, at as f64 * 2.0, 0.05 + 3e-4 * prompt as f64, &[0.03; 19]) }
        };
        let found = explain(&(0..14).map(request).collect::<Vec<_>>().into(), KnownModel::default()).unwrap();
        for one in &found.requests {
            let expected = 30e6 + 0.3e6 * one.prompt as f64;
            let off = [(Part::OwnPrefill, expected), (Part::FrontEnd, 20e6)]
                .map(|(part, expected)| (one.ttft[part] as f64 - expected).abs());
            assert!(off.iter().all(|off| *off < 1e6), "{off:?} {one:?}");
        }
    }

    /// Some servers send the role when they accept a request, long before the first token.
    #[test]
    fn a_role_that_comes_early_is_no_token() {
        let of = |early: f64| {
            let request = |at: usize| {
                let start = at as f64 * 2.0;
                let gaps: Vec<f64> = std::iter::once(early).chain([0.1; 19]).collect();
                Sample { first_content: Some(0.2), output_len: 20, ..sample(at, start, 0.2 - early, &gaps) }
            };
            explain(&(0..8).map(request).collect::<Vec<_>>().into(), KnownModel::default()).unwrap()
        };
        let (early, together) = (of(0.19), of(1e-5));
        assert!((early.content_lag.unwrap() - 0.19).abs() < 1e-9 && together.content_lag.is_none());
        for (one, other) in early.requests.iter().zip(&together.requests) {
            assert_eq!((one.ttft.total(), one.e2el.total()), (200_000_000, 2_100_000_000));
            assert_eq!(one.ttft, other.ttft);
        }
    }
}
