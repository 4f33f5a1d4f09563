//! Checks of `tacho throughput` before the engine starts, in vLLM's order.

use tacho_text::TokenizerMode;

use super::{Backend, refuse_if, throughput::ThroughputArgs};
use crate::args::error::{ArgumentError, bad_tokenizer_mode};
use crate::args::shared::sign_in;

impl ThroughputArgs {
    pub(super) fn rules(&self) -> Result<(), ArgumentError> {
        let backend = self.backend();
        refuse_first([
            (self.prequeue_requests && !backend.is_vllm(), "--prequeue-requests requires --backend vllm or vllm-chat"),
            (
                self.prequeue_requests && backend == Backend::VllmAsync,
                "--prequeue-requests is not supported with --async-engine",
            ),
        ])?;
        self.check_dataset()?;
        self.check_engine()?;
        self.check_engine_flags()?;
        let problem = format!("Profiling not implemented yet for backend={:?}.", backend.label());
        refuse_if(self.common.profile && !backend.is_vllm(), problem)?;
        self.check_own()
    }

    fn check_engine(&self) -> Result<(), ArgumentError> {
        let (backend, engine) = (self.backend(), &self.common.engine);
        let (hf, mii) = (backend == Backend::Hf, backend == Backend::Mii);
        let runs_lora = matches!(backend, Backend::Vllm | Backend::VllmAsync);
        let launched = engine.distributed_executor_backend.as_deref() == Some("external_launcher");
        refuse_first([
            (engine.enable_lora && !runs_lora, "LoRA benchmarking is only supported for vLLM backend"),
            (
                engine.enable_lora && self.lora_path.is_none(),
                "LoRA path must be provided when enable_lora is True: pass --lora-path",
            ),
            (
                hf && self.hf_max_batch_size.is_none(),
                "HF max batch size is required for HF backend: pass --hf-max-batch-size",
            ),
            (!hf && self.hf_max_batch_size.is_some(), "HF max batch size is only for HF backend."),
            ((hf || mii) && engine.quantization.is_some(), "Quantization is only for vLLM backend."),
            (mii && engine.dtype != "auto", "dtype must be auto for MII backend."),
            (mii && self.common.n != 1, "n must be 1 for MII backend."),
            (
                mii && engine.tokenizer_name() != engine.model,
                "Tokenizer must be the same as the model for MII backend.",
            ),
            (
                engine.data_parallel_size > 1 && (!launched || backend == Backend::VllmAsync),
                "Data parallel is only supported with external launcher mode with synchronous engine in offline \
                 benchmark, please use benchmark serving instead",
            ),
            (
                hf && engine.tensor_parallel_size != 1,
                "--backend hf runs on one device: --tensor-parallel-size must be 1",
            ),
            (
                hf && !["auto", "dummy"].contains(&engine.load_format.as_str()),
                "--backend hf loads weights with transformers or makes them up: --load-format must be auto or dummy",
            ),
            (
                hf && engine.enforce_eager && self.hf_enable_torch_compile,
                "--enforce-eager contradicts --hf-enable-torch-compile: remove one of them",
            ),
        ])
    }

    /// Checks that vLLM does not have.
    fn check_own(&self) -> Result<(), ArgumentError> {
        let backend = self.backend();
        let decode_bench = self.common.worker.decode_bench;
        for (given, flag) in [
            (decode_bench, "--decode-bench"),
            (self.common.n != 1, "--n"),
            (self.common.disable_detokenize, "--disable-detokenize"),
        ] {
            refuse_if(given && backend.is_server(), unserved(flag))?;
        }
        let plain = matches!(backend, Backend::Hf | Backend::Mii);
        refuse_if(plain && decode_bench, unread(backend, "--decode-bench"))?;
        let sign_in = self.common.engine.values.set_of(sign_in::names()).next();
        if let Some(flag) = sign_in.filter(|_| !backend.is_server()) {
            return Err(ArgumentError::Alone { flag, other: "--backend openai" });
        }
        self.sign_in.check(None, self.base_url.as_deref().unwrap_or_default())?;
        if self.common.profile && self.num_runs > 1 {
            return Err(ArgumentError::Together { flag: "--profile", other: "--num-runs" });
        }
        let mode = &self.common.engine.tokenizer_mode;
        match TokenizerMode::parse(mode) {
            Some(_) => Ok(()),
            None => Err(bad_tokenizer_mode(mode)),
        }
    }

    fn check_dataset(&self) -> Result<(), ArgumentError> {
        if self.common.source.workload.is_some() {
            return Ok(());
        }
        let flags = &self.common.datasets;
        flags.check_user_rows(&self.dataset_name, self.dataset_path.is_some())?;
        let name = self.effective_dataset();
        match name {
            "random-rerank" => refuse_if(
                true,
                "random-rerank makes lists of texts with nothing to generate: no offline engine can run it",
            ),
            "random-mm" | "custom_image" => {
                let backend = self.backend();
                let chat = matches!(backend, Backend::VllmChat | Backend::OpenAiChat | Backend::Sim);
                let problem = format!(
                    "{name} needs --backend vllm-chat or openai-chat: {} does not take chat media",
                    backend.label()
                );
                refuse_if(!chat, problem)?;
                self.common.check_mm_limits()
            }
            "prefix_repetition" => [
                ("--prefix-repetition-prefix-len", flags.prefix_repetition_prefix_len),
                ("--prefix-repetition-suffix-len", flags.prefix_repetition_suffix_len),
                ("--prefix-repetition-num-prefixes", flags.prefix_repetition_num_prefixes),
                ("--prefix-repetition-output-len", flags.prefix_repetition_output_len),
            ]
            .into_iter()
            .try_for_each(|(flag, value)| {
                refuse_if(value.is_none(), format!("--dataset-name prefix_repetition needs {flag}"))
            }),
            _ => Ok(()),
        }
    }

    /// Rejects engine flags that engines other than vLLM do not read. vLLM silently ignores them.
    fn check_engine_flags(&self) -> Result<(), ArgumentError> {
        const NAMED: [&str; 4] = ["--model", "--tokenizer", "--tokenizer-mode", "--seed"];
        // Checked before; only a harmless value remains.
        const CHECKED: [&str; 4] =
            ["--quantization", "--data-parallel-size", "--enable-lora", "--distributed-executor-backend"];
        let backend = self.backend();
        let supported: &[&str] = match backend {
            Backend::Vllm | Backend::VllmAsync | Backend::VllmChat | Backend::Sim => return Ok(()),
            Backend::Hf => {
                &["--dtype", "--trust-remote-code", "--tensor-parallel-size", "--load-format", "--enforce-eager"]
            }
            Backend::Mii => &["--dtype", "--tensor-parallel-size"],
            Backend::OpenAi | Backend::OpenAiChat => &["--trust-remote-code"],
        };
        let known = |flag: &&str| NAMED.contains(flag) || CHECKED.contains(flag) || supported.contains(flag);
        let Some(flag) = self.common.engine.set_flags().find(|flag| !known(flag)) else { return Ok(()) };
        refuse_if(true, if backend.is_server() { unserved(flag) } else { unread(backend, flag) })
    }
}

/// Reports the first problem that holds.
fn refuse_first<const N: usize>(cases: [(bool, &str); N]) -> Result<(), ArgumentError> {
    cases.into_iter().try_for_each(|(holds, problem)| refuse_if(holds, problem))
}

fn unserved(flag: &str) -> String {
    format!("{flag} has no meaning for --backend openai, whose engine is already running: remove it")
}

fn unread(backend: Backend, flag: &str) -> String {
    format!("--backend {} does not support {flag}, a setting of vLLM's engine: remove it", backend.label())
}
