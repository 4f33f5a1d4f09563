//! The flags of `tacho serve`: vLLM's in vLLM's order, then tacho's.

use tacho_args::flag::{Flag, Group, HELP, Table, rows};

use super::groups::*;
use super::{
    content, dataset, load, media, multi_turn, points, repeats, replicas, report, sessions, stages, stops, tacho,
    target, telemetry,
};
use crate::args::shared::history::{self, HISTORY};
use crate::args::shared::sign_in::{self, SIGN_IN};
use crate::args::shared::tags::NEEDS_SERVER;
use crate::args::shared::{live, ranks};

#[rustfmt::skip]
pub(crate) static TABLE: Table = Table {
    command: "tacho serve",
    about: "Benchmark a running OpenAI-compatible server: latency, throughput, goodput.",
    examples: &[
        ("tacho serve --sim --num-prompts 100", "the built-in simulator: no server needed"),
        ("tacho serve --model Qwen/Qwen3-8B --num-prompts 200 --request-rate 10", "10 requests/s to port 8000"),
        ("tacho serve --backend openai-chat --max-concurrency 32 --goodput ttft:300 tpot:40", "32 at a time, with SLOs"),
    ],
    basics: "\
        --base-url --port --sim --backend --api-key --model --preset --num-prompts --request-rate \
        --max-concurrency --duration --seed --dataset-name --dataset-path --random-input-len --random-output-len \
        --goodput --fail-if --num-runs --save-result --save-detailed --report --live",
    groups: GROUPS,
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

#[rustfmt::skip]
pub(crate) const GROUPS: &[&Group] = &[
    &SERVER, &MODEL, &LOAD, &ENDING, &WARMUP, &DATASET, &MIX, &RANDOM, &MULTIMODAL, &CACHE, &PREFIX, &SHARED, &SONNET,
    &SHAREGPT, &CUSTOM, &HF, &ASR, &BLAZEDIT, &BFCL, &SPEC_BENCH, &SPEED_BENCH, &TIMED_TRACE, &CONTENT, &SAMPLING, &media::MEDIA,
    &sessions::SESSIONS, &sessions::PART, &USERS, &multi_turn::MULTI_TURN, &REPORT, &CHECKS, &COST, &FILES,
    &LOG, &TELEMETRY, &repeats::REPEATS, &points::POINTS, &MEASURE, &CONNECTION, &SIGN_IN, &replicas::REPLICAS,
    &ranks::GROUP, &HISTORY,
];

/// All flags but the help; commands that make several runs have them too, see [`ServeArgs::values_in`](super::ServeArgs::values_in).
#[rustfmt::skip]
pub(crate) const FLAGS: &[Flag] = rows!(
    VLLM, OURS, sessions::FLAGS, multi_turn::FLAGS, repeats::FLAGS, points::FLAGS, replicas::FLAGS, ranks::FLAGS,
    history::FLAGS,
);

/// What determines the requests of a run, with the flags of its load that other commands refuse.
#[rustfmt::skip]
pub(crate) const WORKLOAD: &[Flag] = rows!(
    load::COUNT, load::RATE, target::NAME, target::TOKENIZER, target::TRUST, dataset::SOURCES, dataset::LENGTHS, dataset::TEMPLATE,
    dataset::SPEED_BENCH_ROWS, dataset::CACHED, dataset::FURTHER,
);

/// `tacho predict`: the same flags for a simulated run.
pub(crate) static PREDICT: Table = Table {
    command: "tacho predict",
    about: "Predict what tacho serve would report, by simulating a profile of tacho fit; sends nothing.",
    examples: &[(
        "tacho predict --sim-profile mine.json --num-prompts 500 --request-rate 8",
        "the report, with 95% prediction intervals",
    )],
    basics: "\
        --sim-profile --num-prompts --request-rate --max-concurrency --burstiness --seed --dataset-name \
        --dataset-path --random-input-len --random-output-len --sessions --metric-percentiles --goodput \
        --fail-if --save-result --result-dir",
    rejected: NEEDS_SERVER,
    implied: &["--sim"],
    ..TABLE
};

/// vLLM's flags in registration order, which its `Namespace` line and messages use.
const VLLM: &[Flag] = rows!(
    target::TRUST,
    load::COUNT,
    dataset::SOURCES,
    report::LABEL,
    target::ADDRESS,
    load::CONCURRENCY,
    target::NAME,
    dataset::LENGTHS,
    target::TOKENIZER,
    content::DECODING,
    load::RATE,
    report::PROGRESS,
    load::WARMUPS,
    report::RESULT,
    content::EOS,
    load::TIMES,
    report::METRICS,
    content::SAMPLING_ROWS,
    target::ADAPTERS,
    load::RAMP,
    dataset::TEMPLATE,
    content::BODY,
    target::SETUP,
    report::PLOTS,
);

const OURS: &[Flag] = rows!(
    target::KEYS,
    sign_in::FLAGS,
    tacho::SIMULATOR,
    load::LONGEST,
    dataset::SPEED_BENCH_ROWS,
    load::PROFILER,
    tacho::WORKLOAD,
    dataset::CACHED,
    tacho::SERVER_CACHE,
    load::LIMITS,
    dataset::FURTHER,
    media::FLAGS,
    tacho::CLIENT,
    report::PAGE,
    VIEWS,
    tacho::COSTS,
    tacho::SCRAPING,
    telemetry::SAMPLING,
    tacho::STATED,
    report::FILES_ROWS,
    stages::FLAGS,
    stops::FLAGS,
    tacho::LOGGING,
    report::CONSOLE,
);

const VIEWS: &[Flag] = &[live::SCREEN.within(&TELEMETRY), live::HTTP.within(&TELEMETRY)];
