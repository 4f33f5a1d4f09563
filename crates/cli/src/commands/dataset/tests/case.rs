//! Golden cases: parses the recorded arguments and compares the requests with the recorded ones.

use std::sync::LazyLock;

use serde_json::Value;
use tacho_args::flag::Table;
use tacho_args::grammar::{Parsed, Values};
use tacho_core::{Content, Counters, Request, json};
use tacho_pyrand::Globals;
use tacho_testkit::{golden_files, golden_json, golden_path, golden_text};
use tacho_text::{HubCache, Tokenizer};
use tacho_workload::{Sampled, WorkloadSpec, sample};

use crate::args::offline::throughput::{self, ThroughputArgs};
use crate::args::serve::{self, ServeArgs};
use crate::commands::dataset::Source;
use crate::commands::offline::workload::throughput_source;
use crate::commands::serve::workload::source;

pub(super) struct Case {
    pub(super) name: String,
    argv: Vec<String>,
    recorded: Value,
}

impl Case {
    /// Creates a case from an entry of `errors.json`.
    pub(super) fn from_error(entry: &Value) -> Self {
        let name = entry["name"].as_str().unwrap().to_owned();
        Case { name, argv: argv(entry), recorded: entry.clone() }
    }

    /// The value of `--flag value` or `--flag=value`.
    pub(super) fn flag(&self, name: &str) -> Option<&str> {
        let joined = format!("{name}=");
        if let Some(value) = self.argv.iter().find_map(|arg| arg.strip_prefix(&joined)) {
            return Some(value);
        }
        let at = self.argv.iter().position(|arg| arg == name)?;
        self.argv.get(at + 1).map(String::as_str)
    }

    fn has(&self, name: &str) -> bool {
        self.argv.iter().any(|arg| arg == name)
    }

    pub(super) fn recorded(&self, field: &str) -> Option<&Value> {
        self.recorded.get(field)
    }

    /// An integer flag, or `default`.
    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        self.flag(name).map_or(default, |value| value.parse().unwrap())
    }

    pub(super) fn tokenizer(&self) -> &'static Tokenizer {
        tokenizer(self.flag("--tokenizer").unwrap_or("gpt2").rsplit('/').next().unwrap())
    }

    /// Asserts that all request fields match; media descriptions are not part of a request.
    pub(super) fn assert_equal(&self, requests: &[Request]) {
        let recorded = golden_text(&format!("datasets/{}.jsonl", self.name));
        let recorded: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(requests.len(), recorded.len(), "{}: number of requests", self.name);
        for (index, (request, recorded)) in requests.iter().zip(&recorded).enumerate() {
            let context = format!("{}, request {index}", self.name);
            let expected =
                Expected { context: &context, media: recorded["media"].as_array().map_or(&[], Vec::as_slice) };
            let mut rest = expected.media.iter();
            expected.assert_same(&as_json(&request.content.to_json()), &recorded["prompt"], &mut rest);
            assert_eq!(request.prompt_len, recorded["prompt_len"].as_u64().unwrap(), "{context}");
            assert_eq!(request.output_len, recorded["expected_output_len"].as_i64().unwrap(), "{context}");
            assert_eq!(request.id.as_deref(), recorded["request_id"].as_str(), "{context}");
            assert_eq!(request.timestamp, recorded["timestamp"].as_f64(), "{context}");
            assert_eq!(request.lora.as_deref(), recorded["lora"].as_str(), "{context}");
            let optional = |value: &Option<json::Value>| value.as_ref().map_or(Value::Null, as_json);
            let mut rest =
                if recorded["prompt"].is_string() || request.media.is_some() { expected.media.iter() } else { rest };
            expected.assert_same(&optional(&request.media), &recorded["multi_modal_data"], &mut rest);
            assert_eq!(optional(&request.chat_messages), recorded["chat_messages"], "{context}");
            assert_eq!(optional(&request.overrides), recorded["request_overrides"], "{context}");
        }
    }

    /// Asserts the next draws of both global generators.
    pub(super) fn assert_rng_after(&self, globals: &mut Globals) {
        self.assert_state(globals, "rng_after");
    }

    /// Asserts the next draws of Python's global generator; offline commands do not seed NumPy's.
    pub(super) fn assert_python_after(&self, globals: &mut Globals) {
        let python: Vec<f64> = (0..3).map(|_| globals.py.random()).collect();
        assert_eq!(Value::from(python), self.recorded["rng_after"]["python_global_next_random"], "{}", self.name);
    }

    /// The case of the warm-up: fewer prompts, next seed.
    pub(super) fn warm_up(&self) -> Case {
        let mut argv = self.argv.clone();
        for (flag, value) in [("--num-prompts", self.int("--num-warmups", 0)), ("--seed", self.seed() + 1)] {
            let at = argv.iter().position(|arg| arg == flag).unwrap();
            argv[at + 1] = value.to_string();
        }
        Case { name: format!("{}.warmup", self.name), argv, recorded: self.recorded.clone() }
    }

    /// Asserts that the next draws of both global generators match a recorded field.
    pub(super) fn assert_state(&self, globals: &mut Globals, field: &str) {
        let after = &self.recorded[field];
        let numpy: Vec<f64> = (0..3).map(|_| globals.np.random_sample()).collect();
        let python: Vec<f64> = (0..3).map(|_| globals.py.random()).collect();
        assert_eq!(Value::from(numpy), after["numpy_global_next_random_sample"], "{}", self.name);
        assert_eq!(Value::from(python), after["python_global_next_random"], "{}", self.name);
    }

    fn seed(&self) -> i64 {
        self.int("--seed", 0)
    }

    fn spec(&self) -> anyhow::Result<WorkloadSpec> {
        enter_tests_directory();
        let hash_seed = self.recorded["env"]["PYTHONHASHSEED"].as_str().map_or(0, |seed| seed.parse().unwrap());
        let cache = hub_cache().clone();
        if self.recorded["command"] == "vllm bench throughput" {
            let args = ThroughputArgs::read(&self.values(&throughput::TABLE)?)?;
            let source = throughput_source(&args, args.common.engine.seed, args.num_prompts);
            return Source { cache, hash_seed, ..source }.spec(args.effective_dataset());
        }
        let args = ServeArgs::read(self.values(&serve::TABLE)?)?;
        Source { cache, hash_seed, ..source(&args) }.spec(args.dataset.kind.name)
    }

    fn values(&self, table: &'static Table) -> anyhow::Result<Values> {
        match Values::defaults(table).read(&self.argv)? {
            Parsed::Values(values) => Ok(values),
            Parsed::Help(_) => panic!("{} asks for help", self.name),
        }
    }
}

/// A recorded request with its media descriptions.
struct Expected<'e> {
    context: &'e str,
    media: &'e [Value],
}

type Media<'e> = std::slice::Iter<'e, Value>;

impl Expected<'_> {
    /// Asserts equality. Media that were not recorded, or that another encoder produced, are compared by their
    /// description.
    fn assert_same(&self, ours: &Value, theirs: &Value, media: &mut Media<'_>) {
        match (ours, theirs) {
            (Value::Object(ours), Value::Object(theirs)) => {
                if let Some(audio) = ours.get("audio").filter(|_| theirs["audio"] == "<samples: see media>") {
                    return self.assert_samples(audio, media.next().unwrap());
                }
                let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
                assert_eq!(keys(ours), keys(theirs), "{}", self.context);
                ours.iter().for_each(|(key, value)| self.assert_same(value, &theirs[key], media));
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                assert_eq!(ours.len(), theirs.len(), "{}", self.context);
                ours.iter().zip(theirs).for_each(|(ours, theirs)| self.assert_same(ours, theirs, media));
            }
            (Value::String(url), Value::String(theirs)) if url == theirs && url.starts_with("data:") => {
                assert!(media.next().is_some(), "{}", self.context);
            }
            (Value::String(url), Value::String(theirs)) if url.starts_with("data:image/jpeg") => {
                let description = media.next().unwrap();
                assert_eq!(digest(&decoded(url)), description["encoded_sha256"], "{}: {theirs:.60}", self.context);
            }
            (Value::String(url), Value::String(_)) if url.starts_with("data:image/png") => {
                let description = media.next().unwrap();
                assert_eq!(digest(&png_pixels(&decoded(url))), description["raw_sha256"], "{}", self.context);
            }
            (Value::String(url), Value::String(theirs)) if url.starts_with("data:video/mp4") => {
                let description = media.next().unwrap();
                assert_eq!(description["mime"], "video/mp4", "{}: {theirs:.60}", self.context);
                let file = decoded(url);
                let frames = file.windows(4).position(|window| window == b"stsz").unwrap() + 12;
                let frames = u32::from_be_bytes(file[frames..frames + 4].try_into().unwrap());
                assert_eq!(u64::from(frames), description["frames"].as_u64().unwrap(), "{}", self.context);
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{}", self.context),
        }
    }

    fn assert_samples(&self, audio: &Value, description: &Value) {
        assert_eq!(audio[1], description["sample_rate"], "{}", self.context);
        let single = description["dtype"] == "float32";
        let mut bytes = Vec::new();
        let mut push = |sample: &Value| {
            let sample = sample.as_f64().unwrap();
            if single { bytes.extend((sample as f32).to_le_bytes()) } else { bytes.extend(sample.to_le_bytes()) }
        };
        for frame in audio[0].as_array().unwrap() {
            match frame {
                Value::Array(frame) => frame.iter().for_each(&mut push),
                sample => push(sample),
            }
        }
        assert_eq!(digest(&bytes), description["raw_sha256"], "{}", self.context);
    }
}

fn decoded(url: &str) -> Vec<u8> {
    let data = url.split_once(";base64,").unwrap().1;
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap()
}

fn png_pixels(file: &[u8]) -> Vec<u8> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    match frame.color_type {
        png::ColorType::Rgb => pixels,
        _ => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    tacho_testkit::sha256(bytes)
}

/// The recorded cases whose name starts with `prefix`.
pub(super) fn cases(prefix: &str) -> Vec<Case> {
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

/// Asserts requests and final generator state of every case whose name starts with `prefix`.
pub(super) fn assert_made_again(prefix: &str, count: usize) {
    let cases: Vec<Case> = cases(prefix).into_iter().filter(|case| case.recorded("resolved").is_some()).collect();
    assert_eq!(cases.len(), count, "golden cases of {prefix}");
    for case in cases {
        let (sampled, mut globals) = run(&case).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
        case.assert_equal(&sampled.requests);
        case.assert_rng_after(&mut globals);
    }
}

pub(super) fn run(case: &Case) -> anyhow::Result<(Sampled, Globals)> {
    let mut globals = Globals::seeded(u32::try_from(case.seed()).unwrap());
    let tokenizer = (!case.has("--skip-tokenizer-init")).then(|| case.tokenizer());
    let sampled = sample(&case.spec()?, tokenizer, &mut globals, &Counters::default())?;
    Ok((sampled, globals))
}

/// The error of a recorded command line.
pub(super) fn refusal(entry: &Value) -> String {
    let sampled = run(&Case::from_error(entry)).map(|(sampled, _)| sampled.requests.len());
    sampled.expect_err("the command line is wrong").to_string()
}

/// Recorded paths start with `golden/`, which is in `tests/`.
fn enter_tests_directory() {
    static ENTERED: LazyLock<()> = LazyLock::new(|| std::env::set_current_dir(golden_path("..")).unwrap());
    LazyLock::force(&ENTERED);
}

fn hub_cache() -> &'static HubCache {
    static CACHE: LazyLock<HubCache> = LazyLock::new(|| {
        let root = tempfile::tempdir().unwrap().keep();
        for organization in std::fs::read_dir(golden_path("data/hf")).unwrap().map(|entry| entry.unwrap().path()) {
            for dataset in std::fs::read_dir(&organization).unwrap().map(|entry| entry.unwrap().path()) {
                let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
                let directory = root.join(format!("datasets--{}--{}", name(&organization), name(&dataset)));
                std::fs::create_dir_all(directory.join("refs")).unwrap();
                std::fs::create_dir_all(directory.join("snapshots")).unwrap();
                std::fs::write(directory.join("refs/main"), "abc").unwrap();
                std::os::unix::fs::symlink(dataset.canonicalize().unwrap(), directory.join("snapshots/abc")).unwrap();
            }
        }
        HubCache { root }
    });
    enter_tests_directory();
    &CACHE
}

pub(super) fn tokenizer(name: &str) -> &'static Tokenizer {
    static GPT2: LazyLock<Tokenizer> = LazyLock::new(|| load("gpt2"));
    static MISTRAL: LazyLock<Tokenizer> = LazyLock::new(|| load("mistral-v3"));
    match name {
        "gpt2" => &GPT2,
        "mistral-v3" => &MISTRAL,
        "whisper-test" => named("openai/whisper-test"),
        "asr-test" => named("CohereLabs/asr-test"),
        other => panic!("no golden tokenizer {other}"),
    }
}

/// GPT-2's tokenizer in a directory with another name: prompts of speech models depend on the name.
fn named(name: &str) -> &'static Tokenizer {
    let directory = tempfile::tempdir().unwrap().keep().join(name);
    std::fs::create_dir_all(directory.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(golden_path("tokenizers/gpt2").canonicalize().unwrap(), &directory).unwrap();
    Box::leak(Box::new(Tokenizer::load(&directory).unwrap()))
}

fn load(name: &str) -> Tokenizer {
    Tokenizer::load(&golden_path(&format!("tokenizers/{name}"))).unwrap()
}

pub(super) fn prompts(request: &Request) -> Vec<String> {
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
