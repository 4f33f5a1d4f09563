//! Flags of `tacho serve` for request parameters.

use std::hash::{BuildHasher, RandomState};

use tacho_args::declare::*;
use tacho_core::json::{Dict, Value};

use super::groups::{CONTENT, SAMPLING};
use crate::args::shared::tags::{SAVED, WHOLE_RUN};

flags! {
    ContentArgs {
        DECODING [
            use_beam_search: bool = vllm(&["--use-beam-search"], Switch, "", Off, &CONTENT,
                "Not supported: no request can ask for beam search. vLLM's command accepts the flag and ignores it.");
            logprobs: Option<i64> = vllm(&["--logprobs"], Int, "N", Unset, &CONTENT, "Log probabilities per token to request. Completions only.").tagged(WHOLE_RUN | SAVED);
        ]
        EOS [
            ignore_eos: bool = vllm(&["--ignore-eos"], Switch, "", Off, &CONTENT,
                "Ask the server to generate to full length. Always on for random prompts with OpenAI-compatible backends.").tagged(SAVED);
        ]
        SAMPLING_ROWS [
            request_id_prefix: String = vllm(&["--request-id-prefix"], Str, "TEXT", Made(request_id_prefix, "bench-XXXXXXXX-"), &CONTENT,
                "Prefix of each x-request-id header; a number follows. XXXXXXXX are random hex digits.").tagged(WHOLE_RUN);
            top_p: Option<f64> = vllm(&["--top-p"], Float, "P", Unset, &SAMPLING, "Nucleus sampling: cumulative probability to keep.").finite();
            top_k: Option<i64> = vllm(&["--top-k"], Int, "K", Unset, &SAMPLING, "Sample from the K most likely tokens.");
            min_p: Option<f64> = vllm(&["--min-p"], Float, "P", Unset, &SAMPLING, "Minimum probability, relative to the most likely token.").finite();
            temperature: Option<f64> = vllm(&["--temperature"], Float, "T", Unset, &SAMPLING,
                "Sampling temperature; 0 is greedy. The server's default may depend on the model.").finite();
            frequency_penalty: Option<f64> = vllm(&["--frequency-penalty"], Float, "X", Unset, &SAMPLING, "Penalty by how often a token has occurred.").finite();
            presence_penalty: Option<f64> = vllm(&["--presence-penalty"], Float, "X", Unset, &SAMPLING, "Penalty on tokens that have occurred at all.").finite();
            repetition_penalty: Option<f64> = vllm(&["--repetition-penalty"], Float, "X", Unset, &SAMPLING,
                "Factor against repetition. Completions send 1.0 by default.").finite();
        ]
        BODY [
            /// Any JSON; the check accepts only an object.
            extra_body: Option<Value> = vllm(&["--extra-body"], Json, "JSON", Unset, &CONTENT,
                "Fields to add to every request; they override all others. null removes one of tacho's own, such as ignore_eos, which \
                 strict servers refuse. Also one by one: --extra-body.min_tokens 8, and lists as --extra-body.stop+ a,b; these \
                 replace a plain --extra-body.").tagged(SAVED);
        ]
    }
}

/// vLLM takes the first 8 digits of a random UUID; here 32 random bits from the hasher's keys.
fn request_id_prefix() -> Value {
    Value::Str(format!("bench-{:08x}-", RandomState::new().hash_one("request id") as u32))
}

impl ContentArgs {
    /// Whether the requests ask for the most likely tokens.
    pub(crate) fn is_greedy(&self) -> bool {
        let extra = self.extra_body.as_ref().and_then(|body| body.get("temperature"));
        extra.and_then(Value::as_f64).or(self.temperature) == Some(0.0)
    }

    /// The given sampling flags, in vLLM's order.
    pub(crate) fn sampling(&self) -> Dict {
        let all = [
            ("top_p", Value::from(self.top_p)),
            ("top_k", Value::from(self.top_k)),
            ("min_p", Value::from(self.min_p)),
            ("temperature", Value::from(self.temperature)),
            ("frequency_penalty", Value::from(self.frequency_penalty)),
            ("presence_penalty", Value::from(self.presence_penalty)),
            ("repetition_penalty", Value::from(self.repetition_penalty)),
        ];
        all.into_iter().filter(|(_, value)| *value != Value::Null).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
