//! Checks of `tacho serve` before the first request. vLLM detects most of these errors during or after the run.

mod headers;
mod several;

use std::num::NonZeroU32;

use tacho_args::repr::quoted;
use tacho_client::{BackendKind, Task};
use tacho_core::json::{dumps, float_repr};
use tacho_core::live::Output;
use tacho_core::secret::{redact_json_text, redact_url};
use tacho_metrics::MetricKind;
use tacho_run::{LoraAssignment, serve::can_check};
use tacho_text::TokenizerMode;
use tacho_workload::{FieldMap, Need, Rows, SERVE_NAMES, Times, dataset};

use super::{ContentArgs, DatasetFlags, LoadArgs, ServeArgs};
use crate::args::error::{ArgumentError, bad_mm_limits, bad_tokenizer_mode, ensure, unfit_dataset};
use crate::args::help::suggest;

/// One probe in eleven days.
const SLOWEST_PROBE: f64 = 1e-6;

pub(crate) fn check(args: &ServeArgs) -> Result<(), ArgumentError> {
    check_load(&args.load)?;
    check_target(args)?;
    check_content(&args.content)?;
    check_backend(args)?;
    check_media(args)?;
    check_dataset(args)?;
    args.stages.check(args)?;
    check_lengths(args)?;
    args.sessions.check(args)?;
    if args.report.plot_timeline {
        args.report.thresholds()?;
    }
    check_metrics(args)?;
    args.thresholds()?;
    several::check_repeats(args)?;
    args.points.check(args)?;
    check_tacho(args)
}

pub(super) fn check_class(args: &ServeArgs) -> Result<(), ArgumentError> {
    check_content(&args.content)?;
    check_backend(args)?;
    check_dataset(args)?;
    check_lengths(args)
}

/// Rejects flags of audio for backends without it, where they would do nothing.
fn check_media(args: &ServeArgs) -> Result<(), ArgumentError> {
    let backend = args.target.backend();
    let speech = (backend.output() == Output::Audio, "--backend openai-speech");
    let live = (backend.is_websocket(), "--backend openai-realtime");
    let flags = [
        ("--pcm-sample-rate", speech),
        ("--pcm-channels", speech),
        ("--playback-buffer", speech),
        ("--audio-speed", live),
    ];
    for (flag, (applies, other)) in flags {
        ensure(applies || !args.values.is_set(flag), || ArgumentError::Alone { flag, other })?;
    }
    Ok(())
}

/// vLLM ignores unknown names; here they are an error, since the report would lack the requested metric.
fn check_metrics(args: &ServeArgs) -> Result<(), ArgumentError> {
    let names = args.percentile_metrics();
    let known = |name: &String| name.is_empty() || MetricKind::ALL.iter().any(|metric| metric.name() == *name);
    match names.iter().find(|name| !known(name)) {
        Some(name) if !args.tacho.strict_parity => Err(ArgumentError::other(format!(
            "--percentile-metrics: {} is not a metric: use {}, separated by commas without spaces",
            quoted(name),
            MetricKind::ALL.map(MetricKind::name).join(", ")
        ))),
        _ => Ok(()),
    }
}

fn check_load(load: &LoadArgs) -> Result<(), ArgumentError> {
    check_ramp(load)?;
    let rate = load.probe_request_rate;
    ensure(rate == 0.0 || rate >= SLOWEST_PROBE, || {
        ArgumentError::range("--probe-request-rate", float_repr(rate), "0 for none, or 0.000001 or more")
    })
}

fn check_ramp(load: &LoadArgs) -> Result<(), ArgumentError> {
    let Some(strategy) = load.ramp_up_strategy else { return Ok(()) };
    let rate = load.request_rate;
    let problem = match (load.ramp_up_start_rps, load.ramp_up_end_rps) {
        _ if rate != f64::INFINITY => {
            format!(
                "--request-rate {rate} contradicts --ramp-up-strategy, which sets the rate itself: remove one of them"
            )
        }
        (Some(start), Some(end)) if start > end => {
            format!("--ramp-up-start-rps {start} is above --ramp-up-end-rps {end}: a ramp goes up, swap them")
        }
        (Some(1..), Some(_)) => return Ok(()),
        (Some(_), Some(_)) => {
            let strategy = strategy.name();
            format!(
                "--ramp-up-start-rps 0 never sends a first request with --ramp-up-strategy {strategy}: start at 1 or more"
            )
        }
        _ => format!("--ramp-up-strategy {} needs both --ramp-up-start-rps and --ramp-up-end-rps", strategy.name()),
    };
    Err(ArgumentError::other(problem))
}

fn check_target(args: &ServeArgs) -> Result<(), ArgumentError> {
    let target = &args.target;
    headers::check(args)?;
    check_address(args)?;
    let is_credential = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
    let header = target.header.iter().any(is_credential).then_some("--header");
    target.sign_in.check(target.api_key.as_ref().map(|_| "--api-key").or(header), &args.base_url())?;
    several::check_replicas(args)?;
    let (url, backend) = (args.api_url(), target.backend());
    let suffixes = backend.url_suffixes();
    // vLLM checks the end of the whole URL; a query after the path is not an error here.
    let path = if args.tacho.strict_parity { &url } else { url.split(['?', '#']).next().unwrap_or_default() };
    ensure(suffixes.iter().any(|suffix| url.ends_with(suffix) || path.ends_with(suffix)), || {
        let (url, suffixes, name) = (redact_url(&url), suffixes.join("' or '"), backend.name());
        ArgumentError::other(format!(
            "--endpoint: {url} must end in {suffixes} for --backend {name}: correct --endpoint, or leave it out"
        ))
    })?;
    let mode = &target.tokenizer_mode;
    ensure(TokenizerMode::parse(mode).is_some(), || bad_tokenizer_mode(mode))?;
    ensure(!target.lora_modules.iter().flatten().any(String::is_empty), || {
        ArgumentError::other("--lora-modules: an adapter name is empty: use the names that the server lists")
    })?;
    let in_turn = target.lora_assignment.value == LoraAssignment::RoundRobin;
    let (flag, other) = ("--lora-weights", "--lora-assignment round-robin");
    ensure(args.tacho.lora_weights.is_none() || !in_turn, || ArgumentError::Together { flag, other })?;
    args.lora_weights().map(drop)
}

/// Checks that the server's address is given in exactly one form.
fn check_address(args: &ServeArgs) -> Result<(), ArgumentError> {
    let target = &args.target;
    if target.base_url.is_none() {
        let host = &target.host;
        // A single colon starts a port; IPv6 addresses have several.
        let whole = host.contains(['/', ' ']) || host.matches(':').count() == 1;
        return ensure(!whole && !host.is_empty(), || {
            let host = quoted(&redact_url(host));
            ArgumentError::other(format!(
                "--host {host}: use a name or an address, and --port; a whole address is for --base-url"
            ))
        });
    }
    args.base_urls().iter().try_for_each(|url| check_url(args, url))
}

fn check_url(args: &ServeArgs, url: &str) -> Result<(), ArgumentError> {
    let shown = quoted(&redact_url(url));
    let form = match url.starts_with("unix:") || url.starts_with('/') {
        true => "http+unix:// and the path of the socket with %2F for /, as in http+unix://%2Frun%2Fvllm.sock",
        false => "http://HOST[:PORT] or https://HOST[:PORT]",
    };
    ensure(is_http_url(url), || ArgumentError::other(format!("--base-url {shown}: write {form}")))?;
    let ends = |kind: &&BackendKind| {
        let path = kind.default_endpoint();
        path.starts_with("/v1/") && url.trim_end_matches('/').ends_with(path)
    };
    let doubled = !args.tacho.strict_parity && !args.target.endpoint.is_set;
    match BackendKind::ALL.iter().find(ends).filter(|_| doubled) {
        Some(kind) => Err(ArgumentError::other(format!(
            "--base-url {shown} ends in the path of an API: end it at the server, and choose the API by --backend {}",
            kind.name()
        ))),
        None => Ok(()),
    }
}

/// Whether the URL has a supported scheme and a host; the client validates the rest.
fn is_http_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let described = ["http", "https", "http+unix"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
    described && !host.is_empty() && !host.contains(char::is_whitespace)
}

fn check_content(content: &ContentArgs) -> Result<(), ArgumentError> {
    ensure(!content.use_beam_search, || {
        ArgumentError::other("--use-beam-search is not supported: no backend has a request field for it; remove it")
    })?;
    let Some(body) = &content.extra_body else { return Ok(()) };
    ensure(body.as_dict().is_some(), || {
        let text = redact_json_text(&dumps(body));
        ArgumentError::other(format!("--extra-body {text}: must be a JSON object, such as '{{\"min_tokens\": 8}}'"))
    })
}

fn check_backend(args: &ServeArgs) -> Result<(), ArgumentError> {
    let backend = args.target.backend();
    let name = backend.name();
    let is_file = backend.file_digest().is_some();
    let (flag, other) = ("--strict-parity", "a backend from a file");
    ensure(!(is_file && args.tacho.strict_parity), || ArgumentError::Together { flag, other })?;
    let samples = !backend.is_openai_compatible() && !args.is_textless();
    if let Some((field, _)) = args.content.sampling().iter().next().filter(|_| samples) {
        let flag = field.replace('_', "-");
        let text = format!("--{flag} cannot be sent: --backend {name} does not take sampling parameters: remove it");
        return Err(ArgumentError::other(text));
    }
    let probes = args.load.probe_request_rate > 0.0;
    let unprobed = matches!(
        backend,
        BackendKind::OpenAiAudio
            | BackendKind::OpenAiRealtime
            | BackendKind::VllmRerank
            | BackendKind::OpenAiImageEdits
    );
    ensure(!(probes && unprobed), || {
        ArgumentError::other(format!(
            "--probe-request-rate: --backend {name} has no tiny request to probe with: remove it"
        ))
    })?;
    if args.tacho.workload.is_some() {
        return Ok(());
    }
    let lists = args.dataset.flags.random_batch_size > 1;
    let single = matches!(backend, BackendKind::VllmGenerate | BackendKind::Tgi | BackendKind::TensorRtLlm)
        || backend.task() == Task::Media;
    match backend {
        _ if args.dataset.kind.name != "random" => Ok(()),
        BackendKind::OpenAiAudio | BackendKind::OpenAiRealtime => Err(unfit_dataset("random", name, "audio")),
        BackendKind::OpenAiImageEdits => Err(unfit_dataset("random", name, "images")),
        BackendKind::VllmRerank if !lists => Err(ArgumentError::other(
            "--backend vllm-rerank needs a query and documents: set --random-batch-size to 2 or more",
        )),
        _ if lists && single => Err(ArgumentError::other(format!(
            "--random-batch-size above 1 makes lists of prompts, and --backend {name} takes one: remove it"
        ))),
        _ => Ok(()),
    }
}

fn check_dataset(args: &ServeArgs) -> Result<(), ArgumentError> {
    let (dataset, kind, carrier) = (&args.dataset, args.dataset.kind, args.target.carrier());
    let name = kind.name;
    let prompts = args.load.num_prompts;
    ensure(prompts > 0 || kind.rows == Rows::ReadWhole, || {
        ArgumentError::range("--num-prompts", prompts, "1 or more")
    })?;
    dataset.range_ratio()?;
    let scale = dataset.flags.time_scale();
    ensure(scale >= 0.0 && scale.is_finite(), || ArgumentError::range("--time-scale", float_repr(scale), "0 or more"))?;
    if let Some(kwargs) = &dataset.flags.chat_template_kwargs {
        ensure(kwargs.as_dict().is_some(), || {
            let text = dumps(kwargs);
            let example = "'{\"enable_thinking\": false}'";
            ArgumentError::other(format!("--chat-template-kwargs {text}: must be a JSON object, such as {example}"))
        })?;
    }
    let limits = &dataset.flags.mm_limits;
    let counts = limits.as_dict().is_some_and(|dict| dict.iter().all(|(_, limit)| limit.as_i64().is_some()));
    ensure(counts, || bad_mm_limits(&dumps(limits)))?;
    if args.tacho.workload.is_some() {
        return Ok(());
    }
    check_user_rows(args)?;
    match &dataset.path {
        None if dataset.flags.dataset_command.is_some() => {}
        Some(path) => ensure(!kind.is_made_up(), || {
            ArgumentError::other(format!(
                "cannot use the {name} dataset with --dataset-path {path}, since it reads no file: remove it, or pass the \
                 --dataset-name of the file"
            ))
        })?,
        None => ensure(kind.is_made_up(), || ArgumentError::Other {
            text: format!("--dataset-name {name} needs --dataset-path with its file, directory or Hub id"),
            hint: suggest::source(name),
        })?,
    }
    let untimed = args.load.self_timed.is_some() && !dataset.has_times();
    ensure(!untimed, || {
        ArgumentError::other(format!(
            "--self-timed/--no-self-timed is only for {}, not for {name}: remove it",
            timed_names()
        ))
    })?;
    check_shared_prefix(&dataset.flags)?;
    check_cached_share(args)?;
    if let Some(need) = kind.needs.filter(|need| !carrier.carries(*need)) {
        return Err(unmet(need, name, carrier.name));
    }
    let skipped = args.target.skip_tokenizer_init && !kind.works_without_tokenizer;
    ensure(!skipped, || {
        ArgumentError::other(format!("--dataset-name {name} needs a tokenizer: remove --skip-tokenizer-init"))
    })
}

/// The datasets whose rows can have times.
fn timed_names() -> String {
    let timed = SERVE_NAMES.iter().filter(|name| dataset(name).is_some_and(|kind| kind.times != Times::None));
    format!("--dataset-name {}", timed.copied().collect::<Vec<_>>().join(", "))
}

fn check_user_rows(args: &ServeArgs) -> Result<(), ArgumentError> {
    let (dataset, flags) = (&args.dataset, &args.dataset.flags);
    let multi_turn = flags.has_user_rows() && args.multi_turn().is_some();
    ensure(!multi_turn, || ArgumentError::Together { flag: flags.rows_flag(), other: "--multi-turn" })?;
    flags.check_user_rows(dataset.kind.name, dataset.path.is_some())
}

impl DatasetFlags {
    fn rows_flag(&self) -> &'static str {
        if self.dataset_command.is_some() { "--dataset-command" } else { "--map" }
    }

    /// Rejects rows of a command or of mapped columns that do not fit the dataset.
    pub(crate) fn check_user_rows(&self, dataset: &str, has_path: bool) -> Result<(), ArgumentError> {
        let (command, flag) = (self.dataset_command.as_deref(), self.rows_flag());
        let other = "--dataset-name custom";
        ensure(!self.has_user_rows() || dataset == "custom", || ArgumentError::Alone { flag, other })?;
        ensure(command.is_none() || !has_path, || ArgumentError::Together { flag, other: "--dataset-path" })?;
        ensure(command.is_none_or(|line| !line.trim().is_empty()), || ArgumentError::range(flag, "''", "a command"))?;
        FieldMap::parse(&self.map).map(drop).map_err(|error| ArgumentError::other(error.to_string()))
    }
}

/// Distributions of prompt lengths are those of the random dataset, one text per request. Output lengths are drawn for
/// all datasets in which a flag sets them.
fn check_lengths(args: &ServeArgs) -> Result<(), ArgumentError> {
    let flags = &args.dataset.flags;
    let in_stages = args.stages.lengths().any(|(_, texts)| texts.iter().any(Option::is_some));
    let given = [
        ("--input-len-dist", flags.input_len_dist.is_some()),
        ("--output-len-dist", flags.output_len_dist.is_some()),
        ("input_len or output_len in --stages", in_stages),
    ];
    let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    // Requests of a class are spread over all stages.
    ensure(!in_stages || args.tacho.class.is_empty(), || ArgumentError::Together { flag, other: "--class" })?;
    ensure(args.multi_turn().is_none(), || ArgumentError::Together { flag, other: "--multi-turn" })?;
    let kind = args.dataset.kind;
    let random = kind.name == "random" && flags.random_batch_size <= 1 && args.tacho.workload.is_none();
    let outputs = flags.input_len_dist.is_none() && args.stages.lengths().all(|(_, texts)| texts[0].is_none());
    if outputs && kind.name != "random" && args.tacho.workload.is_none() {
        let name = kind.name;
        ensure(!kind.fixed_output, || {
            ArgumentError::other(format!(
                "{flag} does not apply to --dataset-name {name}, whose output lengths are fixed: remove one of them"
            ))
        })?;
    } else {
        ensure(random, || ArgumentError::Alone { flag, other: "--dataset-name random" })?;
    }
    ensure(!args.tacho.strict_parity, || ArgumentError::Together { flag, other: "--strict-parity" })?;
    args.length_plan().map(drop).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        ArgumentError::other(format!("{flag}: {error}{cause}"))
    })
}

fn unmet(need: Need, name: &str, backend: &str) -> ArgumentError {
    ArgumentError::other(match need {
        Need::TokenIds => {
            format!("--dataset-name {name} sends token ids, which --backend {backend} cannot: use vllm or openai")
        }
        Need::Chat | Need::Tools => format!(
            "--dataset-name {name} holds chat messages, which --backend {backend} does not send: use openai-chat, \
             openai-responses or anthropic-messages"
        ),
        Need::Media | Need::EmbeddedMedia => format!(
            "multi-modal content of --dataset-name {name} is not supported on --backend {backend}: use openai-chat or \
             openai-audio"
        ),
    })
}

/// Prompts that are sent as token ids are not tokenized again, as a target cache hit rate requires.
fn check_cached_share(args: &ServeArgs) -> Result<(), ArgumentError> {
    let flags = &args.dataset.flags;
    let ids = flags.prompt_token_ids;
    let random = args.dataset.kind.name == "random" && args.dataset.flags.random_batch_size <= 1;
    ensure(!ids || random, || ArgumentError::Alone { flag: "--prompt-token-ids", other: "--dataset-name random" })?;
    let carrier = args.target.carrier();
    ensure(!ids || carrier.carries(Need::TokenIds), || unmet(Need::TokenIds, "random", carrier.name))
}

fn check_shared_prefix(flags: &DatasetFlags) -> Result<(), ArgumentError> {
    let (flag, other) = ("--gsp-zipf-alpha", "--gsp-group-distribution zipf");
    let (alpha, zipf) = (flags.gsp_zipf_alpha, flags.gsp_group_distribution == "zipf");
    ensure(zipf || alpha.is_none(), || ArgumentError::Alone { flag, other })?;
    ensure(!zipf || alpha.is_some(), || ArgumentError::Alone { flag: other, other: flag })?;
    let alpha = alpha.unwrap_or(1.0);
    ensure(alpha > 0.0 && alpha.is_finite(), || ArgumentError::range(flag, float_repr(alpha), "a number above 0"))
}

fn check_tacho(args: &ServeArgs) -> Result<(), ArgumentError> {
    let tacho = &args.tacho;
    let limit = args.load.prefill_concurrency.unwrap_or(1);
    let requests = args.load.max_concurrency.unwrap_or(usize::MAX);
    ensure(limit <= requests, || ArgumentError::range("--prefill-concurrency", limit, "at most --max-concurrency"))?;
    for (flag, command) in [("--on-row-command", &tacho.on_row_command), ("--grade-command", &tacho.grade_command)] {
        let is_blank = command.as_deref().is_some_and(|line| line.trim().is_empty());
        ensure(!is_blank, || ArgumentError::range(flag, "''", "a command"))?;
    }
    ensure(tacho.cache_salt.as_deref() != Some(""), || {
        ArgumentError::range("--cache-salt", "''", "a text, or random")
    })?;
    check_outputs(args)?;
    args.stops.check(&args.load)
}

fn check_outputs(args: &ServeArgs) -> Result<(), ArgumentError> {
    let tacho = &args.tacho;
    let flags = [
        ("--check-outputs", tacho.check_outputs.is_some()),
        ("--grade", tacho.grade.is_some()),
        ("--grade-command", tacho.grade_command.is_some()),
    ];
    let Some((flag, _)) = flags.into_iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
    let wrong = tacho.check_outputs.iter().flatten().find(|text| text.parse::<NonZeroU32>().is_err());
    let allowed = "a number of requests of at least 1, or none for 100";
    ensure(wrong.is_none(), || ArgumentError::range("--check-outputs", wrong.map_or("", |text| text), allowed))?;
    let backend = args.target.backend();
    ensure(can_check(backend), || {
        ArgumentError::other(format!("{flag} reads texts, and the responses of --backend {} are none", backend.name()))
    })
}
