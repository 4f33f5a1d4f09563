//! Shared code of the four offline commands: engine, screen, and result file.

pub(crate) mod simulated;
pub(super) mod throughput;
pub(super) mod workload;

pub(super) use simulated::SimulatedEngine;
pub(super) use workload::{multimodal, throughput as throughput_workload};

use std::path::{Path, PathBuf};
use std::{io::Write, sync::Arc};

use anyhow::Context;
use tacho_core::json::{Dict, Value};
use tacho_core::{EventSink, RunEvent, dict};
use tacho_loadgen::StopSignal;
use tacho_metrics::offline::{EngineNote, OfflineKind, OfflineRecord};
use tacho_report::{Progress, offline as report};
use tacho_run::offline::{
    EngineError, EngineMaker, LatencyPlan, LogTap, Measured, MmProcessorPlan, OfflinePlan, PlanKind, PythonEngine,
    PythonSpec, Sampling, Source, StartupPlan, WorkerSource, find_python,
};
use tacho_run::{Error, NamedTokenizer, TokenizerPlan};

use super::sim::{hub, profile};
use super::{COMMANDS, screen::Screen, serve::log::required, sweep::make_directory};
use crate::args::error::{ArgError, ArgumentError, UsageError};
use crate::args::offline::{Backend, EngineArgs, LatencyArgs, OfflineArgs, StartupArgs, WorkerArgs, namespace};
use crate::exit::{Exit, Misused, saved};
use crate::{args::help::suggest, args::offline::mm_processor::MmProcessorArgs, interrupt::Interrupt};

/// KV transfer configuration that fills the KV cache of prompts with dummy values; states vLLM's defaults of the
/// connector explicitly.
const DECODE_BENCH: &str = r#"{"kv_connector": "DecodeBenchConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"fill_mean": 0.015, "fill_std": 0.0}}"#;

/// What distinguishes an offline command from the others.
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) kind: PlanKind,
    pub(super) sampling: Sampling,
    /// Whether the engine draws its own progress bar.
    pub(super) progress: bool,
    /// The command's default, if it differs from the engine's.
    pub(super) prefix_caching: Option<bool>,
    pub(super) output: Option<String>,
    /// Settings for engines without an argument parser.
    pub(super) settings: Dict,
    /// Final values of flags that differ from the given ones.
    pub(super) final_flags: Vec<(&'static str, Value)>,
}

impl Bench {
    pub(super) fn new(name: &'static str, args: &OfflineArgs, kind: PlanKind) -> Self {
        let detokenize = !args.disable_detokenize;
        Bench {
            name,
            kind,
            sampling: Sampling { n: args.n, temperature: 1.0, ignore_eos: true, detokenize, beam: false },
            progress: !args.worker.quiet,
            prefix_caching: None,
            output: args.output_json.clone(),
            settings: Dict::new(),
            final_flags: Vec::new(),
        }
    }
}

pub(super) struct Session<'a> {
    args: &'a OfflineArgs,
    backend: Backend,
    pub(super) interrupt: Interrupt,
    pub(super) screen: Screen,
}

impl<'a> Session<'a> {
    pub(super) fn open(args: &'a OfflineArgs, backend: Backend, progress: Progress) -> anyhow::Result<Self> {
        let interrupt = Interrupt::catch()?;
        let screen = Screen::open(&args.live, args.worker.quiet, progress)?;
        notices(&args.engine, backend == Backend::Sim, &screen);
        Ok(Session { args, backend, interrupt, screen })
    }

    pub(super) fn run(&self, bench: Bench) -> anyhow::Result<Exit> {
        let args = self.args;
        let output = output(bench.output.as_deref())?;
        let make = self.maker(&bench)?;
        let plan = OfflinePlan {
            engine: note(self.backend, &args.worker)?,
            source: source(&args.engine, self.backend == Backend::Sim)?,
            sampling: bench.sampling,
            progress: bench.progress,
            profile: args.profile,
            profile_report: args.nsys.as_ref().map(|report| format!("{report}.nsys-rep")),
            log: args.log.as_deref().map(|directory| required(directory, &args.engine.values)),
            save_workload: args.source.save_workload.as_ref().map(Into::into),
            kind: bench.kind,
        };
        let (stop, measuring) = (&self.interrupt.stop, || self.interrupt.measuring());
        let measured = tacho_run::offline::run(&plan, &*make, &measuring, stop, &self.screen);
        let measured = measured.map_err(|error| self.explained(error))?;
        let caching = bench.prefix_caching.map(|default| args.engine.enable_prefix_caching.unwrap_or(default));
        let caching = caching.map(|caching| ("enable_prefix_caching", caching.into()));
        self.conclude(bench.name, measured, output.as_deref(), bench.final_flags.into_iter().chain(caching))
    }

    fn maker(&self, bench: &Bench) -> anyhow::Result<Box<EngineMaker<'static>>> {
        let (engine, worker) = (&self.args.engine, &self.args.worker);
        if self.backend == Backend::Sim {
            let simulated = SimulatedEngine::new(engine, worker, bench.prefix_caching.unwrap_or(true))?;
            return Ok(Box::new(move |phase, _| Box::new(simulated.again(phase))));
        }
        let defaults = dict! { "enable_prefix_caching"?: bench.prefix_caching };
        let mut spec = python(self.backend.name(), engine, worker, defaults, &self.interrupt.stop)?;
        spec.accepts_async_flags = matches!(bench.kind, PlanKind::Throughput(_));
        spec.mm_stats = matches!(bench.kind, PlanKind::MmProcessor(_));
        bench.settings.iter().for_each(|(key, value)| spec.settings.set(key, value.clone()));
        if let Some(report) = &self.args.nsys {
            under_nsys(&mut spec, report, engine);
        }
        Ok(Box::new(move |_, environment| {
            let environment = [spec.environment.clone(), environment].concat();
            Box::new(PythonEngine::new(PythonSpec { environment, ..spec.clone() }))
        }))
    }

    /// Writes and prints the results. Returns the error if the measurement ended early.
    pub(super) fn conclude(
        &self,
        bench: &str,
        mut measured: Measured<'_>,
        output: Option<&Path>,
        final_flags: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> anyhow::Result<Exit> {
        self.screen.close();
        let (args, record) = (self.args, &measured.record);
        let output = output.filter(|_| record.measured != OfflineKind::Profile);
        if let Some(path) = output {
            save(record, path, || {
                let mut namespace = namespace(&args.engine.values, bench, &measured.arguments);
                final_flags.into_iter().for_each(|(flag, value)| namespace.set(flag, value));
                namespace
            })?;
        }
        measured.log.finish(dict! { "text": report::text(record), "result": report::json(record) });
        print(&report::text(record))?;
        let log = args.log.as_deref().map(Path::new);
        match (&record.measured, output) {
            (OfflineKind::MmProcessor(_), Some(path)) => print(&format!("\nResults saved to {}", path.display()))?,
            (_, output) => {
                let workload = args.source.save_workload.as_deref().map(Path::new);
                [workload, output, log].iter().flatten().for_each(saved);
            }
        }
        match measured.ended {
            Some(error) => Err(error.into()),
            None if measured.record.measured.is_empty() => Ok(Exit::Failed),
            None => Ok(Exit::Done),
        }
    }

    pub(super) fn explained(&self, error: Error) -> anyhow::Error {
        match error {
            // The workload names protocols that support media; these commands have engines instead.
            Error::Workload(tacho_workload::Error::NotMultimodal { backend }) => ArgumentError::other(format!(
                "Multi-modal content is not supported on backend {backend:?}; use one of ['vllm', 'vllm-chat']."
            ))
            .into(),
            Error::Engine(EngineError::Usage { message }) => self.meant(message),
            error => error.into(),
        }
    }

    /// The error of the engine's parser. A flag that it does not know may be a misspelled one of the command.
    fn meant(&self, message: String) -> anyhow::Error {
        let args = message.strip_prefix("unrecognized arguments: ").unwrap_or_default();
        let tokens = args.split_whitespace().map(str::to_owned).collect();
        let error =
            ArgError::Usage { command: self.args.engine.values.command(), error: UsageError::Unrecognized { tokens } };
        let hints = suggest::hints(COMMANDS, &error).iter().map(|hint| format!(" ({hint})")).collect::<String>();
        Misused(message + &hints).into()
    }
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

fn notices(engine: &EngineArgs, sim: bool, sink: &dyn EventSink) {
    let dropped: Vec<&str> = engine.set_flags().filter(|flag| sim && !SIMULATED.contains(flag)).collect();
    if !dropped.is_empty() {
        sink.event(RunEvent::warning(format!("the simulated engine does not model {}", dropped.join(", "))));
    }
    if !engine.values.duplicates.is_empty() {
        sink.event(RunEvent::warning(format!("Found duplicate keys {}", engine.values.duplicates.join(", "))));
    }
}

pub(super) fn note(backend: Backend, worker: &WorkerArgs) -> anyhow::Result<EngineNote> {
    let simulated = (backend == Backend::Sim).then(|| profile(worker.sim_profile.as_deref())).transpose()?;
    let simulated = simulated.map(|profile| profile.name);
    Ok(EngineNote { backend: backend.label().to_owned(), simulated, ..EngineNote::default() })
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

pub(super) fn source(engine: &EngineArgs, sim: bool) -> anyhow::Result<Source> {
    let seed = u32::try_from(engine.seed)?;
    Ok(Source { model_id: engine.model.clone(), tokenizer: tokenizer(engine, sim), hub: hub(), seed })
}

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
    let mut args = engine.values.engine_args.clone();
    let mut defaults = defaults;
    if worker.decode_bench {
        args.extend(["--kv-transfer-config".to_owned(), DECODE_BENCH.to_owned()]);
        // A cached prefix would not be filled, which would change the measurement.
        defaults.set("enable_prefix_caching", false);
    }
    Ok(PythonSpec {
        launcher: Vec::new(),
        python: find_python(worker.python.as_deref(), &variable).map_err(tacho_run::Error::from)?,
        worker: worker.worker_script.as_ref().map_or(WorkerSource::Embedded, |path| WorkerSource::File(path.into())),
        engine: kind,
        args,
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
fn under_nsys(spec: &mut PythonSpec, report: &str, engine: &EngineArgs) {
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
    if engine.profiler_config.is_none() {
        spec.args.extend(["--profiler-config".to_owned(), r#"{"profiler": "cuda"}"#.to_owned()]);
    }
}

/// Settings for engines that do not use vLLM's argument parser.
fn settings(engine: &EngineArgs) -> Dict {
    dict! {
        "model": engine.model.as_str(),
        "tokenizer": engine.tokenizer_name(),
        "dtype": engine.dtype.as_str(),
        "trust_remote_code": engine.trust_remote_code,
        "tensor_parallel_size": engine.tensor_parallel_size,
        "dummy_weights": engine.load_format == "dummy",
    }
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
fn save(record: &OfflineRecord, path: &Path, namespace: impl FnOnce() -> Dict) -> anyhow::Result<()> {
    report::save_record(path, record)?;
    if std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty()) {
        for (ending, records) in report::records(record, &namespace(), path) {
            report::save_records(&path.with_extension(ending), records)?;
        }
    }
    Ok(())
}

/// Returns the result path after creating its directory and checking that it is writable.
pub(super) fn output(path: Option<&str>) -> anyhow::Result<Option<PathBuf>> {
    let Some(path) = path.map(PathBuf::from) else { return Ok(None) };
    let directory = path.parent().filter(|directory| *directory != Path::new("")).unwrap_or(Path::new("."));
    make_directory(directory, "--output-json")?;
    anyhow::ensure!(!path.is_dir(), "{} is a directory, not a file: check --output-json", path.display());
    Ok(Some(path))
}

pub(crate) fn latency(args: &LatencyArgs) -> anyhow::Result<Exit> {
    let session = Session::open(&args.common, args.common.backend(Backend::Vllm), Progress::Shown)?;
    let mut bench = Bench::new(
        "latency",
        &args.common,
        PlanKind::Latency(LatencyPlan {
            input_len: args.input_len,
            output_len: args.output_len,
            batch_size: args.batch_size,
            warmups: args.num_iters_warmup,
            iterations: args.num_iters,
        }),
    );
    bench.sampling = Sampling { beam: args.use_beam_search, ..bench.sampling };
    // Repeated prompts would hit the prefix cache.
    bench.prefix_caching = Some(false);
    session.run(bench)
}

pub(crate) fn startup(args: &StartupArgs) -> anyhow::Result<Exit> {
    let session = Session::open(&args.common, args.common.backend(Backend::Vllm), Progress::Shown)?;
    let plan = StartupPlan { cold: args.num_iters_cold, warmups: args.num_iters_warmup, warm: args.num_iters_warm };
    session.run(Bench::new("startup", &args.common, PlanKind::Startup(plan)))
}

/// `tacho mm-processor`: latency of the multimodal input processor, by stage.
pub(crate) fn mm_processor(args: &MmProcessorArgs) -> anyhow::Result<Exit> {
    let progress = if args.disable_tqdm { Progress::Hidden } else { Progress::Shown };
    let session = Session::open(&args.common, args.common.backend(Backend::VllmChat), progress)?;
    session.screen.event(RunEvent::status("Starting multimodal processor benchmark..."));
    let mut bench = Bench::new(
        "mm-processor",
        &args.common,
        PlanKind::MmProcessor(MmProcessorPlan {
            workload: multimodal(args)?,
            num_prompts: args.num_prompts,
            input_len: args.common.datasets.random_input_len.value,
            output_len: args.common.datasets.random_output_len.value,
            percentiles: args.percentiles()?,
        }),
    );
    bench.sampling = Sampling { temperature: 0.0, ignore_eos: args.ignore_eos, ..bench.sampling };
    bench.progress &= !args.disable_tqdm;
    session.run(bench)
}
