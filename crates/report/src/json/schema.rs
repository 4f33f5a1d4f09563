//! The JSON Schema of a result file: vLLM's keys from the table of metrics, and tacho's own with their meanings. A
//! test of the command line validates results of every kind against it, so that no key is written without a row here.

use tacho_core::json::{Dict, Value};
use tacho_record::metric::{METRICS, Part, TIMES, Times, Unit};

#[derive(Clone, Copy)]
enum Type {
    Text,
    TextOrNull,
    Flag,
    Count,
    CountOrNull,
    Number,
    NumberOrNull,
    Texts,
    Counts,
    Numbers,
    NumberLists,
    Named,
    /// A lower and an upper bound by metric; `null` means unbounded.
    Bounds,
    /// Count, mean, median and p99; `null` without samples.
    Spread,
    Any,
}

use Type::{
    Any, Bounds, Count, CountOrNull, Counts, Flag, Named, Number, NumberLists, NumberOrNull, Numbers, Spread, Text,
    TextOrNull, Texts,
};

/// The keys of an object, with their types and meanings.
type Rows = &'static [(&'static str, Type, &'static str)];

/// Settings and per-request lists: vLLM's keys that are not metrics.
const VLLM: Rows = &[
    ("date", Text, "Start of the run, as YYYYMMDD-HHMMSS."),
    ("endpoint_type", Text, "The backend, under its older name."),
    ("backend", Text, "Wire protocol."),
    ("label", TextOrNull, "--label."),
    ("model_id", Text, "Model name in the requests."),
    ("tokenizer_id", TextOrNull, "Tokenizer."),
    ("num_prompts", Count, "Requests of the run."),
    ("request_rate", Any, "Requests per second, or \"inf\"."),
    ("burstiness", Number, "Burstiness of the arrivals: 1 is a Poisson process."),
    ("max_concurrency", CountOrNull, "Maximum requests in flight."),
    ("ramp_up_strategy", Text, "Ramp of the rate."),
    ("ramp_up_start_rps", Number, "Rate at the start of the ramp."),
    ("ramp_up_end_rps", Number, "Rate at the end of the ramp."),
    ("rps_change_events", Any, "When the rate of a ramp changed."),
    ("spec_decode_per_position_acceptance_rates", Numbers, "Acceptance rate by draft position."),
    ("input_lens", Counts, "Prompt tokens per request."),
    ("output_lens", Counts, "Output tokens per request."),
    ("ttfts", Numbers, "TTFT per request, s."),
    ("itls", NumberLists, "Inter-token latencies per request, s."),
    ("latencies", Numbers, "End-to-end latency per request, s."),
    ("start_times", Numbers, "Send time per request, s."),
    ("queue_times", Numbers, "Wait for a concurrency slot per request, s."),
    ("generated_texts", Texts, "Output per request."),
    ("errors", Texts, "Error per request; empty where it succeeded."),
];

/// tacho's own keys.
const OWN: Rows = &[
    ("version", Count, "Version of this object."),
    ("strict_parity", Flag, "Whether --strict-parity was set."),
    ("interrupted", Flag, "Whether a signal ended the run."),
    ("start", Text, "Start of the run, ISO 8601 in UTC."),
    (
        "workload",
        Text,
        "Digest of what is sent and when: equal digests of one version mean equal requests at equal times.",
    ),
    ("requests", Count, "Requests that were sent."),
    ("outcomes", Named, "Requests by outcome: complete, and each kind of failure."),
    ("peak_concurrency", Count, "Maximum requests in flight at one time."),
    ("peak_output_tokens_per_s", Number, "Most output tokens in any second, wherever it starts; counted as tokens."),
    ("goodput_from_schedule", NumberOrNull, "Goodput with latencies from the scheduled send time, req/s."),
    ("planned_request_rate", NumberOrNull, "Rate of the schedule, req/s; null without one."),
    ("delivered_request_rate", NumberOrNull, "Rate at which requests were sent, req/s."),
    ("coalesced_fraction", Number, "Fraction of token events that arrived together with another."),
    ("unreported_lengths", Count, "Responses without a token count from the server."),
    ("retried_requests", Count, "Requests that were sent more than once."),
    ("retries", Count, "Additional attempts in total."),
    ("itl_per_token_source", Text, "Where the token counts of itl_per_token come from."),
    ("reasoning_tokens", Count, "Output tokens of reasoning."),
    ("answer_tokens", Count, "Output tokens after reasoning."),
    ("probe_completed", Count, "Probe requests that succeeded."),
    ("probe_failed", Count, "Probe requests that failed."),
    (
        "fluidity_index",
        Number,
        "Mean fraction of tokens that arrive by their deadlines, with --goodput on ttft and tpot.",
    ),
    ("fluid_goodput", Number, "Requests per second that meet --goodput and get nine tenths of their tokens in time."),
    (
        "class_fairness",
        Number,
        "Jain's fairness index of the classes' speeds, 1 / mean normalized TPOT: 1 if all are served equally fast.",
    ),
    ("draft_acceptance_rate", Number, "Accepted draft tokens in percent, where the server reports them per request."),
    ("mean_acceptance_length", Number, "Mean over requests of the tokens per verification step."),
    ("median_acceptance_length", Number, "Its median over requests."),
    ("p10_acceptance_length", Number, "A tenth of the requests are below it."),
    ("jobs_per_hour", Number, "Finished sessions per hour."),
    (
        "jobs_per_hour_per_user",
        Number,
        "Sessions that one user finishes in an hour: an hour divided by the mean session time.",
    ),
    ("jobs_per_hour_per_gpu", Number, "Finished sessions per hour and GPU, with --gpus."),
    ("output_throughput_per_gpu", Number, "Output tokens per second and GPU, with --gpus."),
    ("cost_per_request", Number, "Price of the machines per successful request, with --gpu-hour-price."),
    ("cost_per_million_output_tokens", Number, "Price of the machines per million output tokens."),
    ("cost_per_million_tokens", Number, "Price of the machines per million prompt and output tokens."),
    ("connections_opened", Count, "Connections opened during the run."),
    ("confidence", Number, "Confidence level of the intervals."),
    (
        "intervals",
        Bounds,
        "Confidence interval of each metric: lower and upper bound, `null` where the run is too short to bound it. Empty for one burst; `caveats` has the reason.",
    ),
    ("scheduled", Numbers, "Scheduled send time per request, s."),
    ("dispatched", Numbers, "When a request was dispatched, before any wait for a slot, s."),
    ("sent", Numbers, "When a request was sent, s."),
    ("first_content", Numbers, "Time to the first event with content per request, s."),
    ("done", Numbers, "When a response ended, s."),
    ("audio_underruns", Count, "Gaps in the playback of generated audio, of all requests."),
    ("audio_ttfps", Numbers, "Time to the first generated audio per request, s."),
    ("audio_rtfs", Numbers, "Real-time factor per request."),
    ("audio_durations", Numbers, "Duration of the generated audio per request, s."),
    ("audio_underrun_times", Numbers, "Time for which playback waited for audio per request, s."),
    ("audio_underrun_counts", Numbers, "Gaps in the playback per request."),
    ("image_counts", Numbers, "Generated images per request."),
    ("ttfts_from_audio", Numbers, "Time from the start of the audio input to the first text per request, s."),
    ("finalization_latencies", Numbers, "Time from the end of the audio input to the transcript per request, s."),
    ("outcome", Texts, "Outcome per request."),
    ("groups", Any, "Metrics by label and value (class, stage, replica, adapter), with vLLM's keys and intervals."),
    ("origin_s", Number, "Start of a run with stages, on the clock of the times per request, s."),
    ("labels", Any, "Labels per request: an object of texts."),
    ("request_retries", Counts, "Additional attempts per request."),
    ("session", Counts, "Session per request."),
    ("turn", Counts, "Turn per request."),
    ("cached_tokens", Counts, "Prompt tokens from the prefix cache per request, by the server's usage."),
];

/// The steady-state window by MSER-5.
const STEADY_STATE: Rows = &[
    ("rule", Text, "Method that found the window."),
    ("reached", Flag, "Whether the run reached a steady state."),
    ("start_s", Number, "Start of the window, s."),
    ("end_s", Number, "End of the window, s."),
    ("requests", Count, "Requests sent in the window."),
    ("request_throughput", Number, "Completions in the window, req/s."),
    ("drift", NumberOrNull, "Relative change of latency between the halves of the window."),
    ("queue_unstable", Flag, "Whether the queue kept growing."),
];

/// The client's self-assessment.
const CLIENT: Rows = &[
    ("trustworthy", Flag, "Whether the verdict is ok."),
    ("word", Text, "The verdict: one of the words under [client verdict](metrics.md#client-verdict)."),
    ("verdict", Text, "The verdict, with its effect."),
    (
        "bounds",
        Bounds,
        "The range in which each printed latency lies if a client without delays measures it, ms. Absent where unknown.",
    ),
    ("clock_source", Text, "Who takes receive timestamps: the kernel or the client."),
    ("p50_lateness_ms", NumberOrNull, "Delay between scheduled and actual send, median, ms."),
    ("p99_lateness_ms", NumberOrNull, "The same, p99, ms."),
    ("max_lateness_ms", NumberOrNull, "The same, maximum, ms."),
    ("p50_wake_lag_ms", NumberOrNull, "Delay between receive timestamp and processing, median, ms."),
    ("p99_wake_lag_ms", NumberOrNull, "The same, p99, ms."),
    ("max_wake_lag_ms", NumberOrNull, "The same, maximum, ms."),
    (
        "late_coalesced_fraction",
        NumberOrNull,
        "Fraction of events that were read together because the client was late.",
    ),
    ("busy", Numbers, "Fraction of time that each worker was busy."),
    ("connections", CountOrNull, "Connections in the pool."),
    ("connect_failures", CountOrNull, "Connections that could not be opened."),
    ("arrival_distance", NumberOrNull, "Kolmogorov-Smirnov distance between planned and actual gaps."),
    ("clock_bound_ms", Number, "Bound on the clock difference between ranks, ms."),
];

/// Provenance of a result.
const PROVENANCE: Rows = &[
    ("tacho", Text, "Version of tacho."),
    ("command", Text, "Command line, without secrets."),
    ("seed", Count, "--seed."),
    ("dataset", Text, "Dataset."),
    (
        "dataset_sha256",
        Text,
        "SHA-256 of the rows that were read: of --dataset-command up to the last row, of a --map file or of --workload.",
    ),
    ("tokenizer", Text, "Tokenizer."),
    ("goodput", Any, "SLOs of --goodput."),
    ("class_goodput", Any, "SLOs of classes that have their own."),
    (
        "playback_buffer",
        Number,
        "Seconds from the first audio of a response to the start of its playback, by --playback-buffer.",
    ),
    ("price_per_hour", Number, "Price of all GPUs per hour, by --gpu-hour-price and --gpus."),
    ("gpus", Count, "GPUs that served the run, by --gpus."),
    ("slos", Texts, "Conditions of --fail-if."),
    ("host", Any, "The machine of the client: name, CPU, memory, system."),
    ("server", Any, "The server: engine, version and settings that it reports."),
];

const CAVEAT: Rows = &[("kind", Text, "Code of the warning."), ("text", Text, "The warning as a sentence.")];

/// A rank of a distributed run.
const RANK: Rows = &[
    ("rank", Count, "Its number."),
    ("machine", Text, "Host name."),
    ("planned", Count, "Requests of its part."),
    ("requests", Count, "Requests that it sent."),
    ("p50_lateness_ms", NumberOrNull, "Dispatch lateness, median, ms."),
    ("p99_lateness_ms", NumberOrNull, "Dispatch lateness, p99, ms."),
    ("max_lateness_ms", NumberOrNull, "Dispatch lateness, maximum, ms."),
    ("busy", NumberOrNull, "Fraction of time that its busiest worker was busy."),
    ("clock_bound_ms", NumberOrNull, "Bound on its clock error, ms."),
    ("clock_drift_ms", NumberOrNull, "Drift of its clock during the run, ms."),
    ("calendar_offset_ms", NumberOrNull, "How far its calendar clock is ahead of rank 0, ms."),
    ("calendar_bound_ms", NumberOrNull, "Bound on that offset, ms."),
    ("lost", TextOrNull, "Why it was lost; null if it was not."),
];

/// Metrics that the server reported during the run.
const SERVER_METRICS: Rows = &[
    ("samples", Count, "How often it was sampled."),
    ("prefix_cache_hit_rate", NumberOrNull, "Fraction of prompt tokens found in the prefix cache."),
    ("summary", Any, "By metric: mean and max of gauges, delta of counters."),
    ("times", Numbers, "Sample times, s."),
    ("series", Any, "By metric: the samples; null where one is missing."),
];

/// Telemetry of the machines.
const TELEMETRY: Rows = &[
    ("samples", Count, "How often the machines were sampled."),
    ("gpus", Texts, "Names of the GPUs."),
    ("energy_j", Number, "Energy of the GPUs, J."),
    ("mean_power_w", Number, "Mean power of the GPUs, W."),
    ("joules_per_output_token", NumberOrNull, "Energy per output token, J."),
    ("joules_per_request", NumberOrNull, "Energy per successful request, J."),
    (
        "energy_by_phase",
        Any,
        "Joules per million prefill and decode tokens and idle power: value, low and high of the 95% confidence interval.",
    ),
    ("energy_by_phase_unknown", Text, "Why the energy cannot be divided by phase."),
    ("summary", Any, "By source and track: unit, mean and max."),
    ("series", Any, "Sample times and values of every track."),
];

/// Session metrics.
const SESSIONS: Rows = &[
    ("source", Any, "The trace: file, digest, format, options."),
    ("sessions", Count, "Sessions of the run."),
    ("not_sent_parent_failed", Count, "Requests not sent because an earlier one failed."),
    ("not_sent_run_ended", Count, "Requests not sent because the run ended."),
    ("session_time_ms", Spread, "Start to end of a session."),
    ("busy_time_ms", Spread, "Time with at least one request in flight."),
    ("think_time_ms", Spread, "Time without a request in flight."),
    ("critical_path_ms", Spread, "Longest chain of requests and pauses."),
    ("time_to_last_turn_ms", Spread, "Start of the session to the start of its last turn."),
    ("last_turn_ms", Spread, "Latency of the last turn."),
    ("time_to_first_user_token_ms", Spread, "Start of the session to the first token for the user."),
    ("decode_tokens_per_s_per_user", Spread, "Output tokens per second of decoding."),
    ("end_to_end_tokens_per_s_per_user", Spread, "Output tokens per second of latency."),
    ("prefill_tokens_per_s", Spread, "Prompt tokens per second of TTFT."),
    ("schedule_lag_ms", Spread, "Delay behind the schedule of the trace."),
    ("predecessor_delay_ms", Spread, "Delay caused by earlier requests of the session."),
    ("pause_requested_ms", Spread, "Pauses of the trace."),
    ("pause_delivered_ms", Spread, "Pauses of the run."),
    ("session_hit_rate", Spread, "Fraction of prompt tokens from the prefix cache, per session."),
    ("sessions_without_user_token", Count, "Sessions in which no response reached the user."),
    ("prefix_cache", Any, "Prefix cache: hit rate, ideal hit rate, what was lost."),
    ("per_turn_metrics", Any, "By turn: latencies, tokens, hit rates."),
    ("ttft_by_uncached_tokens", Any, "TTFT by the number of prompt tokens that were not cached."),
];

/// A stage of the load.
const STAGE: Rows = &[
    ("name", Text, "Its name, and that of its group under groups.stage."),
    ("start_s", Number, "Its start after the start of the run, s."),
    ("end_s", Number, "Its end, s."),
    ("load", Text, "Its load in words."),
    ("mean_load", Number, "Mean requests/s, or the concurrency limit."),
    ("concurrency", CountOrNull, "Its concurrency limit; null for a rate."),
    ("planned_requests", Count, "Scheduled requests; 0 with a concurrency limit."),
    (
        "recovery_s",
        NumberOrNull,
        "Time to recover after a stage that is heavier than the one before, s; 0 if it did not degrade, null if never or undefined.",
    ),
];

/// The objects of a result below its top level: their names, whether they are lists, their rows and meanings.
const OBJECTS: &[(&str, bool, Rows, &str)] = &[
    ("steady_state", false, STEADY_STATE, "Steady-state window (MSER-5) and its metrics; missing without one."),
    ("provenance", false, PROVENANCE, "Where the result comes from."),
    ("client", false, CLIENT, "Whether the client kept up."),
    ("caveats", true, CAVEAT, "Warnings."),
    ("stages", true, STAGE, "Stages of the load."),
    ("ranks", true, RANK, "Ranks of a distributed run."),
    ("sessions", false, SESSIONS, "Session metrics."),
    ("server_metrics", false, SERVER_METRICS, "Samples of the server's /metrics."),
    ("telemetry", false, TELEMETRY, "Samples of GPUs and machines."),
];

/// The keys that every result has under `tacho`.
const REQUIRED: [&str; 8] =
    ["version", "strict_parity", "interrupted", "start", "requests", "outcomes", "intervals", "caveats"];

/// The JSON Schema (2020-12) of the files that `--save-result` writes.
pub fn schema() -> Dict {
    let mut top = properties(VLLM);
    for metric in METRICS.iter().filter(|metric| !matches!(metric.part, Part::Offline(_) | Part::Own)) {
        let label = metric.line.split(" (").next().unwrap_or_default().trim_end_matches(':');
        let name = if label.is_empty() { metric.heading } else { label };
        let unit = if metric.unit == Unit::Plain { String::new() } else { format!(", {}", metric.unit.text()) };
        top.set(metric.key, entry(Type::NumberOrNull, &format!("{name}{unit}.")));
    }
    top.set("steady_state", window("Window at full concurrency, under the flags of vLLM's Rust client."));
    top.set("tacho", own());
    let mut root = Dict::new();
    root.set("$schema", "https://json-schema.org/draft/2020-12/schema");
    root.set("title", "Result of tacho serve");
    root.set("description", "vLLM's keys, those of --metadata, and tacho's own under `tacho`.");
    root.set("type", "object");
    root.set("required", vec![Value::from("date"), Value::from("completed"), Value::from("tacho")]);
    root.set("properties", top);
    root.set("patternProperties", times(|vllm| vllm));
    let mut defs = Dict::new();
    defs.set("spread", spread());
    root.set("$defs", defs);
    root
}

/// The object under `tacho`.
fn own() -> Value {
    let mut keys = properties(OWN);
    keys.set("full_concurrency", window("Window in which the run was at full concurrency; null without one."));
    for &(name, is_list, rows, about) in OBJECTS {
        let mut object = closed(properties(rows));
        match name {
            "steady_state" => object.set("patternProperties", times(|_| true)),
            // One count per way in which sessions ended.
            "sessions" => object.set("additionalProperties", entry(Count, "Sessions that ended this way.")),
            _ => {}
        }
        if is_list {
            let mut list = Dict::new();
            list.set("type", "array");
            list.set("items", object);
            object = list;
        }
        object.set("description", about);
        keys.set(name, object);
    }
    let mut own = closed(keys);
    own.set("description", "tacho's own metrics.");
    own.set("required", REQUIRED.map(Value::from).to_vec());
    own.set("patternProperties", times(|_| true));
    own.into()
}

/// Statistics of the selected latency families, by a pattern of their keys.
fn times(wanted: impl Fn(bool) -> bool) -> Dict {
    let families = TIMES.iter().filter(|times| wanted(!times.title.is_empty()));
    let pattern = |times: &Times| format!("^(mean|median|std|max|p[0-9.]+)_{}{}$", times.name, times.suffix());
    let about = |times: &Times| {
        let name = if times.title.is_empty() { times.label } else { times.title };
        let unit = if times.unit == Unit::Plain { String::new() } else { format!(", {}", times.unit.text()) };
        format!("{name}: mean, median, standard deviation, maximum or percentile{unit}.")
    };
    families.map(|times| (pattern(times), entry(Type::NumberOrNull, &about(times)))).collect()
}

fn window(about: &str) -> Value {
    let mut dict = Dict::new();
    dict.set("type", vec![Value::from("object"), Value::from("null")]);
    dict.set("description", about);
    dict.into()
}

fn closed(properties: Dict) -> Dict {
    let mut dict = Dict::new();
    dict.set("type", "object");
    dict.set("properties", properties);
    dict.set("additionalProperties", false);
    dict
}

fn properties(rows: Rows) -> Dict {
    rows.iter().map(|&(key, kind, about)| (key.to_owned(), entry(kind, about))).collect()
}

fn entry(kind: Type, about: &str) -> Value {
    let mut dict = kind.schema();
    dict.set("description", about);
    dict.into()
}

fn spread() -> Dict {
    let rows: Rows = &[("count", Count, "Samples."), ("mean", Number, "Mean."), ("median", Number, "Median.")];
    let mut keys = properties(rows);
    keys.set("p99", entry(Number, "99th percentile."));
    closed(keys)
}

impl Type {
    fn schema(self) -> Dict {
        let named = |name: &str| one("type", name);
        let or_null = |name: &str| one("type", vec![Value::from(name), Value::from("null")]);
        let list = |items: Dict| {
            let mut dict = one("type", "array");
            dict.set("items", items);
            dict
        };
        match self {
            Text => named("string"),
            TextOrNull => or_null("string"),
            Flag => named("boolean"),
            Count => named("integer"),
            CountOrNull => or_null("integer"),
            Number => named("number"),
            NumberOrNull => or_null("number"),
            Texts => list(or_null("string")),
            Counts => list(or_null("integer")),
            Numbers => list(or_null("number")),
            NumberLists => list(list(named("number"))),
            Named => {
                let mut dict = named("object");
                dict.set("additionalProperties", named("integer"));
                dict
            }
            Bounds => {
                let mut pair = list(or_null("number"));
                pair.set("minItems", 2_u64);
                pair.set("maxItems", 2_u64);
                let mut dict = named("object");
                dict.set("additionalProperties", pair);
                dict
            }
            Spread => one("anyOf", vec![one("$ref", "#/$defs/spread").into(), named("null").into()]),
            Any => Dict::new(),
        }
    }
}

fn one(key: &str, value: impl Into<Value>) -> Dict {
    let mut dict = Dict::new();
    dict.set(key, value);
    dict
}
