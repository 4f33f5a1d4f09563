//! Common names for server metrics: vLLM, SGLang and TGI name the same quantities differently.

/// A quantity that servers report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concept {
    /// Requests in the running batch.
    Running,
    /// Requests that wait for it.
    Waiting,
    /// Fraction of the KV cache in use.
    KvUse,
    /// Prompt tokens looked for in the prefix cache.
    PrefixQueries,
    /// Prompt tokens found there.
    PrefixHits,
    /// Requests that were preempted.
    Preemptions,
    /// Prompt tokens processed.
    PromptTokens,
    /// Tokens generated.
    GenerationTokens,
}

/// Track name, unit and scale factor of each concept.
pub(crate) const CONCEPTS: [(Concept, &str, &str, f64); 6] = [
    (Concept::Running, "running", "requests", 1.0),
    (Concept::Waiting, "waiting", "requests", 1.0),
    (Concept::KvUse, "kv_use", "%", 100.0),
    (Concept::Preemptions, "preemptions", "1/s", 1.0),
    (Concept::PromptTokens, "prompt_tokens", "tokens/s", 1.0),
    (Concept::GenerationTokens, "generated_tokens", "tokens/s", 1.0),
];

/// Server names of each concept; the first that is present counts.
pub(crate) const NAMES: &[(Concept, &[&str])] = &[
    (Concept::Running, &["vllm:num_requests_running", "sglang:num_running_reqs", "tgi_batch_current_size"]),
    (Concept::Waiting, &["vllm:num_requests_waiting", "sglang:num_queue_reqs", "tgi_queue_size"]),
    (Concept::KvUse, &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"]),
    (Concept::PrefixQueries, &["vllm:prefix_cache_queries_total", "sglang:prompt_tokens_total"]),
    (Concept::PrefixHits, &["vllm:prefix_cache_hits_total", "sglang:cached_tokens_total"]),
    (Concept::Preemptions, &["vllm:num_preemptions_total", "sglang:num_retracted_reqs_total"]),
    (
        Concept::PromptTokens,
        &["vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "tgi_request_input_length_sum"],
    ),
    (
        Concept::GenerationTokens,
        &["vllm:generation_tokens_total", "sglang:generation_tokens_total", "tgi_request_generated_tokens_sum"],
    ),
];

tacho_core::named! {
    /// A phase of a request whose time engines measure themselves.
    pub enum Phase {
        /// From arrival to the first iteration.
        Queue = "queue",
        /// From there to the first token.
        Prefill = "prefill",
        /// From there to the last token.
        Decode = "decode",
    }
}

impl Phase {
    /// Sum and count of its histogram.
    pub(crate) const fn counters(self) -> [&'static str; 2] {
        match self {
            Phase::Queue => ["vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"],
            Phase::Prefill => ["vllm:request_prefill_time_seconds_sum", "vllm:request_prefill_time_seconds_count"],
            Phase::Decode => ["vllm:request_decode_time_seconds_sum", "vllm:request_decode_time_seconds_count"],
        }
    }
}

/// The sum of a histogram that stands for a concept, and sum and count of one for a phase. Both only grow, as a counter
/// does.
pub(crate) fn counters_of(histogram: &str) -> impl Iterator<Item = &'static str> {
    let concepts = NAMES.iter().flat_map(|(_, names)| *names).copied().filter(|name| name.ends_with("_sum"));
    let all = concepts.chain(Phase::ALL.into_iter().flat_map(Phase::counters));
    all.filter(move |name| name.rsplit_once('_').is_some_and(|(of, _)| of == histogram))
}
