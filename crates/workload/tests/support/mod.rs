//! Golden cases: the arguments that made them, and comparing requests with what was recorded.

#![allow(dead_code, reason = "each test target uses its part")]

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;
use tacho_core::{Content, Counters, Request, json};
use tacho_pyrand::Globals;
use tacho_testkit::{golden_files, golden_json, golden_path, golden_text};
use tacho_text::Tokenizer;
use tacho_workload::{
    BurstGptSpec, CustomSpec, Error, PrefixRepetitionSpec, RandomRerankSpec, RandomSpec, RangeRatio, Sampled, Selection,
    ShareGptSpec, SpecBenchSpec, SpeedBenchSpec, TimedTraceSpec, WorkloadSpec, sample,
};

/// One recorded case.
pub(crate) struct Case {
    pub(crate) name: String,
    argv: Vec<String>,
    recorded: Value,
}

impl Case {
    /// The case of an entry of `errors.json`.
    pub(crate) fn from_error(entry: &Value) -> Self {
        let name = entry["name"].as_str().unwrap().to_owned();
        Case { name, argv: argv(entry), recorded: entry.clone() }
    }

    /// The value of a flag, given as `--flag value` or `--flag=value`.
    pub(crate) fn flag(&self, name: &str) -> Option<&str> {
        let joined = format!("{name}=");
        if let Some(value) = self.argv.iter().find_map(|arg| arg.strip_prefix(&joined)) {
            return Some(value);
        }
        let at = self.argv.iter().position(|arg| arg == name)?;
        self.argv.get(at + 1).map(String::as_str)
    }

    /// Whether a flag without a value is there.
    fn has(&self, name: &str) -> bool {
        self.argv.iter().any(|arg| arg == name)
    }

    /// What else was recorded.
    pub(crate) fn recorded(&self, field: &str) -> Option<&Value> {
        self.recorded.get(field)
    }

    /// A whole number with its default.
    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        self.flag(name).map_or(default, |value| value.parse().unwrap())
    }

    /// The tokenizer it was recorded with.
    pub(crate) fn tokenizer(&self) -> &'static Tokenizer {
        tokenizer(self.flag("--tokenizer").unwrap().rsplit('/').next().unwrap())
    }

    /// Every recorded request, field by field; media descriptions are not part of a request.
    pub(crate) fn assert_equal(&self, requests: &[Request]) {
        let recorded = golden_text(&format!("datasets/{}.jsonl", self.name));
        let recorded: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(requests.len(), recorded.len(), "{}: number of requests", self.name);
        for (index, (request, recorded)) in requests.iter().zip(&recorded).enumerate() {
            let context = format!("{}, request {index}", self.name);
            assert_eq!(as_json(&request.content.to_json()), recorded["prompt"], "{context}");
            assert_eq!(request.prompt_len, recorded["prompt_len"].as_u64().unwrap(), "{context}");
            assert_eq!(request.output_len, recorded["expected_output_len"].as_u64().unwrap(), "{context}");
            assert_eq!(request.id.as_deref(), recorded["request_id"].as_str(), "{context}");
            assert_eq!(request.timestamp, recorded["timestamp"].as_f64(), "{context}");
            assert_eq!(request.lora.as_deref(), recorded["lora"].as_str(), "{context}");
            let optional = |value: &Option<json::Value>| value.as_ref().map_or(Value::Null, as_json);
            assert_eq!(optional(&request.media), recorded["multi_modal_data"], "{context}");
            assert_eq!(optional(&request.chat_messages), recorded["chat_messages"], "{context}");
            assert_eq!(optional(&request.overrides), recorded["request_overrides"], "{context}");
        }
    }

    /// The next draws of both global generators.
    pub(crate) fn assert_rng_after(&self, globals: &mut Globals) {
        let after = &self.recorded["rng_after"];
        let numpy: Vec<f64> = (0..3).map(|_| globals.np.random_sample()).collect();
        let python: Vec<f64> = (0..3).map(|_| globals.py.random()).collect();
        assert_eq!(Value::from(numpy), after["numpy_global_next_random_sample"], "{}", self.name);
        assert_eq!(Value::from(python), after["python_global_next_random"], "{}", self.name);
    }

    fn seed(&self) -> i64 {
        self.int("--seed", 0)
    }

    fn spec(&self) -> Result<WorkloadSpec, Error> {
        match self.flag("--dataset-name").unwrap() {
            "random" => Ok(WorkloadSpec::Random(RandomSpec {
                seed: self.seed(),
                num_prompts: self.int("--num-prompts", 1000),
                input_len: self.int("--input-len", self.int("--random-input-len", 1024)),
                output_len: self.int("--output-len", self.int("--random-output-len", 128)),
                prefix_len: self.int("--random-prefix-len", 0),
                range_ratio: RangeRatio::parse(self.flag("--random-range-ratio").unwrap_or("0.0"))?,
                batch_size: self.int("--random-batch-size", 1),
                request_id_prefix: self.flag("--request-id-prefix").unwrap().to_owned(),
            })),
            "random-rerank" => Ok(WorkloadSpec::RandomRerank(RandomRerankSpec {
                seed: self.seed(),
                num_prompts: self.int("--num-prompts", 1000),
                input_len: self.int("--input-len", self.int("--random-input-len", 1024)),
                range_ratio: RangeRatio::parse(self.flag("--random-range-ratio").unwrap_or("0.0"))?,
                batch_size: self.int("--random-batch-size", 1),
                is_reranker: !self.has("--no-reranker"),
                request_id_prefix: self.flag("--request-id-prefix").unwrap().to_owned(),
            })),
            "prefix_repetition" => Ok(WorkloadSpec::PrefixRepetition(PrefixRepetitionSpec {
                seed: self.seed(),
                num_prompts: self.int("--num-prompts", 1000),
                prefix_len: self.int("--prefix-repetition-prefix-len", 256),
                suffix_len: self.int("--prefix-repetition-suffix-len", 256),
                num_prefixes: self.int("--prefix-repetition-num-prefixes", 10),
                output_len: self.int("--output-len", self.int("--prefix-repetition-output-len", 128)) as u64,
                shuffle: !self.has("--disable-shuffle"),
            })),
            "sharegpt" => Ok(WorkloadSpec::ShareGpt(ShareGptSpec {
                path: self.path(),
                selection: self.selection(),
                output_len: self.general("--sharegpt-output-len").map(|len| len as u64),
                multimodal_chat: self.has("--enable-multimodal-chat"),
            })),
            "burstgpt" => {
                Ok(WorkloadSpec::BurstGpt(BurstGptSpec { path: self.path(), selection: self.selection() }))
            }
            "custom" => Ok(WorkloadSpec::Custom(CustomSpec {
                path: self.path(),
                selection: self.selection(),
                output_len: Some(self.general("--custom-output-len").unwrap_or(256)),
                chat_template: !self.has("--skip-chat-template"),
                template_variables: self.template_variables(),
            })),
            "spec_bench" => Ok(WorkloadSpec::SpecBench(SpecBenchSpec {
                path: self.path(),
                selection: self.selection(),
                output_len: self.general("--spec-bench-output-len").unwrap_or(256),
                category: self.flag("--spec-bench-category").map(str::to_owned),
            })),
            "speed_bench" => Ok(WorkloadSpec::SpeedBench(SpeedBenchSpec {
                folder: self.path(),
                subset: self.flag("--speed-bench-dataset-subset").unwrap_or("qualitative").to_owned(),
                selection: self.selection(),
                output_len: self.int("--speed-bench-output-len", 4096),
                category: self.flag("--speed-bench-category").map(str::to_owned),
                chat_template: !self.has("--skip-chat-template"),
                template_variables: self.template_variables(),
            })),
            "timed_trace" => Ok(WorkloadSpec::TimedTrace(self.timed_trace())),
            other => panic!("{}: unknown dataset {other}", self.name),
        }
    }

    fn timed_trace(&self) -> TimedTraceSpec {
        let label = |name: &str, default: &str| {
            self.flag(&format!("--timed-trace-label-{name}")).unwrap_or(default).to_owned()
        };
        TimedTraceSpec {
            path: self.path(),
            selection: self.selection(),
            chunk_size: self.int("--timed-trace-chunk-hash-size", 16),
            sec_multiplier: self.flag("--timed-trace-sec-multiplier").map_or(1.0, |text| text.parse().unwrap()),
            timestamp_label: label("timestamp", "timestamp"),
            input_length_label: label("input-length", "input_length"),
            output_length_label: label("output-length", "output_length"),
            hash_ids_label: label("hash-ids", "hash_ids"),
            hash_seed: self.recorded["env"]["PYTHONHASHSEED"].as_str().map_or(0, |seed| seed.parse().unwrap()),
        }
    }

    /// The data file, which lies below `tests/` as it does in the recorded command line.
    fn path(&self) -> PathBuf {
        golden_path("..").join(self.flag("--dataset-path").unwrap())
    }

    fn selection(&self) -> Selection {
        Selection {
            seed: self.seed(),
            num_prompts: self.int("--num-prompts", 1000),
            shuffle: !self.has("--disable-shuffle"),
            oversample: !self.has("--no-oversample"),
            request_id_prefix: self.flag("--request-id-prefix").unwrap_or("").to_owned(),
        }
    }

    /// A length that `--output-len` overrides.
    fn general(&self, name: &str) -> Option<i64> {
        self.flag("--output-len").or_else(|| self.flag(name)).map(|text| text.parse().unwrap())
    }

    fn template_variables(&self) -> Option<json::Dict> {
        let text = self.flag("--chat-template-kwargs")?;
        json::parse(text).unwrap().as_dict().cloned()
    }
}

/// The recorded cases whose name begins with `prefix`.
pub(crate) fn cases(prefix: &str) -> Vec<Case> {
    let ending = ".args.json";
    let names = golden_files("datasets", ending).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        name.starts_with(prefix).then(|| name.strip_suffix(ending).map(str::to_owned))?
    });
    names
        .map(|name| {
            let recorded = golden_json(&format!("datasets/{name}{ending}"));
            Case { name, argv: argv(&recorded), recorded }
        })
        .collect()
}

/// Samples a case on fresh generators.
pub(crate) fn run(case: &Case) -> Result<(Sampled, Globals), Error> {
    let mut globals = Globals::seeded(u32::try_from(case.seed()).unwrap());
    let tokenizer = (!case.has("--skip-tokenizer-init")).then(|| case.tokenizer());
    let sampled = sample(&case.spec()?, tokenizer, &mut globals, &Counters::default())?;
    Ok((sampled, globals))
}

/// A golden tokenizer.
pub(crate) fn tokenizer(name: &str) -> &'static Tokenizer {
    static GPT2: LazyLock<Tokenizer> = LazyLock::new(|| load("gpt2"));
    static MISTRAL: LazyLock<Tokenizer> = LazyLock::new(|| load("mistral-v3"));
    match name {
        "gpt2" => &GPT2,
        "mistral-v3" => &MISTRAL,
        other => panic!("no golden tokenizer {other}"),
    }
}

fn load(name: &str) -> Tokenizer {
    Tokenizer::load(&golden_path(&format!("tokenizers/{name}"))).unwrap()
}

/// The texts of a request.
pub(crate) fn prompts(request: &Request) -> Vec<String> {
    match &request.content {
        Content::Text(text) => vec![text.clone()],
        Content::Texts(texts) => texts.clone(),
        other => panic!("not text: {other:?}"),
    }
}

fn argv(entry: &Value) -> Vec<String> {
    entry["argv"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()).collect()
}

fn as_json(value: &json::Value) -> Value {
    serde_json::from_str(&json::dumps(value)).unwrap()
}
