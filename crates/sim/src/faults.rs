//! Fault injection: which request fails, and how, is a function of the fault seed and the request's ordinal.

use std::time::Duration;

use tacho_pyrand::{Generator, SeedSequence};

use crate::error::Error;

/// Kinds and rates of injected faults. None by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FaultSpec {
    /// Fraction of requests answered with HTTP 500.
    pub error_rate: f64,
    /// Fraction of streams that end with an error event.
    pub stream_error_rate: f64,
    /// Fraction of requests whose connection is reset, streams in the middle.
    pub disconnect_rate: f64,
    /// Fraction of responses that end cleanly but early: streams before the last token, others in the middle.
    pub truncate_rate: f64,
    /// Fraction of requests that pause once, and the pause.
    pub stall: Option<(f64, Duration)>,
    /// Outputs that are wrong although the request succeeds; the first that applies counts.
    pub outputs: Vec<OutputFault>,
    /// Every route answers 503 for this long after the start.
    pub start_delay: Duration,
    pub seed: u64,
}

tacho_core::named! {
    /// How an output is wrong.
    pub enum Corruption, "a kind of wrong output" {
        /// That of the request whose output began before it, while several are served.
        Swap = "swap",
        /// That of another adapter; only of requests with an adapter.
        Adapter = "adapter",
        /// Other tokens from a random position on.
        Flip = "flip",
        /// That of another prompt; only of requests with a prefix-cache hit.
        Stale = "stale",
        /// The text ends early.
        Cut = "cut",
        /// Other tokens from a position on, both decided by the prompt: repeating the request repeats them.
        Noise = "noise",
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutputFault {
    pub kind: Corruption,
    /// Fraction of the requests that it can affect.
    pub rate: f64,
    /// It occurs only while more requests than this are served.
    pub above: u64,
}

impl OutputFault {
    /// Reads `KIND:RATE` or `KIND:RATE@N`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rate) = text.split_once(':')?;
        let (rate, above) = rate.split_once('@').unwrap_or((rate, "0"));
        let rate = rate.parse().ok().filter(|rate| (0.0..=1.0).contains(rate))?;
        Some(OutputFault { kind: Corruption::from_name(kind)?, rate, above: above.parse().ok()? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    /// HTTP 500 instead of a response.
    Error,
    /// An error event, after this fraction of the first choice's tokens.
    StreamError(f64),
    Disconnect(f64),
    /// A clean but early end, after this fraction of the tokens.
    Truncate(f64),
    Stall(f64, Duration),
}

impl Fault {
    /// The fraction of the response after which it happens, if it happens within the response.
    pub(crate) fn fraction(self) -> Option<f64> {
        match self {
            Fault::StreamError(fraction)
            | Fault::Disconnect(fraction)
            | Fault::Truncate(fraction)
            | Fault::Stall(fraction, _) => Some(fraction),
            Fault::None | Fault::Error => None,
        }
    }

    /// A complete body, or half of it.
    pub(crate) fn cut(self, mut body: Vec<u8>) -> Vec<u8> {
        if let Fault::Truncate(_) = self {
            body.truncate(body.len() / 2);
        }
        body
    }
}

impl FaultSpec {
    pub fn validate(&self) -> Result<(), Error> {
        let rates = [
            ("error_rate", self.error_rate),
            ("stream_error_rate", self.stream_error_rate),
            ("disconnect_rate", self.disconnect_rate),
            ("truncate_rate", self.truncate_rate),
            ("stall rate", self.stall.map_or(0.0, |(rate, _)| rate)),
        ];
        match rates.into_iter().find(|(_, rate)| !(0.0..=1.0).contains(rate)) {
            Some((name, value)) => Err(Error::FaultRate { name, value }),
            None => Ok(()),
        }
    }

    /// The fault of the request with this ordinal. Every kind has its own draw, so that raising one rate keeps the
    /// victims of the others; the first kind that applies counts.
    pub(crate) fn of(&self, ordinal: u64) -> Fault {
        let words = [self.seed as u32, (self.seed >> 32) as u32, ordinal as u32, (ordinal >> 32) as u32];
        let mut generator = Generator::from_sequence(&SeedSequence::from_words(&words));
        let fraction = generator.random();
        let mut is_hit = |rate: f64| generator.random() < rate;
        let kinds = [
            (is_hit(self.error_rate), Fault::Error),
            (is_hit(self.stream_error_rate), Fault::StreamError(fraction)),
            (is_hit(self.disconnect_rate), Fault::Disconnect(fraction)),
            (is_hit(self.truncate_rate), Fault::Truncate(fraction)),
            self.stall.map_or((false, Fault::None), |(rate, pause)| (is_hit(rate), Fault::Stall(fraction, pause))),
        ];
        kinds.into_iter().find_map(|(hit, fault)| hit.then_some(fault)).unwrap_or(Fault::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fails_by_default_and_everything_at_rate_one() {
        assert!((0..1000).all(|ordinal| FaultSpec::default().of(ordinal) == Fault::None));
        let all = FaultSpec { error_rate: 1.0, ..FaultSpec::default() };
        assert!((0..1000).all(|ordinal| all.of(ordinal) == Fault::Error));
    }

    #[test]
    fn rates_are_met_and_the_same_seed_strikes_the_same_requests() {
        let spec = FaultSpec { truncate_rate: 0.25, seed: 5, ..FaultSpec::default() };
        let hit: Vec<u64> = (0..4000).filter(|&ordinal| spec.of(ordinal) != Fault::None).collect();
        assert!((900..1100).contains(&hit.len()), "{}", hit.len());
        assert_eq!(hit, (0..4000).filter(|&at| spec.clone().of(at) != Fault::None).collect::<Vec<_>>());
        let other = FaultSpec { seed: 6, ..spec };
        assert_ne!(hit, (0..4000).filter(|&at| other.of(at) != Fault::None).collect::<Vec<_>>());
    }

    #[test]
    fn output_faults_have_a_kind_a_rate_and_a_load() {
        let fault = |kind, rate, above| Some(OutputFault { kind, rate, above });
        assert_eq!(OutputFault::parse("swap:0.05"), fault(Corruption::Swap, 0.05, 0));
        assert_eq!(OutputFault::parse("flip:1@8"), fault(Corruption::Flip, 1.0, 8));
        for wrong in ["swap", "swap:2", "swop:0.1", "flip:0.1@x", "flip:nan"] {
            assert_eq!(OutputFault::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rates_outside_zero_to_one_are_refused() {
        assert!(FaultSpec { disconnect_rate: 1.5, ..FaultSpec::default() }.validate().is_err());
        assert!(FaultSpec { error_rate: f64::NAN, ..FaultSpec::default() }.validate().is_err());
        assert!(FaultSpec::default().validate().is_ok());
    }
}
