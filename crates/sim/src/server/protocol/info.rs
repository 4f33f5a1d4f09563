//! Information about the server: its settings, its load, whether it sleeps.

use std::sync::atomic::Ordering;

use crate::server::app::App;
use crate::server::response::escape::quoted;
use crate::server::routes;

/// `/server_info`: the settings, as one object or as one text.
pub(crate) fn server_info(app: &App, query: Option<&str>) -> String {
    let spec = &app.spec;
    let engine = &spec.engine;
    let caching = engine.enable_prefix_caching;
    let policy = engine.policy.name();
    let config = if query.is_some_and(|query| query.split('&').any(|pair| pair == "config_format=json")) {
        format!(
            concat!(
                r#"{{"model_config":{{"model":{},"max_model_len":{},"seed":{}}},"#,
                r#""cache_config":{{"block_size":{},"enable_prefix_caching":{},"num_gpu_blocks":{},"kv_cache_size_tokens":{},"#,
                r#""kv_cache_max_concurrency":{:.2}}},"#,
                r#""scheduler_config":{{"max_num_batched_tokens":{},"max_num_seqs":{},"enable_chunked_prefill":true,"#,
                r#""policy":"{}","async_scheduling":{},"stream_interval":{}}}}}"#
            ),
            quoted(&spec.model),
            engine.max_model_len,
            spec.seed,
            engine.block_size,
            caching,
            engine.num_blocks,
            engine.kv_tokens(),
            engine.max_concurrency(),
            engine.max_num_batched_tokens,
            engine.max_num_seqs,
            policy,
            engine.async_scheduling,
            spec.stream_interval
        )
    } else {
        let caching = if caching { "True" } else { "False" };
        quoted(&format!(
            "model='{}', max_seq_len={}, seed={}, served_model_name={}, enable_prefix_caching={caching}, \
             enable_chunked_prefill=True, scheduling_policy={policy}",
            spec.model, engine.max_model_len, spec.seed, app.names[0]
        ))
    };
    format!(r#"{{"vllm_config":{config},"vllm_env":{{}},"system_env":{{}}}}"#)
}

/// `/load`: requests that are being served.
pub(crate) fn load(app: &App) -> String {
    format!(r#"{{"server_load":{}}}"#, app.serving.load(Ordering::Relaxed))
}

/// `/is_sleeping`: set by `/sleep` and `/wake_up`; requests are served either way.
pub(crate) fn is_sleeping(app: &App) -> String {
    format!(r#"{{"is_sleeping":{}}}"#, app.sleeping.load(Ordering::Relaxed))
}

/// `/docs`: a placeholder for the page that FastAPI generates.
pub(crate) const DOCS: &str = "<!DOCTYPE html><title>vLLM simulator</title><p>See /openapi.json.";

/// `/version`: the version of the simulated API, and that it is simulated.
pub(crate) fn version(app: &App) -> String {
    format!(
        r#"{{"version":"{}","tacho_simulator":{{"version":"{}","profile":{}}}}}"#,
        routes::VERSION,
        env!("CARGO_PKG_VERSION"),
        quoted(&app.spec.machine.name)
    )
}

/// `/openapi.json`: the title and version, without paths.
pub(crate) fn openapi() -> String {
    format!(r#"{{"openapi":"3.1.0","info":{{"title":"FastAPI","version":"{}"}},"paths":{{}}}}"#, routes::VERSION)
}
