//! Flags of `tacho mm-processor`.

use tacho_args::declare::*;
use tacho_args::repr::repr;
use tacho_core::json::Value;

use super::dataset::{RANDOM_ROWS, SOURCE_ROWS, of_vllm};
use super::rows::{DATASET, HELP, HUB, LIVE, OUTPUT_JSON, RANDOM, RUN, SIM, TACHO, WORKER_ROWS};
use super::{Backend, OfflineArgs, refuse_if};
use crate::args::error::{ArgError, ArgumentError};
use crate::args::shared::engine::{self, CAPACITY, ENGINE};
use crate::{args::serve::percentile_list, args::shared::live};

/// Hub datasets with media.
pub(crate) const MULTIMODAL: &[&str] =
    &["lmarena-ai/VisionArena-Chat", "lmarena-ai/vision-arena-bench-v0.1", "lmms-lab/LLaVA-OneVision-Data"];

pub(crate) static TABLE: Table = Table {
    command: "tacho mm-processor",
    about: "Benchmark the multimodal input processor, stage by stage.",
    examples: &[
        ("tacho mm-processor --model Qwen/Qwen2-VL-2B-Instruct --num-prompts 20", "20 requests with random images"),
        ("tacho mm-processor --sim --num-prompts 5", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &DATASET, &RANDOM, &HUB, &TACHO, &LIVE, &ENGINE, &CAPACITY],
    flags: rows!(
        &[HELP],
        FIRST,
        RANDOM_ROWS,
        PATH,
        &of_vllm(["--hf-subset", "--hf-split"], &HUB),
        &[OUTPUT_LEN, OUTPUT_JSON],
        LAST,
        engine::FLAGS,
        &[SIM],
        OURS,
        live::FLAGS,
        SOURCE_ROWS,
        WORKER_ROWS
    ),
    basics: "\
        --model --sim --num-prompts --num-warmups --dataset-name --dataset-path --random-input-len \
        --random-output-len --random-mm-base-items-per-request --random-mm-limit-mm-per-prompt \
        --random-mm-bucket-config --output-len --metric-percentiles --max-model-len --tensor-parallel-size \
        --seed --output-json --python --quiet",
    ..Table::PLAIN
};

const OUTPUT_LEN: Flag = vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET, "Output length for a Hub dataset.");

flags! {
    /// The flags of `tacho mm-processor`; flags of random data and files are read by the workload.
    MmProcessorArgs {
        FIRST [
            dataset_name: String = vllm(&["--dataset-name"], Choice(&["random-mm", "hf"]), "NAME", DefaultValue::Str("random-mm"), &DATASET,
                "Random images and videos, or a Hub dataset that has some.");
            num_prompts: i64 = vllm(&["--num-prompts"], Int, "N", DefaultValue::Int(10), &RUN, "Measured requests.").at_least(1);
            num_warmups: i64 = vllm(&["--num-warmups"], Int, "N", DefaultValue::Int(1), &RUN, "Warm-up requests.").at_least(0);
        ]
        PATH [
            dataset_path: Option<String> = vllm(&["--dataset-path"], Str, "ID", Unset, &DATASET,
                "Hub id of the dataset, for --dataset-name hf.");
        ]
        LAST [
            metric_percentiles: String = vllm(&["--metric-percentiles"], Str, "LIST", DefaultValue::Str("99"), &RUN,
                "Percentiles to report, separated by commas.");
            disable_tqdm: bool = vllm(&["--disable-tqdm"], Switch, "", Off, &RUN, "Show no progress bars.");
        ]
        OURS [
            hf_name: Option<String> = tacho(&["--hf-name"], Str, "ID", Unset, &HUB,
                "Hub id of the dataset if --dataset-path is a local copy.");
            ignore_eos: bool = switch(&["--ignore-eos"], &TACHO, "Generate the full output length, past the end of text.");
        ]
        ..common: OfflineArgs;
    }
}

impl MmProcessorArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = Self::from(v);
        args.check()?;
        Ok(args)
    }

    fn check(&self) -> Result<(), ArgError> {
        self.common.check(self.common.backend(Backend::VllmChat))?;
        self.percentiles()?;
        self.common.check_mm_limits()?;
        if self.dataset_name != "hf" || self.common.source.workload.is_some() {
            return Ok(());
        }
        refuse_if(
            self.dataset_path.is_none(),
            "--dataset-path is required when using --dataset-name hf. For multimodal benchmarking, specify a dataset \
             like 'lmarena-ai/VisionArena-Chat'.",
        )?;
        let id = self.hf_name.as_ref().or(self.dataset_path.as_ref()).map_or("", String::as_str);
        let known = repr(&MULTIMODAL.iter().copied().map(Value::from).collect::<Vec<_>>().into());
        Ok(refuse_if(
            !MULTIMODAL.contains(&id),
            format!("{id} is not a supported multimodal dataset. Supported multimodal datasets are: {known}"),
        )?)
    }

    pub(crate) fn percentiles(&self) -> Result<Vec<f64>, ArgumentError> {
        percentile_list(&self.metric_percentiles)
    }
}
