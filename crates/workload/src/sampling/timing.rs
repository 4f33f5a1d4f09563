//! Arrival times from the data, relative to the first request.

use tacho_core::Request;

use crate::Error;

/// Sorts requests by time, shifts the first to zero and scales the gaps by `scale`.
pub(crate) fn from_the_first(requests: &mut [Request], scale: f64) -> Result<(), Error> {
    let timed = |request: &Request| request.timestamp.filter(|seconds| seconds.is_finite());
    if let Some(index) = requests.iter().position(|request| timed(request).is_none()) {
        let remedy = "omit --self-timed, or add a timestamp to all rows";
        return Err(data!("request {index} has no timestamp: {remedy}"));
    }
    requests.sort_by(|left, right| timed(left).unwrap_or(0.0).total_cmp(&timed(right).unwrap_or(0.0)));
    let first = requests.first().and_then(timed).unwrap_or(0.0);
    for request in requests {
        request.timestamp = request.timestamp.map(|seconds| (seconds - first) * scale);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(timestamp: Option<f64>) -> Request {
        Request { timestamp, ..Request::text("p", 1, 1) }
    }

    #[test]
    fn times_count_from_the_first() {
        let mut requests = [at(Some(30.0)), at(Some(10.0)), at(Some(15.0))];
        from_the_first(&mut requests, 2.0).unwrap();
        assert_eq!(requests.map(|request| request.timestamp), [Some(0.0), Some(10.0), Some(40.0)]);
    }

    #[test]
    fn a_request_without_a_time_is_named() {
        let error = from_the_first(&mut [at(Some(1.0)), at(None)], 1.0).unwrap_err();
        assert!(error.to_string().contains("request 1"), "{error}");
    }
}
