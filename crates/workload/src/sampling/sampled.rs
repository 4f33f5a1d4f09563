//! The result of sampling.

use tacho_core::Request;
use tacho_core::bounded::{ScheduledTime, TokenCount};

use crate::Error;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampled {
    pub requests: Vec<Request>,
    pub notices: Vec<String>,
    /// SHA-256 of the rows of each source that states it, in hexadecimal.
    pub digests: Vec<String>,
}

impl Sampled {
    pub(crate) fn of(requests: Vec<Request>) -> Self {
        Sampled { requests, ..Sampled::default() }
    }

    /// Refuses requests that no server can complete or that would never be sent, whatever flag or file they come from.
    /// `first` is the index of the first of them in the workload.
    pub(crate) fn check(&self, first: usize) -> Result<(), Error> {
        for (index, request) in (first..).zip(&self.requests) {
            if !TokenCount::holds(request.output_len) {
                let (tokens, max) = (request.output_len, TokenCount::MAX);
                return Err(data!("request {index} would ask for {tokens} tokens: an answer has 0 to {max} of them"));
            }
            match request.timestamp {
                Some(seconds) if !ScheduledTime::holds(seconds.abs()) => {
                    let check = "check the times of the file and --time-scale";
                    return Err(data!("request {index} is due {seconds} seconds after the start: {check}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_cannot_be_are_refused() {
        let of = |output_len, timestamp| {
            let request = Request { timestamp, ..Request::text("p", 1, output_len) };
            Sampled::of(vec![request]).check(0)
        };
        assert!(of(0, Some(0.0)).is_ok());
        for output_len in [-5, i64::MAX] {
            let error = of(output_len, None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("request 0 would ask for {output_len} tokens")), "{error}");
        }
        for seconds in [f64::NAN, f64::INFINITY, 1e30] {
            assert!(of(1, Some(seconds)).unwrap_err().to_string().starts_with("request 0 is due"));
        }
    }
}
