//! Information about the server, and its tokenizer.

use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};

use crate::server::app::App;
use crate::server::request::{Fields, Problem, Source, prompt, tables, types};

/// The vLLM version whose API is simulated.
pub(crate) const VERSION: &str = "0.32.0";

/// `/v1/models`: the served names and the LoRA adapters.
pub(crate) fn models(app: &App, _: &str) -> Json {
    let created = app.unix_time();
    let base = app.names.iter().map(|name| (name, None));
    let adapters = app.spec.lora_modules.iter().map(|name| (name, app.names.first()));
    let card = |(name, parent): (&String, Option<&String>)| {
        let permission = json!({"id": format!("modelperm-{}", app.random_id()), "object": "model_permission",
            "created": created, "allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true,
            "allow_search_indices": false, "allow_view": true, "allow_fine_tuning": false, "organization": "*",
            "group": null, "is_blocking": false});
        json!({"id": name, "object": "model", "created": created, "owned_by": "vllm",
            "root": if parent.is_some() { name } else { &app.spec.model }, "parent": parent,
            "max_model_len": parent.is_none().then_some(app.spec.engine.max_model_len), "permission": [permission]})
    };
    json!({"object": "list", "data": base.chain(adapters).map(card).collect::<Vec<_>>()})
}

/// `/server_info`: the settings, as one object or as one text.
pub(crate) fn server_info(app: &App, query: &str) -> Json {
    let (spec, engine) = (&app.spec, &app.spec.engine);
    let (caching, policy) = (engine.enable_prefix_caching, engine.policy.name());
    let config = if query.split('&').any(|pair| pair == "config_format=json") {
        json!({
            "model_config": {"model": spec.model, "max_model_len": engine.max_model_len, "seed": spec.seed},
            "cache_config": {"block_size": engine.block_size, "enable_prefix_caching": caching,
                "num_gpu_blocks": engine.num_blocks, "kv_cache_size_tokens": engine.kv_tokens(),
                "kv_cache_max_concurrency": (engine.max_concurrency() * 100.0).round() / 100.0},
            "scheduler_config": {"max_num_batched_tokens": engine.max_num_batched_tokens,
                "max_num_seqs": engine.max_num_seqs, "enable_chunked_prefill": true, "policy": policy,
                "async_scheduling": engine.async_scheduling, "stream_interval": spec.stream_interval}
        })
    } else {
        let caching = if caching { "True" } else { "False" };
        json!(format!(
            "model='{}', max_seq_len={}, seed={}, served_model_name={}, enable_prefix_caching={caching}, \
             enable_chunked_prefill=True, scheduling_policy={policy}",
            spec.model, engine.max_model_len, spec.seed, app.names[0]
        ))
    };
    json!({"vllm_config": config, "vllm_env": {}, "system_env": {}})
}

/// `/load`: requests that are being served.
pub(crate) fn load(app: &App, _: &str) -> Json {
    json!({"server_load": app.serving.load(Ordering::Relaxed)})
}

/// `/is_sleeping`: set by `/sleep` and `/wake_up`; requests are served either way.
pub(crate) fn is_sleeping(app: &App, _: &str) -> Json {
    json!({"is_sleeping": app.sleeping.load(Ordering::Relaxed)})
}

/// `/version`: the version of the simulated API, and that it is simulated.
pub(crate) fn version(app: &App, _: &str) -> Json {
    let simulator = json!({"version": env!("CARGO_PKG_VERSION"), "profile": app.spec.machine.name});
    json!({"version": VERSION, "tacho_simulator": simulator})
}

/// `/openapi.json`: the title and version, without paths.
pub(crate) fn openapi(_: &App, _: &str) -> Json {
    json!({"openapi": "3.1.0", "info": {"title": "FastAPI", "version": VERSION}, "paths": {}})
}

pub(crate) fn tokenize(app: &App, fields: &Fields) -> Result<Json, Problem> {
    if fields.truthy("continue_final_message") && fields.truthy("add_generation_prompt") {
        return Err(Problem::bad_request("continue_final_message: expected only without add_generation_prompt"));
    }
    let source = if fields.dict().get("messages").is_some() {
        prompt::of_conversation(fields)?
    } else {
        Source::Text(fields.required_text("prompt")?, fields.flag_or_true("add_special_tokens")?)
    };
    app.resolve(fields.text("model")?)?;
    source.check_length(app.spec.engine.max_model_len, || app.characters_per_token())?;
    let ids = source.into_prompt(&app.spec.tokenizer, &app.vocabulary).ids;
    let texts = || ids.iter().map(|id| app.spec.tokenizer.decode(&[*id])).collect::<Vec<_>>();
    let texts = fields.flag("return_token_strs")?.then(texts);
    let limit = app.spec.engine.max_model_len;
    Ok(json!({"count": ids.len(), "max_model_len": limit, "tokens": ids.to_vec(), "token_strs": texts}))
}

/// `/detokenize`; unknown ids have no text.
pub(crate) fn detokenize(app: &App, fields: &Fields) -> Result<Json, Problem> {
    types::check(tables::DETOKENIZE, fields.dict())?;
    app.resolve(fields.text("model")?)?;
    let size = app.spec.tokenizer.full_vocab_size();
    let known = fields.ints("tokens")?.into_iter().filter_map(|id| u32::try_from(id).ok());
    let known: Vec<u32> = known.filter(|id| (*id as usize) < size).collect();
    Ok(json!({"prompt": app.spec.tokenizer.decode(&known)}))
}
