//! Notes of a server benchmark and of the server's profiler.

use std::path::PathBuf;

use super::note::notes;
use crate::json::float_repr;

const TEMPERATURE: &str = "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The \
                           default will be determined on the server side and can be model/API specific. For the old \
                           behavior, include --temperature=0.";

notes! {
    /// Notes of a server benchmark.
    ServeNote, layout;
    ModelUnknown => "Model not specified, fetching first model from server...";
    ModelFound { name: String, id: String } => format!("First model name: {name}, first model id: {id}");
    CacheUsed { reason: String } => format!("{reason}; using what the cache has of it");
    LeftOut { left_out: usize, most: u64 } =>
        format!("{left_out} requests were left out: prompt and answer have more than --max-model-len {most} tokens");
    TokenizeUnavailable => "WARNING: /tokenize unavailable, skipping alignment.";
    TokenizerMismatch { server: u64, expected: u64 } =>
        format!("WARNING: tokenizer mismatch (server={server}, expected={expected}), re-aligning prompts.");
    TemperatureUnset => TEMPERATURE;
    TestRun => "Starting initial single prompt test run...";
    Awaited { seconds: u64 } => format!("Waiting for endpoint to become up in {seconds} seconds");
    NotReady { reason: String } => format!("Endpoint is not ready. Error='{reason}'");
    TestSkipped => "Skipping endpoint ready check.";
    TestDone => "Initial test run completed.";
    WarmingUp { requests: usize } => format!("Warming up with {requests} requests...");
    WarmupsFailed { failed: usize, of: usize, first: String } =>
        format!("{failed} of {of} warm-up requests failed; the first: {first}");
    WarmupDone => "Warmup run completed.";
    /// `options` are assumptions of the reader, such as units.
    Sessions { file: String, format: &'static str, options: String, sessions: usize, requests: usize } =>
        format!("Sessions: {sessions} with {requests} requests, {file}, read as {format}{options}.");
    WarmupSessions { sessions: usize } => format!("Warming up with {sessions} sessions...");
    NoMetrics { reason: String } => format!("the server's metrics are left out: {reason}");
    CachesReset => "Server caches reset.";
    CachesKept => "the server's prefix cache could not be reset: later runs may find their prompts in it";
    NoMoreRequests { reason: String } => format!("the run had time for more requests than could be made: {reason}");
    LogIncomplete { directory: PathBuf, reason: String } =>
        format!("the run goes on without its log in {}: {reason}", directory.display());
    Resumed { answered: usize, left: usize } =>
        format!("Resuming: {answered} requests have been answered before, {left} are left.");
    MainRun => "Starting main benchmark run...";
    Profiler(note: ProfilerNote) => note.text(layout);
    SelfTimed => "Self timing is set, using the timestamps from the trace file.";
    /// `requests` is zero if responses determine their number.
    Stages { stages: usize, seconds: f64, requests: usize } => {
        let stages = if *stages == 1 { "1 stage".to_owned() } else { format!("{stages} stages") };
        let requests = if *requests == 0 { String::new() } else { format!(", {requests} requests") };
        format!("Traffic: {stages} in {seconds:.0} s{requests}.")
    };
    RequestRate(rate: f64) => format!("Traffic request rate: {}", float_repr(*rate));
    RampUp { strategy: &'static str, start_rps: u32, end_rps: u32 } => format!(
        "Traffic ramp-up strategy: {strategy}.\n\
         Will increase RPS from {start_rps} to {end_rps} RPS over the duration of the benchmark."
    );
    Burstiness(shape: f64) => {
        let process = if *shape == 1.0 { "Poisson process" } else { "Gamma distribution" };
        format!("Burstiness factor: {} ({process})", float_repr(*shape))
    };
    Concurrency(limit: Option<usize>) => {
        let limit = limit.map_or_else(|| "None".to_owned(), |limit| limit.to_string());
        format!("Maximum request concurrency: {limit}")
    };
    ProbeRate(rate: f64) => format!("Probe request rate: {} req/s", float_repr(*rate));
}

notes! {
    /// Notes about the server's profiler.
    ProfilerNote, layout;
    Starting => "Starting profiler...";
    Started => "Profiler started";
    Stopping => "Stopping profiler...";
    Stopped => "Profiler stopped";
    Missing => "the server has no profiler to control";
    NeverBusy { running: u64 } => format!(
        "no profile was made: the server never served {running} requests at once; lower --profile-batch-threshold"
    );
    Refused { path: &'static str, status: u16 } => format!("the server answered HTTP {status} to {path}");
    Unreachable { reason: String } => format!("the profiler could not be reached: {reason}");
}
