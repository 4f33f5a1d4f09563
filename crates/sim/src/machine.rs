//! The server that a simulator plays: what its steps cost, its limits, its front end and its noise. By name, or from a
//! file that `tacho fit` has written.

use std::time::Duration;

use tacho_core::json::{self, Dict, Value};

use crate::engine::{CostModel, EngineSpec, Pace, Profile};
use crate::error::Error;

/// A server to be played.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// What steps cost.
    pub cost: CostModel,
    /// The engine's limits.
    pub engine: EngineSpec,
    /// What a request costs outside of steps.
    pub front: Front,
    /// Relative spread of step times.
    pub noise: f64,
    /// How much slower it is at times, where it is.
    pub pace: Option<Pace>,
    /// The standard error of all that takes time, in nanoseconds; none where nothing was estimated.
    pub errors: Vec<f64>,
}

/// Something that takes time.
pub(crate) struct Time {
    /// Its name in a file, in microseconds.
    name: &'static str,
    /// Whether it is of the front end.
    is_front: bool,
    /// Where its nanoseconds are.
    pub(crate) of: fn(&mut Machine) -> &mut f64,
}

const fn step(name: &'static str, of: fn(&mut Machine) -> &mut f64) -> Time {
    Time { name, is_front: false, of }
}

const fn front(name: &'static str, of: fn(&mut Machine) -> &mut f64) -> Time {
    Time { name, is_front: true, of }
}

/// All that takes time.
pub(crate) const TIMES: [Time; 14] = [
    step("fixed_us", |machine| &mut machine.cost.fixed_ns),
    step("per_prefill_token_us", |machine| &mut machine.cost.per_prefill_token_ns),
    step("per_sequence_us", |machine| &mut machine.cost.per_sequence_ns),
    step("per_kv_token_us", |machine| &mut machine.cost.per_kv_token_ns),
    step("per_attention_us", |machine| &mut machine.cost.per_attention_ns),
    step("chained_us", |machine| &mut machine.cost.chained_ns),
    step("single_token_saves_us", |machine| &mut machine.cost.single_token_saves_ns),
    step("prepare_us", |machine| &mut machine.cost.prepare_ns),
    step("prepare_recorded_us", |machine| &mut machine.cost.prepare_recorded_ns),
    step("drain_us", |machine| &mut machine.cost.drain_ns),
    front("per_request_us", |machine| &mut machine.front.per_request_ns),
    front("per_prompt_token_us", |machine| &mut machine.front.per_prompt_token_ns),
    front("per_token_us", |machine| &mut machine.front.per_token_ns),
    front("per_request_together_us", |machine| &mut machine.front.together_ns),
];

/// What a request costs before it reaches the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Front {
    /// Nanoseconds of any request.
    pub per_request_ns: f64,
    /// Nanoseconds per token of its prompt.
    pub per_prompt_token_ns: f64,
    /// Nanoseconds between two tokens of a step on their way out.
    pub per_token_ns: f64,
    /// Nanoseconds of any request that one core works for it, in turn with those that are there at the same time.
    pub together_ns: f64,
}

impl Front {
    /// How long a request of so many prompt tokens takes when nobody else is there.
    pub fn takes(&self, tokens: usize) -> Duration {
        self.together() + self.reads(tokens) + self.rest()
    }

    /// How long a core works for any request, in turn with those that are there at the same time.
    pub(crate) fn together(&self) -> Duration {
        Duration::from_nanos(self.together_ns.round() as u64)
    }

    /// How long a prompt of so many tokens is read; one is after the other.
    pub(crate) fn reads(&self, tokens: usize) -> Duration {
        Duration::from_nanos((self.per_prompt_token_ns * tokens as f64).round() as u64)
    }

    /// What any request takes beside both, whoever else is there.
    pub(crate) fn rest(&self) -> Duration {
        Duration::from_nanos((self.per_request_ns - self.together_ns).max(0.0).round() as u64)
    }
}

impl From<Profile> for Machine {
    fn from(profile: Profile) -> Self {
        Machine {
            name: profile.name().to_owned(),
            cost: profile.cost(),
            engine: profile.engine(),
            front: Front::default(),
            noise: 0.0,
            pace: None,
            errors: Vec::new(),
        }
    }
}

impl Machine {
    /// Reads a profile file's text; `shown` is its name in errors.
    ///
    /// # Errors
    /// When it is no profile, and which member is wrong.
    pub fn parse(text: &str, shown: &str) -> Result<Machine, Error> {
        let wrong = |problem: String| Error::ProfileFile { path: shown.to_owned(), problem };
        let file = json::parse(text).map_err(|error| wrong(error.to_string()))?;
        match file.get("tacho_profile").and_then(Value::as_i64) {
            Some(1) => {}
            Some(version) => return Err(wrong(format!("it has version {version}, and this is for version 1"))),
            None => return Err(wrong("it has no tacho_profile, so that it is no profile of tacho fit".to_owned())),
        }
        let part = |name: &str| file.get(name).and_then(Value::as_dict).cloned().unwrap_or_default();
        if file.get("cost").and_then(Value::as_dict).is_none() {
            return Err(wrong("it has no cost, so that nothing would take time".to_owned()));
        }
        let (cost, front, engine) = (part("cost"), part("frontend"), part("engine"));
        let noise = file.as_dict().map_or(Ok(0.0), |file| spread(file, "noise")).map_err(wrong)?;
        let mut machine = Machine {
            name: file.get("name").and_then(Value::as_str).unwrap_or(shown).to_owned(),
            cost: CostModel {
                free_tokens: number(&cost, "free_tokens").map_err(wrong)? as usize,
                padded_up_to: number(&cost, "padded_up_to").map_err(wrong)? as usize,
                recorded_up_to: number(&cost, "recorded_up_to").map_err(wrong)? as usize,
                prepare_noise: spread(&cost, "prepare_noise").map_err(wrong)?,
                prepare_drift: spread(&cost, "prepare_drift").map_err(wrong)?,
                ..CostModel::FREE
            },
            engine: limits(&engine).map_err(wrong)?,
            front: Front::default(),
            noise,
            pace: file.get("pace").map(pace).transpose().map_err(wrong)?,
            errors: Vec::new(),
        };
        let intervals = part("intervals");
        for time in &TIMES {
            let micros = number(if time.is_front { &front } else { &cost }, time.name).map_err(wrong)?;
            *(time.of)(&mut machine) = micros * 1e3;
            machine.errors.push(error(&intervals, time.name, micros).map_err(wrong)? * 1e3);
        }
        Ok(machine)
    }

    /// The same at one pace: that at which it would do as much in the long run.
    pub fn steady(&self) -> Machine {
        let mut steady = Machine { pace: None, ..self.clone() };
        steady.cost.prepare_drift = 0.0;
        if let Some(Pace { times, .. }) = &self.pace {
            steady.cost = self.cost.slowed(times.len() as f64 / times.iter().map(|times| 1.0 / times).sum::<f64>());
        }
        steady
    }

    /// Whether two plays that differ in their seeds differ.
    pub fn is_noisy(&self) -> bool {
        let prepares = self.engine.async_scheduling && self.cost.prepare_noise + self.cost.prepare_drift > 0.0;
        self.noise > 0.0 || self.pace.is_some() || prepares
    }
}

/// The pace that a file tells.
fn pace(value: &Value) -> Result<Pace, String> {
    let times = value.get("times_as_slow").and_then(Value::as_list).filter(|times| !times.is_empty());
    let times = times.ok_or("pace has no times_as_slow, a list of numbers")?;
    let wrong = |value: &Value| format!("pace has times_as_slow {}, not a number from 0.01 to 100", json::dumps(value));
    let factor =
        |value: &Value| value.as_f64().filter(|times| (0.01..=100.0).contains(times)).ok_or_else(|| wrong(value));
    let times: Vec<f64> = times.iter().map(factor).collect::<Result<_, _>>()?;
    let seconds = value.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
    if !(1e-3..=1e6).contains(&seconds) {
        return Err(format!("pace has {seconds} seconds, not 0.001 to 1000000"));
    }
    Ok(Pace { times, seconds })
}

/// A cost that is none below zero; one that is not there is nothing.
fn number(dict: &Dict, name: &str) -> Result<f64, String> {
    match dict.get(name) {
        None => Ok(0.0),
        Some(value) => value
            .as_f64()
            .filter(|number| number.is_finite() && (0.0..=1e12).contains(number))
            .ok_or_else(|| format!("{name} is {}, not a number of 0 or more", json::dumps(value))),
    }
}

/// The standard error that an interval of 95 % tells of a value.
fn error(intervals: &Dict, name: &str, value: f64) -> Result<f64, String> {
    let Some(interval) = intervals.get(name) else { return Ok(0.0) };
    let high = interval.as_list().and_then(|bounds| bounds.get(1)?.as_f64()).filter(|high| (0.0..=1e12).contains(high));
    let high = high.ok_or_else(|| format!("the interval of {name} is {}, not two numbers", json::dumps(interval)))?;
    Ok((high - value).max(0.0) / 1.96)
}

/// A relative spread.
fn spread(dict: &Dict, name: &str) -> Result<f64, String> {
    match number(dict, name)? {
        spread if spread > 3.0 => Err(format!("{name} is {spread}, not from 0 to 3")),
        spread => Ok(spread),
    }
}

fn limits(dict: &Dict) -> Result<EngineSpec, String> {
    let mut engine = EngineSpec::default();
    for (name, limit) in [
        ("max_num_seqs", &mut engine.max_num_seqs),
        ("max_num_batched_tokens", &mut engine.max_num_batched_tokens),
        ("block_size", &mut engine.block_size),
        ("num_gpu_blocks", &mut engine.num_blocks),
        ("max_model_len", &mut engine.max_model_len),
    ] {
        if let Some(value) = dict.get(name) {
            let number = value.as_i64().and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0);
            *limit = number.ok_or_else(|| format!("{name} is {}, not a number of 1 or more", json::dumps(value)))?;
        }
    }
    for (name, switch) in [
        ("enable_prefix_caching", &mut engine.enable_prefix_caching),
        ("enable_chunked_prefill", &mut engine.enable_chunked_prefill),
        ("async_scheduling", &mut engine.async_scheduling),
    ] {
        match dict.get(name) {
            None => {}
            Some(Value::Bool(on)) => *switch = *on,
            Some(value) => return Err(format!("{name} is {}, not true or false", json::dumps(value))),
        }
    }
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_file_is_read_and_a_wrong_one_named() {
        let text = r#"{"tacho_profile": 1, "name": "mine", "cost": {"fixed_us": 1000.0}, "noise": 0.01,
            "intervals": {"fixed_us": [0.0, 1019.6]},
            "frontend": {"per_request_us": 50}, "engine": {"max_num_seqs": 7, "enable_prefix_caching": false}}"#;
        let machine = Machine::parse(text, "p.json").unwrap();
        assert_eq!((machine.name.as_str(), machine.cost.fixed_ns, machine.engine.max_num_seqs), ("mine", 1e6, 7));
        assert_eq!((machine.front.per_request_ns, machine.noise), (5e4, 0.01));
        assert!((machine.errors[0] - 1e4).abs() < 1e-6 && machine.errors[1] == 0.0, "{:?}", machine.errors);
        assert!(!machine.engine.enable_prefix_caching);
        let uneven = Machine { pace: Some(Pace { times: vec![1.0, 3.0], seconds: 1.0 }), ..machine };
        assert_eq!((uneven.steady().cost.fixed_ns, uneven.steady().pace), (1.5e6, None));
        for (bad, word) in [
            ("{", "p.json"),
            ("{}", "no tacho_profile"),
            (r#"{"tacho_profile": 2}"#, "version 2"),
            (r#"{"tacho_profile": 1, "cost": {"fixed_us": -1}}"#, "fixed_us is -1"),
            (r#"{"tacho_profile": 1}"#, "no cost"),
            (r#"{"tacho_profile": 1, "cost": {}, "engine": {"block_size": 0}}"#, "block_size is 0"),
            (r#"{"tacho_profile": 1, "cost": {}, "engine": {"enable_prefix_caching": 1}}"#, "not true or false"),
            (r#"{"tacho_profile": 1, "cost": {}, "pace": {"times_as_slow": [0], "seconds": 1}}"#, "times_as_slow 0"),
            (r#"{"tacho_profile": 1, "cost": {}, "pace": {"times_as_slow": [1]}}"#, "0 seconds"),
            (r#"{"tacho_profile": 1, "cost": {}, "pace": 2}"#, "no times_as_slow"),
            (r#"{"tacho_profile": 1, "cost": {}, "noise": "loud"}"#, "noise is \"loud\""),
            (r#"{"tacho_profile": 1, "cost": {}, "noise": 4}"#, "noise is 4"),
            (r#"{"tacho_profile": 1, "cost": {"prepare_us": "long"}}"#, "prepare_us is \"long\""),
            (r#"{"tacho_profile": 1, "cost": {"recorded_up_to": -1}}"#, "recorded_up_to is -1"),
            (r#"{"tacho_profile": 1, "cost": {"prepare_noise": 4}}"#, "prepare_noise is 4"),
            (r#"{"tacho_profile": 1, "cost": {"drain_us": null}}"#, "drain_us is null"),
            (r#"{"tacho_profile": 1, "cost": {}, "intervals": {"drain_us": [1]}}"#, "the interval of drain_us is [1]"),
            (
                r#"{"tacho_profile": 1, "cost": {}, "engine": {"async_scheduling": "yes"}}"#,
                "async_scheduling is \"yes\"",
            ),
            (
                r#"{"tacho_profile": 1, "cost": {}, "frontend": {"per_request_together_us": []}}"#,
                "per_request_together_us is []",
            ),
        ] {
            let error = Machine::parse(bad, "p.json").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_profile_of_an_engine_that_prepares_ahead_is_read() {
        let text = r#"{"tacho_profile": 1, "cost": {"fixed_us": 1, "prepare_us": 30000, "prepare_recorded_us": 2000.5,
            "recorded_up_to": 512, "prepare_noise": 0.2, "drain_us": 900}, "engine": {"async_scheduling": true},
            "frontend": {"per_request_us": 5000, "per_request_together_us": 700}}"#;
        let machine = Machine::parse(text, "p.json").unwrap();
        let cost = CostModel {
            fixed_ns: 1e3,
            prepare_ns: 3e7,
            prepare_recorded_ns: 2_000_500.0,
            recorded_up_to: 512,
            prepare_noise: 0.2,
            drain_ns: 9e5,
            ..CostModel::FREE
        };
        assert_eq!((machine.cost, machine.engine.async_scheduling, machine.front.together_ns), (cost, true, 7e5));
        assert!(machine.is_noisy(), "by its preparing alone");
        let other = EngineSpec { async_scheduling: false, ..machine.engine.clone() };
        assert!(!Machine { engine: other, ..machine }.is_noisy(), "which does not happen here");
    }
}
