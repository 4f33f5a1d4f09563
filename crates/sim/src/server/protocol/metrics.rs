//! `/metrics`: the engine's counters in the Prometheus text format, under vLLM's names.

use serde_json::json;
use tacho_core::json::float_repr;

use crate::server::app::App;
use tacho_engine::{EngineSpec, Histogram, Stats};

/// Name and help text of a family, and its value.
type Family<T> = (&'static str, &'static str, fn(&Stats) -> T);
type HistogramFamily = (&'static str, &'static str, fn(&Stats) -> &Histogram);
/// A finish reason, and how many requests had it.
type Reason = (&'static str, fn(&Stats) -> u64);

const GAUGES: [Family<f64>; 3] = [
    ("num_requests_running", "Number of requests in model execution batches.", |s| s.running as f64),
    ("num_requests_waiting", "Number of requests waiting to be processed.", |s| s.waiting as f64),
    ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", |s| s.kv_cache_usage),
];
const COUNTERS: [Family<u64>; 8] = [
    ("prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", |s| {
        s.prefix_cache_queries
    }),
    ("prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", |s| s.prefix_cache_hits),
    (
        "external_prefix_cache_queries_total",
        "External prefix cache queries, in terms of number of queried tokens.",
        |s| s.external_cache_queries,
    ),
    ("external_prefix_cache_hits_total", "External prefix cache hits, in terms of number of cached tokens.", |s| {
        s.external_cache_hits
    }),
    ("prompt_tokens_cached_total", "Number of cached prompt tokens (local + external).", |s| s.prompt_tokens_cached),
    ("num_preemptions_total", "Cumulative number of preemption from the engine.", |s| s.preemptions),
    ("prompt_tokens_total", "Number of prefill tokens processed.", |s| s.prompt_tokens),
    ("generation_tokens_total", "Number of generation tokens processed.", |s| s.generation_tokens),
];
const FINISHED: [Reason; 3] =
    [("stop", |s| s.finished_stop), ("length", |s| s.finished_length), ("abort", |s| s.finished_abort)];
const HISTOGRAMS: [HistogramFamily; 12] = [
    ("iteration_tokens_total", "Histogram of number of tokens per engine_step.", |s| &s.iteration_tokens),
    ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", |s| &s.time_to_first_token),
    ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", |s| &s.inter_token_latency),
    ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", |s| &s.e2e_request_latency),
    ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", |s| &s.queue_time),
    ("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", |s| &s.prefill_time),
    ("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", |s| &s.decode_time),
    ("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", |s| &s.inference_time),
    ("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", |s| {
        &s.time_per_output_token
    }),
    ("request_prompt_tokens", "Number of prefill tokens processed.", |s| &s.request_prompt_tokens),
    ("request_generation_tokens", "Number of generation tokens processed.", |s| &s.request_generation_tokens),
    ("request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", |s| {
        &s.request_generation_tokens
    }),
];

pub(crate) fn page(app: &App) -> String {
    render(&app.engine.stats(), &app.names[0], &app.spec.engine)
}

fn render(stats: &Stats, model: &str, engine: &EngineSpec) -> String {
    let mut page = Page { out: String::new(), model: format!("model_name={}", json!(model)) };
    GAUGES.iter().for_each(|(name, help, value)| page.single(name, help, "gauge", value(stats)));
    COUNTERS.iter().for_each(|(name, help, value)| page.single(name, help, "counter", value(stats) as f64));
    page.finished(stats);
    HISTOGRAMS.iter().for_each(|(name, help, histogram)| page.histogram(name, help, histogram(stats)));
    page.cache_config(engine);
    page.out
}

struct Page {
    out: String,
    model: String,
}

impl Page {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.out.push_str(&format!("# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}\n"));
    }

    /// One sample; `label` is an extra label with its comma, at its alphabetical position.
    fn sample(&mut self, name: &str, label: &str, value: f64) {
        let (model, value) = (&self.model, float_repr(value));
        self.out.push_str(&format!("vllm:{name}{{engine=\"0\",{label}{model}}} {value}\n"));
    }

    fn single(&mut self, name: &str, help: &str, kind: &str, value: f64) {
        self.head(name, help, kind);
        self.sample(name, "", value);
    }

    /// The limits that tools read from this endpoint.
    fn cache_config(&mut self, engine: &EngineSpec) {
        let name = "cache_config_info";
        self.head(name, "Information of the LLMEngine CacheConfig", "gauge");
        let caching = if engine.enable_prefix_caching { "True" } else { "False" };
        let (size, blocks) = (engine.block_size, engine.num_blocks);
        self.out.push_str(&format!(
            "vllm:{name}{{block_size=\"{size}\",enable_prefix_caching=\"{caching}\",engine=\"0\",num_gpu_blocks=\"{blocks}\"}} 1.0\n"
        ));
    }

    fn finished(&mut self, stats: &Stats) {
        let name = "request_success_total";
        self.head(name, "Count of successfully processed requests.", "counter");
        for (reason, count) in FINISHED {
            self.sample(name, &format!(r#"finished_reason="{reason}","#), count(stats) as f64);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        for (bound, count) in histogram.cumulative() {
            let bound = if bound.is_finite() { float_repr(bound) } else { "+Inf".to_owned() };
            self.sample(&format!("{name}_bucket"), &format!(r#"le="{bound}","#), count as f64);
        }
        self.sample(&format!("{name}_count"), "", histogram.count() as f64);
        self.sample(&format!("{name}_sum"), "", histogram.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_vllms_names_and_labels() {
        let mut stats = Stats { prefix_cache_hits: 12, finished_stop: 3, ..Stats::default() };
        stats.time_to_first_token.observe(0.003);
        let text = render(&stats, "tiny", &EngineSpec::default());
        for line in [
            "# TYPE vllm:prefix_cache_hits_total counter",
            r#"vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 12.0"#,
            r#"vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 3.0"#,
            r#"vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="tiny"} 0.0"#,
            r#"vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 1.0"#,
            r#"vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"} 0.003"#,
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
    }
}
