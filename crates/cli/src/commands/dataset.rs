//! From dataset flags to the settings of a workload, once for every command that samples. What commands do
//! differently is in their [`Source`]; a flag that a command does not have stands at its default of `tacho serve`.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use tacho_args::grammar::Values;
use tacho_core::json::{Dict, Value, float_repr};
use tacho_text::HubCache;
use tacho_workload::{
    Buckets, BurstGptSpec, BurstReplaySpec, CachedShare, Carrier, CustomAudioSpec, CustomImageSpec, CustomReplaySpec,
    CustomSpec, HfSpec, HfTextSpec, MooncakeSpec, OpenAiSpec, PrefixRepetitionSpec, RandomMmSpec, RandomRerankSpec,
    RandomSpec, RangeRatio, Selection, ShareGptSpec, SharedPrefixSpec, SonnetSpec, SpecBenchSpec, SpeedBenchSpec,
    StreamOrder, TimedTraceSpec, WorkloadSpec,
};

use crate::args::serve::TABLE;

/// What the datasets of a command are made from.
pub(crate) struct Source<'a> {
    /// The command's flags.
    pub(crate) values: &'a Values,
    /// File, directory or Hub id.
    pub(crate) path: String,
    /// Seed of the draws.
    pub(crate) seed: i64,
    /// Requests to make.
    pub(crate) num_prompts: i64,
    /// Start of each request's id.
    pub(crate) request_id_prefix: String,
    /// Tokens of random prompts, of their answers and of their shared beginning.
    pub(crate) lengths: [i64; 3],
    /// Texts of a request, where the command lets it be chosen.
    pub(crate) batch_size: i64,
    /// The answer length that takes the place of a dataset's own flag, where the command has one for all.
    pub(crate) output_len: Option<i64>,
    /// Whether prompts become chat messages that hold their media.
    pub(crate) multimodal_chat: bool,
    /// What carries the requests.
    pub(crate) carrier: Carrier,
    /// Whether requests go out at the times of the data.
    pub(crate) self_timed: bool,
    /// Where downloaded datasets are.
    pub(crate) cache: HubCache,
    /// Python's `PYTHONHASHSEED`. Unset or `random` gives other tokens in every process of Python; here always those
    /// of 0.
    pub(crate) hash_seed: u32,
}

/// The hash seed of the environment.
pub(crate) fn hash_seed() -> u32 {
    std::env::var("PYTHONHASHSEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

impl Source<'_> {
    /// The settings of the dataset of that name.
    pub(crate) fn spec(&self, name: &str) -> anyhow::Result<WorkloadSpec> {
        Ok(match name {
            "random" => WorkloadSpec::Random(self.random()?),
            "random-mm" => WorkloadSpec::RandomMm(self.random_mm()?),
            "random-rerank" => WorkloadSpec::RandomRerank(self.random_rerank()?),
            "prefix_repetition" => WorkloadSpec::PrefixRepetition(self.prefix_repetition()),
            "sharegpt" => WorkloadSpec::ShareGpt(self.sharegpt()),
            "burstgpt" => self.burstgpt(),
            "custom" => self.custom(),
            "custom_image" => WorkloadSpec::CustomImage(self.custom_image()),
            "custom_audio" => WorkloadSpec::CustomAudio(self.custom_audio()),
            "spec_bench" => WorkloadSpec::SpecBench(self.spec_bench()),
            "speed_bench" => WorkloadSpec::SpeedBench(self.speed_bench()),
            "timed_trace" => WorkloadSpec::TimedTrace(self.timed_trace(16, 1.0)),
            // Its traces have blocks of 512 tokens and times in milliseconds, unless flags say otherwise.
            "mooncake" => WorkloadSpec::Mooncake(MooncakeSpec {
                trace: self.timed_trace(512, 0.001),
                workload: self.text("--mooncake-workload"),
            }),
            "generated-shared-prefix" => WorkloadSpec::SharedPrefix(self.shared_prefix()),
            "openai" => WorkloadSpec::OpenAi(self.openai()),
            "sonnet" => WorkloadSpec::Sonnet(self.sonnet()),
            _ => match self.maybe_text("--hf-text-column") {
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
            token_ids: self.switch("--prompt-token-ids"),
            cached: self
                .get("--random-cache-hit-fraction")
                .as_f64()
                .map(|fraction| CachedShare { fraction, ratio: self.float("--random-cache-ratio") }),
        })
    }

    fn random_mm(&self) -> anyhow::Result<RandomMmSpec> {
        let [input_len, output_len, prefix_len] = self.lengths;
        let limits = self.get("--random-mm-limit-mm-per-prompt");
        let limits = limits.as_dict().into_iter().flat_map(Dict::iter);
        Ok(RandomMmSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            input_len,
            output_len,
            prefix_len,
            range_ratio: self.range_ratio()?,
            base_items: self.int("--random-mm-base-items-per-request"),
            items_range_ratio: self.float("--random-mm-num-mm-items-range-ratio"),
            limits: limits.map(|(name, limit)| (name.to_owned(), limit.as_i64().unwrap_or(0))).collect(),
            buckets: self.buckets()?,
            multimodal_chat: self.multimodal_chat,
            request_id_prefix: self.request_id_prefix.clone(),
        })
    }

    fn buckets(&self) -> anyhow::Result<Buckets> {
        let buckets = self.get("--random-mm-bucket-config");
        let entry = |(key, share): (&str, &Value)| format!("{key}: {}", float_repr(share.as_f64().unwrap_or_default()));
        let text: Vec<String> = buckets.as_dict().into_iter().flat_map(|dict| dict.iter().map(entry)).collect();
        Ok(Buckets::parse(&format!("{{{}}}", text.join(", ")))?)
    }

    fn random_rerank(&self) -> anyhow::Result<RandomRerankSpec> {
        Ok(RandomRerankSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            input_len: self.lengths[0],
            range_ratio: self.range_ratio()?,
            batch_size: self.batch_size,
            is_reranker: !self.switch("--no-reranker"),
            request_id_prefix: self.request_id_prefix.clone(),
        })
    }

    fn prefix_repetition(&self) -> PrefixRepetitionSpec {
        PrefixRepetitionSpec {
            seed: self.seed,
            num_prompts: self.num_prompts,
            prefix_len: self.int("--prefix-repetition-prefix-len"),
            suffix_len: self.int("--prefix-repetition-suffix-len"),
            num_prefixes: self.int("--prefix-repetition-num-prefixes"),
            output_len: self.output_len.unwrap_or_else(|| self.int("--prefix-repetition-output-len")),
            shuffle: self.shuffle(),
        }
    }

    pub(super) fn shared_prefix(&self) -> SharedPrefixSpec {
        SharedPrefixSpec {
            seed: self.seed,
            groups: self.int("--gsp-num-groups"),
            prompts_per_group: self.int("--gsp-prompts-per-group"),
            system_len: self.int("--gsp-system-prompt-len"),
            turns: self.int("--gsp-num-turns"),
            question_len: self.int("--gsp-question-len"),
            output_len: self.output_len.unwrap_or_else(|| self.int("--gsp-output-len")),
            range_ratio: self.float("--gsp-range-ratio"),
            zipf: self.get("--gsp-zipf-alpha").as_f64(),
            ordered: self.switch("--gsp-ordered"),
            uncounted: self.switch("--gsp-fast-prepare"),
            request_id_prefix: self.request_id_prefix.clone(),
        }
    }

    fn sharegpt(&self) -> ShareGptSpec {
        ShareGptSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general("--sharegpt-output-len"),
            multimodal_chat: self.multimodal_chat,
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
            output_len: self.general("--custom-output-len"),
            chat_template: self.chat_template(),
            template_variables: self.template_variables(),
        };
        match self.time_scale() {
            Some(time_scale) => WorkloadSpec::CustomReplay(CustomReplaySpec { custom, time_scale }),
            None => WorkloadSpec::Custom(custom),
        }
    }

    fn custom_image(&self) -> CustomImageSpec {
        CustomImageSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general("--custom-output-len").unwrap_or(256),
            multimodal_chat: self.multimodal_chat,
            client_side_data: self.switch("--custom-ensure-client-side-data"),
        }
    }

    fn custom_audio(&self) -> CustomAudioSpec {
        CustomAudioSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.output_len.or_else(|| self.maybe_int("--custom-output-len")),
            multimodal_chat: self.multimodal_chat,
        }
    }

    fn spec_bench(&self) -> SpecBenchSpec {
        SpecBenchSpec {
            path: self.path(),
            selection: self.selection(),
            output_len: self.general("--spec-bench-output-len").unwrap_or(256),
            category: self.maybe_text("--spec-bench-category"),
        }
    }

    fn speed_bench(&self) -> SpeedBenchSpec {
        SpeedBenchSpec {
            directory: self.path(),
            subset: self
                .maybe_text("--speed-bench-config")
                .unwrap_or_else(|| self.text("--speed-bench-dataset-subset")),
            max_input_len: self.maybe_int("--speed-bench-max-input-len").and_then(|most| usize::try_from(most).ok()),
            selection: self.selection(),
            output_len: self.int("--speed-bench-output-len"),
            category: self.maybe_text("--speed-bench-category"),
            chat_template: self.chat_template(),
            template_variables: self.template_variables(),
        }
    }

    fn timed_trace(&self, chunk_size: i64, sec_multiplier: f64) -> TimedTraceSpec {
        let (chunk, multiplier) = ("--timed-trace-chunk-hash-size", "--timed-trace-sec-multiplier");
        let given = |flag| self.get(flag).as_f64().filter(|_| self.values.is_given(flag));
        let label = |name: &str| self.text(&format!("--timed-trace-label-{name}"));
        TimedTraceSpec {
            path: self.path(),
            selection: self.selection(),
            chunk_size: if self.values.is_given(chunk) { self.int(chunk) } else { chunk_size },
            sec_multiplier: given(multiplier).unwrap_or(sec_multiplier) * self.scale(),
            timestamp_label: label("timestamp"),
            input_length_label: label("input-length"),
            output_length_label: label("output-length"),
            hash_ids_label: label("hash-ids"),
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
        let range = |least, most| (self.float(least), self.float(most));
        HfSpec {
            path: self.path.clone(),
            name: self.maybe_text("--hf-name"),
            subset: self.maybe_text("--hf-subset"),
            split: self.maybe_text("--hf-split"),
            output_len: self.general("--hf-output-len"),
            selection: self.selection(),
            stream: !self.switch("--no-stream"),
            stream_order: match self.text("--hf-order").as_str() {
                "4" => StreamOrder::Four,
                "5.0" => StreamOrder::Five,
                _ => StreamOrder::Current,
            },
            chat_template: self.chat_template(),
            multimodal_chat: self.multimodal_chat,
            carrier: self.carrier,
            blazedit_distance: range("--blazedit-min-distance", "--blazedit-max-distance"),
            audio_seconds: range("--asr-min-audio-len-sec", "--asr-max-audio-len-sec"),
            bfcl_categories: self.list("--bfcl-categories").map(|names| names.join(",")),
            cache: self.cache.clone(),
        }
    }

    fn sonnet(&self) -> SonnetSpec {
        // The older flags of `tacho throughput` are common to several datasets, which have other defaults.
        let given = |flag: &str| self.values.has(flag) && self.values.is_given(flag);
        let len = |common: &str, own: &str| if given(common) { self.int(common) } else { self.int(own) };
        SonnetSpec {
            path: self.path(),
            num_prompts: self.num_prompts,
            input_len: len("--input-len", "--sonnet-input-len"),
            output_len: len("--output-len", "--sonnet-output-len"),
            prefix_len: len("--prefix-len", "--sonnet-prefix-len"),
            plain: self.carrier.carries(tacho_workload::Need::Chat),
            request_id_prefix: self.request_id_prefix.clone(),
        }
    }
}

/// What several datasets read.
impl Source<'_> {
    fn path(&self) -> PathBuf {
        PathBuf::from(&self.path)
    }

    fn selection(&self) -> Selection {
        Selection {
            seed: self.seed,
            num_prompts: self.num_prompts,
            shuffle: self.shuffle(),
            oversample: !self.switch("--no-oversample"),
            request_id_prefix: self.request_id_prefix.clone(),
        }
    }

    fn shuffle(&self) -> bool {
        !self.switch("--disable-shuffle")
    }

    fn chat_template(&self) -> bool {
        !(self.switch("--skip-chat-template") || self.switch("--custom-skip-chat-template"))
    }

    fn template_variables(&self) -> Option<Dict> {
        self.get("--chat-template-kwargs").as_dict().filter(|dict| !dict.is_empty()).cloned()
    }

    fn range_ratio(&self) -> anyhow::Result<RangeRatio> {
        Ok(RangeRatio::parse(&self.text("--random-range-ratio"))?)
    }

    /// An answer length that `--output-len` overrides.
    fn general(&self, own: &str) -> Option<i64> {
        self.maybe_int("--output-len").or_else(|| self.maybe_int(own))
    }

    /// How many times as far apart requests are as recorded.
    fn scale(&self) -> f64 {
        self.float("--time-scale") * self.float("--mooncake-slowdown-factor")
    }

    /// The same, where requests go out at the times of the data.
    fn time_scale(&self) -> Option<f64> {
        self.self_timed.then(|| self.scale())
    }
}

/// Values of flags that every command can be asked for.
impl Source<'_> {
    fn get(&self, flag: &str) -> Value {
        if self.values.has(flag) {
            return self.values.get(flag).clone();
        }
        TABLE.find(flag).expect("serve has the flags of every dataset").preset.value()
    }

    fn switch(&self, flag: &str) -> bool {
        self.get(flag).truthy()
    }

    fn maybe_int(&self, flag: &str) -> Option<i64> {
        self.get(flag).as_i64()
    }

    fn int(&self, flag: &str) -> i64 {
        self.maybe_int(flag).unwrap_or_default()
    }

    fn float(&self, flag: &str) -> f64 {
        self.get(flag).as_f64().unwrap_or_default()
    }

    fn maybe_text(&self, flag: &str) -> Option<String> {
        self.get(flag).as_str().map(str::to_owned)
    }

    fn text(&self, flag: &str) -> String {
        self.maybe_text(flag).unwrap_or_default()
    }

    fn list(&self, flag: &str) -> Option<Vec<String>> {
        let list = self.get(flag);
        Some(list.as_list()?.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }
}
