//! The answer of a search as it is stored.

use tacho_core::json::{Codec, Dict, FieldError, Flat, Json, OrDefault, Value, typed};

use super::StopReason;

tacho_core::named! {
    /// The verdict of a search, the same in the console, in the file and in the exit code.
    pub enum Verdict, "a verdict" {
        /// A load was measured and met.
        Found = "found",
        /// Even the lowest load fails.
        Infeasible = "infeasible",
        /// Even the largest load passes.
        Unlimited = "unlimited",
        /// The runs do not decide.
        Inconclusive = "inconclusive",
    }
}

tacho_core::record! {
    /// The answer of one search: an entry of `sla_summary.json`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SearchAnswer {
        /// The file of its runs, which names server, client and criteria.
        pub search: String,
        /// Parameters of the server.
        pub serve: Dict,
        /// Parameters of the client.
        pub bench: Dict,
        /// The criteria, such as `p99_ttft_ms<=200.00`.
        pub criteria: Vec<String>,
        /// The key of the load.
        pub variable: String,
        /// The verdict.
        pub verdict: Verdict,
        /// Why it is inconclusive.
        pub reason: Option<String> = None,
        /// What ended the search.
        pub stopped: StopReason,
        /// The same in words, with the precision.
        pub stop_reason: String,
        /// The largest load that was measured and met.
        pub max_measured: Option<f64> => Load,
        /// The load at which the criteria are just met.
        pub estimate: Option<f64>,
        /// Lower end of its 95% range.
        pub ci_low: Option<f64>,
        /// Upper end; `None` if no load fails significantly.
        pub ci_high: Option<f64>,
        /// Whether no load passed above a failing one.
        pub monotone: bool,
        /// Metrics at the largest load that met the criteria.
        pub achieved: Means => OrDefault,
        /// What fails first above it: a metric, or `sustained`.
        pub limited_by: Option<String> = None,
        /// The load that came closest, if none met the criteria.
        pub best_attempt: Option<f64> => Load = None,
        /// Number of loads.
        pub levels: usize,
        /// All loads.
        pub curve: Vec<LevelAnswer>,
        /// Number of runs.
        pub runs: usize,
    }
}

tacho_core::record! {
    /// One load of a search.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LevelAnswer {
        /// The load.
        pub level: f64 => Load,
        /// Number of runs.
        pub runs: usize,
        /// Whether it met the criteria.
        pub met: bool,
        /// Whether the server kept up.
        pub sustained: bool,
        /// Whether its runs were too short to decide.
        pub brief: bool,
        /// Whether the client may have decided it.
        pub client_unreliable: bool,
        /// Metrics of the criteria.
        pub means: Means => Flat,
    }
}

/// Means of metrics over the runs of a load, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Means(pub Vec<(String, Option<f64>)>);

impl Means {
    /// The mean of a metric.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.0.iter().find(|(name, _)| name == key).and_then(|(_, mean)| *mean)
    }
}

impl Json for Means {
    fn to_json(&self) -> Value {
        self.0.iter().map(|(key, mean)| (key.clone(), (*mean).into())).collect::<Dict>().into()
    }

    fn from_json(value: &Value) -> Result<Self, FieldError> {
        let all = value.as_dict().ok_or(FieldError::new("an object"))?.iter();
        Ok(Means(all.map(|(key, value)| (key.to_owned(), value.as_f64())).collect()))
    }

    fn schema() -> Dict {
        typed("object")
    }
}

/// A load as a value: whole if it can be, `inf` if it is unlimited.
pub fn load_value(load: f64) -> Value {
    match load {
        _ if load.is_infinite() => "inf".into(),
        _ if load.fract() == 0.0 && load.abs() < 1e15 => Value::Int(load as i64),
        _ => load.into(),
    }
}

struct Load;

impl Codec<f64> for Load {
    fn write(load: &f64) -> Value {
        load_value(*load)
    }

    fn read(value: &Value) -> Result<f64, FieldError> {
        let unlimited = value.as_str().filter(|text| *text == "inf").map(|_| f64::INFINITY);
        value.as_f64().or(unlimited).ok_or(FieldError::new("a load"))
    }

    fn schema(_: bool) -> Dict {
        typed("number")
    }
}

impl Codec<Option<f64>> for Load {
    fn write(load: &Option<f64>) -> Value {
        load.map(load_value).into()
    }

    fn read(value: &Value) -> Result<Option<f64>, FieldError> {
        if *value == Value::Null { Ok(None) } else { <Load as Codec<f64>>::read(value).map(Some) }
    }

    fn schema(_: bool) -> Dict {
        typed("number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::{dumps, parse};

    #[test]
    fn an_answer_comes_back() {
        let text = concat!(
            r#"{"search": "SLA--x.json", "serve": {"a": 1}, "bench": {}, "criteria": ["p99_ttft_ms<=200.00"], "#,
            r#""variable": "request_rate", "verdict": "inconclusive", "reason": "brief", "stopped": "budget", "#,
            r#""stop_reason": "budget reached", "max_measured": 12, "estimate": 12.5, "ci_low": 11.0, "ci_high": null, "#,
            r#""monotone": true, "achieved": {"p99_ttft_ms": 150.5}, "limited_by": "p99_ttft_ms", "best_attempt": 0.5, "#,
            r#""levels": 1, "curve": [], "runs": 2}"#,
        );
        let answer = SearchAnswer::from_json(&parse(text).unwrap()).unwrap();
        assert_eq!((answer.achieved.get("p99_ttft_ms"), answer.stopped), (Some(150.5), StopReason::Budget));
        assert_eq!(dumps(&answer.to_json()), text);
        let level = r#"{"level": "inf", "runs": 2, "met": true, "sustained": false, "brief": true, "client_unreliable": false}"#;
        let read = LevelAnswer::from_json(&parse(level).unwrap()).unwrap();
        assert_eq!((read.level, read.runs), (f64::INFINITY, 2));
        assert_eq!(dumps(&LevelAnswer { means: Means::default(), ..read }.to_json()), level);
        let wrong = text.replace("inconclusive", "lost");
        assert_eq!(
            SearchAnswer::from_json(&parse(&wrong).unwrap()).unwrap_err().to_string(),
            "verdict is not a verdict"
        );
    }
}
