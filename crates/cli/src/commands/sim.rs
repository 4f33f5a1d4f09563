//! `tacho sim`: runs the simulator as a server until it is stopped.

use std::net::{IpAddr, SocketAddr};
use std::{io::Write, sync::Arc};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tacho_args::near::nearest;
use tacho_engine::{EngineSpec, Machine, Profile, Transfer};
use tacho_report::{Live, Progress};
use tacho_sim::{Corruption, FaultSpec, MediaSpec, OutputFault, ProxySpec, Server, SimSpec, start_proxy};
use tacho_text::{Tokenizer, TokenizerMode};
use tacho_workload::hub::Hub;

use crate::exit::{Exit, Misused};
use crate::{args::sim::SimArgs, limits};

/// Serves until Ctrl-C.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<Exit> {
    limits::check()?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    if !args.values.duplicates.is_empty() {
        tracing::warn!("Found duplicate keys {}", args.values.duplicates.join(", "));
    }
    if let Some((prefill, decode)) = engines(args)? {
        return proxy(args, prefill, decode, &mut signals);
    }
    let spec = spec(args)?;
    let profile = spec.machine.name.clone();
    let capacity = capacity(&spec.engine);
    let mut server = Server::start(spec)?;
    let mut out = tacho_report::out();
    // One write for both lines, and errors ignored: a reader may close the pipe after the first line.
    let _ = out
        .write_all(format!("serving {} ({profile}) on http://{}\n{capacity}\n", args.model, server.addr()).as_bytes());
    let _ = out.flush();
    signals.forever().next();
    server.stop();
    Ok(Exit::Done)
}

/// The prefill and decode engines, if this is a proxy.
fn engines(args: &SimArgs) -> anyhow::Result<Option<(String, String)>> {
    match (args.prefill_url.clone(), args.decode_url.clone()) {
        (None, None) => Ok(None),
        (Some(prefill), Some(decode)) => Ok(Some((prefill, decode))),
        _ => anyhow::bail!("a proxy has two engines: pass both --prefill-url and --decode-url"),
    }
}

/// Forwards requests until Ctrl-C.
fn proxy(args: &SimArgs, prefill: String, decode: String, signals: &mut Signals) -> anyhow::Result<Exit> {
    let port = u16::try_from(args.port).context("--port is beyond 65535")?;
    let listen = SocketAddr::new(host(args)?, port);
    let mut proxy = start_proxy(&ProxySpec { listen, prefill: prefill.clone(), decode: decode.clone() })?;
    let mut out = tacho_report::out();
    writeln!(out, "passing on from {prefill} to {decode} on http://{}", proxy.addr())?;
    out.flush()?;
    signals.forever().next();
    proxy.stop();
    Ok(Exit::Done)
}

fn host(args: &SimArgs) -> anyhow::Result<IpAddr> {
    args.host.parse().with_context(|| {
        format!("--host {:?} is not an IP address: use one of this machine's, such as 127.0.0.1", args.host)
    })
}

pub(crate) fn spec(args: &SimArgs) -> anyhow::Result<SimSpec> {
    let host = host(args)?;
    let mut spec =
        SimSpec::new(profile(args.profile.as_deref())?, tokenizer(args.tokenizer.as_deref(), TokenizerMode::Auto)?);
    spec.host = host;
    spec.port = u16::try_from(args.port).context("--port is beyond 65535")?;
    spec.model.clone_from(&args.model);
    spec.lora_modules.clone_from(&args.lora_modules);
    spec.seed = args.seed.unsigned_abs();
    spec.data_parallel_size = usize::try_from(args.data_parallel_size)?;
    spec.stream_interval = usize::try_from(args.stream_interval)?;
    spec.reasoning_tokens = usize::try_from(args.reasoning_tokens).context("--reasoning-tokens is below 0")?;
    spec.media = MediaSpec {
        seconds_per_token: args.speech_seconds_per_token,
        rtf: args.speech_rtf,
        chunk: args.speech_chunk.as_secs_f64(),
        image_step: args.image_step,
        word: args.word_seconds.as_secs_f64(),
        word_delay: args.word_delay,
    };
    let engine = &mut spec.engine;
    let settings = [
        (&mut engine.max_num_seqs, args.max_num_seqs),
        (&mut engine.max_num_batched_tokens, args.max_num_batched_tokens),
        (&mut engine.block_size, args.block_size),
        (&mut engine.num_blocks, args.num_gpu_blocks),
        (&mut engine.max_model_len, args.max_model_len),
    ];
    for (setting, given) in settings {
        if let Some(value) = given {
            *setting = usize::try_from(value)?;
        }
    }
    engine.enable_prefix_caching = args.enable_prefix_caching.unwrap_or(engine.enable_prefix_caching);
    engine.policy = args.scheduling_policy;
    engine.transfer =
        Transfer { fixed_ns: args.kv_transfer_delay.as_nanos() as f64, per_token_ns: 1e9 / args.kv_transfer_rate };
    if let Some(config) = &args.kv_transfer_config {
        let connector = connector(config)?;
        engine.decode_bench = connector == "DecodeBenchConnector";
        engine.enable_prefix_caching &= !engine.decode_bench || args.enable_prefix_caching == Some(true);
    }
    spec.prompt_tokens_details = args.enable_prompt_tokens_details;
    spec.per_request_metrics = args.enable_per_request_metrics;
    spec.faults = FaultSpec {
        error_rate: args.error_rate,
        stream_error_rate: args.stream_error_rate,
        disconnect_rate: args.disconnect_rate,
        truncate_rate: args.truncate_rate,
        stall: (args.stall_rate > 0.0).then_some((args.stall_rate, args.stall_seconds)),
        outputs: args.fault.iter().map(|text| output_fault(text)).collect::<anyhow::Result<_>>()?,
        start_delay: args.start_delay,
        seed: args.fault_seed.unsigned_abs(),
    };
    Ok(spec)
}

fn output_fault(text: &str) -> anyhow::Result<OutputFault> {
    OutputFault::parse(text).ok_or_else(|| {
        let kinds = Corruption::NAMES.join(", ");
        let form = "write KIND:RATE, such as swap:0.05 or flip:0.1@8; the rate is from 0 to 1";
        Misused(format!("--fault {text:?}: {form}, kinds are {kinds}")).into()
    })
}

fn connector(config: &str) -> anyhow::Result<String> {
    let value =
        tacho_core::json::parse(config).with_context(|| format!("--kv-transfer-config {config:?} is not JSON"))?;
    let name = value.get("kv_connector").and_then(tacho_core::json::Value::as_str);
    Ok(name.with_context(|| format!("--kv-transfer-config {config:?} has no kv_connector"))?.to_owned())
}

/// vLLM's start-up line about KV cache capacity, which tools parse from its log.
fn capacity(engine: &EngineSpec) -> String {
    let grouped = |number: usize| {
        let digits = number.to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
        groups.join(",")
    };
    format!(
        "GPU KV cache size: {} tokens, Maximum concurrency for {} tokens per request: {:.2}x",
        grouped(engine.kv_tokens()),
        grouped(engine.max_model_len),
        engine.max_concurrency()
    )
}

/// The speed profile: a built-in one by name, a file of `tacho fit`, or the default.
pub(crate) fn profile(name: Option<&str>) -> anyhow::Result<Machine> {
    let Some(name) = name else { return Ok(Profile::default().into()) };
    if name.ends_with(".json") || name.contains('/') {
        let text = tacho_core::files::read_settings_text(name)
            .with_context(|| format!("the profile {name} cannot be read"))?;
        return Ok(Machine::parse(&text, name)?);
    }
    let unknown = |error: tacho_engine::Error| {
        let meant = nearest(name, Profile::NAMES).map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        Misused(format!("{error}{meant}"))
    };
    Ok(Profile::parse(name).map_err(unknown)?.into())
}

pub(crate) fn tokenizer(name: Option<&str>, mode: TokenizerMode) -> anyhow::Result<Arc<Tokenizer>> {
    Ok(Arc::new(match name {
        None => Tokenizer::builtin(),
        Some(name) => load(name, None, mode)?,
    }))
}

pub(crate) fn load(name: &str, revision: Option<&str>, mode: TokenizerMode) -> anyhow::Result<Tokenizer> {
    if hub().is_builtin(name) {
        return Ok(Tokenizer::builtin().named(name));
    }
    let directory = hub().tokenizer(name, revision, &Live::new(Progress::Shown))?;
    Ok(Tokenizer::load_as(&directory, mode)?)
}

pub(crate) fn hub() -> Hub {
    Hub::from_variables(|name| std::env::var(name).ok())
}
