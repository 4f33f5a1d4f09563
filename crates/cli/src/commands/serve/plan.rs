//! Maps arguments to a plan.

use std::hash::{BuildHasher, RandomState};
use std::{path::PathBuf, time::Duration};
use tacho_core::bounded::Pause;

use anyhow::Context;
use tacho_client::{EndpointSpec, PayloadSpec, ReplicaPlan, ReplicaSpec, Rules, Url};
use tacho_core::json::{Dict, Value};
use tacho_core::{Secret, secret::redact_args};
use tacho_loadgen::{RampUp, ScheduleSpec};
use tacho_metrics::{GoodputLimits, MetricKind, MetricSettings};
use tacho_record::{Provenance, ServerFacts};
use tacho_report::export::requests::json_line;
use tacho_run::serve::{CheckPlan, GradePlan, ReferenceSource, RowCommandPlan};
use tacho_run::{
    BusyProfile, Cancellation, LoraPlan, ModelPlan, NamedTokenizer, Replayed, ReportPlan, ServePlan, StopPlan,
    TelemetryPlan, TokenizerPlan, TrafficPlan,
};
use tacho_sim::Server;

use super::{replicas, workload::workload};
use crate::commands::outputs::{command_line, tacho_command};
use crate::{args::program::build, args::serve::ServeArgs, commands::sign_in, commands::sim::hub};

/// Grace period for requests in flight after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);

/// Returns the plan for the arguments, against `simulator` if there is one.
pub(in crate::commands) fn of(args: &ServeArgs, simulator: Option<&Server>) -> anyhow::Result<ServePlan> {
    let options = |server: &Server| vec![format!("http://{}", server.addr())];
    let base_urls = simulator.map_or_else(|| args.base_urls(), options);
    Ok(ServePlan {
        endpoint: endpoint(args, &base_urls)?,
        base_path: base_path(&base_urls[0]).to_owned(),
        model: ModelPlan { model: args.target.model.clone(), served_name: args.target.served_model_name.clone() },
        tokenizer: match &args.target.tokenizer {
            _ if args.target.skip_tokenizer_init => TokenizerPlan::Skipped,
            None if simulator.is_some() => TokenizerPlan::Builtin,
            named => {
                TokenizerPlan::Named(NamedTokenizer { name: named.clone(), revision: None, mode: args.target.mode() })
            }
        },
        hub: hub(),
        workload: workload(args)?,
        replayed: replayed(args),
        lora: lora(args)?.filter(|_| args.saved.is_none()),
        max_model_len: args.load.max_model_len,
        seed: u32::try_from(args.load.seed)?,
        traffic: traffic(args)?,
        report: ReportPlan { provenance: provenance(args, simulator), ..report(args) },
        log: None,
        check: check(args)?,
        grade: grade(args),
        row_command: row_command(args),
        ranks: None,
    })
}

/// The saved workload that is sent again. A time scale changes the times, and so the digest.
fn replayed(args: &ServeArgs) -> Option<Replayed> {
    let path = args.tacho.workload.as_ref()?.into();
    let digest = args.saved.as_ref()?.digest.clone().filter(|_| args.dataset.flags.time_scale() == 1.0);
    Some(Replayed { path, digest })
}

/// How long the command for rows may go on after the run.
const ROW_COMMAND_GRACE: Duration = Duration::from_secs(10);

fn row_command(args: &ServeArgs) -> Option<RowCommandPlan> {
    let line = args.tacho.on_row_command.clone()?;
    Some(RowCommandPlan { line, write: json_line, grace: ROW_COMMAND_GRACE })
}

/// Distinct requests that `--check-outputs` compares by default.
const CHECKED: usize = 100;

fn check(args: &ServeArgs) -> anyhow::Result<Option<CheckPlan>> {
    let Some(requests) = &args.tacho.check_outputs else { return Ok(None) };
    let requests = requests.as_ref().map_or(Ok(CHECKED), |text| text.parse())?;
    let source = match args.tacho.reference.as_deref() {
        None => ReferenceSource::Server,
        Some(url) if url.contains("://") => ReferenceSource::Other(Box::new(endpoint(args, &[url.to_owned()])?)),
        Some(file) => ReferenceSource::File(file.into()),
    };
    Ok(Some(CheckPlan { requests, source, known: args.references.clone() }))
}

fn grade(args: &ServeArgs) -> Option<GradePlan> {
    let command = args.tacho.grade_command.clone().map(GradePlan::Command);
    args.tacho.grade.map(GradePlan::Rule).or(command)
}

fn lora(args: &ServeArgs) -> anyhow::Result<Option<LoraPlan>> {
    let (weights, assignment) = (args.lora_weights()?, args.target.lora_assignment.value);
    Ok(args.target.lora_modules.clone().map(|modules| LoraPlan { modules, assignment, weights }))
}

/// The path of a base URL, unnormalized: vLLM appends to it as is.
pub(in crate::commands) fn base_path(base_url: &str) -> &str {
    let authority = base_url.split_once("://").map_or(base_url, |(_, authority)| authority);
    authority.find('/').map_or("", |at| &authority[at..])
}

fn endpoint(args: &ServeArgs, base_urls: &[String]) -> anyhow::Result<EndpointSpec> {
    let variable = |name: &str| std::env::var(name).ok();
    let mut replicas = replicas::list(args, base_urls, &variable)?;
    let ReplicaSpec { url, proxy, .. } = replicas[0].clone();
    if replicas.len() == 1 {
        replicas.clear();
    }
    let timeout = args.tacho.timeout;
    let mut endpoint = EndpointSpec {
        url,
        backend: args.target.backend(),
        rules: if args.tacho.strict_parity { Rules::Vllm } else { Rules::Standard },
        api_key: args
            .target
            .api_key
            .clone()
            .or_else(|| variable("OPENAI_API_KEY").filter(|key| !key.is_empty()).map(Secret::new)),
        headers: args.target.header.iter().cloned().collect(),
        sends_request_id: !args.tacho.no_request_id,
        cookies: Default::default(),
        sign_in: None,
        client_certificate: None,
        insecure: args.target.insecure,
        ca_file: args.tacho.ca_file.clone().or_else(|| variable("SSL_CERT_FILE")).map(PathBuf::from),
        proxy,
        http2: args.tacho.http2,
        connect_timeout: args.tacho.connect_timeout.unwrap_or(timeout),
        timeout,
        first_token_timeout: args.tacho.first_token_timeout,
        retries: args.tacho.retries,
        timestamps: args.tacho.timestamps,
        address: None,
        replicas: ReplicaPlan {
            list: replicas,
            balance: args.balance(),
            on_failure: args.replicas.on_replica_failure,
            seed: args.load.seed.unsigned_abs(),
            ..ReplicaPlan::default()
        },
        session_header: args.replicas.session_header.clone().unwrap_or_else(|| "X-Session-ID".to_owned()),
        class_headers: args
            .class_headers()
            .into_iter()
            .map(|(class, headers)| (class, headers.into_iter().collect()))
            .collect(),
        response_headers: args.replicas.response_header.clone().into(),
    };
    sign_in::add(&args.target.sign_in, &mut endpoint)?;
    Ok(endpoint)
}

fn traffic(args: &ServeArgs) -> anyhow::Result<TrafficPlan> {
    let (load, content) = (&args.load, &args.content);
    let backend = args.target.backend();
    let mut extra_body = if args.is_textless() { Dict::new() } else { content.sampling() };
    if let Some(count) = content.logprobs.filter(|_| args.tacho.check_outputs.is_some() && backend.sends_messages()) {
        extra_body.set("logprobs", true);
        extra_body.set("top_logprobs", count);
    }
    if let Some(Value::Dict(extra)) = &content.extra_body {
        extra_body.update(extra);
    }
    if let Some(salt) = cache_salt(args) {
        extra_body.set("cache_salt", salt);
    }
    let burstiness = load.burstiness.value;
    let rated = match (load.ramp_up_strategy, load.ramp_up_start_rps, load.ramp_up_end_rps) {
        (Some(strategy), Some(start), Some(end)) => {
            let (start_rps, end_rps) = (u32::try_from(start)?, u32::try_from(end)?);
            ScheduleSpec::RampUp { ramp: RampUp { strategy, start_rps, end_rps }, burstiness }
        }
        _ => ScheduleSpec::Rate { rate: load.request_rate, burstiness },
    };
    Ok(TrafficPlan {
        schedule: match (args.merged()?, args.stages.stages.clone()) {
            (Some(merged), _) => ScheduleSpec::Merged(merged),
            (None, Some(stages)) => ScheduleSpec::Stages(stages),
            (None, None) => rated,
        },
        max_concurrency: args.multi_turn().and_then(|flags| flags.concurrency).or(load.max_concurrency),
        concurrency_ramp: load.concurrency_ramp_up,
        max_prefills: load.prefill_concurrency,
        cancellation: cancellation(args),
        payload: PayloadSpec {
            ignore_eos: args.ignore_eos(),
            logprobs: content.logprobs,
            extra_body,
            pcm: Some(args.pcm()),
            audio_speed: Some(args.media.audio_speed),
            ..PayloadSpec::default()
        },
        temperature_given: content.temperature.is_some() || args.is_textless() || backend.fixes_temperature(),
        ready_timeout: Duration::from_secs(load.ready_check_timeout_sec.max(0).unsigned_abs()),
        warmups: usize::try_from(load.num_warmups.max(0))?,
        warmups_must_pass: false,
        reset_caches: args.tacho.reset_caches,
        profile: load.profile,
        profile_when: load
            .profile_batch_threshold
            .map(|running| BusyProfile { running: running.unsigned_abs(), lasting: load.profile_duration.value }),
        probe_rate: load.probe_request_rate,
        // vLLM reads the metrics only before and after the run.
        metrics_interval: if args.tacho.strict_parity { Duration::ZERO } else { args.tacho.metrics_interval },
        telemetry: telemetry(args)?,
        workers: args.tacho.workers,
        grace: GRACE,
        stops: stops(args),
    })
}

fn cancellation(args: &ServeArgs) -> Option<Cancellation> {
    let share = args.load.request_cancellation_rate / 100.0;
    let delay = args.load.request_cancellation_delay.value;
    (share > 0.0).then_some(Cancellation { share, delay })
}

fn telemetry(args: &ServeArgs) -> anyhow::Result<Option<TelemetryPlan>> {
    let urls = args.telemetry.urls.iter().map(|url| Url::parse(url).context("--telemetry-url"));
    let exporters = urls.collect::<anyhow::Result<Vec<_>>>()?;
    let interval = args.telemetry.interval.map(Pause::clamped);
    Ok(interval.map(|interval| TelemetryPlan { interval, exporters }))
}

/// Default grace period for requests in flight after an overload.
const OVERLOAD_GRACE: Duration = Duration::from_secs(2);

fn stops(args: &ServeArgs) -> StopPlan {
    let endless = args.goes_on();
    // An overloaded server would take longer for the requests in flight than for all before: wait only if requested.
    let args = &args.stops;
    let overload_grace = if args.grace.is_set { args.grace.value } else { OVERLOAD_GRACE.min(args.grace.value) };
    StopPlan {
        endless,
        duration: args.duration,
        drain: args.grace.value,
        overload_grace,
        failures: args.stop_on_failures,
        overload: args.stop_on_overload,
        precision: args.until.clone(),
    }
}

/// The salt of the prefix cache: the given one, or 64 random bits.
fn cache_salt(args: &ServeArgs) -> Option<String> {
    args.tacho.cache_salt.as_ref().map(|salt| match salt.as_str() {
        "random" => format!("{:016x}", RandomState::new().hash_one("salt")),
        salt => salt.to_owned(),
    })
}

fn report(args: &ServeArgs) -> ReportPlan {
    let report = &args.report;
    let names = args.percentile_metrics().join(",");
    let classes =
        args.classes.iter().filter(|class| class.args.values.get("--goodput") != args.values.get("--goodput"));
    let classes = classes.filter_map(|class| Some((class.name.clone(), goodput(&class.args)?)));
    ReportPlan {
        label: report.label.clone(),
        metadata: report.metadata.clone(),
        percentile_metrics: MetricKind::parse_list(&names),
        metric_percentiles: report.metric_percentiles.clone(),
        metrics: MetricSettings {
            goodput: goodput(args),
            class_goodput: classes.collect(),
            playback_buffer: args.media.playback_buffer.as_secs_f64(),
            price_per_hour: args.tacho.gpu_hour_price.map(|price| price * args.tacho.gpus.value as f64),
            gpus: (args.tacho.gpus.is_set || args.tacho.gpu_hour_price.is_some())
                .then(|| args.tacho.gpus.value.unsigned_abs()),
        },
        keep_texts: report.save_detailed,
        provenance: None,
    }
}

/// The SLOs of `--goodput`; responses that are not streamed have none.
fn goodput(args: &ServeArgs) -> Option<GoodputLimits> {
    args.report.goodput.filter(|_| !args.is_pooling())
}

/// Provenance known before the run. Empty under strict parity, where the server sees only what vLLM sends.
fn provenance(args: &ServeArgs, simulator: Option<&Server>) -> Option<Provenance> {
    let options = &args.tacho;
    let argv = redact_args(&tacho_command(&args.values));
    let server = ServerFacts {
        engine: simulator.map(|server| format!("tacho simulator, profile {}", server.profile())),
        version: simulator.map(|_| env!("CARGO_PKG_VERSION").to_owned()),
        command: options.server_command.as_ref().map(|command| redact_args(std::slice::from_ref(command)).concat()),
        ..ServerFacts::default()
    };
    let source = options.workload.clone().or_else(|| args.sessions.file.clone());
    (!options.strict_parity).then(|| Provenance {
        tacho: Some(build()),
        command: command_line(&argv),
        seed: Some(args.load.seed),
        dataset: Some(source.unwrap_or_else(|| args.dataset.kind.name.to_owned())),
        dataset_sha256: None,
        host: None,
        slos: options.fail_if.clone(),
        server,
    })
}
