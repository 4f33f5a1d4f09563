//! Typed access to the fields of a result. A missing value is unknown, never a default.

use tacho_core::json::{Dict, Json, OrDefault, Value};
use tacho_metrics::{Caveat, LongRun, TrustVerdict, interval::Interval, trust::bounds::is_large};

use crate::groups::{is_group, only, split};
use crate::metric::Known;

tacho_core::record! {
    /// A warning of a result.
    #[derive(Debug, Clone, PartialEq)]
    pub struct StoredCaveat {
        /// Code of the warning.
        pub kind: String => OrDefault,
        /// The warning as a sentence.
        pub text: String => OrDefault,
    }
}

impl From<&Caveat> for StoredCaveat {
    fn from(caveat: &Caveat) -> Self {
        StoredCaveat { kind: caveat.kind().to_owned(), text: caveat.text() }
    }
}

/// The fields of a result.
#[derive(Debug, Clone, Copy)]
pub struct ResultFields<'r>(pub &'r Dict);

impl<'r> ResultFields<'r> {
    /// A number, possibly of a group (`chat.p99_ttft_ms`); numeric strings count too.
    pub fn number(self, key: &str) -> Option<f64> {
        let of_run = || scored(self.tacho("scores")?, key)?.get("mean");
        let of_group = || {
            let (group, key) = self.of_group(key)?;
            group.get(key).or_else(|| scored(group.get("scores")?, key)?.get("mean"))
        };
        match self.0.get(key).or_else(|| self.tacho(key)).or_else(of_run).or_else(of_group)? {
            Value::Str(text) => match text.as_str() {
                "inf" => Some(f64::INFINITY),
                "-inf" => Some(f64::NEG_INFINITY),
                other => other.parse().ok(),
            },
            other => other.as_f64(),
        }
    }

    /// The group of a metric, and the metric without the group's path.
    fn of_group(self, key: &str) -> Option<(&'r Value, &str)> {
        let (Some(path), key) = split(key) else { return None };
        let labels = self.tacho("groups")?.as_dict()?.iter();
        let groups = labels.flat_map(|(label, groups)| {
            groups.as_dict().into_iter().flat_map(Dict::iter).map(move |(name, group)| (label, name, group))
        });
        Some((only(groups.filter(|(label, name, _)| is_group(path, label, name)))?.2, key))
    }

    /// Outputs that have a score.
    pub fn score_count(self, key: &str) -> Option<f64> {
        scored(self.tacho("scores")?, key)?.get("count")?.as_f64()
    }

    /// A value of tacho's own part.
    pub fn tacho(self, key: &str) -> Option<&'r Value> {
        self.0.get("tacho")?.get(key)
    }

    /// The 95% confidence interval that the run stored for a metric.
    pub fn interval(self, key: &str) -> Option<Interval> {
        let of_group = || {
            let (group, key) = self.of_group(key)?;
            group.get("intervals")?.get(key)
        };
        let bounds = self.tacho("intervals")?.get(key).or_else(of_group)?.as_list()?;
        let bound = |at: usize| bounds.get(at).and_then(Value::as_f64);
        Some(Interval { low: bound(0)?, high: bound(1).unwrap_or(f64::INFINITY) })
    }

    /// Whether runs such as this one have intervals of a latency. One burst itself has none.
    pub fn has_intervals(self, key: &str) -> bool {
        self.tacho("intervals").is_some() && matches!(Known::find(key), Some(Known::Timed(_)))
    }

    /// Number of failed requests and of all.
    pub fn failures(self) -> Option<(u64, u64)> {
        let counted = || {
            let outcomes = self.tacho("outcomes")?.as_dict()?;
            let all: i64 = outcomes.iter().filter_map(|(_, count)| count.as_i64()).sum();
            Some((all - outcomes.get("complete").and_then(Value::as_i64).unwrap_or(0)) as f64)
        };
        let completed = self.number("completed")?;
        let missing = || Some((self.number("num_prompts")? - completed).max(0.0));
        let failed = self.number("failed").or_else(counted).or_else(missing)?;
        Some((failed as u64, (completed + failed) as u64))
    }

    /// The warnings of the run; `None` if the file does not say.
    pub fn caveats(self) -> Option<Vec<StoredCaveat>> {
        Vec::from_json(self.tacho("caveats")?).ok()
    }

    /// Returns whether a rule ended the run because the server performed badly.
    pub fn ended_badly(self) -> bool {
        self.caveats().unwrap_or_default().iter().any(|caveat| Caveat::BAD_ENDS.contains(&caveat.kind.as_str()))
    }

    /// The verdict on the client, if it puts in doubt whether `metric` passes the test `is_met`: the number may be off
    /// by enough, it passes from the schedule only or from sending only, or the load was not the planned one.
    pub fn client_doubt(self, metric: &str, is_met: impl Fn(f64) -> bool) -> Option<String> {
        let client = self.tacho("client")?;
        let (verdict, word) = (client.get("verdict"), client.text("word"));
        let verdict = verdict.and_then(Value::as_str).unwrap_or("the client was not reliable");
        let doubt = |doubted: bool| doubted.then(|| verdict.to_owned());
        let mut caveats = self.caveats().unwrap_or_default().into_iter();
        if let Some(away) = caveats.find(|caveat| caveat.kind == "client_away") {
            return Some(away.text);
        }
        // The client's speed cannot change an output, only which load it was made under.
        if Known::find(split(metric).1).is_some_and(Known::is_about_outputs) {
            return doubt(word.is_some_and(TrustVerdict::is_other_load));
        }
        let ends = client.get("bounds").and_then(|bounds| bounds.get(metric)?.as_list());
        let (Some(word), Some([low, high])) = (word, ends) else {
            return doubt(client.get("trustworthy") == Some(&Value::Bool(false)));
        };
        let (value, low, high) = (self.number(metric)?, low.as_f64()?, high.as_f64()?);
        let late =
            || self.tacho(&format!("{}_from_schedule_ms", metric.trim_end_matches("_ms"))).and_then(Value::as_f64);
        doubt(match word {
            word if TrustVerdict::is_other_load(word) => true,
            word if TrustVerdict::is_late(word) && late().is_some_and(|late| is_met(late) != is_met(value)) => true,
            _ => is_large(value, (value - low).max(high - value)) && is_met(low) != is_met(high),
        })
    }

    /// The range of `metric` that the client vouches for. It is `value` alone unless other work held up the client; `None`
    /// if that may have changed it by too much.
    pub fn client_range(self, metric: &str, value: f64) -> Option<(f64, f64)> {
        let client = self.tacho("client");
        let word = client.and_then(|client| client.text("word"));
        if self.caveats().unwrap_or_default().iter().any(|caveat| caveat.kind == "client_away") {
            return None;
        }
        if !word.is_some_and(TrustVerdict::is_starved) {
            return Some((value, value));
        }
        let [low, high] = client?.get("bounds")?.get(metric)?.as_list()? else { return None };
        let (low, high) = (low.as_f64()?, high.as_f64()?);
        (!is_large(value, (value - low).max(high - value))).then_some((low, high))
    }

    /// Scheduled requests per second.
    pub fn planned_rate(self) -> Option<f64> {
        self.tacho("planned_request_rate")?.as_f64()
    }

    /// Sent requests per second.
    pub fn delivered_rate(self) -> Option<f64> {
        self.tacho("delivered_request_rate")?.as_f64()
    }

    /// A metric over a long time, if a search stored it.
    pub fn long_run(self, metric: &str) -> Option<LongRun> {
        LongRun::from_json(self.tacho("long_run")?.get(metric)?).ok()
    }

    /// The steady state of the run.
    pub fn steady_state(self) -> Option<SteadyState<'r>> {
        self.tacho("steady_state").filter(|steady| steady.as_dict().is_some()).map(SteadyState)
    }
}

/// The steady state of a run.
#[derive(Debug, Clone, Copy)]
pub struct SteadyState<'r>(&'r Value);

impl SteadyState<'_> {
    /// A metric of the steady state, if it was reached.
    pub fn reached(self, metric: &str) -> Option<f64> {
        let reached = self.0.get("reached") == Some(&Value::Bool(true));
        self.0.get(metric)?.as_f64().filter(|_| reached)
    }

    /// Requests completed per second.
    pub fn request_throughput(self) -> Option<f64> {
        self.0.get("request_throughput")?.as_f64()
    }

    /// Returns whether the queue did not grow significantly.
    pub fn has_stable_queue(self) -> Option<bool> {
        self.0.get("queue_unstable").map(|unstable| *unstable == Value::Bool(false))
    }

    /// Returns whether the backlog was stable.
    pub fn is_stable(self) -> Option<bool> {
        let drifts = self.0.get("drift").and_then(Value::as_f64).is_some_and(|drift| drift >= 0.0);
        self.has_stable_queue().map(|stable| stable && !drifts)
    }
}

fn scored<'r>(scores: &'r Value, key: &str) -> Option<&'r Value> {
    scores.as_list()?.iter().find(|score| score.text("key") == Some(key))
}

#[cfg(test)]
mod tests {
    use tacho_core::json::parse;

    use super::*;

    /// Whether the client puts a limit of 10 ms on p99 ITL in doubt.
    fn doubt(client: &str) -> bool {
        let text = format!("{{\"p99_itl_ms\": 9.0, \"p99_ttft_ms\": 9.0, \"tacho\": {{{client}}}}}");
        let Value::Dict(result) = parse(&text).unwrap() else { panic!("{text}") };
        ResultFields(&result).client_doubt("p99_itl_ms", |value| value <= 10.0).is_some()
    }

    #[test]
    fn a_client_is_doubted_only_if_it_may_have_decided() {
        let bounds = |word: &str, low: f64, high: f64| {
            let ends = format!("\"bounds\": {{\"p99_itl_ms\": [{low}, {high}]}}");
            format!("\"client\": {{\"trustworthy\": false, \"word\": \"{word}\", {ends}}}")
        };
        assert!(doubt(&bounds("STARVED", 8.5, 10.5)));
        assert!(!doubt(&bounds("STARVED", 5.0, 9.9)), "it is met at both ends");
        assert!(!doubt(&bounds("ok", 8.95, 9.4)), "the bound is small");
        assert!(doubt(&bounds("RATE MISSED", 8.95, 9.05)));
        assert!(!doubt(&bounds("LATE", 8.95, 9.05)), "lateness does not touch ITL");
        let late = format!("{}, \"p99_itl_from_schedule_ms\": 11.0", bounds("LATE", 8.95, 9.05));
        assert!(doubt(&late), "from schedule it is not met");
        assert!(doubt("\"client\": {\"trustworthy\": false}"), "older results have no bounds");
        let outputs = |word: &str| {
            let tacho = format!("\"output_divergence\": 0.5, {}", bounds(word, 8.5, 10.5));
            let Value::Dict(result) = parse(&format!("{{\"tacho\": {{{tacho}}}}}")).unwrap() else { panic!() };
            ResultFields(&result).client_doubt("output_divergence", |value| value <= 0.1).is_some()
        };
        assert!(!outputs("STARVED") && outputs("RATE MISSED"));
        let away = "\"client\": {\"trustworthy\": true}, \"caveats\": [{\"kind\": \"client_away\", \"text\": \"t\"}]";
        assert!(doubt(away));
    }

    #[test]
    fn a_client_that_was_held_up_knows_a_range() {
        let range = |word: &str, low: f64, high: f64| {
            let client = format!(r#"{{"word": "{word}", "bounds": {{"mean_ttft_ms": [{low}, {high}]}}}}"#);
            let Value::Dict(result) = parse(&format!(r#"{{"tacho": {{"client": {client}}}}}"#)).unwrap() else {
                panic!()
            };
            ResultFields(&result).client_range("mean_ttft_ms", 100.0)
        };
        assert_eq!(range("ok", 90.0, 110.0), Some((100.0, 100.0)));
        assert_eq!(range("STARVED", 98.0, 101.0), Some((98.0, 101.0)));
        assert_eq!(range("STARVED", 98.0, 106.0), None, "over 5%");
    }

    #[test]
    fn a_queue_is_stable_only_if_the_file_says_so() {
        let of = |text: &str| {
            let Value::Dict(result) = parse(&format!("{{\"tacho\": {{\"steady_state\": {text}}}}}")).unwrap() else {
                panic!()
            };
            let steady = ResultFields(&result).steady_state().unwrap();
            (steady.has_stable_queue(), steady.is_stable())
        };
        assert_eq!(of(r#"{"queue_unstable": false, "drift": -0.5}"#), (Some(true), Some(true)));
        assert_eq!(of(r#"{"queue_unstable": false, "drift": 0.0}"#), (Some(true), Some(false)));
        assert_eq!(of(r#"{"queue_unstable": true}"#), (Some(false), Some(false)));
        assert_eq!(of("{}"), (None, None));
    }

    #[test]
    fn a_metric_of_a_group_is_read_with_its_interval() {
        let text = r#"{"p99_ttft_ms": 9.0, "tacho": {"intervals": {}, "groups": {"class": {"chat": {"p99_ttft_ms": 5.0,
            "scores": [{"key": "score_tone", "count": 4, "mean": 0.5}], "intervals": {"score_tone": [0.25, 0.75]}}, "sum": {}},
            "stage": {"sum": {}}}}}"#;
        let result = tacho_core::json::parse(text).unwrap();
        let run = ResultFields(result.as_dict().unwrap());
        assert_eq!((run.number("p99_ttft_ms"), run.number("chat.p99_ttft_ms")), (Some(9.0), Some(5.0)));
        assert_eq!(run.number("class.chat.score_tone"), Some(0.5));
        assert_eq!(run.interval("chat.score_tone"), Some(Interval { low: 0.25, high: 0.75 }));
        assert_eq!(run.number("sum.p99_ttft_ms"), None, "two groups have this name");
    }
}
