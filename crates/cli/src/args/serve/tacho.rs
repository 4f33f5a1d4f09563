//! Flags of `tacho serve` that vLLM does not have: simulator, workload files, client, log.

use std::time::Duration;

use tacho_args::declare::*;
use tacho_client::TimestampSource;
use tacho_loadgen::MAX_WORKERS;
use tacho_run::serve::GradeRule;

use super::groups::{
    CACHE, CHECKS, CONNECTION, CONTENT, COST, DATASET, LOAD, LOG, MEASURE, MIX, REPORT, SERVER, TELEMETRY, WARMUP,
};
use crate::args::presets::{NAMES, PRESETS};
use crate::args::shared::tags::{NEEDS_SERVER, ONE_RUN, PER_STAGE, SAVED, SETS_LEVEL, SETS_LOAD, WHOLE_RUN, WRITES};

flags! {
    TachoArgs {
        SIMULATOR [
            sim: bool = switch(&["--sim"], &SERVER,
                "Benchmark the built-in simulator. It is started for the run; no server or GPU needed. Without load flags, 100 requests at 10 \
                 per second to the profile h100-8b.").excludes(&["--base-url", "--host", "--port"]);
            sim_profile: Option<String> = tacho(&["--sim-profile"], Str, "NAME", Unset, &SERVER,
                "Speed of the simulator: a name of tacho help simulator, or a file of tacho fit. Needs --sim.").needs(&["--sim"]);
            sim_args: Option<String> = tacho(&["--sim-args"], Str, "FLAGS", Unset, &SERVER,
                "Further flags of tacho sim, as one text, such as '--max-model-len 50000'. Needs --sim.").tagged(NEEDS_SERVER).needs(&["--sim"]);
        ]
        WORKLOAD [
            preset: Option<String> = tacho(&["--preset"], Choice(&NAMES), "NAME", Unset, &LOAD,
                "Lengths, arrivals and SLOs of an application. Any flag overrides them; tacho init --preset NAME prints them with their \
                 sources.").configs(&PRESETS).excludes(&["--workload", "--strict-parity"]);
            strict_parity: bool = switch(&["--strict-parity"], &MEASURE, "Behave like vLLM's command even where tacho deviates by default.").tagged(SAVED);
            dry_run: bool = switch(&["--dry-run"], &MEASURE,
                "Generate and show the workload, but send nothing. The server is only asked for a missing --model.").tagged(NEEDS_SERVER | ONE_RUN);
            save_workload: Option<String> = tacho(&["--save-workload"], Str, "FILE", Unset, &DATASET, "Write the requests, how they are sent, and their send times, for --workload. Secrets are left out.").tagged(WRITES).tagged(NEEDS_SERVER | ONE_RUN | WHOLE_RUN);
            class: Vec<String> = tacho(&["--class"], Repeated, "CLASS", Unset, &MIX,
                "A class of traffic: NAME=WEIGHT: FLAGS, such as 'chat=3: --random-input-len 512 --goodput ttft:300'. Can be \
                 repeated; classes are drawn by weight. FLAGS are those of datasets, sampling, --extra-body, --model, \
                 --lora-modules and --goodput. With --request-rate, --burstiness and --num-prompts, or --stages, in each class, each has its own arrivals. In --config, a list of objects.").excludes(&["--sessions", "--workload", "--strict-parity"]);
            lora_weights: Option<String> = tacho(&["--lora-weights"], Str, "WEIGHTS", Unset, &MIX,
                "Popularity of the adapters: a weight for each, such as 8,3,1, or zipf:S for 1, 1/2^S, 1/3^S and so on.").tagged(PER_STAGE).needs(&["--lora-modules"]);
            workload: Option<String> = tacho(&["--workload"], Str, "FILE", Unset, &DATASET,
                "Send the requests of a --save-workload file, byte for byte and at the saved times. A flag that would change them is \
                 refused; dataset and rate flags have no effect.").tagged(SETS_LOAD | WHOLE_RUN | SETS_LEVEL).excludes(&["--save-workload"]);
        ]
        SERVER_CACHE [
            cache_salt: Option<String> = tacho(&["--cache-salt"], Str, "TEXT", Unset, &CACHE,
                "Salt of the server's prefix cache, to exclude hits on earlier runs. `random` draws a new one.").tagged(WHOLE_RUN | SAVED);
            reset_prefix_cache: bool = switch(&["--reset-prefix-cache"], &CACHE, "Alias of --reset-caches, its name in vLLM's Rust client.").tagged(NEEDS_SERVER | WHOLE_RUN);
        ]
        CLIENT [
            workers: Option<usize> = tacho(&["--workers"], Int, "N", Unset, &MEASURE,
                "Maximum client threads (default: by load and machine). One per 256 slots of a limit that sessions or prefills \
                 share.").between(1.0, MAX_WORKERS as f64).tagged(NEEDS_SERVER);
            timestamps: TimestampSource = tacho(&["--timestamps"], Choice(&TimestampSource::NAMES), "WHERE", DefaultValue::Str("kernel"), &MEASURE,
                "Source of receive timestamps. kernel: when bytes reached the socket, if the system supports it; user: when tacho \
                 read them.").tagged(NEEDS_SERVER) => named;
            no_request_id: bool = switch(&["--no-request-id"], &CONTENT,
                "Send no x-request-id header. Some servers accept UUIDs only: --header x-request-id=UUID sends that one.").tagged(SAVED);
            http2: bool = switch(&["--http2"], &CONNECTION,
                "Use HTTP/2: with https:// servers that offer it, with http:// servers always. A connection carries one request at a \
                 time, as with HTTP/1.1.");
            connect_timeout: Option<Duration> = tacho(&["--connect-timeout"], Seconds, "SEC", Unset, &CONNECTION,
                "Seconds to open a connection. Without it only --timeout applies.").positive();
            timeout: Duration = tacho(&["--timeout"], Seconds, "SEC", DefaultValue::Float(21600.0), &CONNECTION,
                "Seconds for a whole request. The default is vLLM's 6 hours.").positive();
            fail_if: Vec<String> = tacho(&["--fail-if"], Repeated, "CONDITION", Unset, &CHECKS,
                "Exit with 3 if this holds for the result: a metric, <, <=, > or >=, and a limit, such as p99_ttft_ms>300 or \
                 failed>1%. A limit can have a unit: p99_ttft>0.3s. Can be repeated. Inconclusive, also exit 3, if the metric's 95% confidence interval contains the limit.");
            allow_inconclusive: bool = switch(&["--allow-inconclusive"], &CHECKS, "Exit with 0 if a --fail-if is inconclusive and none holds.");
            require_trustworthy: bool = switch(&["--require-trustworthy"], &CHECKS, "Exit with 3 if the client verdict is not ok.").tagged(NEEDS_SERVER);
            check_outputs: Option<Option<String>> = tacho(&["--check-outputs"], OptionalStr, "N", Off, &CHECKS,
                "Check that outputs do not change under load: N distinct requests (default 100) are sent alone before the run, twice, and \
                 their outputs are compared with those under load. Use --temperature 0.").tagged(NEEDS_SERVER | WHOLE_RUN).excludes(&["--sessions", "--multi-turn", "--resume", "--strict-parity"]);
            reference: Option<String> = tacho(&["--reference"], Str, "WHAT", Unset, &CHECKS,
                "What --check-outputs compares with instead: the base URL of another server, or a result of the same requests that \
                 --save-detailed wrote.").tagged(NEEDS_SERVER | WHOLE_RUN).needs(&["--check-outputs"]);
            grade: Option<GradeRule> = tacho(&["--grade"], Choice(&GradeRule::NAMES), "RULE", Unset, &CHECKS,
                "Grade outputs by the \"answer\" of their rows in --dataset-name custom: the whole text, the last number, the letter of a \
                 choice, as in GSM8K or AIME, a pattern, JSON fields, a JSON Schema, or a grammar. The result has the accuracy.")
                .tagged(NEEDS_SERVER | WHOLE_RUN).excludes(&["--grade-command", "--sessions", "--multi-turn", "--resume", "--strict-parity"]) => grade;
            grade_command: Option<String> = tacho(&["--grade-command"], Str, "CMD", Unset, &CHECKS,
                "Command that grades outputs after the run: it reads a JSON line with index, request, output and reference for each, and writes \
                 a JSON object of scores for each, in order.").tagged(NEEDS_SERVER | WHOLE_RUN).excludes(&["--sessions", "--multi-turn", "--resume", "--strict-parity"]);
            first_token_timeout: Option<Duration> = tacho(&["--first-token-timeout"], Seconds, "SEC", Unset, &CONNECTION,
                "Seconds to the first token of a streamed response. Without it only --timeout applies.").positive();
            retries: u32 = tacho(&["--retries"], Int, "N", DefaultValue::Int(0), &CONNECTION,
                "Retries of a failed request. The report counts them, and latencies include all attempts; permanent errors (most HTTP \
                 4xx) are not retried. A pause that the server asks for (Retry-After) is kept, up to a minute.").between(0.0, 1000.0);
            ca_file: Option<String> = tacho(&["--ca-file"], Str, "FILE", Unset, &CONNECTION, "CA certificates in PEM form to trust instead of the system's.").excludes(&["--insecure"]);
            reset_caches: bool = switch(&["--reset-caches"], &WARMUP,
                "Empty the server's prefix and multimodal caches after the warm-up. vLLM needs VLLM_SERVER_DEV_MODE=1; \
                 --backend sglang uses /flush_cache. A refusal ends the run.").tagged(NEEDS_SERVER);
        ]
        STATED [
            server_command: Option<String> = tacho(&["--server-command"], Str, "TEXT", Unset, &LOG,
                "Start command of the server, to store in the result: its API does not state it. Secrets in it are replaced by ***.").tagged(NEEDS_SERVER);
        ]
        COSTS [
            gpu_hour_price: Option<f64> = tacho(&["--gpu-hour-price"], Float, "PRICE", Unset, &COST,
                "Price of one GPU per hour, in any currency. The result then has the cost per request and per million tokens.").positive();
            gpus: FlagValue<i64> = tacho(&["--gpus"], Int, "N", DefaultValue::Int(1), &COST, "GPUs that serve the run. The result then has throughput per GPU, and its cost with --gpu-hour-price.").between(1.0, 1e6);
        ]
        SCRAPING [
            metrics_interval: Duration = tacho(&["--metrics-interval"], Seconds, "SEC", DefaultValue::Float(1.0), &TELEMETRY,
                "Seconds between samples of the server's /metrics, stored as time series. 0 samples only before and after the run. A \
                 server without /metrics is not asked again.");
        ]
        LOGGING [
            log: Option<String> = tacho(&["--log"], Str, "DIR", Unset, &LOG,
                "Directory of the request log, written within a second and readable after any failure. Default: next to the result with \
                 --save-result, and in --result-dir for runs longer than a minute.").tagged(NEEDS_SERVER | ONE_RUN).excludes(&["--no-log", "--resume"]);
            no_log: bool = switch(&["--no-log"], &LOG, "Write no request log.").excludes(&["--resume"]);
            resume: Option<String> = tacho(&["--resume"], Str, "DIR", Unset, &LOG,
                "Resume the run of this log: completed requests are not sent again. Its flags need not be repeated.").tagged(NEEDS_SERVER | ONE_RUN);
            on_row_command: Option<String> = tacho(&["--on-row-command"], Str, "CMD", Unset, &LOG,
                "Command that gets every finished request as a JSON line on its standard input, with the columns of --save-requests. The \
                 run never waits for it; rows that it reads too late are dropped and counted.").tagged(NEEDS_SERVER);
            quiet: bool = switch(&["--quiet"], &REPORT, "Print only the report.");
        ]
    }
}

fn grade(setting: Setting<'_>) -> Option<GradeRule> {
    setting.value.as_str().and_then(GradeRule::from_name)
}
