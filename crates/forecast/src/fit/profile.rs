//! A fitted server as a profile file: the simulator's parameters and their uncertainty.

use tacho_core::json::{Dict, Value};
use tacho_engine::PROFILE_VERSION;

use super::limits::{LIMITS, Limit, Limits};
use super::{Estimate, Fitted};

#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub name: String,
    pub fitted: Fitted,
    pub limits: Limits,
    /// Source of each limit, by its name in the file.
    pub sources: Vec<(&'static str, String)>,
}

impl Profile {
    pub fn to_json(&self) -> Value {
        let mut file = Dict::new();
        file.set("tacho_profile", PROFILE_VERSION);
        file.set("name", self.name.as_str());
        let (costs, front) = (&self.fitted.costs, &self.fitted.front);
        let rows = [
            ("fixed_us", &costs.fixed),
            ("per_prefill_token_us", &costs.prefill),
            ("per_sequence_us", &costs.sequence),
            ("per_kv_token_us", &costs.kv),
            ("per_attention_us", &costs.attention),
            ("back_to_back_prefill_us", &costs.back_to_back_prefill),
            ("single_token_saves_us", &self.fitted.single),
        ];
        let mut cost = values(&rows);
        cost.set("padded_up_to", number(self.fitted.padded_up_to));
        cost.set("memory_bound_tokens", number(self.fitted.memory_bound));
        let ahead = self.fitted.async_scheduling.as_ref();
        let prepared: Vec<(&str, &Estimate)> = ahead.map_or_else(Vec::new, |ahead| {
            vec![
                ("schedule_us", &ahead.schedule),
                ("schedule_cudagraph_us", &ahead.cudagraph),
                ("drain_us", &ahead.drain),
            ]
        });
        prepared.iter().for_each(|(name, estimate)| cost.set(*name, estimate.value * 1e6));
        if let Some(ahead) = ahead {
            cost.set("cudagraph_max_tokens", number(ahead.cudagraph_max_tokens));
            cost.set("schedule_noise", ahead.noise);
            cost.set("schedule_drift", ahead.drift);
        }
        file.set("cost", cost);
        let front = [
            ("per_request_us", &front.request),
            ("per_prompt_token_us", &front.prompt_token),
            ("per_token_us", &front.token),
            ("per_request_shared_us", &front.shared),
        ];
        file.set("frontend", values(&front));
        file.set("noise", self.fitted.noise);
        if let Some(slowdown) = &self.fitted.slowdown {
            let mut fields = Dict::new();
            fields.set("factors", Value::List(slowdown.factors.iter().copied().map(Value::Float).collect()));
            fields.set("seconds", slowdown.seconds);
            file.set("slowdown", fields);
        }
        file.set("engine", self.engine());
        let all: Vec<(&str, &Estimate)> = rows.into_iter().chain(front).chain(prepared).collect();
        file.set("intervals", intervals(&all));
        file.set("fit", self.quality());
        let sources = self.sources.iter().map(|(name, from)| ((*name).to_owned(), Value::from(from.as_str())));
        file.set("limits_from", sources.collect::<Dict>());
        Value::Dict(file)
    }

    fn engine(&self) -> Dict {
        let value = |limit: &Limit| match (limit.get)(&self.limits) {
            value if limit.is_switch => Value::Bool(value > 0),
            value => number(value),
        };
        let mut engine: Dict = LIMITS.iter().map(|limit| (limit.name.to_owned(), value(limit))).collect();
        engine.set("async_scheduling", self.fitted.async_scheduling.is_some());
        engine
    }

    fn quality(&self) -> Dict {
        let mut fit = Dict::new();
        fit.set("steps", number(self.fitted.steps));
        fit.set("unclear_steps", number(self.fitted.unclear));
        fit.set("outlying_steps", number(self.fitted.outliers));
        fit.set("first_tokens_alone", number(self.fitted.front.from));
        fit.set("widest_batch", number(self.fitted.widest));
        fit.set("interference_fraction", self.fitted.interference.0);
        fit.set("interference_slowdown", self.fitted.interference.1);
        fit.set("held_out_median_error", self.fitted.held_out.0);
        fit.set("held_out_p90_error", self.fitted.held_out.1);
        fit
    }
}

fn number(value: usize) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
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
