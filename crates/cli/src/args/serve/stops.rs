//! Stop conditions in addition to the number of requests.

use std::time::Duration;

use tacho_args::declare::*;
use tacho_core::json::float_repr;
use tacho_record::metric::Known;
use tacho_run::{FailureLimit, Precision};

use super::{LoadArgs, groups::ENDING};
use crate::args::error::ArgumentError;
use crate::args::shared::tags::{SAVED, SETS_LENGTH, SETS_LOAD};

/// Maximum number of requests prepared for a run with a duration.
const MAX_PROMPTS: f64 = 1e7;

flags! {
    StopArgs? {
        FLAGS [
            duration: Option<Duration> = tacho(&["--duration"], Seconds, "SEC", Unset, &ENDING,
                "Send requests for this many seconds. --num-prompts, if set, is an additional limit.").positive().tagged(SETS_LOAD | SAVED | SETS_LENGTH);
            until: Option<Precision> = tacho(&["--until"], Str, "METRIC:PRECISION", Unset, &ENDING,
                "Stop when the metric is known this precisely: 'p99_ttft_ms:5%' is a 95% confidence interval of +/-5%. Needs \
                 --duration as the limit; may exceed --num-prompts.").needs(&["--duration"]).tagged(SETS_LENGTH) => precision;
            grace: FlagValue<Duration> = tacho(&["--grace"], Seconds, "SEC", DefaultValue::Float(30.0), &ENDING,
                "Seconds for requests in flight to finish after --duration or a stop rule. Later ones are not counted.");
            stop_on_failures: Option<FailureLimit> = tacho(&["--stop-on-failures"], Str, "LIMIT", Unset, &ENDING,
                "Stop if more requests than this fail: a percentage such as 20%, or a number. The partial result is saved; exit code 3.") => failure_limit;
            stop_on_overload: bool = switch(&["--stop-on-overload"], &ENDING,
                "Stop if the server cannot sustain the request rate: the queue grows by more than chance explains. Requests in flight get 2 s \
                 (or --grace) to finish, the partial result is saved; exit code 3.");
        ]
    }
}

impl StopArgs {
    pub(crate) fn check(&self, load: &LoadArgs) -> Result<(), ArgumentError> {
        if self.duration.is_some() && load.num_prompts as f64 > MAX_PROMPTS {
            let seconds = float_repr(self.duration.unwrap_or_default().as_secs_f64());
            let allowed = "so little that at most 10000000 requests are due, or lower --request-rate";
            return Err(ArgumentError::range("--duration", seconds, allowed));
        }
        Ok(())
    }
}

fn precision(setting: Setting<'_>) -> Result<Option<Precision>, ArgumentError> {
    let Some(text) = setting.value.as_str() else { return Ok(None) };
    let invalid = |allowed| ArgumentError::range(setting.flag, text, allowed);
    let parts = text.rsplit_once(':').and_then(|(metric, share)| {
        let percent: f64 = share.trim().strip_suffix('%')?.trim().parse().ok()?;
        Some((metric.trim().to_owned(), percent / 100.0))
    });
    let (metric, share) = parts.ok_or_else(|| invalid("a number and a share, such as 'p99_ttft_ms:5%'"))?;
    if !(share > 0.0 && share < 1.0) {
        return Err(invalid("a share of more than 0% and less than 100%"));
    }
    match Known::find(&metric) {
        Some(Known::Timed(_)) => Ok(Some(Precision { metric, share })),
        Some(Known::Row(row)) if row.unit.is_rate() => Ok(Some(Precision { metric, share })),
        _ => Err(invalid("a latency or a rate of the result, such as p99_ttft_ms or request_throughput")),
    }
}

/// The limit of failed requests, if set: a fraction or a count.
fn failure_limit(setting: Setting<'_>) -> Result<Option<FailureLimit>, ArgumentError> {
    let Some(text) = setting.value.as_str() else { return Ok(None) };
    let limit = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| FailureLimit::Share(percent / 100.0)),
        None => text.trim().parse().ok().map(FailureLimit::Count),
    };
    let fits = |limit: &FailureLimit| !matches!(limit, FailureLimit::Share(share) if !(0.0..1.0).contains(share));
    let allowed = "a share such as 20%, or a number of requests";
    limit.filter(fits).map(Some).ok_or_else(|| ArgumentError::range(setting.flag, text, allowed))
}

/// Sets the number of requests for a run with a duration. If it is not known in advance, the number is that of the
/// first requests, and more are generated on demand.
pub(super) fn filling(load: LoadArgs, stops: &StopArgs, values: &Values) -> LoadArgs {
    let Some(duration) = stops.duration.filter(|_| !is_counted(values)) else { return load };
    let ramp = load.ramp_up_start_rps.zip(load.ramp_up_end_rps).map(|(start, end)| (start as f64, end as f64));
    let num_prompts = due_within(duration.as_secs_f64(), load.request_rate, ramp).unwrap_or(load.num_prompts);
    LoadArgs { num_prompts, ..load }
}

/// Whether the number of requests ends the run. A run until a precision takes as many as it needs.
pub(super) fn is_counted(values: &Values) -> bool {
    values.is_set("--num-prompts") && !values.is_set("--until")
}

/// The number of requests scheduled within `duration` seconds, or `None` if it is not known in advance.
fn due_within(duration: f64, rate: f64, ramp: Option<(f64, f64)>) -> Option<i64> {
    let per_second = match ramp {
        // The rate rises linearly over requests, so its mean over time is the logarithmic mean.
        Some((start, end)) if end > start && start > 0.0 => (end - start) / (end / start).ln(),
        Some((start, _)) => start,
        None => rate,
    };
    // Gaps are random: the sum of a ramp is not exact, while a constant rate is scaled to be.
    let expected = duration * per_second;
    let spare = if ramp.is_some() { 5.0 * expected.sqrt() } else { 0.0 };
    per_second.is_finite().then(|| (expected + spare).ceil().min(i64::MAX as f64 / 2.0) as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_fill_the_time() {
        assert_eq!(due_within(60.0, 2.5, None), Some(151));
        assert_eq!(due_within(60.0, f64::INFINITY, None), None);
        assert!(due_within(60.0, f64::INFINITY, Some((1.0, 10.0))).is_some_and(|count| (235..400).contains(&count)));
    }

    fn read<T>(reader: impl Fn(Setting<'_>) -> Result<Option<T>, ArgumentError>, text: &str) -> Option<T> {
        reader(Setting { flag: "--x", value: &text.into(), is_set: true }).ok().flatten()
    }

    #[test]
    fn precision_is_of_a_number_that_has_an_interval() {
        let of = |text: &str| read(precision, text).map(|found| (found.metric, found.share));
        assert_eq!(of("p99_ttft_ms:5%"), Some(("p99_ttft_ms".into(), 0.05)));
        assert_eq!(of("request_throughput: 2.5 %"), Some(("request_throughput".into(), 0.025)));
        for bad in ["p99_ttft_ms", "p99_tfft_ms:5%", "p99_ttft_ms:5", "p99_ttft_ms:0%", "completed:5%", ":5%"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn failures_are_a_share_or_a_number() {
        let of = |text: &str| read(failure_limit, text);
        assert_eq!(of("20%"), Some(FailureLimit::Share(0.2)));
        assert_eq!(of("0%"), Some(FailureLimit::Share(0.0)));
        assert_eq!(of("7"), Some(FailureLimit::Count(7)));
        for bad in ["", "%", "120%", "-1", "x", "nan%", "0.5"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
