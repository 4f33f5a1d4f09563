//! Shared code of the four offline commands: engine, screen, and result file.

pub(super) mod latency;
pub(super) mod mm_processor;
pub(crate) mod simulated;
pub(super) mod startup;
pub(super) mod throughput;
pub(super) mod workload;

pub(super) use simulated::SimulatedEngine;
pub(super) use workload::{multimodal, throughput as throughput_workload};

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, RunEvent};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, OfflineRecord};
use tacho_report::json::try_writing;
use tacho_report::{Progress, names, offline as report};
use tacho_run::offline::{LogTap, Measured, PythonSpec, Source, WorkerSource, find_python};
use tacho_run::{NamedTokenizer, TokenizerPlan};

use super::screen::Screen;
use super::sim::{hub, profile};
use crate::args::offline::{EngineArgs, WorkerArgs};
use crate::args::shared::live::LiveArgs;
use crate::exit::{Exit, saved};

/// KV transfer configuration that fills the KV cache of prompts with dummy values; states vLLM's defaults of the
/// connector explicitly.
const DECODE_BENCH: &str = r#"{"kv_connector": "DecodeBenchConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"fill_mean": 0.015, "fill_std": 0.0}}"#;

pub(super) fn sink(live: &LiveArgs, worker: &WorkerArgs, progress: Progress) -> anyhow::Result<Screen> {
    Screen::open(live, worker.quiet, progress)
}

/// Engine flags that the simulated engine supports.
const SIMULATED: [&str; 11] = [
    "--model",
    "--tokenizer",
    "--tokenizer-mode",
    "--seed",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--max-model-len",
    "--block-size",
    "--num-gpu-blocks-override",
    "--enable-prefix-caching",
    "--kv-transfer-config",
];

/// Emits notices about engine flags.
pub(super) fn notices(engine: &EngineArgs, sim: bool, sink: &dyn EventSink) {
    let dropped: Vec<&str> =
        engine.typed.given.iter().copied().filter(|flag| sim && !SIMULATED.contains(flag)).collect();
    if !dropped.is_empty() {
        sink.event(RunEvent::warning(format!("the simulated engine does not model {}", dropped.join(", "))));
    }
    if !engine.typed.duplicates.is_empty() {
        sink.event(RunEvent::warning(format!("Found duplicate keys {}", engine.typed.duplicates.join(", "))));
    }
}

/// Describes the engine, simulated or real, in the record.
pub(super) fn note(backend: &str, sim: bool, worker: &WorkerArgs) -> anyhow::Result<EngineNote> {
    let simulated = sim.then(|| profile(worker.sim_profile.as_deref())).transpose()?;
    Ok(EngineNote {
        backend: backend.to_owned(),
        simulated: simulated.map(|profile| profile.name),
        ..EngineNote::default()
    })
}

/// The tokenizer for prompts. The simulated engine uses the built-in one by default.
pub(super) fn tokenizer(engine: &EngineArgs, sim: bool) -> TokenizerPlan {
    match (&engine.tokenizer, sim) {
        (None, true) => TokenizerPlan::Builtin,
        (named, _) => TokenizerPlan::Named(NamedTokenizer {
            name: named.clone(),
            revision: engine.tokenizer_revision.clone(),
            mode: engine.mode(),
        }),
    }
}

/// The source of requests for an engine.
pub(super) fn source(engine: &EngineArgs, sim: bool) -> anyhow::Result<Source> {
    let seed = u32::try_from(engine.seed)?;
    Ok(Source { model_id: engine.model.clone(), tokenizer: tokenizer(engine, sim), hub: hub(), seed })
}

/// The Python process to start.
pub(super) fn python(
    kind: &'static str,
    engine: &EngineArgs,
    worker: &WorkerArgs,
    defaults: Dict,
    stop: &StopSignal,
) -> anyhow::Result<PythonSpec> {
    let is_path = engine.model.starts_with(['/', '.']);
    anyhow::ensure!(!is_path || Path::new(&engine.model).exists(), "--model {}: no such directory", engine.model);
    let variable = |name: &str| std::env::var(name).ok();
    let mut words = engine.typed.words.clone();
    let mut defaults = defaults;
    if worker.decode_bench {
        words.extend(["--kv-transfer-config".to_owned(), DECODE_BENCH.to_owned()]);
        // A cached prefix would not be filled, which would change the measurement.
        defaults.set("enable_prefix_caching", false);
    }
    Ok(PythonSpec {
        launcher: Vec::new(),
        python: find_python(worker.python.as_deref(), &variable).map_err(tacho_run::Error::from)?,
        worker: worker.worker_script.as_ref().map_or(WorkerSource::Embedded, |path| WorkerSource::File(path.into())),
        engine: kind,
        words,
        defaults,
        settings: settings(engine),
        accepts_async_flags: false,
        mm_stats: false,
        environment: Vec::new(),
        timeout: worker.worker_timeout,
        log: log_tap(worker.engine_log.as_deref())?,
        stop: stop.clone(),
    })
}

/// Runs an engine under Nsight Systems as in vLLM's documentation: one capture per start and stop of the profiler.
pub(super) fn under_nsys(spec: &mut PythonSpec, report: &str, engine: &EngineArgs) {
    let settings = [
        "nsys",
        "profile",
        "--trace-fork-before-exec=true",
        "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end",
        "repeat",
        "--force-overwrite=true",
        "--output",
        report,
    ];
    spec.launcher = settings.map(str::to_owned).to_vec();
    spec.environment.push(("VLLM_WORKER_MULTIPROC_METHOD".to_owned(), "spawn".to_owned()));
    if !engine.typed.given.contains(&"--profiler-config") {
        spec.words.extend(["--profiler-config".to_owned(), r#"{"profiler": "cuda"}"#.to_owned()]);
    }
}

/// Settings for engines that do not use vLLM's argument parser.
fn settings(engine: &EngineArgs) -> Dict {
    let mut settings = Dict::new();
    settings.set("model", engine.model.as_str());
    settings.set("tokenizer", engine.tokenizer_name());
    settings.set("dtype", engine.dtype.as_str());
    settings.set("trust_remote_code", engine.trust_remote_code);
    settings.set("tensor_parallel_size", engine.tensor_parallel_size);
    settings.set("dummy_weights", engine.load_format == "dummy");
    settings
}

/// Forwards the engine's log to a file or to stderr; with a full-screen view, after the terminal is restored.
fn log_tap(file: Option<&str>) -> anyhow::Result<LogTap> {
    let Some(path) = file else {
        return Ok(Arc::new(|bytes| {
            let _ = tacho_report::live::DeferredStderr.write_all(bytes);
        }));
    };
    let file = std::fs::File::create(path).with_context(|| format!("cannot write --engine-log {path}"))?;
    Ok(Arc::new(move |bytes| {
        // A full disk must not end a measurement; the last lines are still kept for error messages.
        let _ = (&file).write_all(bytes);
    }))
}

pub(super) fn print(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(tacho_report::out(), "{text}")?)
}

/// Writes the result file and, if requested, records in PyTorch's benchmark format; `namespace` holds the flags they
/// state.
pub(super) fn save(
    record: &OfflineRecord,
    output: Option<&Path>,
    namespace: impl FnOnce() -> Dict,
) -> anyhow::Result<()> {
    let Some(path) = output else { return Ok(()) };
    report::save_record(path, record)?;
    if std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty()) {
        for (ending, records) in report::records(record, &namespace(), path) {
            report::save_records(&names::side_path(path, &ending), records)?;
        }
    }
    Ok(())
}

/// Prints the report and the paths of the files. Returns the error if the measurement ended early.
pub(super) fn conclude(measured: Measured, files: &[Option<&Path>]) -> anyhow::Result<Exit> {
    print(&report::text(&measured.record))?;
    files.iter().flatten().for_each(saved);
    match measured.ended {
        Some(error) => Err(error.into()),
        None if measured.record.measured.is_empty() => Ok(Exit::Failed),
        None => Ok(Exit::Done),
    }
}

/// Returns the result path after creating its directory and checking that it is writable.
pub(super) fn output(path: Option<&str>) -> anyhow::Result<Option<PathBuf>> {
    let Some(path) = path.map(PathBuf::from) else { return Ok(None) };
    let directory = path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory of --output-json, {}", directory.display()))?;
    try_writing(directory).with_context(|| format!("cannot write results into {}", directory.display()))?;
    anyhow::ensure!(!path.is_dir(), "{} is a directory, not a file: check --output-json", path.display());
    Ok(Some(path))
}

/// The engine entry of the argument dump.
pub(super) fn model_dict(args: &Dict) -> Option<&Dict> {
    Some(args).filter(|args| args.get("model").is_some_and(|model| *model != Value::Null))
}

/// The log's header, written before the first measurement.
pub(super) fn about(kind: &str, model_id: &str, engine: &EngineNote, planned: u64) -> Dict {
    let mut about = Dict::new();
    about.set("kind", kind);
    about.set("model_id", model_id);
    about.set("backend", engine.backend.as_str());
    about.set("simulated", engine.simulated.as_deref());
    about.set("planned", planned);
    about
}

/// The log's summary, written after the last measurement: report and result file.
pub(super) fn closing(record: &OfflineRecord) -> Dict {
    let mut closing = Dict::new();
    closing.set("text", report::text(record));
    closing.set("result", report::json(record));
    closing
}
