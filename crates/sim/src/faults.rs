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
    /// Every route answers 503 for this long after the start.
    pub start_delay: Duration,
    pub seed: u64,
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
    pub(crate) fn place(self) -> Option<f64> {
        match self {
            Fault::StreamError(place) | Fault::Disconnect(place) | Fault::Truncate(place) | Fault::Stall(place, _) => {
                Some(place)
            }
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
        let place = generator.random();
        let mut is_hit = |rate: f64| generator.random() < rate;
        let kinds = [
            (is_hit(self.error_rate), Fault::Error),
            (is_hit(self.stream_error_rate), Fault::StreamError(place)),
            (is_hit(self.disconnect_rate), Fault::Disconnect(place)),
            (is_hit(self.truncate_rate), Fault::Truncate(place)),
            self.stall.map_or((false, Fault::None), |(rate, pause)| (is_hit(rate), Fault::Stall(place, pause))),
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
    fn rates_outside_zero_to_one_are_refused() {
        assert!(FaultSpec { disconnect_rate: 1.5, ..FaultSpec::default() }.validate().is_err());
        assert!(FaultSpec { error_rate: f64::NAN, ..FaultSpec::default() }.validate().is_err());
        assert!(FaultSpec::default().validate().is_ok());
    }
}
