//! Checks of `tacho throughput` before the engine starts, in vLLM's order.

use tacho_text::TokenizerMode;

use super::OfflineRefusal;
use super::check::{mm_limits, nsys, refuse_if, seed, worker};
use super::throughput::{Backend, ThroughputArgs};
use crate::args::error::{Refusal, bad_tokenizer_mode};
use crate::args::shared::sign_in;

impl ThroughputArgs {
    pub(super) fn rules(&self) -> Result<(), Refusal> {
        let backend = self.backend();
        let vllm = matches!(backend, Backend::Vllm | Backend::VllmAsync | Backend::VllmChat);
        refuse_if(self.prequeue_requests && !vllm, OfflineRefusal::PrequeueBackend)?;
        refuse_if(self.prequeue_requests && backend == Backend::VllmAsync, OfflineRefusal::PrequeueAsync)?;
        dataset(self)?;
        let lora_backend = matches!(backend, Backend::Vllm | Backend::VllmAsync);
        refuse_if(self.common.engine.enable_lora && !lora_backend, OfflineRefusal::LoraBackend)?;
        refuse_if(self.common.engine.enable_lora && self.lora_path.is_none(), OfflineRefusal::LoraPath)?;
        refuse_if(backend == Backend::Hf && self.hf_max_batch_size.is_none(), OfflineRefusal::HfBatchMissing)?;
        refuse_if(backend != Backend::Hf && self.hf_max_batch_size.is_some(), OfflineRefusal::HfBatchUnused)?;
        let plain = matches!(backend, Backend::Hf | Backend::Mii);
        refuse_if(plain && self.common.engine.quantization.is_some(), OfflineRefusal::Quantization)?;
        mii(self)?;
        let parallel = self.common.engine.data_parallel_size > 1;
        let launched = self.common.engine.distributed_executor_backend.as_deref() == Some("external_launcher");
        refuse_if(parallel && (!launched || backend == Backend::VllmAsync), OfflineRefusal::DataParallel)?;
        hf(self)?;
        engine_flags(self)?;
        refuse_if(self.profile && !vllm, OfflineRefusal::ProfileBackend { backend: backend.name() })?;
        own(self)?;
        worker(&self.common.worker, backend == Backend::Sim)?;
        nsys(self.nsys.as_deref(), self.profile)?;
        seed(self.common.engine.seed)
    }
}

/// Checks that vLLM does not have.
fn own(args: &ThroughputArgs) -> Result<(), Refusal> {
    let backend = args.backend();
    let plain = matches!(backend, Backend::Hf | Backend::Mii);
    let served = matches!(backend, Backend::OpenAi | Backend::OpenAiChat);
    refuse_if(served && args.common.worker.decode_bench, OfflineRefusal::ServerCannot { flag: "--decode-bench" })?;
    refuse_if(
        plain && args.common.worker.decode_bench,
        OfflineRefusal::EngineFlag { backend: backend.name(), flag: "--decode-bench" },
    )?;
    for (given, flag) in [(args.n != 1, "--n"), (args.disable_detokenize, "--disable-detokenize")] {
        refuse_if(served && given, OfflineRefusal::ServerCannot { flag })?;
    }
    if let Some(flag) = args.common.values.given_of(sign_in::names()).next().filter(|_| !served) {
        return Err(Refusal::Alone { flag, other: "--backend openai" });
    }
    args.sign_in.check(None, args.base_url.as_deref().unwrap_or_default())?;
    let pairs = [
        (args.source.workload.is_some() && args.source.save_workload.is_some(), "--workload", "--save-workload"),
        (args.profile && args.num_runs > 1, "--profile", "--num-runs"),
    ];
    if let Some((_, flag, other)) = pairs.into_iter().find(|(both, ..)| *both) {
        return Err(Refusal::Together { flag, other });
    }
    let mode = &args.common.engine.tokenizer_mode;
    match TokenizerMode::parse(mode) {
        Some(_) => Ok(()),
        None => Err(bad_tokenizer_mode(mode)),
    }
}

fn dataset(args: &ThroughputArgs) -> Result<(), Refusal> {
    if args.source.workload.is_some() {
        return Ok(());
    }
    args.datasets.check_own_rows(&args.dataset_name, args.dataset_path.is_some())?;
    let name = args.effective_dataset();
    match name {
        "random-rerank" => refuse_if(true, OfflineRefusal::Rerank),
        "random-mm" | "custom_image" => {
            let chat = matches!(args.backend(), Backend::VllmChat | Backend::OpenAiChat | Backend::Sim);
            let (dataset, backend) = (name.to_owned(), args.backend().name());
            refuse_if(!chat, OfflineRefusal::MediaNeedsChat { dataset, backend })?;
            mm_limits(&args.datasets)
        }
        "prefix_repetition" => {
            let flags = &args.datasets;
            let needed = [
                ("--prefix-repetition-prefix-len", flags.prefix_repetition_prefix_len),
                ("--prefix-repetition-suffix-len", flags.prefix_repetition_suffix_len),
                ("--prefix-repetition-num-prefixes", flags.prefix_repetition_num_prefixes),
                ("--prefix-repetition-output-len", flags.prefix_repetition_output_len),
            ];
            needed
                .into_iter()
                .try_for_each(|(flag, value)| refuse_if(value.is_none(), OfflineRefusal::PrefixRepetition { flag }))
        }
        _ => Ok(()),
    }
}

/// Rejects engine flags that engines other than vLLM do not read. vLLM silently ignores them.
fn engine_flags(args: &ThroughputArgs) -> Result<(), Refusal> {
    const NAMED: [&str; 4] = ["--model", "--tokenizer", "--tokenizer-mode", "--seed"];
    // Checked before; only a harmless value remains.
    const CHECKED: [&str; 5] = [
        "--quantization",
        "--data-parallel-size",
        "--enable-lora",
        "--distributed-executor-backend",
        "--disable-log-stats",
    ];
    let backend = args.backend().name();
    let own: &[&str] = match args.backend() {
        Backend::Vllm | Backend::VllmAsync | Backend::VllmChat | Backend::Sim => return Ok(()),
        Backend::Hf => {
            &["--dtype", "--trust-remote-code", "--tensor-parallel-size", "--load-format", "--enforce-eager"]
        }
        Backend::Mii => &["--dtype", "--tensor-parallel-size"],
        Backend::OpenAi | Backend::OpenAiChat => &["--trust-remote-code"],
    };
    let known = |flag: &&&str| NAMED.contains(*flag) || CHECKED.contains(*flag) || own.contains(*flag);
    let Some(flag) = args.common.engine.typed.given.iter().find(|flag| !known(flag)) else { return Ok(()) };
    let served = matches!(args.backend(), Backend::OpenAi | Backend::OpenAiChat);
    refuse_if(served, OfflineRefusal::ServerCannot { flag })?;
    refuse_if(true, OfflineRefusal::EngineFlag { backend, flag })
}

fn hf(args: &ThroughputArgs) -> Result<(), Refusal> {
    if args.backend() != Backend::Hf {
        return Ok(());
    }
    refuse_if(args.common.engine.tensor_parallel_size != 1, OfflineRefusal::HfTensorParallel)?;
    let format = args.common.engine.load_format.clone();
    refuse_if(!["auto", "dummy"].contains(&format.as_str()), OfflineRefusal::HfLoadFormat { format })?;
    refuse_if(args.common.engine.enforce_eager && args.hf_enable_torch_compile, OfflineRefusal::EagerCompiled)
}

fn mii(args: &ThroughputArgs) -> Result<(), Refusal> {
    if args.backend() != Backend::Mii {
        return Ok(());
    }
    refuse_if(args.common.engine.dtype != "auto", OfflineRefusal::MiiDtype)?;
    refuse_if(args.n != 1, OfflineRefusal::MiiN)?;
    refuse_if(args.common.engine.tokenizer_name() != args.common.engine.model, OfflineRefusal::MiiTokenizer)
}
