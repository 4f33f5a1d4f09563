//! What was typed after `tacho mm-processor`.

use super::dataset::SOURCE_ROWS;
use super::rows::{DATASET, HELP, HUB, LIVE, LIVE_ROWS, OUTPUT_JSON, OWN, RANDOM, RANDOM_ROWS, RUN, SIM, WORKER_ROWS};
use super::{EngineArgs, OfflineRefusal, WorkerArgs, check};
use crate::args::engine::{self, CAPACITY, ENGINE, joined};
use crate::args::error::{ArgError, Refusal};
use crate::args::flag::{Flag, Kind, Preset, Table, own, vllm};
use crate::args::grammar::Values;
use crate::args::live::LiveArgs;
use crate::args::number::python_float;

use Kind::{Choice, Int, Str, Switch};
use Preset::{Off, Unset};

/// The Hub datasets whose requests carry media.
pub(crate) const MULTIMODAL: &[&str] =
    &["lmarena-ai/VisionArena-Chat", "lmarena-ai/vision-arena-bench-v0.1", "lmms-lab/LLaVA-OneVision-Data"];

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho mm-processor",
    about: "Benchmark the multimodal input processor, stage by stage.",
    examples: &[
        ("tacho mm-processor --model Qwen/Qwen2-VL-2B-Instruct --num-prompts 20", "20 requests with random images"),
        ("tacho mm-processor --sim --num-prompts 5", "no engine needed: simulated"),
    ],
    groups: &[&RUN, &DATASET, &RANDOM, &HUB, &OWN, &LIVE, &ENGINE, &CAPACITY],
    flags: &joined::<{ VLLM.len() + engine::FLAGS.len() + OURS.len() }>(
        &joined::<{ VLLM.len() + engine::FLAGS.len() }>(VLLM, engine::FLAGS),
        OURS,
    ),
};

#[rustfmt::skip]
const FIRST: &[Flag] = &[
    HELP,
    vllm(&["--dataset-name"], Choice(&["random-mm", "hf"]), "NAME", Preset::Str("random-mm"), &DATASET,
        "Random images and videos, or a Hub dataset that has some."),
    vllm(&["--num-prompts"], Int, "N", Preset::Int(10), &RUN, "Requests measured."),
    vllm(&["--num-warmups"], Int, "N", Preset::Int(1), &RUN, "Requests before them."),
];

#[rustfmt::skip]
const LAST: &[Flag] = &[
    vllm(&["--dataset-path"], Str, "ID", Unset, &DATASET, "Hub id of the dataset. Needed by --dataset-name hf."),
    vllm(&["--hf-subset"], Str, "NAME", Unset, &HUB, "Subset of a Hub dataset."),
    vllm(&["--hf-split"], Str, "NAME", Unset, &HUB, "Split of a Hub dataset."),
    vllm(&["--output-len"], Int, "TOKENS", Unset, &DATASET, "Tokens to generate for a Hub dataset."),
    OUTPUT_JSON,
    vllm(&["--metric-percentiles"], Str, "LIST", Preset::Str("99"), &RUN, "Percentiles to report, with commas."),
    vllm(&["--disable-tqdm"], Switch, "", Off, &RUN, "Draw no progress bar."),
];

const VLLM: &[Flag] = &joined::<{ FIRST.len() + RANDOM_ROWS.len() + LAST.len() }>(
    &joined::<{ FIRST.len() + RANDOM_ROWS.len() }>(FIRST, RANDOM_ROWS),
    LAST,
);

#[rustfmt::skip]
const ALONE: &[Flag] = &[
    SIM,
    own(&["--hf-name"], Str, "ID", Unset, &HUB, "Hub id of a dataset whose --dataset-path is a local copy."),
    own(&["--ignore-eos"], Switch, "", Off, &OWN, "Generate the full length even past the end of text."),
    LIVE_ROWS[0],
    LIVE_ROWS[1],
];

const OURS: &[Flag] = &joined::<{ ALONE.len() + SOURCE_ROWS.len() + WORKER_ROWS.len() }>(
    &joined::<{ ALONE.len() + SOURCE_ROWS.len() }>(ALONE, SOURCE_ROWS),
    WORKER_ROWS,
);

/// All flags of `tacho mm-processor`.
#[derive(Debug, Clone)]
pub(crate) struct MmProcessorArgs {
    pub(crate) dataset_name: String,
    pub(crate) dataset_path: Option<String>,
    pub(crate) hf_name: Option<String>,
    pub(crate) num_prompts: i64,
    pub(crate) num_warmups: i64,
    pub(crate) output_json: Option<String>,
    pub(crate) metric_percentiles: String,
    pub(crate) disable_tqdm: bool,
    pub(crate) workload: Option<String>,
    pub(crate) save_workload: Option<String>,
    pub(crate) ignore_eos: bool,
    pub(crate) random_input_len: i64,
    pub(crate) random_output_len: i64,
    pub(crate) sim: bool,
    pub(crate) engine: EngineArgs,
    pub(crate) worker: WorkerArgs,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
    pub(crate) values: Values,
}

impl From<Values> for MmProcessorArgs {
    fn from(v: Values) -> Self {
        MmProcessorArgs {
            dataset_name: v.text("--dataset-name"),
            dataset_path: v.maybe_text("--dataset-path"),
            hf_name: v.maybe_text("--hf-name"),
            num_prompts: v.int("--num-prompts"),
            num_warmups: v.int("--num-warmups"),
            output_json: v.maybe_text("--output-json"),
            metric_percentiles: v.text("--metric-percentiles"),
            disable_tqdm: v.switch("--disable-tqdm"),
            workload: v.maybe_text("--workload"),
            save_workload: v.maybe_text("--save-workload"),
            ignore_eos: v.switch("--ignore-eos"),
            random_input_len: v.int("--random-input-len"),
            random_output_len: v.int("--random-output-len"),
            sim: v.switch("--sim"),
            engine: EngineArgs::from(&v),
            worker: WorkerArgs::from(&v),
            live: LiveArgs::default(),
            values: v,
        }
    }
}

impl MmProcessorArgs {
    /// Reads and checks the values.
    pub(crate) fn read(v: Values) -> Result<Self, ArgError> {
        let live = LiveArgs::read(&v)?;
        let args = Self { live, ..Self::from(v) };
        args.check()?;
        Ok(args)
    }

    /// Refuses what cannot work.
    fn check(&self) -> Result<(), ArgError> {
        check::engine(&self.engine, &self.worker, self.sim, TABLE.command)?;
        check::at_least("--num-prompts", self.num_prompts, 1)?;
        check::at_least("--num-warmups", self.num_warmups, 0)?;
        self.percentiles()?;
        check::mm_limits(&self.values)?;
        if self.workload.is_some() && self.save_workload.is_some() {
            return Err(Refusal::Together { flag: "--workload", other: "--save-workload" }.into());
        }
        if self.dataset_name != "hf" || self.workload.is_some() {
            return Ok(());
        }
        let Some(path) = &self.dataset_path else {
            return Err(Refusal::from(OfflineRefusal::HfWithoutPath).into());
        };
        let id = self.hf_name.as_ref().unwrap_or(path);
        if MULTIMODAL.contains(&id.as_str()) {
            return Ok(());
        }
        Err(Refusal::from(OfflineRefusal::NotMultimodal { path: id.clone() }).into())
    }

    /// The percentiles to report.
    pub(crate) fn percentiles(&self) -> Result<Vec<f64>, Refusal> {
        let one = |item: &str| {
            let number = python_float(item).filter(|number| (0.0..=100.0).contains(number));
            number.ok_or_else(|| Refusal::Percentile { item: item.to_owned() })
        };
        self.metric_percentiles.split(',').map(one).collect()
    }
}
