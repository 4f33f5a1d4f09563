//! `tacho throughput`: throughput of a workload submitted at once to an engine or a running server.

use std::path::Path;
use std::time::Duration;

use tacho_client::{BackendKind, EndpointSpec, Url, host_and_port, proxy_for};
use tacho_core::json::Dict;
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::Phase;
use tacho_report::Progress;
use tacho_run::offline::{LoggedEngine, Measured, OfflineEngine, OfflineWorkload, PythonEngine, Sampling};
use tacho_run::throughput::{OfflineLora, ServedPlan, ThroughputPlan, prepare, run as run_engine, run_served};
use tacho_run::{ModelPlan, ReportPlan, ServePlan, TrafficPlan, WorkloadPlan};

use super::{SimulatedEngine, throughput_workload};
use crate::args::offline::throughput::{Backend, ThroughputArgs};
use crate::args::offline::{OfflineRefusal, namespace};
use crate::commands::serve::log::required;
use crate::commands::sign_in;
use crate::commands::sim::hub;
use crate::exit::{Exit, saved};
use crate::interrupt::Interrupt;

pub(crate) fn run(args: &ThroughputArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::catch()?;
    let sink = super::sink(&args.common.live, &args.common.worker, Progress::Shown)?;
    super::notices(&args.common.engine, args.backend() == Backend::Sim, &sink);
    warn(args, &sink);
    let share = share(args.common.engine.data_parallel_size)?;
    let mine = args.output_json.as_deref().map(|path| of_rank(path, share));
    let output = super::output(mine.as_deref())?;
    let (measured, engine_args) = match args.backend() {
        Backend::OpenAi | Backend::OpenAiChat => (served(args, &interrupt, &sink)?, None),
        _ => local(args, &interrupt, &sink)?,
    };
    sink.close();
    super::save(&measured.record, output.as_deref(), || flags(args, engine_args.as_ref()))?;
    super::conclude(measured, &[output.as_deref(), args.log.as_deref().map(Path::new)])
}

/// Runs the batch on an engine of this machine.
fn local(
    args: &ThroughputArgs,
    interrupt: &Interrupt,
    sink: &dyn EventSink,
) -> anyhow::Result<(Measured, Option<Dict>)> {
    let plan = plan(args)?;
    let log = args.log.as_deref().map(|directory| required(directory, &args.common.values));
    let about = super::about("throughput", &plan.source.model_id, &plan.engine, plan.runs);
    let mut engine = LoggedEngine::open(engine(args, &interrupt.stop)?, log.as_ref(), about, 0, sink)?;
    // Report invalid engine arguments before sampling.
    let parsed = engine.parse().map_err(tacho_run::Error::from)?;
    let batches = prepare(&plan, sink).map_err(in_vllms_words)?;
    if let Some(path) = &args.source.save_workload {
        batches.save(path.as_ref())?;
        saved(path);
    }
    // From here on, an interrupt shuts the engine down in order and keeps the measurements.
    interrupt.measuring();
    let mut measured = run_engine(&plan, &batches, &mut engine, sink)?;
    if let Some(report) = &args.nsys {
        measured.record.engine.profile_dir = Some(format!("{report}.nsys-rep"));
    }
    engine.finish(super::closing(&measured.record));
    if measured.ended.is_none() {
        engine.close().map_err(tacho_run::Error::from)?;
    }
    Ok((measured, Some(parsed)))
}

/// Workload errors name protocols that support media; this command has engines instead.
fn in_vllms_words(error: tacho_run::Error) -> anyhow::Error {
    match error {
        tacho_run::Error::Workload(tacho_workload::Error::NotMultimodal { backend }) => {
            OfflineRefusal::NoMedia { backend }.into()
        }
        error => error.into(),
    }
}

/// The flags in the format of vLLM's records.
fn flags(args: &ThroughputArgs, engine_args: Option<&Dict>) -> Dict {
    let mut namespace = namespace(&args.common.values, "throughput", engine_args.and_then(super::model_dict));
    namespace.set("tokenizer", args.common.engine.tokenizer_name());
    namespace.set("dataset_name", args.effective_dataset());
    if matches!(args.backend(), Backend::Hf | Backend::Mii) && args.common.engine.tokenizer_mode == "auto" {
        namespace.set("tokenizer_mode", "hf");
    }
    namespace
}

/// Emits vLLM's warnings, but only about flags that were given.
fn warn(args: &ThroughputArgs, sink: &dyn EventSink) {
    let dataset = args.effective_dataset();
    if args.dataset_path.is_none() && args.dataset_name != "prefix_repetition" && dataset == "random" {
        let line = "When dataset path is not set, it will default to random dataset";
        sink.event(RunEvent::status(line));
    }
    let given = |flag: &str| args.common.values.is_given(flag);
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

fn engine(args: &ThroughputArgs, stop: &StopSignal) -> anyhow::Result<Box<dyn OfflineEngine>> {
    if args.backend() == Backend::Sim {
        let engine = SimulatedEngine::new(&args.common.engine, &args.common.worker, true, Phase::Warm)?;
        return Ok(Box::new(engine));
    }
    let kind = if args.backend() == Backend::VllmAsync { "vllm-async" } else { args.backend().name() };
    let mut spec = super::python(kind, &args.common.engine, &args.common.worker, Dict::new(), stop)?;
    spec.accepts_async_flags = true;
    if let Some(report) = &args.nsys {
        super::under_nsys(&mut spec, report, &args.common.engine);
    }
    spec.settings.set("max_batch_size", args.hf_max_batch_size);
    spec.settings.set("torch_compile", args.hf_enable_torch_compile);
    Ok(Box::new(PythonEngine::new(spec)))
}

fn plan(args: &ThroughputArgs) -> anyhow::Result<ThroughputPlan> {
    let sim = args.backend() == Backend::Sim;
    let enabled = args.common.engine.enable_lora;
    let lora = args.lora_path.as_ref().filter(|_| enabled).map(|path| {
        anyhow::Ok(OfflineLora {
            path: path.clone(),
            count: u64::try_from(args.common.engine.max_loras)?,
            assignment: args.lora_assignment,
        })
    });
    Ok(ThroughputPlan {
        engine: super::note(args.backend().name(), sim, &args.common.worker)?,
        source: super::source(&args.common.engine, sim)?,
        workload: throughput_workload(args)?,
        sampling: Sampling {
            n: u64::try_from(args.n)?,
            temperature: 1.0,
            ignore_eos: true,
            detokenize: !args.disable_detokenize,
            beam: false,
        },
        lora: lora.transpose()?,
        share: share(args.common.engine.data_parallel_size)?,
        profile: args.profile,
        prequeue: args.prequeue_requests,
        progress: !args.common.worker.quiet,
        counts_media: args.backend() == Backend::VllmChat,
        runs: u64::try_from(args.num_runs)?,
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

/// Runs the batch against a running server.
fn served(args: &ThroughputArgs, interrupt: &Interrupt, sink: &dyn EventSink) -> anyhow::Result<Measured> {
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
            model: args.common.values.is_given("--model").then(|| args.common.engine.model.clone()),
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
        report: ReportPlan {
            label: None,
            metadata: Vec::new(),
            percentile_metrics: Vec::new(),
            metric_percentiles: vec![99.0],
            metrics: tacho_metrics::MetricSettings::default(),
            keep_texts: false,
            provenance: None,
        },
        log: args.log.as_deref().map(|directory| required(directory, &args.common.values)),
        row_command: None,
        ranks: None,
    };
    let plan = ServedPlan {
        serve,
        runs: u64::try_from(args.num_runs)?,
        engine: super::note(args.backend().name(), false, &args.common.worker)?,
        save_workload: args.source.save_workload.as_ref().map(Into::into),
    };
    interrupt.measuring();
    run_served(&plan, &interrupt.stop, sink).map_err(in_vllms_words)
}

/// Sends all requests at once, with full output lengths.
fn traffic(args: &ThroughputArgs) -> anyhow::Result<TrafficPlan> {
    let mut extra_body = Dict::new();
    extra_body.set("temperature", 1.0);
    extra_body.set("top_p", 1.0);
    Ok(TrafficPlan { extra_body, warmups: usize::try_from(args.num_warmups)?, ..TrafficPlan::at_once() })
}
