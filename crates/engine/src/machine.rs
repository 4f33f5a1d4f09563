//! The server that is simulated: step costs, scheduler limits, front end and noise. Built in, or read from a profile that
//! `tacho fit` wrote.

mod versions;

use std::time::Duration;

use tacho_core::json::{self, Dict, Value};

use crate::spec::{LIMITS, Limit};
use crate::{CostModel, EngineSpec, Profile, Slowdown, error::Error};

#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub name: String,
    pub cost: CostModel,
    pub engine: EngineSpec,
    /// Costs of a request outside of steps.
    pub front: Front,
    /// Relative standard deviation of step times.
    pub noise: f64,
    pub slowdown: Option<Slowdown>,
    /// Standard errors of `TIMES` in nanoseconds; empty if nothing was estimated.
    pub errors: Vec<f64>,
}

pub(crate) struct Time {
    /// Its key in a profile, which is in microseconds.
    name: &'static str,
    /// Whether it belongs to the front end.
    is_front: bool,
    /// Its value in nanoseconds.
    pub(crate) of: fn(&mut Machine) -> &mut f64,
}

const fn step(name: &'static str, of: fn(&mut Machine) -> &mut f64) -> Time {
    Time { name, is_front: false, of }
}

const fn front(name: &'static str, of: fn(&mut Machine) -> &mut f64) -> Time {
    Time { name, is_front: true, of }
}

/// Format version of profiles; increased with every incompatible change.
pub const PROFILE_VERSION: i64 = 2;

pub(crate) const TIMES: [Time; 14] = [
    step("fixed_us", |machine| &mut machine.cost.fixed_ns),
    step("per_prefill_token_us", |machine| &mut machine.cost.per_prefill_token_ns),
    step("per_sequence_us", |machine| &mut machine.cost.per_sequence_ns),
    step("per_kv_token_us", |machine| &mut machine.cost.per_kv_token_ns),
    step("per_attention_us", |machine| &mut machine.cost.per_attention_ns),
    step("back_to_back_prefill_us", |machine| &mut machine.cost.back_to_back_prefill_ns),
    step("single_token_saves_us", |machine| &mut machine.cost.single_token_saves_ns),
    step("schedule_us", |machine| &mut machine.cost.schedule_ns),
    step("schedule_cudagraph_us", |machine| &mut machine.cost.schedule_cudagraph_ns),
    step("drain_us", |machine| &mut machine.cost.drain_ns),
    front("per_request_us", |machine| &mut machine.front.per_request_ns),
    front("per_prompt_token_us", |machine| &mut machine.front.per_prompt_token_ns),
    front("per_token_us", |machine| &mut machine.front.per_token_ns),
    front("per_request_shared_us", |machine| &mut machine.front.shared_cpu_ns),
];

/// Costs of a request in the API server, outside of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Front {
    pub per_request_ns: f64,
    pub per_prompt_token_ns: f64,
    /// Nanoseconds between two tokens of a step as they are sent.
    pub per_token_ns: f64,
    /// The part of `per_request_ns` that is CPU time of a core which concurrent requests share.
    pub shared_cpu_ns: f64,
}

impl Front {
    /// Time of a request with `tokens` prompt tokens in an idle front end.
    pub fn takes(&self, tokens: usize) -> Duration {
        self.shared_cpu() + self.tokenization(tokens) + self.unshared()
    }

    /// CPU time of a request on a core that concurrent requests share.
    pub fn shared_cpu(&self) -> Duration {
        Duration::from_nanos(self.shared_cpu_ns.round() as u64)
    }

    /// Tokenization time of a prompt; prompts are tokenized one after another.
    pub fn tokenization(&self, tokens: usize) -> Duration {
        Duration::from_nanos((self.per_prompt_token_ns * tokens as f64).round() as u64)
    }

    /// The rest of the time of a request, which is independent of other requests.
    pub fn unshared(&self) -> Duration {
        Duration::from_nanos((self.per_request_ns - self.shared_cpu_ns).max(0.0).round() as u64)
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
            slowdown: None,
            errors: Vec::new(),
        }
    }
}

impl Machine {
    pub fn parse(text: &str, path: &str) -> Result<Machine, Error> {
        let wrong = |problem: String| Error::ProfileFile { path: path.to_owned(), problem };
        let file = json::parse(text).map_err(|error| wrong(error.to_string()))?;
        match file.get("tacho_profile").and_then(Value::as_i64) {
            Some(PROFILE_VERSION) => {}
            Some(version) => {
                return Err(wrong(format!(
                    "profile format {version} is not supported (this version reads {PROFILE_VERSION}); run tacho fit again"
                )));
            }
            None => return Err(wrong("not a profile: it has no field tacho_profile".to_owned())),
        }
        let part = |name: &str| file.get(name).and_then(Value::as_dict).cloned().unwrap_or_default();
        if file.get("cost").and_then(Value::as_dict).is_none() {
            return Err(wrong("it has no field cost".to_owned()));
        }
        let (cost, front, engine) = (part("cost"), part("frontend"), part("engine"));
        let noise = file.as_dict().map_or(Ok(0.0), |file| spread(file, "noise")).map_err(wrong)?;
        let mut machine = Machine {
            name: file.text("name").unwrap_or(path).to_owned(),
            cost: CostModel {
                memory_bound_tokens: number(&cost, "memory_bound_tokens").map_err(wrong)? as usize,
                padded_up_to: number(&cost, "padded_up_to").map_err(wrong)? as usize,
                cudagraph_max_tokens: number(&cost, "cudagraph_max_tokens").map_err(wrong)? as usize,
                schedule_noise: spread(&cost, "schedule_noise").map_err(wrong)?,
                schedule_drift: spread(&cost, "schedule_drift").map_err(wrong)?,
                ..CostModel::FREE
            },
            engine: limits(&engine).map_err(wrong)?,
            front: Front::default(),
            noise,
            slowdown: file.get("slowdown").map(slowdown).transpose().map_err(wrong)?,
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

    /// This machine at a constant speed with equal long-run throughput.
    pub fn steady(&self) -> Machine {
        let mut steady = Machine { slowdown: None, ..self.clone() };
        steady.cost.schedule_drift = 0.0;
        if let Some(Slowdown { factors, .. }) = &self.slowdown {
            steady.cost =
                self.cost.slowed(factors.len() as f64 / factors.iter().map(|factor| 1.0 / factor).sum::<f64>());
        }
        steady
    }

    pub fn is_noisy(&self) -> bool {
        let schedules = self.engine.async_scheduling && self.cost.schedule_noise + self.cost.schedule_drift > 0.0;
        self.noise > 0.0 || self.slowdown.is_some() || schedules
    }
}

fn slowdown(value: &Value) -> Result<Slowdown, String> {
    let factors = value.get("factors").and_then(Value::as_list).filter(|factors| !factors.is_empty());
    let factors = factors.ok_or("slowdown has no factors, a list of numbers")?;
    let wrong = |value: &Value| format!("slowdown.factors has {}, not a number from 0.01 to 100", json::dumps(value));
    let factor =
        |value: &Value| value.as_f64().filter(|factor| (0.01..=100.0).contains(factor)).ok_or_else(|| wrong(value));
    let factors: Vec<f64> = factors.iter().map(factor).collect::<Result<_, _>>()?;
    let seconds = value.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
    if !(1e-3..=1e6).contains(&seconds) {
        return Err(format!("slowdown.seconds is {seconds}, not 0.001 to 1000000"));
    }
    Ok(Slowdown { factors, seconds })
}

/// A nonnegative number; 0 if the field is absent.
fn number(dict: &Dict, name: &str) -> Result<f64, String> {
    match dict.get(name) {
        None => Ok(0.0),
        Some(value) => value
            .as_f64()
            .filter(|number| number.is_finite() && (0.0..=1e12).contains(number))
            .ok_or_else(|| format!("{name} is {}, not a number of 0 or more", json::dumps(value))),
    }
}

/// Standard error from the 95% confidence interval of an estimate.
fn error(intervals: &Dict, name: &str, value: f64) -> Result<f64, String> {
    let Some(interval) = intervals.get(name) else { return Ok(0.0) };
    let high = interval.as_list().and_then(|bounds| bounds.get(1)?.as_f64()).filter(|high| (0.0..=1e12).contains(high));
    let high = high.ok_or_else(|| format!("the interval of {name} is {}, not two numbers", json::dumps(interval)))?;
    Ok((high - value).max(0.0) / 1.96)
}

fn spread(dict: &Dict, name: &str) -> Result<f64, String> {
    match number(dict, name)? {
        spread if spread > 3.0 => Err(format!("{name} is {spread}, not from 0 to 3")),
        spread => Ok(spread),
    }
}

fn limits(dict: &Dict) -> Result<EngineSpec, String> {
    let mut engine = EngineSpec::default();
    for (name, limit) in LIMITS {
        let Some(value) = dict.get(name) else { continue };
        match (limit(&mut engine), value) {
            (Limit::Count(count), _) => {
                let number =
                    value.as_i64().and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0);
                *count =
                    number.ok_or_else(|| format!("{name} is {}, not a number of 1 or more", json::dumps(value)))?;
            }
            (Limit::Switch(switch), Value::Bool(on)) => *switch = *on,
            (Limit::Switch(_), _) => return Err(format!("{name} is {}, not true or false", json::dumps(value))),
        }
    }
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_file_is_read_and_a_wrong_one_named() {
        let text = r#"{"tacho_profile": 2, "name": "mine", "cost": {"fixed_us": 1000.0}, "noise": 0.01,
            "intervals": {"fixed_us": [0.0, 1019.6]},
            "frontend": {"per_request_us": 50}, "engine": {"max_num_seqs": 7, "enable_prefix_caching": false}}"#;
        let machine = Machine::parse(text, "p.json").unwrap();
        assert_eq!((machine.name.as_str(), machine.cost.fixed_ns, machine.engine.max_num_seqs), ("mine", 1e6, 7));
        assert_eq!((machine.front.per_request_ns, machine.noise), (5e4, 0.01));
        assert!((machine.errors[0] - 1e4).abs() < 1e-6 && machine.errors[1] == 0.0, "{:?}", machine.errors);
        assert!(!machine.engine.enable_prefix_caching);
        let uneven = Machine { slowdown: Some(Slowdown { factors: vec![1.0, 3.0], seconds: 1.0 }), ..machine };
        assert_eq!((uneven.steady().cost.fixed_ns, uneven.steady().slowdown), (1.5e6, None));
        for (bad, word) in [
            ("{", "p.json"),
            ("{}", "no field tacho_profile"),
            (r#"{"tacho_profile": 1}"#, "profile format 1 is not supported"),
            (r#"{"tacho_profile": 2, "cost": {"fixed_us": -1}}"#, "fixed_us is -1"),
            (r#"{"tacho_profile": 2}"#, "no field cost"),
            (r#"{"tacho_profile": 2, "cost": {}, "engine": {"block_size": 0}}"#, "block_size is 0"),
            (r#"{"tacho_profile": 2, "cost": {}, "engine": {"enable_prefix_caching": 1}}"#, "not true or false"),
            (r#"{"tacho_profile": 2, "cost": {}, "slowdown": {"factors": [0], "seconds": 1}}"#, "factors has 0"),
            (r#"{"tacho_profile": 2, "cost": {}, "slowdown": {"factors": [1]}}"#, "seconds is 0"),
            (r#"{"tacho_profile": 2, "cost": {}, "slowdown": 2}"#, "no factors"),
            (r#"{"tacho_profile": 2, "cost": {}, "noise": "loud"}"#, "noise is \"loud\""),
            (r#"{"tacho_profile": 2, "cost": {}, "noise": 4}"#, "noise is 4"),
            (r#"{"tacho_profile": 2, "cost": {"schedule_us": "long"}}"#, "schedule_us is \"long\""),
            (r#"{"tacho_profile": 2, "cost": {"cudagraph_max_tokens": -1}}"#, "cudagraph_max_tokens is -1"),
            (r#"{"tacho_profile": 2, "cost": {"schedule_noise": 4}}"#, "schedule_noise is 4"),
            (r#"{"tacho_profile": 2, "cost": {"drain_us": null}}"#, "drain_us is null"),
            (r#"{"tacho_profile": 2, "cost": {}, "intervals": {"drain_us": [1]}}"#, "the interval of drain_us is [1]"),
            (
                r#"{"tacho_profile": 2, "cost": {}, "engine": {"async_scheduling": "yes"}}"#,
                "async_scheduling is \"yes\"",
            ),
            (
                r#"{"tacho_profile": 2, "cost": {}, "frontend": {"per_request_shared_us": []}}"#,
                "per_request_shared_us is []",
            ),
        ] {
            let error = Machine::parse(bad, "p.json").unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn asynchronous_scheduling_is_read() {
        let text = r#"{"tacho_profile": 2, "cost": {"fixed_us": 1, "schedule_us": 30000, "schedule_cudagraph_us": 2000.5,
            "cudagraph_max_tokens": 512, "schedule_noise": 0.2, "drain_us": 900}, "engine": {"async_scheduling": true},
            "frontend": {"per_request_us": 5000, "per_request_shared_us": 700}}"#;
        let machine = Machine::parse(text, "p.json").unwrap();
        let cost = CostModel {
            fixed_ns: 1e3,
            schedule_ns: 3e7,
            schedule_cudagraph_ns: 2_000_500.0,
            cudagraph_max_tokens: 512,
            schedule_noise: 0.2,
            drain_ns: 9e5,
            ..CostModel::FREE
        };
        assert_eq!((machine.cost, machine.engine.async_scheduling, machine.front.shared_cpu_ns), (cost, true, 7e5));
        assert!(machine.is_noisy(), "by its scheduling noise");
        let other = EngineSpec { async_scheduling: false, ..machine.engine.clone() };
        assert!(!Machine { engine: other, ..machine }.is_noisy(), "scheduling is synchronous");
    }
}
