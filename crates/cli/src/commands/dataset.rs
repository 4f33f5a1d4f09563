//! Maps dataset flags to workload settings, for every command that samples a dataset. [`Source`] holds what differs
//! between commands.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tacho_core::json::{Dict, Value, float_repr};
use tacho_text::HubCache;
use tacho_workload::{
    Buckets, BurstGptSpec, BurstReplaySpec, CachedShare, Carrier, CommandSpec, CustomAudioSpec, CustomImageSpec,
    CustomReplaySpec, CustomSpec, FieldMap, HfSpec, HfTextSpec, LengthPlan, MooncakeSpec, OpenAiSpec,
    PrefixRepetitionSpec, RandomMmSpec, RandomRerankSpec, RandomSpec, RangeRatio, RowSource, RowsSpec, Selection,
    ServeGenSpec, ShareGptSpec, SharedPrefixSpec, SonnetSpec, SpecBenchSpec, SpeedBenchSpec, TimedTraceSpec,
    WorkloadSpec,
};

use super::supervise;
use crate::args::serve::DatasetFlags;

pub(crate) struct Source<'a> {
    pub(crate) flags: &'a DatasetFlags,
    /// File, directory or Hub id.
    pub(crate) path: String,
    pub(crate) seed: i64,
    pub(crate) num_prompts: i64,
    /// Distributions of lengths: of both for random prompts, of outputs for others.
    pub(crate) length_plan: LengthPlan,
    pub(crate) request_id_prefix: String,
    /// Input, output, and prefix length of random prompts, in tokens.
    pub(crate) lengths: [i64; 3],
    /// Input, output, and prefix length that apply to any dataset, if given.
    pub(crate) given: [Option<i64>; 3],
    /// Texts per request, if the command can batch them.
    pub(crate) batch_size: i64,
    /// Output length that overrides the dataset's own flag, if the command has such a flag.
    pub(crate) output_len: Option<i64>,
    /// Whether prompts become chat messages with media content.
    pub(crate) multimodal_chat: bool,
    /// The protocol or engine that carries the requests.
    pub(crate) carrier: Carrier,
    /// Whether requests are sent at the timestamps of the dataset.
    pub(crate) self_timed: bool,
    pub(crate) cache: HubCache,
    /// Python's `PYTHONHASHSEED`. If unset or `random`, Python's tokens differ in every process; tacho always uses
    /// those of seed 0.
    pub(crate) hash_seed: u32,
}

pub(crate) fn hash_seed() -> u32 {
    std::env::var("PYTHONHASHSEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

impl Source<'_> {
    pub(crate) fn spec(&self, name: &str) -> anyhow::Result<WorkloadSpec> {
        let spec = self.plain_spec(name)?;
        // Random prompts draw both lengths themselves.
        let lengths = if name == "random" { LengthPlan::default() } else { self.length_plan.clone() };
        Ok(spec.with_output_lengths(self.seed, lengths))
    }

    fn plain_spec(&self, name: &str) -> anyhow::Result<WorkloadSpec> {
        Ok(match name {
            "random" => WorkloadSpec::Random(self.random()?),
            "random-mm" => WorkloadSpec::RandomMm(self.random_mm()?),
            "random-rerank" => WorkloadSpec::RandomRerank(self.random_rerank()?),
            "prefix_repetition" => WorkloadSpec::PrefixRepetition(self.prefix_repetition()),
            "sharegpt" => WorkloadSpec::ShareGpt(self.sharegpt()),
            "burstgpt" => self.burstgpt(),
            "custom" if self.flags.has_user_rows() => WorkloadSpec::Rows(self.rows()?),
            "custom" => self.custom(),
            "custom_image" => WorkloadSpec::CustomImage(self.custom_image()),
            "custom_audio" => WorkloadSpec::CustomAudio(self.custom_audio()),
            "spec_bench" => WorkloadSpec::SpecBench(self.spec_bench()),
            "speed_bench" => WorkloadSpec::SpeedBench(self.speed_bench()),
            "timed_trace" => WorkloadSpec::TimedTrace(self.timed_trace(16, 1.0)),
            // Mooncake traces default to blocks of 512 tokens and timestamps in milliseconds.
            "mooncake" => WorkloadSpec::Mooncake(MooncakeSpec {
                trace: self.timed_trace(512, 0.001),
                workload: self.flags.mooncake_workload.clone(),
            }),
            "servegen" => WorkloadSpec::ServeGen(self.servegen()),
            "generated-shared-prefix" => WorkloadSpec::SharedPrefix(self.shared_prefix()),
            "openai" => WorkloadSpec::OpenAi(self.openai()),
            "sonnet" => WorkloadSpec::Sonnet(self.sonnet()),
            _ => match self.flags.hf_text_column.clone() {
                Some(column) => WorkloadSpec::HfText(HfTextSpec { hf: self.hf(), column }),
                None => WorkloadSpec::Hf(self.hf()),
            },
        })
    }

    fn random(&self) -> anyhow::Result<RandomSpec> {
        let [input_len, output_len, prefix_len] = self.lengths;
        Ok(RandomSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            input_len,
            output_len,
            prefix_len,
            range_ratio: self.range_ratio()?,
            batch_size: self.batch_size,
            request_id_prefix: self.request_id_prefix.clone(),
            token_ids: self.flags.prompt_token_ids,
            cached: self.flags.random_cache_hit_fraction.map(|fraction| {
                let ratio = self.flags.random_cache_ratio.unwrap_or_default();
                CachedShare { fraction, ratio }
            }),
            length_plan: self.length_plan.clone(),
        })
    }

    fn random_mm(&self) -> anyhow::Result<RandomMmSpec> {
        let limits = self.flags.mm_limits.as_dict().into_iter().flat_map(Dict::iter);
        Ok(RandomMmSpec {
            text: self.random()?,
            base_items: self.flags.random_mm_base_items_per_request,
            items_range_ratio: self.flags.random_mm_num_mm_items_range_ratio,
            limits: limits.map(|(name, limit)| (name.to_owned(), limit.as_i64().unwrap_or(0))).collect(),
            buckets: self.buckets()?,
            multimodal_chat: self.multimodal_chat,
        })
    }

    fn buckets(&self) -> anyhow::Result<Buckets> {
        let entry = |(key, share): (&str, &Value)| format!("{key}: {}", float_repr(share.as_f64().unwrap_or_default()));
        let text: Vec<String> =
            self.flags.mm_buckets.as_dict().into_iter().flat_map(|dict| dict.iter().map(entry)).collect();
        Ok(Buckets::parse(&format!("{{{}}}", text.join(", ")))?)
    }

    fn random_rerank(&self) -> anyhow::Result<RandomRerankSpec> {
        Ok(RandomRerankSpec { text: self.random()?, is_reranker: !self.flags.no_reranker })
    }

    fn prefix_repetition(&self) -> PrefixRepetitionSpec {
        PrefixRepetitionSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            prefix_len: self.flags.prefix_repetition_prefix_len.unwrap_or_default(),
            suffix_len: self.flags.prefix_repetition_suffix_len.unwrap_or_default(),
            num_prefixes: self.flags.prefix_repetition_num_prefixes.unwrap_or_default(),
            output_len: self.output_len.or(self.flags.prefix_repetition_output_len).unwrap_or_default(),
            shuffle: self.shuffle(),
        }
    }

    pub(super) fn shared_prefix(&self) -> SharedPrefixSpec {
        SharedPrefixSpec {
            seed: self.seed,
            groups: self.flags.gsp_num_groups,
            prompts_per_group: self.flags.gsp_prompts_per_group,
            system_len: self.flags.gsp_system_prompt_len,
            turns: self.flags.gsp_num_turns,
            question_len: self.flags.gsp_question_len,
            output_len: self.output_len.unwrap_or(self.flags.gsp_output_len),
            range_ratio: self.flags.gsp_range_ratio,
            zipf: self.flags.gsp_zipf_alpha,
            ordered: self.flags.gsp_ordered,
            uncounted: self.flags.gsp_fast_prepare,
            request_id_prefix: self.request_id_prefix.clone(),
        }
    }

    fn sharegpt(&self) -> ShareGptSpec {
        ShareGptSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general(self.flags.sharegpt_output_len),
            multimodal_chat: self.multimodal_chat,
        }
    }

    /// The rate and the duration are those of the run, if it sets them.
    fn servegen(&self) -> ServeGenSpec {
        ServeGenSpec {
            path: self.path(),
            selection: self.selection(),
            start: self.flags.servegen_start,
            rate: None,
            duration: None,
            time_scale: self.flags.time_scale(),
            hash_seed: self.hash_seed,
        }
    }

    fn burstgpt(&self) -> WorkloadSpec {
        let burst = BurstGptSpec { path: self.path(), selection: self.selection() };
        match self.time_scale() {
            Some(time_scale) => WorkloadSpec::BurstReplay(BurstReplaySpec { burst, time_scale }),
            None => WorkloadSpec::BurstGpt(burst),
        }
    }

    fn custom(&self) -> WorkloadSpec {
        let custom = CustomSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general(self.flags.custom_output_len),
            chat_template: self.chat_template(),
            template_variables: self.template_variables(),
        };
        match self.time_scale() {
            Some(time_scale) => WorkloadSpec::CustomReplay(CustomReplaySpec { custom, time_scale }),
            None => WorkloadSpec::Custom(custom),
        }
    }

    fn rows(&self) -> anyhow::Result<RowsSpec> {
        let source = match &self.flags.dataset_command {
            Some(line) => RowSource::Command(CommandSpec {
                line: line.clone(),
                launcher: supervise::launcher()?,
                timeout: self.flags.dataset_command_timeout.value,
                model: None,
            }),
            None => RowSource::File(self.path()),
        };
        Ok(RowsSpec {
            source,
            map: FieldMap::parse(&self.flags.map)?,
            selection: self.selection(),
            output_len: self.given[1].or(self.output_len),
            default_output_len: self.flags.custom_output_len.filter(|len| *len != -1),
            chat_template: self.chat_template(),
            template_variables: self.template_variables(),
            multimodal_chat: self.multimodal_chat,
            client_side_data: self.flags.custom_ensure_client_side_data,
            time_scale: self.time_scale(),
            carrier: self.carrier,
        })
    }

    fn custom_image(&self) -> CustomImageSpec {
        CustomImageSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general(self.flags.custom_output_len).unwrap_or(256),
            multimodal_chat: self.multimodal_chat,
            client_side_data: self.flags.custom_ensure_client_side_data,
        }
    }

    fn custom_audio(&self) -> CustomAudioSpec {
        CustomAudioSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.output_len.or(self.flags.custom_output_len),
            multimodal_chat: self.multimodal_chat,
        }
    }

    fn spec_bench(&self) -> SpecBenchSpec {
        SpecBenchSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general(Some(self.flags.spec_bench_output_len)).unwrap_or(256),
            category: self.flags.spec_bench_category.clone(),
        }
    }

    fn speed_bench(&self) -> SpeedBenchSpec {
        SpeedBenchSpec {
            directory: self.path(),
            subset: self.flags.speed_bench_config.as_ref().unwrap_or(&self.flags.speed_bench_dataset_subset).clone(),
            max_input_len: self.flags.speed_bench_max_input_len.and_then(|max| usize::try_from(max).ok()),
            selection: self.selection(),
            output_len: self.flags.speed_bench_output_len,
            category: self.flags.speed_bench_category.clone(),
            chat_template: self.chat_template(),
            template_variables: self.template_variables(),
        }
    }

    fn timed_trace(&self, chunk_size: i64, sec_multiplier: f64) -> TimedTraceSpec {
        let flags = self.flags;
        TimedTraceSpec {
            path: self.path(),
            selection: self.selection(),
            chunk_size: flags.timed_trace_chunk_hash_size.typed().copied().unwrap_or(chunk_size),
            sec_multiplier: flags.timed_trace_sec_multiplier.typed().unwrap_or(&sec_multiplier) * flags.time_scale(),
            timestamp_label: flags.timed_trace_label_timestamp.clone(),
            input_length_label: flags.timed_trace_label_input_length.clone(),
            output_length_label: flags.timed_trace_label_output_length.clone(),
            hash_ids_label: flags.timed_trace_label_hash_ids.clone(),
            hash_seed: self.hash_seed,
        }
    }

    fn openai(&self) -> OpenAiSpec {
        OpenAiSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.output_len,
            time_scale: self.time_scale(),
        }
    }

    fn hf(&self) -> HfSpec {
        let flags = self.flags;
        HfSpec {
            path: self.path.clone(),
            name: self.flags.hf_name.clone(),
            subset: self.flags.hf_subset.clone(),
            split: self.flags.hf_split.clone(),
            output_len: self.general(self.flags.hf_output_len),
            selection: self.selection(),
            stream: !self.flags.no_stream,
            stream_order: flags.hf_order,
            chat_template: self.chat_template(),
            multimodal_chat: self.multimodal_chat,
            carrier: self.carrier,
            blazedit_distance: (flags.blazedit_min_distance, flags.blazedit_max_distance),
            audio_seconds: (flags.asr_min_audio_len_sec, flags.asr_max_audio_len_sec),
            bfcl_categories: flags.bfcl_categories.as_ref().map(|names| names.join(",")),
            cache: self.cache.clone(),
        }
    }

    fn sonnet(&self) -> SonnetSpec {
        // The deprecated length flags of `tacho throughput` apply to several datasets with different defaults.
        let [input, output, prefix] = self.given;
        SonnetSpec {
            path: self.path(),
            num_prompts: self.num_prompts,
            input_len: input.unwrap_or(self.flags.sonnet_input_len),
            output_len: output.unwrap_or(self.flags.sonnet_output_len),
            prefix_len: prefix.unwrap_or(self.flags.sonnet_prefix_len),
            // vLLM renders the chat template for all protocols but openai-chat.
            plain: self.carrier.carries(tacho_workload::Need::Chat) && self.carrier.name != "openai-responses",
            request_id_prefix: self.request_id_prefix.clone(),
        }
    }
}

impl Source<'_> {
    fn path(&self) -> PathBuf {
        PathBuf::from(&self.path)
    }

    fn selection(&self) -> Selection {
        Selection {
            seed: self.seed,
            num_prompts: self.num_prompts,
            shuffle: self.shuffle(),
            oversample: !self.flags.no_oversample,
            request_id_prefix: self.request_id_prefix.clone(),
        }
    }

    fn shuffle(&self) -> bool {
        !self.flags.disable_shuffle
    }

    fn chat_template(&self) -> bool {
        self.flags.uses_chat_template()
    }

    fn template_variables(&self) -> Option<Dict> {
        self.flags.chat_template_kwargs.as_ref()?.as_dict().cloned()
    }

    fn range_ratio(&self) -> anyhow::Result<RangeRatio> {
        Ok(RangeRatio::parse(&self.flags.random_range_ratio)?)
    }

    /// The output length, overridden by `--output-len`.
    fn general(&self, own: Option<i64>) -> Option<i64> {
        self.given[1].or(own)
    }

    /// Scale factor of recorded interarrival times, if requests are sent at the timestamps of the dataset.
    fn time_scale(&self) -> Option<f64> {
        self.self_timed.then(|| self.flags.time_scale())
    }
}
