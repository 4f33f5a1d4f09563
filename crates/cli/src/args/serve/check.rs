//! Checks of `tacho serve` before the first request. vLLM detects most of these errors during or after the run.

use tacho_client::{BackendKind, Headers, Task};
use tacho_core::Secret;
use tacho_core::json::{dumps, float_repr};
use tacho_core::live::Output;
use tacho_metrics::MetricKind;
use tacho_run::LoraAssignment;
use tacho_text::TokenizerMode;
use tacho_workload::{FieldMap, Need, Rows};

use super::{ContentArgs, DatasetFlags, LoadArgs, ServeArgs, replicas};
use crate::args::error::Refusal;

/// One probe in eleven days.
const SLOWEST_PROBE: f64 = 1e-6;

pub(crate) fn check(args: &ServeArgs) -> Result<(), Refusal> {
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
    args.report.objectives()?;
    args.report.percentiles()?;
    check_metrics(args)?;
    args.thresholds()?;
    args.report.metadata()?;
    args.repeats.check(args)?;
    args.points.check(args)?;
    check_own(args)
}

/// Rejects invalid values of a class.
pub(super) fn check_class(args: &ServeArgs) -> Result<(), Refusal> {
    check_content(&args.content)?;
    check_backend(args)?;
    check_dataset(args)?;
    check_lengths(args)?;
    args.report.objectives().map(drop)
}

fn out_of_range(flag: &'static str, value: impl ToString, allowed: &'static str) -> Refusal {
    Refusal::OutOfRange { flag, value: value.to_string(), allowed }
}

fn ensure(holds: bool, refusal: impl FnOnce() -> Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refusal()) }
}

/// Rejects flags of audio for backends without it, where they would do nothing.
fn check_media(args: &ServeArgs) -> Result<(), Refusal> {
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
        ensure(applies || !args.values.is_given(flag), || Refusal::Alone { flag, other })?;
    }
    Ok(())
}

/// vLLM ignores unknown names; here they are an error, since the report would lack the requested metric.
fn check_metrics(args: &ServeArgs) -> Result<(), Refusal> {
    let names = args.percentile_metrics();
    let known = |name: &String| name.is_empty() || MetricKind::ALL.iter().any(|metric| metric.name() == *name);
    match names.iter().find(|name| !known(name)) {
        Some(name) if !args.own.strict_parity => Err(Refusal::Metric { name: name.clone() }),
        _ => Ok(()),
    }
}

fn check_load(load: &LoadArgs) -> Result<(), Refusal> {
    check_ramp(load)?;
    let rate = load.probe_request_rate;
    ensure(rate == 0.0 || rate >= SLOWEST_PROBE, || {
        out_of_range("--probe-request-rate", float_repr(rate), "0 for none, or 0.000001 or more")
    })?;
    Ok(())
}

fn check_ramp(load: &LoadArgs) -> Result<(), Refusal> {
    let Some(strategy) = load.ramp_up_strategy else { return Ok(()) };
    let rate = load.request_rate;
    ensure(rate == f64::INFINITY, || Refusal::RampAndRate { rate })?;
    let (Some(start), Some(end)) = (load.ramp_up_start_rps, load.ramp_up_end_rps) else {
        return Err(Refusal::RampUnbounded { strategy: strategy.name() });
    };
    ensure(start <= end, || Refusal::RampDown { start, end })?;
    ensure(start > 0, || Refusal::RampFromZero { strategy: strategy.name() })
}

fn check_target(args: &ServeArgs) -> Result<(), Refusal> {
    let target = &args.target;
    check_headers(args)?;
    check_address(args)?;
    let is_credential = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
    let header = target.headers()?.iter().any(is_credential).then_some("--header");
    target.sign_in.check(target.api_key.as_ref().map(|_| "--api-key").or(header), &args.base_url())?;
    replicas::check(args)?;
    let (url, backend) = (args.api_url(), target.backend());
    let suffixes = backend.url_suffixes();
    // vLLM checks the end of the whole URL; a query after the path is not an error here.
    let path = if args.own.strict_parity { &url } else { url.split(['?', '#']).next().unwrap_or_default() };
    ensure(suffixes.iter().any(|suffix| url.ends_with(suffix) || path.ends_with(suffix)), || Refusal::Endpoint {
        url: url.clone(),
        suffix: suffixes.join("' or '"),
        backend: backend.name(),
    })?;
    let mode = &target.tokenizer_mode;
    ensure(TokenizerMode::parse(mode).is_some(), || Refusal::TokenizerMode { mode: mode.clone() })?;
    ensure(!target.lora_modules.iter().flatten().any(String::is_empty), || Refusal::LoraName)?;
    let (flag, other) = ("--lora-weights", "--lora-modules");
    ensure(args.own.lora_weights.is_none() || target.lora_modules.is_some(), || Refusal::Alone { flag, other })?;
    let in_turn = target.lora_assignment.value == LoraAssignment::RoundRobin;
    let other = "--lora-assignment round-robin";
    ensure(args.own.lora_weights.is_none() || !in_turn, || Refusal::Together { flag, other })?;
    args.lora_weights().map(drop)
}

/// Checks texts that are sent as headers by the client's rule, and names the flag in the error.
fn check_headers(args: &ServeArgs) -> Result<(), Refusal> {
    let fits = |name: &str, value: &str| {
        let mut headers = Headers::default();
        headers.set(name, value);
        headers.check().is_ok()
    };
    for (name, value) in args.target.headers()? {
        ensure(fits(&name, &value), || Refusal::Header { flag: "--header", name })?;
    }
    let key = args.target.api_key.as_ref().map(Secret::expose).unwrap_or_default();
    for (flag, name, value) in
        [("--api-key", "Authorization", key), ("--request-id-prefix", "x-request-id", &args.content.request_id_prefix)]
    {
        ensure(fits(name, value), || Refusal::Header { flag, name: name.to_owned() })?;
    }
    Ok(())
}

/// Checks that the server's address is given in exactly one form.
fn check_address(args: &ServeArgs) -> Result<(), Refusal> {
    let target = &args.target;
    if target.base_url.is_none() {
        let host = &target.host;
        // A single colon starts a port; IPv6 addresses have several.
        let whole = host.contains(['/', ' ']) || host.matches(':').count() == 1;
        return ensure(!whole && !host.is_empty(), || Refusal::Host { host: host.clone() });
    }
    args.base_urls().iter().try_for_each(|url| check_url(args, url))
}

fn check_url(args: &ServeArgs, url: &str) -> Result<(), Refusal> {
    ensure(is_http_url(url), || Refusal::BaseUrl { url: url.to_owned() })?;
    let ends = |kind: &&BackendKind| {
        let path = kind.default_endpoint();
        path.starts_with("/v1/") && url.trim_end_matches('/').ends_with(path)
    };
    let doubled = !args.own.strict_parity && !args.target.endpoint.is_given;
    match BackendKind::ALL.iter().find(ends).filter(|_| doubled) {
        Some(kind) => Err(Refusal::ApiUrl { url: url.to_owned(), backend: kind.name() }),
        None => Ok(()),
    }
}

/// Whether the URL has a supported scheme and a host; the client validates the rest.
fn is_http_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let spoken = ["http", "https", "http+unix"].iter().any(|name| scheme.eq_ignore_ascii_case(name));
    spoken && !host.is_empty() && !host.contains(char::is_whitespace)
}

fn check_content(content: &ContentArgs) -> Result<(), Refusal> {
    ensure(!content.use_beam_search, || Refusal::BeamSearch)?;
    match &content.extra_body {
        Some(body) => ensure(body.as_dict().is_some(), || Refusal::ExtraBody { text: dumps(body) }),
        None => Ok(()),
    }
}

/// Rejects features that the backend does not support.
fn check_backend(args: &ServeArgs) -> Result<(), Refusal> {
    let backend = args.target.backend();
    let name = backend.name();
    let is_file = backend.file_digest().is_some();
    let (flag, other) = ("--strict-parity", "a backend from a file");
    ensure(!(is_file && args.own.strict_parity), || Refusal::Together { flag, other })?;
    let samples = !backend.is_openai_compatible() && !args.is_textless();
    if let Some((field, _)) = args.content.sampling().iter().next().filter(|_| samples) {
        return Err(Refusal::Sampling { flag: field.replace('_', "-"), backend: name });
    }
    let probes = args.load.probe_request_rate > 0.0;
    let unprobed = matches!(
        backend,
        BackendKind::OpenAiAudio
            | BackendKind::OpenAiRealtime
            | BackendKind::VllmRerank
            | BackendKind::OpenAiImageEdits
    );
    ensure(!(probes && unprobed), || Refusal::Probe { backend: name })?;
    if args.own.workload.is_some() {
        return Ok(());
    }
    let lists = args.dataset.flags.random_batch_size > 1;
    match (backend, args.dataset.kind.name) {
        (BackendKind::OpenAiAudio | BackendKind::OpenAiRealtime, dataset @ "random") => {
            Err(Refusal::DatasetBackend { dataset: dataset.to_owned(), backend: name, needs: "sounds" })
        }
        (BackendKind::OpenAiImageEdits, dataset @ "random") => {
            Err(Refusal::DatasetBackend { dataset: dataset.to_owned(), backend: name, needs: "images" })
        }
        (BackendKind::VllmRerank, "random") if !lists => Err(Refusal::RerankBatch),
        (BackendKind::VllmGenerate | BackendKind::Tgi | BackendKind::TensorRtLlm, "random") if lists => {
            Err(Refusal::Batch { backend: name })
        }
        (media, "random") if lists && media.task() == Task::Media => Err(Refusal::Batch { backend: name }),
        _ => Ok(()),
    }
}

fn check_dataset(args: &ServeArgs) -> Result<(), Refusal> {
    let (dataset, kind, carrier) = (&args.dataset, args.dataset.kind, args.target.carrier());
    let name = kind.name;
    let prompts = args.load.num_prompts;
    ensure(prompts > 0 || kind.rows == Rows::ReadWhole, || out_of_range("--num-prompts", prompts, "1 or more"))?;
    dataset.range_ratio()?;
    let scale = dataset.flags.time_scale();
    ensure(scale >= 0.0 && scale.is_finite(), || out_of_range("--time-scale", float_repr(scale), "0 or more"))?;
    if let Some(kwargs) = &dataset.flags.chat_template_kwargs {
        ensure(kwargs.as_dict().is_some(), || Refusal::TemplateVariables { text: dumps(kwargs) })?;
    }
    let limits =
        dataset.flags.mm_limits.as_dict().filter(|dict| dict.iter().all(|(_, limit)| limit.as_i64().is_some()));
    ensure(limits.is_some(), || Refusal::MmLimits { text: dumps(&dataset.flags.mm_limits) })?;
    if args.own.workload.is_some() {
        return Ok(());
    }
    check_own_rows(args)?;
    match &dataset.path {
        None if dataset.flags.dataset_command.is_some() => {}
        Some(path) => {
            ensure(!kind.is_made_up(), || Refusal::PathUnused { name: name.to_owned(), path: path.clone() })?;
        }
        None => ensure(kind.is_made_up(), || Refusal::PathMissing { name: name.to_owned() })?,
    }
    let untimed = args.load.self_timed.is_some() && !dataset.has_times();
    ensure(!untimed, || Refusal::SelfTimed { name: name.to_owned() })?;
    check_shared_prefix(&dataset.flags)?;
    check_cached_share(args)?;
    if let Some(need) = kind.needs.filter(|need| !carrier.carries(*need)) {
        return Err(unmet(need, name.to_owned(), carrier.name));
    }
    let skipped = args.target.skip_tokenizer_init && !kind.works_without_tokenizer;
    ensure(!skipped, || Refusal::NeedsTokenizer { name: name.to_owned() })
}

/// A command or a map describes the rows of `custom`.
fn check_own_rows(args: &ServeArgs) -> Result<(), Refusal> {
    let (dataset, flags) = (&args.dataset, &args.dataset.flags);
    let multi_turn = flags.has_own_rows() && args.multi_turn().is_some();
    ensure(!multi_turn, || Refusal::Together { flag: flags.own_rows_flag(), other: "--multi-turn" })?;
    flags.check_own_rows(dataset.kind.name, dataset.path.is_some())
}

impl DatasetFlags {
    fn own_rows_flag(&self) -> &'static str {
        if self.dataset_command.is_some() { "--dataset-command" } else { "--map" }
    }

    /// Rejects rows of a command or of mapped columns that do not fit the dataset.
    pub(crate) fn check_own_rows(&self, dataset: &str, has_path: bool) -> Result<(), Refusal> {
        let (command, flag) = (self.dataset_command.as_deref(), self.own_rows_flag());
        let other = "--dataset-name custom";
        ensure(!self.has_own_rows() || dataset == "custom", || Refusal::Alone { flag, other })?;
        ensure(command.is_none() || !has_path, || Refusal::Together { flag, other: "--dataset-path" })?;
        ensure(command.is_none_or(|line| !line.trim().is_empty()), || out_of_range(flag, "''", "a command"))?;
        let (limit, alone) = ("--dataset-command-timeout", self.dataset_command_timeout.is_given && command.is_none());
        ensure(!alone, || Refusal::Alone { flag: limit, other: "--dataset-command" })?;
        FieldMap::parse(&self.map).map(drop).map_err(|error| Refusal::Map { problem: error.to_string() })
    }
}

/// Distributions of prompt lengths are those of the random dataset, one text per request. Output lengths are drawn for
/// all datasets in which a flag sets them.
fn check_lengths(args: &ServeArgs) -> Result<(), Refusal> {
    let flags = &args.dataset.flags;
    let in_stages = args.stages.lengths().any(|(_, texts)| texts.iter().any(Option::is_some));
    let given = [
        ("--input-len-dist", flags.input_len_dist.is_some()),
        ("--output-len-dist", flags.output_len_dist.is_some()),
        ("input_len or output_len in --stages", in_stages),
    ];
    let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    // Requests of a class are spread over all stages.
    ensure(!in_stages || args.own.class.is_empty(), || Refusal::Together { flag, other: "--class" })?;
    ensure(args.multi_turn().is_none(), || Refusal::Together { flag, other: "--multi-turn" })?;
    let kind = args.dataset.kind;
    let random = kind.name == "random" && flags.random_batch_size <= 1 && args.own.workload.is_none();
    let outputs = flags.input_len_dist.is_none() && args.stages.lengths().all(|(_, texts)| texts[0].is_none());
    if outputs && kind.name != "random" && args.own.workload.is_none() {
        ensure(!kind.fixed_output, || Refusal::OutputLengths { flag, name: kind.name })?;
    } else {
        ensure(random, || Refusal::Alone { flag, other: "--dataset-name random" })?;
    }
    ensure(!args.own.strict_parity, || Refusal::Together { flag, other: "--strict-parity" })?;
    args.length_plan().map(drop).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        Refusal::Lengths { flag, problem: format!("{error}{cause}") }
    })
}

fn unmet(need: Need, name: String, backend: &'static str) -> Refusal {
    match need {
        Need::TokenIds => Refusal::TraceBackend { name, backend },
        Need::Chat | Need::Tools => Refusal::ChatOnly { name, backend },
        Need::Media | Need::EmbeddedMedia => Refusal::MediaBackend { name, backend },
    }
}

/// A target cache hit rate requires both of its flags, and prompts that are not tokenized again.
fn check_cached_share(args: &ServeArgs) -> Result<(), Refusal> {
    let flags = &args.dataset.flags;
    let ids = flags.prompt_token_ids;
    let fraction = ("--random-cache-hit-fraction", flags.random_cache_hit_fraction);
    let ratio = ("--random-cache-ratio", flags.random_cache_ratio);
    for ((flag, share), (other, there)) in [(fraction, ratio), (ratio, fraction)] {
        let Some(share) = share else { continue };
        ensure((0.0..=1.0).contains(&share), || out_of_range(flag, float_repr(share), "0 to 1"))?;
        ensure(there.is_some(), || Refusal::Alone { flag, other })?;
        ensure(ids, || Refusal::Alone { flag, other: "--prompt-token-ids" })?;
    }
    let random = args.dataset.kind.name == "random" && args.dataset.flags.random_batch_size <= 1;
    ensure(!ids || random, || Refusal::Alone { flag: "--prompt-token-ids", other: "--dataset-name random" })?;
    let carrier = args.target.carrier();
    let (name, backend) = ("random".to_owned(), carrier.name);
    ensure(!ids || carrier.carries(Need::TokenIds), || Refusal::TraceBackend { name, backend })
}

fn check_shared_prefix(flags: &DatasetFlags) -> Result<(), Refusal> {
    let (flag, other) = ("--gsp-zipf-alpha", "--gsp-group-distribution zipf");
    let (alpha, zipf) = (flags.gsp_zipf_alpha, flags.gsp_group_distribution == "zipf");
    ensure(zipf || alpha.is_none(), || Refusal::Alone { flag, other })?;
    ensure(!zipf || alpha.is_some(), || Refusal::Alone { flag: other, other: flag })?;
    let alpha = alpha.unwrap_or(1.0);
    ensure(alpha > 0.0 && alpha.is_finite(), || out_of_range(flag, float_repr(alpha), "a number above 0"))
}

/// Checks request limits and cancellation.
fn check_requests(load: &LoadArgs) -> Result<(), Refusal> {
    let limit = load.prefill_concurrency.unwrap_or(1);
    let requests = load.max_concurrency.unwrap_or(i64::MAX);
    ensure(limit <= requests, || out_of_range("--prefill-concurrency", limit, "at most --max-concurrency"))?;
    let (flag, other) = ("--request-cancellation-delay", "--request-cancellation-rate");
    let alone = load.request_cancellation_delay.is_given && load.request_cancellation_rate <= 0.0;
    ensure(!alone, || Refusal::Alone { flag, other })
}

fn check_own(args: &ServeArgs) -> Result<(), Refusal> {
    let own = &args.own;
    ensure(!(own.ca_file.is_some() && args.target.insecure), || Refusal::Together {
        flag: "--ca-file",
        other: "--insecure",
    })?;
    ensure(own.sim || own.sim_profile.is_none(), || Refusal::Alone { flag: "--sim-profile", other: "--sim" })?;
    ensure(own.sim || own.sim_args.is_none(), || Refusal::Alone { flag: "--sim-args", other: "--sim" })?;
    if let Some(other) = args.values.given_of(["--base-url", "--host", "--port"]).next().filter(|_| own.sim) {
        return Err(Refusal::Together { flag: "--sim", other });
    }
    check_requests(&args.load)?;
    let blank = own.on_row_command.as_deref().is_some_and(|line| line.trim().is_empty());
    ensure(!blank, || out_of_range("--on-row-command", "''", "a command"))?;
    ensure(own.cache_salt.as_deref() != Some(""), || out_of_range("--cache-salt", "''", "a text, or random"))?;
    let waits = args.load.profile_batch_threshold.is_some();
    for (flag, other, alone) in [
        ("--profile-batch-threshold", "--profile", waits && !args.load.profile),
        ("--profile-duration", "--profile-batch-threshold", args.load.profile_duration.is_given && !waits),
    ] {
        ensure(!alone, || Refusal::Alone { flag, other })?;
    }
    args.stops.check(&args.load)?;
    let logs = [("--log", own.log.is_some()), ("--no-log", own.no_log), ("--resume", own.resume.is_some())];
    let given: Vec<&'static str> = logs.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
    if let [flag, other, ..] = given[..] {
        return Err(Refusal::Together { flag, other });
    }
    let both = own.workload.is_some() && own.save_workload.is_some();
    ensure(!both, || Refusal::Together { flag: "--workload", other: "--save-workload" })
}
