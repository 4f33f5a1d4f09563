//! `tacho help TOPIC`: subjects that span several flags. Indented lines are rows of two columns, others are
//! paragraphs.

use tacho_args::help::{columns, example, paragraph};
use tacho_client::BackendKind;
use tacho_engine::Profile;
use tacho_metrics::statistics::Statistic;
use tacho_record::metric::{METRICS, Metric, TIMES, Times};

use super::{migrating, warnings};

pub(crate) struct Topic {
    /// The argument of `tacho help`.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    text: &'static str,
}

pub(crate) static TOPICS: &[Topic] = &[
    Topic {
        name: "rates",
        about: "When requests are sent: rates, bursts, ramps, stages, concurrency.",
        text: "\
Without a rate everything is sent at once, which measures throughput. A rate makes an open loop: send times are fixed before \
the run and do not wait for responses, as with independent users.

  tacho serve --request-rate 10                      10 requests/s, Poisson arrivals
  tacho serve --request-rate 10 --burstiness 0.5     bursty arrivals; above 1 more even, inf a constant gap
  tacho serve --max-concurrency 32                   closed loop with 32 users
  tacho serve --request-rate 10 --max-concurrency 32  open loop with a limit: requests above it wait
  tacho serve --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 20
  tacho serve --stages 'warm:30s@5, peak:60s@5..40, drain:60s@5'  a load that changes, with metrics per stage

The latency of a request that waits for the limit is measured from sending, as in vLLM; the wait is reported separately. \
The same --seed gives the same times. Traces have recorded times: see tacho help datasets and --self-timed.",
    },
    Topic {
        name: "datasets",
        about: "Sources of prompts and their flags.",
        text: "\
--dataset-name selects the dataset; the default is random tokens: --random-input-len and --random-output-len. --dataset-path \
is its file, directory or Hub id. All flags: tacho serve --help=dataset.

  random, random-mm, random-rerank     synthetic: tokens, images and videos, queries with documents
  prefix_repetition                    synthetic: a few prefixes that many prompts share
  generated-shared-prefix              SGLang's shared-prefix workload
  sharegpt, custom, openai             conversations and prompts in files; custom and openai are JSON lines
  custom_image, custom_audio           the same with media
  --dataset-command, --map             prompts from your own script, or from columns of a CSV, JSONL or Parquet file
  timed_trace, mooncake, burstgpt      recorded lengths and times
  servegen                             per-client production traffic (ServeGen)
  hf                                   datasets of the Hub; --hf-text-column reads any other
  spec_bench, speed_bench              question sets for speculative decoding
  sonnet                               lines of a text after a shared prefix

tacho serve --dry-run shows what would be sent; --save-workload saves it for --workload.",
    },
    Topic {
        name: "sweeps",
        about: "Many benchmarks: over parameters, over loads, up to a limit.",
        text: "\
A sweep takes a server command, a client command, and JSON files of parameter sets for either. For a running server, leave out \
--serve-cmd and put --base-url into --bench-cmd.

  tacho sweep serve            every combination of the sets
  tacho sweep serve_workload   levels of load between one request at a time and all at once
  tacho sweep serve_sla        the maximum load that meets SLOs; for one server: tacho capacity
  tacho sweep startup          start-up times over engine settings
  tacho sweep plot, plot_pareto   plots of the results
  tacho auto-tune              the server settings with the highest throughput within SLOs
  tacho suite                  the test files of vLLM's performance suite

Results are in --output-dir/--experiment-name, one directory per combination; summary.csv has all of them. After an interruption, \
the same command with --resume continues the newest experiment. Without a GPU: --sim.",
    },
    Topic {
        name: "results",
        about: "Files that are written, and how to read them again.",
        text: "  --save-result             one JSON file: vLLM's keys, and tacho's under \"tacho\"
  --save-detailed           with the times of every request, needed for confidence intervals
  --append-result           append one JSON line to the file
  --plot-timeline           a page with a row per request
  tacho report DIR          tables of a directory of results
  tacho compare A B         whether a difference is real
  tacho gate A B --max-regression mean_tpot_ms:5%   exit code 3 on a regression or if inconclusive

A file is written completely or not at all. Ctrl-C saves what was measured.",
    },
    Topic {
        name: "metrics",
        about: "Meaning of the metrics in the report.",
        text: "  TTFT   time to the first token: from sending a request to its first token
  TPOT   time per output token after the first: (last token - first token) / (tokens - 1), one value per request
  ITL    the gaps between tokens, each of them a sample
  E2EL   end-to-end latency: from sending a request to its last token
  Request throughput    completed requests per second of the whole run
  Output token throughput  generated tokens per second; total: with prompt tokens
  Request goodput       completed requests per second that met all SLOs of --goodput
  P99    99% of the samples are at or below this value
  Peak concurrent requests  requests in flight at any time within one second, as vLLM counts them: it can exceed \
--max-concurrency, which bounds \"at most N in flight\" in tacho's block
  from schedule         TTFT and E2EL from the scheduled send time: the user-perceived latency

TTFT and E2EL are measured from sending, as in vLLM; tacho's block adds them from the scheduled send time where they differ. \
Latencies are those of successful requests. --percentile-metrics and --metric-percentiles select what is shown. --fail-if, --until, \
--slo and --max-regression take any metric by its key. A latency has the key STATISTIC_NAME_ms, such as p99_ttft_ms, with mean, \
median, std or pN as the statistic; p100 is the maximum.",
    },
    Topic {
        name: "warnings",
        about: "Verdict and warnings of a report.",
        text: "\
The first line of tacho's block is the verdict:

  USABLE             no warnings
  USABLE WITH CARE   read the warnings
  NOT USABLE         the metrics do not answer the question of the run

tacho help CODE explains one of the warnings:",
    },
    Topic {
        name: "auth",
        about: "API keys, tokens, certificates, proxies, and what is never printed.",
        text: "\
A key comes from --api-key or OPENAI_API_KEY and is sent as Authorization: Bearer KEY with every call. Other headers: \
--header NAME=VALUE. A key on the command line can be seen by others on the machine; a variable cannot.

  OPENAI_API_KEY=... tacho serve --base-url https://api.example.com/v1 --model m

A token that expires is printed by --token-command CMD and renewed during the run. OAuth 2: --oauth-token-url and \
--oauth-client-id, with the secret in OAUTH_CLIENT_SECRET. AWS: --aws-sigv4 SERVICE, with the keys of AWS's own tools. A certificate \
of the client: --client-cert and --client-key.

Certificates of your own: --ca-file FILE or SSL_CERT_FILE; --insecure checks none. Proxies: HTTP_PROXY, HTTPS_PROXY, NO_PROXY. \
Keys, passwords and tokens appear as *** in every output and file.",
    },
    Topic {
        name: "config",
        about: "Settings in a file or in variables.",
        text: "\
tacho init writes run.yaml with every setting of tacho serve, commented out; tacho serve --config run.yaml reads it. A key is a \
flag without its dashes: num-prompts: 200. Lists are lists, JSON values are maps, true sets a switch.

Variables are TACHO_ and the flag in capitals: TACHO_NUM_PROMPTS=200, TACHO_SAVE_RESULT=1. The command line wins over \
variables, and they over the file.",
    },
    Topic {
        name: "environment",
        about: "Environment variables.",
        text: "  OPENAI_API_KEY                   API key of the server, unless --api-key is set
  OAUTH_CLIENT_SECRET              secret of --oauth-client-id
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_REGION  for --aws-sigv4
  TACHO_...                        any flag: see tacho help config
  HF_HOME, HF_ENDPOINT, HF_TOKEN   where tokenizers and datasets come from
  HF_HUB_OFFLINE=1                 use only the cache
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE  proxies and CA file
  SAVE_TO_PYTORCH_BENCHMARK_FORMAT  also write records for PyTorch's dashboard
  NO_COLOR, COLUMNS                colors and width
  RUST_LOG, VLLM_LOGGING_LEVEL     log level

tacho suite and tacho auto-tune also read the variables of vLLM's scripts, which their help names in brackets.",
    },
    Topic {
        name: "simulator",
        about: "A simulated server: no GPU needed.",
        text: "  tacho serve --sim                a first benchmark
  tacho sim --port 8000            a separate server: tacho serve --port 8000
  tacho capacity --sim ...         the maximum load that meets SLOs
  tacho latency --sim              the offline commands

It imitates a continuous-batching engine with paged KV blocks and a prefix cache at the speed of --profile. Its times are \
simulated: do not compare them with measurements. Injected faults: tacho sim --help=fault.",
    },
    Topic {
        name: "exit-codes",
        about: "Exit codes.",
        text: "  0    success; `compare` always exits with 0
  1    the run failed, no request succeeded, or a rank was lost
  2    the command line is wrong; nothing was sent
  3    a check failed or was inconclusive: gate, ab-test, check, --fail-if, --require-trustworthy, capacity, serve_sla, \
auto-tune, plan, whatif --search, verify, reproduce, history trend, a poor fit; or --stop-on-failures or --stop-on-overload ended the run
  130  interrupted; what was measured has been saved

--allow-inconclusive turns inconclusive into 0. Some failed requests are 0, as in vLLM: the report counts them. With \
--strict-parity, values that vLLM only finds wrong during a run end with its code 1.",
    },
    Topic {
        name: "backends",
        about: "Wire protocols of servers.",
        text: "\
--backend selects the protocol and its path; --endpoint overrides the path.",
    },
    Topic {
        name: "migrating",
        about: "Flags of AIPerf, GuideLLM, SGLang and others, and their names here.",
        text: "\
From vLLM: write tacho for vllm bench; flags, report and files are the same. From other tools, theirs and ours:",
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Topic> {
    let name = if name == "stages" { "rates" } else { name };
    TOPICS.iter().find(|topic| topic.name == name)
}

pub(crate) fn text(topic: &Topic, width: usize) -> String {
    let mut out = format!("{}\n\n", paragraph(topic.about, width));
    let lines: Vec<&'static str> = topic.text.lines().collect();
    for block in lines.chunk_by(|one, next| one.starts_with(' ') == next.starts_with(' ')) {
        if block[0].starts_with(' ') {
            out += &pairs(block, width);
        } else {
            out.extend(block.iter().map(|line| paragraph(line, width) + "\n"));
        }
    }
    if topic.name == "simulator" {
        let names = Profile::NAMES.join(", ");
        out += &format!(
            "\n{}\n",
            paragraph(&format!("Profiles: {names}; or a file of tacho fit. Without one: tiny."), width)
        );
    }
    if topic.name == "migrating" {
        out += &migrating::listing(width);
    }
    if topic.name == "warnings" {
        out += &format!("\n{}", warnings::listing(width));
    }
    if topic.name == "metrics" {
        out += &format!("\nkeys:\n{}", keys(width));
    }
    if topic.name == "backends" {
        out += "\n";
        for backend in BackendKind::ALL {
            out += &columns(backend.name(), backend.default_endpoint(), (width / 3).min(28), width);
        }
    }
    out
}

fn keys(width: usize) -> String {
    let latency = |times: &Times| {
        let key = times.key(Statistic::Percentile(99.0));
        let about = if times.title.is_empty() { times.label } else { times.title };
        columns(&key, about, width / 2, width)
    };
    let metric = |metric: &Metric| columns(metric.key, &metric.description(), width / 2, width);
    TIMES.iter().map(latency).chain(METRICS.iter().map(metric)).collect()
}

/// Formats lines in two columns, separated by two or more spaces in the source, within the width of the screen.
fn pairs(lines: &[&'static str], width: usize) -> String {
    let split = |line: &&'static str| {
        let line = line.trim();
        line.split_once("  ").map_or((line, ""), |(left, right)| (left, right.trim_start()))
    };
    let pairs: Vec<(&str, &str)> = lines.iter().map(split).collect();
    let column = pairs.iter().map(|(left, _)| left.len()).max().unwrap_or(0).min(width / 2);
    let row = |(left, right): &(&str, &str)| match left.len() + 2 <= width {
        true => columns(left, right, column, width),
        false => example(left, right, width),
    };
    pairs.iter().map(row).collect()
}

pub(crate) fn list(width: usize) -> String {
    TOPICS.iter().map(|topic| columns(&format!("tacho help {}", topic.name), topic.about, 24, width)).collect()
}
