//! Load that changes in stages: a rate that follows a curve, or a concurrency limit, each for a time.
//!
//! The arrivals of a rate stage are a gamma process in operational time: gamma gaps with mean 1 are mapped through the
//! inverse of the integrated rate. As in vLLM's constant rate, the number of requests is fixed, and the gaps are scaled
//! to it.

mod curve;

use std::sync::Arc;

use tacho_core::StageSpan;
use tacho_core::bounded::{RequestCount, ScheduledTime};
use tacho_pyrand::randomstate::RandomState;

pub use curve::Curve;

use super::ArrivalProcess;
use crate::Error;

/// Most stages of a run: each is a group of the result.
const MAX_STAGES: usize = 100;
/// The largest concurrency limit: more connections than a machine can open.
const MAX_LIMIT: usize = 1_000_000;

/// A stage of the load.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Its name in results.
    pub name: String,
    /// Its duration.
    pub length: StageLength,
    /// Its load.
    pub load: StageLoad,
    /// Shape of the gamma distribution of the gaps; infinite means even spacing.
    pub burstiness: f64,
}

/// The duration of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StageLength {
    /// In seconds.
    Seconds(f64),
    /// In requests.
    Requests(usize),
}

/// The load of a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum StageLoad {
    /// Requests arrive at this rate (open loop).
    Rate(Curve),
    /// This many requests are in flight (closed loop).
    Concurrency(usize),
}

impl std::fmt::Display for StageLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StageLoad::Rate(curve) => curve.fmt(f),
            StageLoad::Concurrency(limit) => write!(f, "concurrency {limit}"),
        }
    }
}

/// The stages of a run: all with a rate, or all with a concurrency limit.
///
/// ```
/// use tacho_loadgen::{Curve, ScheduleSpec, Stage, StageLength, StageLoad, Stages};
/// use tacho_pyrand::RandomState;
///
/// let stage = |name: &str, seconds, from, to| Stage {
///     name: name.to_owned(),
///     length: StageLength::Seconds(seconds),
///     load: StageLoad::Rate(Curve::Linear { from, to }),
///     burstiness: 1.0,
/// };
/// let stages = Stages::new(vec![stage("warm", 30.0, 5.0, 5.0), stage("peak", 60.0, 5.0, 40.0)])?;
/// assert_eq!((stages.requests(), stages.seconds()), (150 + 1350, 90.0));
/// let timeline = ScheduleSpec::Stages(stages).plan(1500, &mut RandomState::new(0))?;
/// assert_eq!(timeline.stage_of(150), Some(1));
/// assert!(timeline.scheduled()[150] > 30.0 && timeline.scheduled()[1499] < 90.0);
/// # Ok::<(), tacho_loadgen::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Stages {
    stages: Arc<[Stage]>,
    spans: Arc<[StageSpan]>,
}

impl Stages {
    /// Checks the stages and computes their times. Fails if a stage has no duration or no possible load, or the stages
    /// do not fit together.
    pub fn new(stages: Vec<Stage>) -> Result<Self, Error> {
        let (mut spans, mut start) = (Vec::with_capacity(stages.len()), 0.0);
        for stage in &stages {
            let span = stage
                .span(start)
                .and_then(bounded)
                .map_err(|problem| Error::Stage { name: stage.name.clone(), problem })?;
            start = span.end;
            spans.push(span);
        }
        let twice = |at: &usize| spans[..*at].iter().any(|span| span.name == spans[*at].name);
        if let Some(at) = (1..spans.len()).find(twice) {
            let (name, problem) = (spans[at].name.clone(), "another stage has the same name");
            return Err(Error::Stage { name, problem });
        }
        let stages = Stages { stages: stages.into(), spans: spans.into() };
        stages.together().map_or(Ok(stages.clone()), |problem| Err(Error::Stages { problem }))
    }

    /// Why the stages do not fit together.
    fn together(&self) -> Option<&'static str> {
        let closed = self.spans.iter().filter(|span| span.limit.is_some()).count();
        if self.spans.is_empty() {
            Some("no stage is given")
        } else if self.spans.len() > MAX_STAGES {
            Some("there are more than 100 stages")
        } else if closed != 0 && closed != self.spans.len() {
            Some("some stages have a rate and some a concurrency limit: use one kind of load for all stages")
        } else if closed == 0 && self.requests() == 0 {
            Some("no stage sends a request")
        } else {
            None
        }
    }

    /// Number of scheduled requests; zero in a closed loop.
    pub fn requests(&self) -> usize {
        self.spans.iter().map(|span| span.requests).sum()
    }

    /// Total duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.spans.last().map_or(0.0, |span| span.end)
    }

    /// The stages on the time axis.
    pub fn spans(&self) -> &[StageSpan] {
        &self.spans
    }

    /// The largest concurrency limit; `None` in an open loop.
    pub fn max_limit(&self) -> Option<usize> {
        self.spans.iter().filter_map(|span| span.limit).max()
    }

    /// The arrival process as reports state it: the mean rate of an open loop, and its burstiness if it is the same in
    /// all stages.
    pub(super) fn arrivals(&self) -> ArrivalProcess {
        if self.max_limit().is_some() {
            return ArrivalProcess::ALL_AT_ONCE;
        }
        let first = self.stages[0].burstiness;
        let same = self.stages.iter().all(|stage| stage.burstiness == first);
        let rate = self.requests() as f64 / self.seconds();
        ArrivalProcess { rate, burstiness: if same { first } else { 1.0 }, ..ArrivalProcess::ALL_AT_ONCE }
    }

    pub(super) fn shared_spans(&self) -> Arc<[StageSpan]> {
        self.spans.clone()
    }

    /// Scheduled times and stage of each request. In a closed loop all `count` requests are eligible at once.
    pub(super) fn plan(&self, count: usize, np: &mut RandomState) -> Result<(Vec<f64>, Vec<u16>), Error> {
        if self.max_limit().is_some() {
            return Ok((vec![0.0; count], Vec::new()));
        }
        let needed = self.requests();
        if count != needed {
            return Err(Error::StageRequests { needed, found: count });
        }
        let (mut times, mut indices) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (index, (stage, span)) in self.stages.iter().zip(self.spans.iter()).enumerate() {
            stage.arrivals(span, np, &mut times);
            indices.resize(times.len(), index as u16);
        }
        Ok((times, indices))
    }
}

/// The span, if it is not too large.
fn bounded(span: StageSpan) -> Result<StageSpan, &'static str> {
    if !ScheduledTime::holds(span.end) {
        Err("it ends after more than ten years")
    } else if !RequestCount::holds(span.requests) {
        Err("it sends more than 100,000,000 requests")
    } else if span.limit.is_some_and(|limit| limit > MAX_LIMIT) {
        Err("its concurrency limit is above 1,000,000")
    } else {
        Ok(span)
    }
}

impl Stage {
    /// The stage from `start` on, or what is wrong with it.
    fn span(&self, start: f64) -> Result<StageSpan, &'static str> {
        if self.name.is_empty() {
            return Err("it has no name");
        }
        if self.burstiness.is_nan() || self.burstiness <= 0.0 {
            return Err("its burstiness is not above 0");
        }
        let (name, load) = (self.name.clone(), self.load.to_string());
        match (&self.load, self.length) {
            (_, StageLength::Seconds(seconds)) if !(seconds > 0.0 && seconds.is_finite()) => {
                Err("its duration is not above 0 s")
            }
            (_, StageLength::Requests(0)) => Err("its number of requests is 0"),
            (StageLoad::Concurrency(0), _) => Err("its concurrency limit is 0"),
            (StageLoad::Concurrency(_), StageLength::Requests(_)) => {
                Err("a concurrency limit needs a duration, such as 60s, not a number of requests")
            }
            (StageLoad::Concurrency(limit), StageLength::Seconds(seconds)) => Ok(StageSpan {
                name,
                start,
                end: start + seconds,
                requests: 0,
                limit: Some(*limit),
                mean_load: *limit as f64,
                load,
            }),
            (StageLoad::Rate(curve), length) => {
                curve.problem().map_or(Ok(()), Err)?;
                let (seconds, requests) = match length {
                    StageLength::Seconds(seconds) => (seconds, curve.integral(seconds, seconds)),
                    StageLength::Requests(count) => (curve.seconds_of(count as f64), count as f64),
                };
                if !seconds.is_finite() {
                    return Err("its rate is 0, so its requests are never sent: give it a duration");
                }
                if requests > 0.0 && requests < 0.5 {
                    return Err("it is too short for one request: lengthen it, raise its rate, or use rate 0");
                }
                let (mean_load, requests) = (requests / seconds, requests.round() as usize);
                Ok(StageSpan { name, start, end: start + seconds, requests, limit: None, mean_load, load })
            }
        }
    }

    /// Appends the scheduled times of the stage. Given their number, the arrivals of a Poisson process are uniform in
    /// operational time: the partial sums of n + 1 exponential gaps, scaled to the whole.
    fn arrivals(&self, span: &StageSpan, np: &mut RandomState, times: &mut Vec<f64>) {
        let StageLoad::Rate(curve) = &self.load else { return };
        let (count, seconds) = (span.requests, span.end - span.start);
        let total = curve.integral(seconds, seconds);
        let mut sum = 0.0;
        let sums: Vec<f64> = if self.burstiness.is_infinite() {
            (0..count).map(|at| (at as f64 + 0.5) / count as f64).collect()
        } else {
            let gap = |_| {
                sum += np.standard_gamma(self.burstiness);
                sum
            };
            (0..count + usize::from(count > 0)).map(gap).collect()
        };
        let whole = if self.burstiness.is_infinite() { 1.0 } else { sum };
        let time = |sum: &f64| span.start + curve.inverse(sum / whole * total, seconds);
        times.extend(sums.iter().take(count).map(time));
    }
}

#[cfg(test)]
mod tests;
