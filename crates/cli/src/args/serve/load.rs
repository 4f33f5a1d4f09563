//! Flags of `tacho serve` for the number and schedule of requests.

use std::time::Duration;

use tacho_args::declare::*;
use tacho_loadgen::RampUpStrategy;

use super::TachoArgs;
use super::groups::{LOAD, MODEL, USERS, WARMUP};
use crate::args::shared::tags::{
    NEEDS_SERVER, PER_CLASS, SAVED_DEFAULT, SETS_LENGTH, SETS_LEVEL, SETS_LOAD, SHAPES_LOAD, UNUSED_BY_WORKLOAD,
};

flags! {
    LoadArgs {
        COUNT [
            seed: i64 = vllm(&["--seed"], Int, "SEED", DefaultValue::Int(0), &LOAD,
                "Seed of prompts, arrival times and adapter choice. The same seed makes the same requests at the same times as \
                 vLLM's command.").between(0.0, 4_294_967_295.0).tagged(SAVED_DEFAULT);
            num_prompts: i64 = vllm(&["--num-prompts"], Int, "N", DefaultValue::Int(1000), &LOAD,
                "Number of requests to send. Warm-up and probe requests are not counted.").tagged(PER_CLASS | SETS_LOAD | UNUSED_BY_WORKLOAD | SETS_LENGTH);
        ]
        CONCURRENCY [
            max_concurrency: Option<usize> = vllm(&["--max-concurrency"], Int, "N", Unset, &LOAD,
                "Maximum requests in flight. Requests above the limit wait in order; the wait is reported separately, not as part of \
                 their latency.").at_least(1).tagged(SETS_LOAD | SHAPES_LOAD | SAVED_DEFAULT | SETS_LEVEL);
        ]
        RATE [
            request_rate: f64 = vllm(&["--request-rate"], Float, "RPS", DefaultValue::Float(f64::INFINITY), &LOAD,
                "Mean arrival rate in requests per second (open loop). Arrival times are fixed before the run and do not wait for \
                 responses; inf sends everything at once.").positive().tagged(PER_CLASS | SETS_LOAD | UNUSED_BY_WORKLOAD | SETS_LEVEL);
            burstiness: FlagValue<f64> = vllm(&["--burstiness"], Float, "SHAPE", DefaultValue::Float(1.0), &LOAD,
                "Shape of the gamma distribution of interarrival times. 1 is a Poisson process, below 1 is burstier, above 1 more \
                 even, inf a constant interval.").positive().tagged(PER_CLASS | SETS_LOAD | UNUSED_BY_WORKLOAD);
            probe_request_rate: f64 = vllm(&["--probe-request-rate"], Float, "RPS", DefaultValue::Float(0.0), &WARMUP,
                "Rate of tiny extra requests that measure responsiveness. 0 sends none; they are reported separately.").between(0.0, 1e6).tagged(NEEDS_SERVER);
        ]
        WARMUPS [
            num_warmups: i64 = vllm(&["--num-warmups"], Int, "N", DefaultValue::Int(0), &WARMUP,
                "Warm-up requests before the measurement. They repeat the first prompt.").tagged(NEEDS_SERVER);
            profile: bool = vllm(&["--profile"], Switch, "", Off, &WARMUP,
                "Run the server's profiler during the run. Start the server with profiling enabled. The simulator's speed is \
                 --sim-profile.").tagged(NEEDS_SERVER);
        ]
        TIMES [
            /// `None` means the dataset's default.
            self_timed: Option<bool> = vllm(&["--self-timed", "--no-self-timed"], TriState, "", Unset, &LOAD,
                "Send requests at the dataset's timestamps. Default for timed_trace, mooncake and servegen; also for burstgpt, and for custom and \
                 openai rows that have a timestamp.").tagged(SETS_LEVEL);
        ]
        RAMP [
            ramp_up_strategy: Option<RampUpStrategy> = vllm(&["--ramp-up-strategy"], Choice(&RampUpStrategy::NAMES), "HOW", Unset, &LOAD,
                "Increase the request rate over the run. Needs --ramp-up-start-rps and --ramp-up-end-rps, not --request-rate.").tagged(SETS_LOAD | SHAPES_LOAD | UNUSED_BY_WORKLOAD | SETS_LEVEL) => ramp_up_strategy;
            ramp_up_start_rps: Option<i64> = vllm(&["--ramp-up-start-rps"], Int, "RPS", Unset, &LOAD, "Request rate at the start of a ramp, 1 or more.")
                .between(0.0, u32::MAX as f64).tagged(SETS_LEVEL);
            ramp_up_end_rps: Option<i64> = vllm(&["--ramp-up-end-rps"], Int, "RPS", Unset, &LOAD, "Request rate at the end of a ramp.").between(0.0, u32::MAX as f64).tagged(SETS_LEVEL);
            ready_check_timeout_sec: i64 = vllm(&["--ready-check-timeout-sec"], Int, "SEC", DefaultValue::Int(0), &WARMUP,
                "Seconds to wait until the server answers a test request. 0 sends none.").between(-MAX_SECONDS, MAX_SECONDS);
        ]
        LONGEST [
            max_model_len: Option<u64> = tacho(&["--max-model-len"], Int, "TOKENS", Unset, &MODEL,
                "Maximum tokens of prompt, history and output. Longer requests and turns are skipped.").at_least(1);
        ]
        PROFILER [
            profile_batch_threshold: Option<i64> = tacho(&["--profile-batch-threshold"], Int, "N", Unset, &WARMUP,
                "Start the profiler of --profile when the server runs this many requests, by its /metrics.").at_least(1).needs(&["--profile"]);
            profile_duration: FlagValue<Duration> = tacho(&["--profile-duration"], Seconds, "SEC", DefaultValue::Float(5.0), &WARMUP,
                "Duration of such a profile. The end of the run ends it too.").positive().needs(&["--profile-batch-threshold"]);
        ]
        LIMITS [
            concurrency_ramp_up: Duration = tacho(&["--concurrency-ramp-up"], Seconds, "SEC", DefaultValue::Float(0.0), &LOAD,
                "Seconds over which --max-concurrency is reached, at a constant rate. Requests that start together stay together where all \
                 outputs have the same length.").needs(&["--max-concurrency"]).excludes(&["--stages"]).tagged(NEEDS_SERVER | SHAPES_LOAD | SETS_LEVEL);
            prefill_concurrency: Option<usize> = tacho(&["--prefill-concurrency"], Int, "N", Unset, &USERS,
                "Maximum requests in prefill (sent, no first token yet).").at_least(1).tagged(SETS_LOAD | SHAPES_LOAD | SAVED_DEFAULT);
            request_cancellation_rate: f64 = tacho(&["--request-cancellation-rate"], Float, "PERCENT", DefaultValue::Float(0.0), &USERS,
                "Percentage of requests to cancel. Cancelled requests are counted separately, not as failures.").between(0.0, 100.0).tagged(SHAPES_LOAD);
            request_cancellation_delay: FlagValue<Duration> = tacho(&["--request-cancellation-delay"], Seconds, "SEC", DefaultValue::Float(0.0), &USERS,
                "Seconds after which such a request is cancelled.").needs(&["--request-cancellation-rate"]);
        ]
    }
}

impl TachoArgs {
    /// Whether the run uses the simulator and no flag sets its load. The simulator shares the client's cores, and vLLM's
    /// default, a burst of 1,000 requests, would measure that contention.
    pub(super) fn has_moderate_load(&self, values: &Values) -> bool {
        self.sim && !self.strict_parity && values.first_tagged(SETS_LOAD).is_none()
    }
}

impl LoadArgs {
    pub(super) fn read(values: &Values, tacho: &TachoArgs) -> Self {
        let load = LoadArgs::from(values);
        match tacho.has_moderate_load(values) {
            true => LoadArgs { num_prompts: 100, request_rate: 10.0, ..load },
            false => load,
        }
    }
}

fn ramp_up_strategy(setting: Setting<'_>) -> Option<RampUpStrategy> {
    RampUpStrategy::from_name(setting.value.as_str()?)
}
