//! Invalid server responses and user input: an error or a value, never a panic or unbounded memory.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-decide --test fuzz -- --nocapture --test-threads=1` tries
//! a million of each kind on all cores.

use tacho_decide::{gate::Rule, search::Criterion, threshold::Threshold};
use tacho_metrics::{DiffusionCounters, MetricKind, ServerMetrics, SpeculativeCounters, dcgm};
use tacho_testkit::{Counted, fuzz};

#[global_allocator]
static COUNTED: Counted = Counted;

const VLLM: &[u8] = b"# HELP a b\n# TYPE vllm:num_requests_running gauge\n\
    vllm:num_requests_running{model=\"m\",e=\"\\\"x\"} 3.0\n# TYPE b_total counter\nb_total{} +Inf 1700\n\
    c_bucket{le=\"0.5\"} 7\nvllm:spec_decode_num_drafts_total{engine=\"0\"} 5\n\
    vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 9e3\n\
    vllm:prefix_cache_queries_total 7\nvllm:prefix_cache_hits_total 3\n";
const DCGM: &[u8] = b"# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n\
    DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",modelName=\"H200\",Hostname=\"h\"} 97\n\
    DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 4\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 1e18\n";

#[test]
fn fuzz_server_metrics() {
    fuzz("server metrics", &[VLLM.to_vec(), DCGM.to_vec()], |bytes| {
        let page = String::from_utf8_lossy(bytes);
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, &page);
        metrics.add(1.0, &page);
        let _ = (metrics.prefix_cache_hit_rate(), dcgm::gpus(&page).len(), dcgm::models(&page).len());
        let _ = (SpeculativeCounters::parse(&page).is_some(), DiffusionCounters::parse(&page).is_some());
    });
}

#[test]
fn fuzz_terms() {
    let good = [&b"p99_ttft_ms<=200"[..], b"request_throughput:5%", b"mean_tpot_ms>1e3", b"<=1.5", b"ttft,tpot,e2el"];
    fuzz("terms", &good, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (Threshold::parse(&text).is_ok(), Rule::parse(&text).is_ok(), MetricKind::parse_list(&text).len());
        let _ = Criterion::parse("p99_ttft_ms", &text).is_ok();
    });
}
