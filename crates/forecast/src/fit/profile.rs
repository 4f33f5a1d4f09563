//! A fitted server as a profile file: the simulator's parameters and their uncertainty.

use tacho_core::dict;
use tacho_core::json::{Dict, Json, Value};
use tacho_engine::{EngineSpec, LIMITS, Limit, PROFILE_VERSION};

use super::{Estimate, Fitted};

#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub name: String,
    pub fitted: Fitted,
    pub limits: EngineSpec,
    /// Source of each limit, by its name in the file.
    pub sources: Vec<(&'static str, String)>,
}

impl Profile {
    pub fn to_json(&self) -> Value {
        let Fitted { costs, front, .. } = &self.fitted;
        let steps = [
            ("fixed_us", &costs.fixed),
            ("per_prefill_token_us", &costs.prefill),
            ("per_sequence_us", &costs.sequence),
            ("per_kv_token_us", &costs.kv),
            ("per_attention_us", &costs.attention),
            ("back_to_back_prefill_us", &costs.back_to_back_prefill),
            ("single_token_saves_us", &self.fitted.single),
        ];
        let ahead = self.fitted.async_scheduling.as_ref();
        let prepared: Vec<(&str, &Estimate)> = ahead.map_or_else(Vec::new, |ahead| {
            vec![
                ("schedule_us", &ahead.schedule),
                ("schedule_cudagraph_us", &ahead.cudagraph),
                ("drain_us", &ahead.drain),
            ]
        });
        let mut cost = values(&steps);
        cost.update(&dict! {
            "padded_up_to": self.fitted.padded_up_to,
            "memory_bound_tokens": self.fitted.memory_bound,
        });
        cost.update(&values(&prepared));
        cost.update(&dict! {
            "cudagraph_max_tokens"?: ahead.map(|ahead| ahead.cudagraph_max_tokens),
            "schedule_noise"?: ahead.map(|ahead| ahead.noise),
            "schedule_drift"?: ahead.map(|ahead| ahead.drift),
        });
        let front = [
            ("per_request_us", &front.request),
            ("per_prompt_token_us", &front.prompt_token),
            ("per_token_us", &front.token),
            ("per_request_shared_us", &front.shared),
        ];
        let slowdown = self.fitted.slowdown.as_ref();
        let all: Vec<(&str, &Estimate)> = steps.into_iter().chain(front).chain(prepared).collect();
        let sources = self.sources.iter().map(|(name, from)| ((*name).to_owned(), Value::from(from.as_str())));
        Value::Dict(dict! {
            "tacho_profile": PROFILE_VERSION,
            "name": self.name.as_str(),
            "cost": cost,
            "frontend": values(&front),
            "noise": self.fitted.noise,
            "slowdown"?: slowdown.map(|slow| dict! { "factors": slow.factors.to_json(), "seconds": slow.seconds }),
            "engine": self.engine(),
            "intervals": intervals(&all),
            "fit": self.quality(),
            "limits_from": sources.collect::<Dict>(),
        })
    }

    fn engine(&self) -> Dict {
        let mut engine = EngineSpec { async_scheduling: self.fitted.async_scheduling.is_some(), ..self.limits.clone() };
        let value = |limit: Limit<'_>| match limit {
            Limit::Switch(on) => Value::Bool(*on),
            Limit::Count(count) => (*count).into(),
        };
        LIMITS.iter().map(|(name, limit)| ((*name).to_owned(), value(limit(&mut engine)))).collect()
    }

    fn quality(&self) -> Dict {
        dict! {
            "steps": self.fitted.steps,
            "unclear_steps": self.fitted.unclear,
            "outlying_steps": self.fitted.outliers,
            "first_tokens_alone": self.fitted.front.from,
            "widest_batch": self.fitted.widest,
            "interference_fraction": self.fitted.interference.0,
            "interference_slowdown": self.fitted.interference.1,
            "held_out_median_error": self.fitted.held_out.0,
            "held_out_p90_error": self.fitted.held_out.1,
        }
    }
}

fn values(rows: &[(&str, &Estimate)]) -> Dict {
    rows.iter().map(|(name, estimate)| ((*name).to_owned(), Value::Float(estimate.value * 1e6))).collect()
}

fn intervals(rows: &[(&str, &Estimate)]) -> Dict {
    let pair = |estimate: &Estimate| {
        let (low, high) = estimate.interval();
        Value::List(vec![Value::Float(low * 1e6), Value::Float(high * 1e6)])
    };
    rows.iter().map(|(name, estimate)| ((*name).to_owned(), pair(estimate))).collect()
}
