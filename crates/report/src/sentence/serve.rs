//! Sentences about a benchmark of a server.

use tacho_core::event::{ProfilerNote, ServeNote};
use tacho_core::json::float_repr;

const TEMPERATURE: &str = "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The \
                           default will be determined on the server side and can be model/API specific. For the old \
                           behavior, include --temperature=0.";

pub(super) fn of(note: &ServeNote) -> String {
    match note {
        ServeNote::ModelUnknown => "Model not specified, fetching first model from server...".into(),
        ServeNote::ModelFound { name, id } => format!("First model name: {name}, first model id: {id}"),
        ServeNote::CacheUsed { reason } => format!("{reason}; using what the cache has of it"),
        ServeNote::LeftOut { left_out, most } => {
            format!("{left_out} requests were left out: prompt and answer have more than --max-model-len {most} tokens")
        }
        ServeNote::TokenizeUnavailable => "WARNING: /tokenize unavailable, skipping alignment.".into(),
        ServeNote::TokenizerMismatch { server, expected } => {
            format!("WARNING: tokenizer mismatch (server={server}, expected={expected}), re-aligning prompts.")
        }
        ServeNote::TemperatureUnset => TEMPERATURE.into(),
        ServeNote::TestRun => "Starting initial single prompt test run...".into(),
        ServeNote::Awaited { seconds } => format!("Waiting for endpoint to become up in {seconds} seconds"),
        ServeNote::NotReady { reason } => format!("Endpoint is not ready. Error='{reason}'"),
        ServeNote::TestSkipped => "Skipping endpoint ready check.".into(),
        ServeNote::TestDone => "Initial test run completed.".into(),
        ServeNote::WarmingUp { requests } => format!("Warming up with {requests} requests..."),
        ServeNote::WarmupsFailed { failed, of, first } => {
            format!("{failed} of {of} warm-up requests failed; the first: {first}")
        }
        ServeNote::WarmupDone => "Warmup run completed.".into(),
        ServeNote::Sessions { file, format, options, sessions, requests } => {
            format!("Sessions: {sessions} with {requests} requests, {file}, read as {format}{options}.")
        }
        ServeNote::WarmupSessions { sessions } => format!("Warming up with {sessions} sessions..."),
        ServeNote::CachesReset => "Server caches reset.".into(),
        ServeNote::CachesKept => {
            "the server's prefix cache could not be reset: later runs may find their prompts in it".into()
        }
        ServeNote::NoMoreRequests { reason } => {
            format!("the run had time for more requests than could be made: {reason}")
        }
        ServeNote::LogIncomplete { directory, reason } => {
            format!("the run goes on without its log in {}: {reason}", directory.display())
        }
        ServeNote::Resumed { answered, left } => {
            format!("Resuming: {answered} requests have been answered before, {left} are left.")
        }
        ServeNote::MainRun => "Starting main benchmark run...".into(),
        ServeNote::Profiler(note) => profiler(note),
        ServeNote::NoMetrics { reason } => format!("the server's metrics are left out: {reason}"),
        ServeNote::SelfTimed => "Self timing is set, using the timestamps from the trace file.".into(),
        ServeNote::RequestRate(rate) => format!("Traffic request rate: {}", float_repr(*rate)),
        ServeNote::RampUp { strategy, start_rps, end_rps } => format!(
            "Traffic ramp-up strategy: {strategy}.\n\
             Will increase RPS from {start_rps} to {end_rps} RPS over the duration of the benchmark."
        ),
        ServeNote::Burstiness(shape) => {
            let process = if *shape == 1.0 { "Poisson process" } else { "Gamma distribution" };
            format!("Burstiness factor: {} ({process})", float_repr(*shape))
        }
        ServeNote::Concurrency(limit) => {
            let limit = limit.map_or_else(|| "None".to_owned(), |limit| limit.to_string());
            format!("Maximum request concurrency: {limit}")
        }
        ServeNote::ProbeRate(rate) => format!("Probe request rate: {} req/s", float_repr(*rate)),
    }
}

fn profiler(note: &ProfilerNote) -> String {
    match note {
        ProfilerNote::Starting => "Starting profiler...".into(),
        ProfilerNote::Started => "Profiler started".into(),
        ProfilerNote::Stopping => "Stopping profiler...".into(),
        ProfilerNote::Stopped => "Profiler stopped".into(),
        ProfilerNote::Missing => "the server has no profiler to control".into(),
        ProfilerNote::NeverBusy { running } => {
            format!(
                "no profile was made: the server never served {running} requests at once; lower --profile-batch-threshold"
            )
        }
        ProfilerNote::Refused { path, status } => format!("the server answered HTTP {status} to {path}"),
        ProfilerNote::Unreachable { reason } => format!("the profiler could not be reached: {reason}"),
    }
}
