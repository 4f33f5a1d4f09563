//! From dataset flags to the settings of a workload, as vLLM's throughput and mm-processor commands map them.

use std::path::PathBuf;

use tacho_run::throughput::OfflineWorkload;
use tacho_workload::{
    BurstGptSpec, CustomAudioSpec, CustomImageSpec, CustomSpec, HfSpec, PrefixRepetitionSpec, RandomMmSpec, RandomSpec,
    RangeRatio, Selection, ShareGptSpec, SonnetSpec, SpecBenchSpec, SpeedBenchSpec, StreamOrder, TimedTraceSpec,
    WorkloadSpec,
};

use crate::args::grammar::Values;
use crate::args::offline::mm_processor::MmProcessorArgs;
use crate::args::offline::throughput::{Backend, ThroughputArgs};
use crate::args::serve::RandomMmArgs;
use crate::commands::sim::hub;

/// The lengths of the poem's last release, where no flag gives them.
const SONNET: [i64; 3] = [550, 150, 200];
/// Has schemas of tools, which only the chat protocol carries.
const BFCL: &str = "gorilla-llm/Berkeley-Function-Calling-Leaderboard";

/// The workload of `tacho throughput`; warm-up requests are made under the next seed.
pub(crate) fn throughput(args: &ThroughputArgs) -> anyhow::Result<OfflineWorkload> {
    let warmups = usize::try_from(args.num_warmups)?;
    if let Some(path) = &args.workload {
        return Ok(OfflineWorkload::File { path: path.into(), warmups });
    }
    let source = |seed, num_prompts| Source {
        values: &args.values,
        path: args.dataset_path.clone().unwrap_or_default(),
        name: args.values.maybe_text("--hf-name"),
        multimodal_chat: args.values.switch("--enable-multimodal-chat") || args.backend == Backend::VllmChat,
        backend: args.backend,
        oversample: !args.values.switch("--no-oversample"),
        seed,
        num_prompts,
    };
    let boxed = |seed, num_prompts| throughput_spec(args, &source(seed, num_prompts)).map(Box::new);
    let measured = boxed(args.engine.seed, args.num_prompts)?;
    let warmup = (warmups > 0).then(|| boxed(args.engine.seed + 1, args.num_warmups)).transpose()?;
    Ok(OfflineWorkload::Sample { measured, warmup })
}

/// The workload of `tacho mm-processor`, whose prompts are always chat messages.
pub(crate) fn multimodal(args: &MmProcessorArgs) -> anyhow::Result<OfflineWorkload> {
    let warmups = usize::try_from(args.num_warmups)?;
    if let Some(path) = &args.workload {
        return Ok(OfflineWorkload::File { path: path.into(), warmups });
    }
    let boxed = |seed, num_prompts| -> anyhow::Result<Box<WorkloadSpec>> {
        let values = &args.values;
        let source = Source {
            values,
            path: args.dataset_path.clone().unwrap_or_default(),
            name: args.hf_name.clone(),
            multimodal_chat: true,
            backend: Backend::VllmChat,
            oversample: true,
            seed,
            num_prompts,
        };
        Ok(Box::new(match args.dataset_name.as_str() {
            "hf" => WorkloadSpec::Hf(source.hf(&HfSettings::default())),
            _ => {
                let lengths = ["input", "output", "prefix"].map(|part| values.int(&format!("--random-{part}-len")));
                WorkloadSpec::RandomMm(source.random_mm(lengths)?)
            }
        }))
    };
    let measured = boxed(args.engine.seed, args.num_prompts)?;
    let warmup = (warmups > 0).then(|| boxed(args.engine.seed + 1, args.num_warmups)).transpose()?;
    Ok(OfflineWorkload::Sample { measured, warmup })
}

fn throughput_spec(args: &ThroughputArgs, source: &Source<'_>) -> anyhow::Result<WorkloadSpec> {
    let values = &args.values;
    let lengths = ["input", "output", "prefix"].map(|part| args.random_len(part));
    let output_len = values.maybe_int("--output-len");
    let custom_len = output_len.or_else(|| values.maybe_int("--custom-output-len"));
    let (path, selection) = (PathBuf::from(&source.path), source.selection());
    Ok(match args.effective_dataset() {
        "random-mm" => WorkloadSpec::RandomMm(source.random_mm(lengths)?),
        "prefix_repetition" => WorkloadSpec::PrefixRepetition(prefix_repetition(args, source)),
        "sharegpt" => WorkloadSpec::ShareGpt(ShareGptSpec {
            path,
            selection,
            output_len,
            multimodal_chat: source.multimodal_chat,
        }),
        "burstgpt" => WorkloadSpec::BurstGpt(BurstGptSpec { path, selection }),
        "hf" => WorkloadSpec::Hf(source.hf(&HfSettings {
            chat_template: !values.switch("--skip-chat-template"),
            blazedit_distance: (values.float("--blazedit-min-distance"), values.float("--blazedit-max-distance")),
            audio_seconds: (values.float("--asr-min-audio-len-sec"), values.float("--asr-max-audio-len-sec")),
        })),
        "custom_audio" => WorkloadSpec::CustomAudio(CustomAudioSpec {
            path,
            selection,
            output_len: values.maybe_int("--custom-output-len"),
            multimodal_chat: source.multimodal_chat,
        }),
        "custom_image" => WorkloadSpec::CustomImage(CustomImageSpec {
            path,
            selection,
            output_len: custom_len.unwrap_or(256),
            multimodal_chat: source.multimodal_chat,
            client_side_data: false,
        }),
        "custom" => WorkloadSpec::Custom(CustomSpec {
            path,
            selection,
            output_len: custom_len,
            chat_template: !values.switch("--skip-chat-template"),
            template_variables: source.template_variables(),
        }),
        "sonnet" => WorkloadSpec::Sonnet(sonnet(args, source)),
        "spec_bench" => WorkloadSpec::SpecBench(SpecBenchSpec {
            path,
            selection,
            output_len: output_len.unwrap_or_else(|| values.int("--spec-bench-output-len")),
            category: values.maybe_text("--spec-bench-category"),
        }),
        "speed_bench" => WorkloadSpec::SpeedBench(source.speed_bench()),
        "timed_trace" => WorkloadSpec::TimedTrace(source.timed_trace()),
        _ => WorkloadSpec::Random(source.random(lengths)?),
    })
}

fn prefix_repetition(args: &ThroughputArgs, source: &Source<'_>) -> PrefixRepetitionSpec {
    let [prefix_len, suffix_len, num_prefixes, output_len] = args.prefix_repetition.map(Option::unwrap_or_default);
    PrefixRepetitionSpec {
        seed: source.seed,
        num_prompts: source.num_prompts,
        prefix_len,
        suffix_len,
        num_prefixes,
        output_len,
        shuffle: source.shuffle(),
    }
}

fn sonnet(args: &ThroughputArgs, source: &Source<'_>) -> SonnetSpec {
    let given = |flag: &str, default| {
        let value = args.values.is_given(flag).then(|| args.values.maybe_int(flag)).flatten();
        value.unwrap_or(default)
    };
    let [input_len, output_len, prefix_len] = SONNET;
    SonnetSpec {
        path: PathBuf::from(&source.path),
        num_prompts: source.num_prompts,
        input_len: given("--input-len", input_len),
        output_len: given("--output-len", output_len),
        prefix_len: given("--prefix-len", prefix_len),
        plain: matches!(args.backend, Backend::VllmChat | Backend::OpenAiChat),
        request_id_prefix: String::new(),
    }
}

/// What the datasets of both commands are made from.
struct Source<'a> {
    values: &'a Values,
    path: String,
    /// The Hub's id of a local copy.
    name: Option<String>,
    multimodal_chat: bool,
    backend: Backend,
    oversample: bool,
    seed: i64,
    num_prompts: i64,
}

/// What only `tacho throughput` has flags for.
struct HfSettings {
    chat_template: bool,
    blazedit_distance: (f64, f64),
    audio_seconds: (f64, f64),
}

impl Default for HfSettings {
    fn default() -> Self {
        HfSettings { chat_template: true, blazedit_distance: (0.0, 1.0), audio_seconds: (0.0, f64::INFINITY) }
    }
}

impl Source<'_> {
    fn shuffle(&self) -> bool {
        !self.values.switch("--disable-shuffle")
    }

    fn selection(&self) -> Selection {
        Selection {
            seed: self.seed,
            num_prompts: self.num_prompts,
            shuffle: self.shuffle(),
            oversample: self.oversample,
            request_id_prefix: String::new(),
        }
    }

    fn template_variables(&self) -> Option<tacho_core::json::Dict> {
        self.values.get("--chat-template-kwargs").as_dict().cloned()
    }

    /// Its own rule is vLLM's of `serve`, by names of protocols: an engine that takes media is as good as chat.
    fn protocol(&self) -> &'static str {
        let is_bfcl = self.path == BFCL || self.name.as_deref() == Some(BFCL);
        match self.backend {
            Backend::Hf | Backend::Mii | Backend::OpenAi => self.backend.name(),
            _ if is_bfcl => self.backend.name(),
            _ => "openai-chat",
        }
    }

    fn random(&self, [input_len, output_len, prefix_len]: [i64; 3]) -> anyhow::Result<RandomSpec> {
        Ok(RandomSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            input_len,
            output_len,
            prefix_len,
            range_ratio: RangeRatio::parse(&self.values.text("--random-range-ratio"))?,
            batch_size: 1,
            request_id_prefix: String::new(),
        })
    }

    fn random_mm(&self, [input_len, output_len, prefix_len]: [i64; 3]) -> anyhow::Result<RandomMmSpec> {
        let mm = RandomMmArgs::from(self.values);
        let limits = mm.limits.as_dict().into_iter().flat_map(|dict| dict.iter());
        Ok(RandomMmSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            input_len,
            output_len,
            prefix_len,
            range_ratio: RangeRatio::parse(&self.values.text("--random-range-ratio"))?,
            base_items: mm.base_items,
            items_range_ratio: mm.items_range_ratio,
            limits: limits.map(|(name, limit)| (name.to_owned(), limit.as_i64().unwrap_or(0))).collect(),
            buckets: mm.buckets.clone(),
            multimodal_chat: self.multimodal_chat,
            request_id_prefix: String::new(),
        })
    }

    fn hf(&self, settings: &HfSettings) -> HfSpec {
        let values = self.values;
        HfSpec {
            path: self.path.clone(),
            name: self.name.clone(),
            subset: values.maybe_text("--hf-subset"),
            split: values.maybe_text("--hf-split"),
            output_len: values.maybe_int("--output-len"),
            selection: self.selection(),
            stream: !values.switch("--no-stream"),
            stream_order: match values.text("--hf-order").as_str() {
                "4" => StreamOrder::Four,
                "5.0" => StreamOrder::Five,
                _ => StreamOrder::Current,
            },
            chat_template: settings.chat_template,
            multimodal_chat: self.multimodal_chat,
            backend: self.protocol().to_owned(),
            blazedit_distance: settings.blazedit_distance,
            audio_seconds: settings.audio_seconds,
            bfcl_categories: None,
            cache: hub().cache,
        }
    }

    fn speed_bench(&self) -> SpeedBenchSpec {
        SpeedBenchSpec {
            folder: PathBuf::from(&self.path),
            subset: self.values.text("--speed-bench-dataset-subset"),
            selection: self.selection(),
            output_len: self.values.int("--speed-bench-output-len"),
            category: self.values.maybe_text("--speed-bench-category"),
            chat_template: !self.values.switch("--skip-chat-template"),
            template_variables: self.template_variables(),
        }
    }

    fn timed_trace(&self) -> TimedTraceSpec {
        let label = |name: &str| self.values.text(&format!("--timed-trace-label-{name}"));
        TimedTraceSpec {
            path: PathBuf::from(&self.path),
            selection: self.selection(),
            chunk_size: self.values.int("--timed-trace-chunk-hash-size"),
            sec_multiplier: self.values.float("--timed-trace-sec-multiplier"),
            timestamp_label: label("timestamp"),
            input_length_label: label("input-length"),
            output_length_label: label("output-length"),
            hash_ids_label: label("hash-ids"),
            hash_seed: std::env::var("PYTHONHASHSEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0),
        }
    }
}
