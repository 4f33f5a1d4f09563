//! `tacho throughput`: throughput of a workload submitted at once to an engine or a running server.

use std::{path::Path, time::Duration};

use tacho_client::{BackendKind, EndpointSpec, Url, host_and_port, proxy_for};
use tacho_core::{EventSink, RunEvent, dict, json::Value};
use tacho_report::Progress;
use tacho_run::offline::{OfflineLora, OfflineWorkload, PlanKind, ServedPlan, ThroughputPlan, run_served};
use tacho_run::{ModelPlan, ReportPlan, ServePlan, TrafficPlan, WorkloadPlan};

use super::{Bench, Session, throughput_workload};
use crate::{
    args::offline::Backend, args::offline::throughput::ThroughputArgs, commands::serve::log::required,
    commands::sign_in, commands::sim::hub, exit::Exit,
};

const NAME: &str = "throughput";

pub(crate) fn run(args: &ThroughputArgs) -> anyhow::Result<Exit> {
    let session = Session::open(&args.common, args.backend(), Progress::Shown)?;
    warn(args, &session.screen);
    let share = share(args.common.engine.data_parallel_size)?;
    let output = args.common.output_json.as_deref().map(|path| of_rank(path, share));
    if args.backend().is_server() {
        let output = super::output(output.as_deref())?;
        let plan = served(args)?;
        session.interrupt.measuring();
        let measured = run_served(&plan, &session.interrupt.stop, &session.screen);
        let measured = measured.map_err(|error| session.explained(error))?;
        return session.conclude(NAME, measured, output.as_deref(), final_flags(args));
    }
    let mut bench = Bench::new(NAME, &args.common, PlanKind::Throughput(plan(args, share)?));
    bench.output = output;
    bench.final_flags = final_flags(args);
    bench.settings.set("max_batch_size", args.hf_max_batch_size);
    bench.settings.set("torch_compile", args.hf_enable_torch_compile);
    session.run(bench)
}

/// The values that vLLM's records have for flags that it changes.
fn final_flags(args: &ThroughputArgs) -> Vec<(&'static str, Value)> {
    let mut flags = vec![
        ("tokenizer", args.common.engine.tokenizer_name().into()),
        ("dataset_name", args.effective_dataset().into()),
    ];
    if matches!(args.backend(), Backend::Hf | Backend::Mii) && args.common.engine.tokenizer_mode == "auto" {
        flags.push(("tokenizer_mode", "hf".into()));
    }
    flags
}

/// Emits vLLM's warnings, but only about flags that were given.
fn warn(args: &ThroughputArgs, sink: &dyn EventSink) {
    let dataset = args.effective_dataset();
    if args.dataset_path.is_none() && args.dataset_name != "prefix_repetition" && dataset == "random" {
        let line = "When dataset path is not set, it will default to random dataset";
        sink.event(RunEvent::status(line));
    }
    let given = |flag: &str| args.common.engine.values.is_set(flag);
    let random = dataset.starts_with("random");
    let cases = [
        (
            dataset != "hf" && (given("--hf-subset") || given("--hf-split")),
            "--hf-subset and --hf-split are only for hf",
        ),
        (!random && given("--random-range-ratio"), "--random-range-ratio is only for random datasets"),
        (
            !random && dataset != "sonnet" && given("--prefix-len"),
            "--prefix-len is only for random datasets and sonnet",
        ),
        (given("--random-batch-size"), "--random-batch-size is only for random-rerank"),
        (given("--no-reranker"), "--no-reranker is only for random-rerank"),
        (
            random
                && !args.has_legacy_lengths()
                && ["--input-len", "--output-len", "--prefix-len"].into_iter().any(given),
            "--input-len, --output-len and --prefix-len have no effect together with the --random-* lengths",
        ),
        (given("--dataset"), "--dataset is the old name of --dataset-path"),
        (given("--disable-frontend-multiprocessing"), "--disable-frontend-multiprocessing has no effect any more"),
        (
            args.lora_path.is_some() && !args.common.engine.enable_lora,
            "--lora-path has no effect without --enable-lora",
        ),
    ];
    for (_, text) in cases.into_iter().filter(|(holds, _)| *holds) {
        sink.event(RunEvent::warning(text));
    }
}

fn plan(args: &ThroughputArgs, share: Option<(usize, usize)>) -> anyhow::Result<ThroughputPlan> {
    let count = u64::try_from(args.common.engine.max_loras)?;
    let lora = |path: &String| OfflineLora { path: path.clone(), count, assignment: args.lora_assignment };
    Ok(ThroughputPlan {
        workload: throughput_workload(args)?,
        lora: args.lora_path.as_ref().filter(|_| args.common.engine.enable_lora).map(lora),
        share,
        prequeue: args.prequeue_requests,
        counts_media: args.backend() == Backend::VllmChat,
        runs: args.num_runs,
    })
}

/// With several processes, each writes a separate file: `o.json` becomes `o.dp0.json`.
fn of_rank(path: &str, share: Option<(usize, usize)>) -> String {
    let Some((rank, _)) = share else { return path.to_owned() };
    let ending =
        Path::new(path).extension().map_or_else(String::new, |ending| format!(".{}", ending.to_string_lossy()));
    format!("{}.dp{rank}{ending}", path.strip_suffix(&ending).unwrap_or(path))
}

/// This process's share of the requests, if several processes were launched.
fn share(size: i64) -> anyhow::Result<Option<(usize, usize)>> {
    if size <= 1 {
        return Ok(None);
    }
    let number = |name: &str| -> anyhow::Result<usize> {
        let text = std::env::var(name).map_err(|_| anyhow::anyhow!("{name} is not set: start this with torchrun"))?;
        text.parse().map_err(|_| anyhow::anyhow!("{name}={text} is not a number"))
    };
    let (rank, world, size) = (number("RANK")?, number("WORLD_SIZE")?, usize::try_from(size)?);
    anyhow::ensure!(world >= size, "WORLD_SIZE={world} is less than --data-parallel-size {size}");
    Ok(Some((rank / (world / size), size)))
}

fn served(args: &ThroughputArgs) -> anyhow::Result<ServedPlan> {
    let (kind, endpoint) = match args.backend() {
        Backend::OpenAiChat => (BackendKind::OpenAiChat, "/v1/chat/completions"),
        _ => (BackendKind::OpenAi, "/v1/completions"),
    };
    let base_url = args.base_url.clone().unwrap_or_else(|| format!("http://{}", host_and_port(&args.host, args.port)));
    let base_url = base_url.trim_end_matches('/');
    let base = Url::parse(base_url)?;
    let url = Url::parse(&format!("{base_url}{endpoint}"))?;
    let variable = |name: &str| std::env::var(name).ok();
    let workload = match throughput_workload(args)? {
        OfflineWorkload::File { path, .. } => WorkloadPlan::File { path, time_scale: 1.0 },
        OfflineWorkload::Sample { measured: spec, .. } => {
            WorkloadPlan::Sample { spec, num_prompts: args.num_prompts, align: false, self_timed: false }
        }
    };
    let mut endpoint = EndpointSpec {
        proxy: proxy_for(&url, &variable)?,
        api_key: variable("OPENAI_API_KEY").filter(|key| !key.is_empty()).map(tacho_core::Secret::new),
        ca_file: variable("SSL_CERT_FILE").map(Into::into),
        connect_timeout: Duration::from_secs(30),
        ..EndpointSpec::new(url, kind)
    };
    sign_in::add(&args.sign_in, &mut endpoint)?;
    let serve = ServePlan {
        endpoint,
        base_path: base.path.trim_end_matches('/').to_owned(),
        model: ModelPlan {
            model: args.common.engine.values.is_set("--model").then(|| args.common.engine.model.clone()),
            served_name: None,
        },
        tokenizer: super::tokenizer(&args.common.engine, false),
        hub: hub(),
        workload,
        replayed: None,
        lora: None,
        max_model_len: None,
        seed: u32::try_from(args.common.engine.seed)?,
        traffic: traffic(args)?,
        report: ReportPlan { metric_percentiles: vec![99.0], ..ReportPlan::default() },
        log: args.common.log.as_deref().map(|directory| required(directory, &args.common.engine.values)),
        check: None,
        grade: None,
        row_command: None,
        ranks: None,
    };
    Ok(ServedPlan {
        serve,
        runs: args.num_runs,
        engine: super::note(args.backend(), &args.common.worker)?,
        save_workload: args.common.source.save_workload.as_ref().map(Into::into),
    })
}

/// Sends all requests at once, with full output lengths.
fn traffic(args: &ThroughputArgs) -> anyhow::Result<TrafficPlan> {
    let mut traffic = TrafficPlan { warmups: usize::try_from(args.num_warmups)?, ..TrafficPlan::at_once() };
    traffic.payload.extra_body = dict! { "temperature": 1.0, "top_p": 1.0 };
    Ok(traffic)
}
