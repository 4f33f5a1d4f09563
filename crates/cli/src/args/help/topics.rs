//! `tacho help TOPIC`: subjects that span several flags. Indented lines are rows of two columns, others are
//! paragraphs.

use tacho_args::help::{columns, example, paragraph};
use tacho_client::BackendKind;
use tacho_engine::Profile;

use crate::args::help::migrating;

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
the run and do not wait for answers, as users do.

  tacho serve --request-rate 10                      10 a second, as a Poisson process
  tacho serve --request-rate 10 --burstiness 0.5     in bursts; above 1 more even, inf a constant gap
  tacho serve --max-concurrency 32                   32 at a time, the next when one ends
  tacho serve --request-rate 10 --max-concurrency 32  a rate with a cap: what is due beyond it waits
  tacho serve --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 20
  tacho serve --stages 'warm:30s@5, peak:60s@5..40, drain:60s@5'  a load that changes, with metrics per stage

A request that waits for the cap has its latency counted from when it was sent, as vLLM does; the wait is reported separately. \
The same --seed gives the same times. Traces bring their own: see tacho help datasets and --self-timed.",
    },
    Topic {
        name: "datasets",
        about: "Sources of prompts and their flags.",
        text: "\
--dataset-name chooses; without it prompts are random tokens of --random-input-len, answered by --random-output-len. A dataset \
that reads a file takes it, a directory or a Hub id as --dataset-path. All flags: tacho serve --help=dataset.

  random, random-mm, random-rerank     made up: tokens, images and videos, queries with documents
  prefix_repetition                    made up: a few prefixes that many prompts share
  generated-shared-prefix              the same, as SGLang makes it
  sharegpt, custom, openai             conversations and prompts in files, a JSON object a line
  custom_image, custom_audio           the same with media
  --dataset-command, --map             prompts of your own script, or of any columns of a CSV, JSONL or Parquet file
  timed_trace, mooncake, burstgpt      recorded lengths and times
  servegen                             clients of production traffic, composed
  hf                                   datasets of the Hub; --hf-text-column for any other
  spec_bench, speed_bench              question sets of that name
  sonnet                               lines of a poem, or of any text, behind a shared beginning

tacho serve --dry-run shows what would be sent; --save-workload keeps it for --workload.",
    },
    Topic {
        name: "sweeps",
        about: "Many benchmarks: over parameters, over loads, up to a limit.",
        text: "\
A sweep takes a server command, a client command, and JSON files of parameter sets for either. Without a server command, \
--base-url in the client's names a server that runs already.

  tacho sweep serve            every combination of the sets
  tacho sweep serve_workload   levels of load between one request at a time and all at once
  tacho sweep serve_sla        the largest load that keeps latency targets; of one server: tacho capacity
  tacho sweep startup          start-up times over engine settings
  tacho sweep plot, plot_pareto   pictures of what came out
  tacho auto-tune              the server settings with the highest throughput within a limit
  tacho suite                  the test files of vLLM's performance suite

Results lie in --output-dir/--experiment-name, a directory per combination; summary.csv has them all. After an interruption the \
same command with --resume continues the newest one. Without a GPU: --sim.",
    },
    Topic {
        name: "results",
        about: "Files that are written, and how to read them again.",
        text: "  --save-result             one JSON file, with vLLM's keys and one more, tacho
  --save-detailed           with the times of every request, which comparisons need to be sure
  --append-result           a line more in the same file
  --plot-timeline           a page that shows each request
  tacho report DIR          tables of a directory of results
  tacho compare A B         whether a difference is real
  tacho gate A B --max-regression mean_tpot_ms:5%   exit code 3 when it got worse

A file is written whole or not at all. Ctrl-C saves what was measured.",
    },
    Topic {
        name: "metrics",
        about: "Meaning of the metrics in the report.",
        text: "  TTFT   time to the first token: from sending a request to its first token
  TPOT   time per output token after the first: (last token - first token) / (tokens - 1), one number a request
  ITL    the gaps between tokens, each of them a sample
  E2EL   end-to-end latency: from sending a request to its last token
  Request throughput    answered requests a second of the whole run
  Output token throughput  generated tokens a second; total: with those of the prompts
  Request goodput       answered requests a second that met every objective of --goodput
  P99    99% of the samples are at most this
  Peak concurrent requests  those that were in flight at some time of one second, as vLLM counts them: it can be above \
--max-concurrency, which bounds the \"at most N in flight\" of tacho's block
  from schedule         TTFT and E2EL from the scheduled send time: what a user waits

TTFT and E2EL begin when a request gets its slot, as in vLLM; tacho's part of the report also has them from the scheduled \
send time. Latencies are those of requests that succeeded. --percentile-metrics and --metric-percentiles choose what is shown, \
--fail-if, --until and --max-regression take any number by its key: STATISTIC_METRIC_ms with mean, median, std, max or pN and \
ttft, tpot, itl or e2el (p99_ttft_ms, mean_tpot_ms), request_throughput, output_throughput, total_token_throughput, \
request_goodput, completed, failed; docs/reference/result.md lists all. The last lines say how far the \
client may have put a number off, how late it sent and how busy it was.",
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
        text: "  OPENAI_API_KEY                   key of the server, unless --api-key is given
  OAUTH_CLIENT_SECRET              secret of --oauth-client-id
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE, AWS_REGION  for --aws-sigv4
  TACHO_...                        any flag: see tacho help config
  HF_HOME, HF_ENDPOINT, HF_TOKEN   where tokenizers and datasets come from
  HF_HUB_OFFLINE=1                 take them from the cache alone
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE
  SAVE_TO_PYTORCH_BENCHMARK_FORMAT  write the records of PyTorch's dashboard too
  NO_COLOR, COLUMNS                how things look
  RUST_LOG, VLLM_LOGGING_LEVEL     how much is logged

tacho suite and tacho auto-tune also read the variables of vLLM's scripts, which their help names in brackets.",
    },
    Topic {
        name: "simulator",
        about: "A server without a GPU, for trying things out.",
        text: "  tacho serve --sim                a benchmark with nothing else
  tacho sim --port 8000            a separate server: tacho serve --port 8000
  tacho capacity --sim ...         the largest load that keeps latency targets
  tacho latency --sim              the offline commands, too

It imitates a continuous-batching engine with paged KV blocks and a prefix cache at the speed of --profile; its times are \
modelled, so compare them with nothing real. Faults on demand: tacho sim --help=fault.",
    },
    Topic {
        name: "exit-codes",
        about: "Exit codes.",
        text: "  0    success; compare always ends with it
  1    the run failed, no request succeeded, or a rank was lost
  2    the command line is wrong; nothing was sent
  3    a check failed or was inconclusive: gate, check, --fail-if, --require-trustworthy, serve_sla, auto-tune, plan, \
a poor fit; or --stop-on-failures or --stop-on-overload ended the run
  130  interrupted; what was measured has been saved

--allow-inconclusive turns inconclusive into 0. Some failed requests are 0, as in vLLM: the report counts them. With \
--strict-parity, values that vLLM only finds wrong during a run end with its code 1.",
    },
    Topic {
        name: "backends",
        about: "Wire protocols of servers.",
        text: "\
--backend chooses the protocol, and with it the path: --endpoint is only for servers that have theirs elsewhere.",
    },
    Topic {
        name: "migrating",
        about: "Flags of AIPerf, GuideLLM, SGLang and others, and their names here.",
        text: "\
From vLLM: write tacho for vllm bench; flags, report and files are the same. From other tools, theirs and ours:",
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Topic> {
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
        let names = Profile::names().join(", ");
        out += &format!(
            "\n{}\n",
            paragraph(&format!("Profiles: {names}; or a file of tacho fit. Without one: tiny."), width)
        );
    }
    if topic.name == "migrating" {
        out += &migrating::listing(width);
    }
    if topic.name == "backends" {
        out += "\n";
        for backend in BackendKind::ALL {
            out += &columns(backend.name(), backend.default_endpoint(), (width / 3).min(28), width);
        }
    }
    out
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
