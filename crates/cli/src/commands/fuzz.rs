//! Fuzzes every input with extreme numbers: flags, configuration files, traces, datasets, results, profiles,
//! launchers, requests to the simulator, and messages between ranks. Each input must end with an error or a value,
//! never with a panic, an abort, unbounded memory, or an unbounded wait.
//!
//! `TACHO_FUZZ_COUNT=100000 cargo test --release -p tacho-cli --lib fuzz_extreme -- --nocapture` tries more inputs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::{ffi::OsString, path::Path, time::Duration};

use tacho_args::{command, grammar::Parsed};
use tacho_core::json::{Value, parse};
use tacho_core::{SystemClock, event::Counters};
use tacho_engine::Machine;
use tacho_fleet::{Coordinator, Membership, RankOptions};
use tacho_pyrand::Globals;
use tacho_run::WorkloadPlan;
use tacho_sim::{Server, SimSpec};
use tacho_testkit::{fuzz_files, golden_path};
use tacho_text::Tokenizer;
use tacho_workload::sessions::{self, Options, Scaling};

use super::{COMMANDS, serve::plan};
use crate::args::program::parse as parse_command;
use crate::args::serve::{ServeArgs, TABLE};

const FEW: u64 = 40;

const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1e300",
    "-1e300",
    "1e-300",
    "1e9",
    "1e12",
    "1000000000000",
    "100000001",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "4294967296",
    "NaN",
    "Infinity",
    "inf",
];

/// Command lines whose numbers are replaced one at a time.
const LINES: &str = "\
serve --sim --request-rate 10 --num-prompts 20 --max-concurrency 4 --burstiness 1 --seed 1 --num-warmups 1
serve --sim --timeout 10 --connect-timeout 1 --first-token-timeout 2 --metrics-interval 1 --duration 5 --grace 3
serve --sim --profile-duration 2 --request-cancellation-delay 2 --request-cancellation-rate 5 --ready-check-timeout-sec 4
serve --sim --random-input-len 10 --random-output-len 3 --random-prefix-len 2 --random-batch-size 2 --max-model-len 900
serve --sim --workers 2 --retries 3 --probe-request-rate 1 --telemetry 1 --rendezvous-timeout 5 --rank 0 --ranks 1
serve --sim --sessions f.jsonl --num-sessions 3 --session-rate 2 --session-ramp-up 1 --idle-gap-cap 4 --window-end 9
serve --sim --sessions f.jsonl --think-time uniform:1:2 --mooncake-num-rounds 2 --user-centric-rate 3 --num-users 2
serve --sim --multi-turn --multi-turn-delay-ms 5 --per-turn-input-len 5 --multi-turn-concurrency 2 --gsp-num-turns 2
serve --sim --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 5 --prefill-concurrency 2
sim --port 0 --start-delay 1 --stall-seconds 2 --stall-rate 0.5 --kv-transfer-delay 0.1 --kv-transfer-rate 5
sim --max-num-seqs 4 --max-num-batched-tokens 64 --block-size 16 --num-gpu-blocks 9 --data-parallel-size 1
plan --sim-profile x --rate 50 --slo p99_ttft_ms<=500 --max-replicas 3
fit --seconds 60 --max-num-seqs 3 --max-model-len 90
multi-turn -i f.json -m m --request-timeout-sec 12 --limit-max-tokens 10 --num-clients 1 --request-rate 2 --max-retries 1
sweep serve_sla --serve-cmd a --bench-cmd b --sla-seconds 3 --sla-budget 12 --num-runs 1 --sla-tolerance 0.1
latency --worker-timeout 3 --num-iters 2 --batch-size 2 --input-len 3
selfcheck --streams 10 --rates 5 --seconds 1 --max-seconds 10";

const BODIES: [(&str, &str); 4] = [
    (
        "/v1/completions",
        r#"{"model": "tacho-sim", "prompt": "a b", "max_tokens": 2, "min_tokens": 0, "n": 1, "temperature": 0.5,
        "top_p": 0.9, "top_k": 5, "seed": 1, "logprobs": 1, "stop_token_ids": [5], "priority": 0, "best_of": 1,
        "truncate_prompt_tokens": 4, "repetition_penalty": 1.0, "frequency_penalty": 0.0}"#,
    ),
    ("/v1/completions", r#"{"model": "tacho-sim", "prompt": [1, 2, 3], "max_tokens": 2, "echo": true}"#),
    (
        "/v1/chat/completions",
        r#"{"model": "tacho-sim", "messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 2,
        "top_logprobs": 1, "logprobs": true, "response_format": {"type": "json_schema", "json_schema": {"name": "x",
        "schema": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer", "minimum": 3}}}}}"#,
    ),
    ("/v1/embeddings", r#"{"model": "tacho-sim", "input": ["a"], "dimensions": 8, "truncate_prompt_tokens": 3}"#),
];

const PROFILE: &str = r#"{"tacho_profile": 1, "name": "x", "cost": {"fixed_us": 900.5, "per_prefill_token_us": 3,
    "per_decode_sequence_us": 4, "per_context_token_us": 0.01}, "frontend": {"per_request_us": 5, "per_prompt_token_us": 0.1},
    "engine": {"max_num_seqs": 64, "max_num_batched_tokens": 2048, "block_size": 16, "num_blocks": 1000}, "noise": 0.1}"#;

const RESULT: &str = r#"{"duration": 2.5, "completed": 2, "total_input_tokens": 20, "request_rate": 4, "input_lens": [10, 10],
    "output_lens": [3, 3], "ttfts": [0.1, 0.2], "itls": [[0.01, 0.02], [0.01, 0.03]], "start_times": [1.5, 2.5],
    "errors": ["", ""], "generated_texts": ["", ""], "max_concurrency": 2}"#;

const JOIN: &str = r#"{"rank": 1, "ranks": 3, "run": 0, "hash": "h", "version": "v", "machine": "m"}"#;
const MESSAGES: [(&str, &str); 4] = [
    ("/v1/clock", "[5, -7, 1.000001, 100, 9]"),
    ("/v1/ready", r#"{"clock": [5, -7, 1.000001, 100, 9], "stopping": false}"#),
    ("/v1/rows?0,1,2,3,4", ""),
    ("/v1/done", r#"{"clock": [5, -7, 1.000001, 100, 9], "wall_clock": [5, 1800000000000000000, 50], "rows": 0}"#),
];

struct Doors {
    simulator: SocketAddr,
    rank_0: SocketAddr,
    tokenizer: Tokenizer,
    traces: Vec<(String, String)>,
    rows: Vec<(&'static str, String)>,
}

fn with_number(text: &str, which: usize, number: &str) -> String {
    let starts: Vec<usize> = text
        .char_indices()
        .filter(|(at, digit)| {
            let before = text[..*at].chars().next_back();
            digit.is_ascii_digit() && !before.is_some_and(|c| c.is_alphanumeric() || "._-".contains(c))
        })
        .map(|(at, _)| at)
        .collect();
    let Some(&at) = starts.get(which % starts.len().max(1)) else { return text.to_owned() };
    let length = text[at..].find(|c: char| !(c.is_ascii_digit() || "._".contains(c))).unwrap_or(text.len() - at);
    format!("{}{number}{}", &text[..at], &text[at + length..])
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(golden_path(name)).unwrap()
}

/// Returns the response to a request; a server that does not respond within 30 s fails the test.
fn call(stream: &mut TcpStream, path: &str, body: &str) -> String {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}");
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let sent = stream.write_all(format!("{request}\r\n\r\n{body}").as_bytes());
    let mut buffer = vec![0; 4096];
    let read = sent.and_then(|()| stream.read(&mut buffer));
    let waited = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(!read.as_ref().is_err_and(waited), "{path} {body}: no response");
    String::from_utf8_lossy(&buffer[..read.unwrap_or(0)]).into_owned()
}

impl Doors {
    fn command_lines(&self, which: usize, number: &str) {
        let line = LINES.lines().nth(which % LINES.lines().count()).unwrap();
        let line = with_number(line, which / 7, number);
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let _ = parse_command(COMMANDS, argv.iter().map(OsString::from)).is_ok();
        if argv[0] == "serve"
            && let Ok(Parsed::Values(values)) = command::read(&TABLE, &argv[1..])
            && let Ok(args) = ServeArgs::read(values)
        {
            let _ = plan::of(&args, None).is_ok();
        }
    }

    fn configurations(directory: &Path, which: usize, number: &str) {
        let text = "request-rate: 10\nnum_prompts: 5\ntimeout: 3\nextra-body: {a: [1, 2]}\n";
        let path = directory.join("c.yaml");
        std::fs::write(&path, with_number(text, which, number)).unwrap();
        let args = ["--config".to_owned(), path.to_str().unwrap().to_owned()];
        let _ = command::read(&TABLE, &args).is_ok();
    }

    fn traces(&self, directory: &Path, which: usize, number: &str) {
        let (name, text) = &self.traces[which % self.traces.len()];
        let path = directory.join(name);
        std::fs::write(&path, with_number(text, which / 5, number)).unwrap();
        let Ok(trace) = sessions::read(&path, None, &Options::default()) else { return };
        let factor = number.parse::<f64>().ok();
        let times = Scaling { time_scale: factor, idle_gap_cap_ms: factor, ..Scaling::default() };
        let sizes = Scaling { repeat_to: factor.map(|count| count as usize), ..Scaling::default() };
        for scaling in [times, sizes] {
            let _ = trace.clone().scale(&scaling).is_ok();
        }
    }

    fn datasets(&self, directory: &Path, which: usize, number: &str) {
        let (name, text) = &self.rows[which % self.rows.len()];
        let path = directory.join("rows");
        std::fs::write(&path, with_number(text, which / 3, number)).unwrap();
        let path = path.to_str().unwrap();
        let _ = tacho_workload::read_jsonl(Path::new(path)).is_ok();
        let argv = ["--dataset-name", name, "--dataset-path", path, "--num-prompts", "3"].map(str::to_owned);
        let Ok(Parsed::Values(values)) = command::read(&TABLE, &argv) else { return };
        let Ok(plan) = ServeArgs::read(values).map_err(anyhow::Error::from).and_then(|args| plan::of(&args, None))
        else {
            return;
        };
        if let WorkloadPlan::Sample { spec, .. } = plan.workload {
            let counters = Counters::default();
            let _ = tacho_workload::sample(&spec, Some(&self.tokenizer), &mut Globals::seeded(0), &counters).is_ok();
        }
    }

    fn files(which: usize, number: &str) {
        let _ = Machine::parse(&with_number(PROFILE, which, number), "p.json").is_ok();
        if let Ok(Value::Dict(result)) = parse(&with_number(RESULT, which, number)) {
            let _ = tacho_record::restored::restored(&result, |_| ()).is_ok();
        }
        let get = |name: &str| match name {
            "OMPI_COMM_WORLD_RANK" => Some("0".to_owned()),
            "OMPI_COMM_WORLD_SIZE" | "OMPI_COMM_WORLD_LOCAL_SIZE" => Some(number.to_owned()),
            _ => None,
        };
        if let Ok(Some(member)) = Membership::find(&RankOptions::default(), &get, 1) {
            assert!(member.ranks <= 1 << 16);
        }
    }

    fn servers(&self, which: usize, number: &str) {
        let (path, body) = BODIES[which % BODIES.len()];
        let mut stream = TcpStream::connect(self.simulator).unwrap();
        let response = call(&mut stream, path, &with_number(body, which / 5, number));
        assert!(response.starts_with("HTTP/1.1 "), "{path}: {response:?}");
        let mut stream = TcpStream::connect(self.rank_0).unwrap();
        let join = if which.is_multiple_of(3) { with_number(JOIN, which / 3, number) } else { JOIN.to_owned() };
        call(&mut stream, "/v1/join", &join);
        let (path, message) = MESSAGES[which % MESSAGES.len()];
        call(&mut stream, &with_number(path, which / 4, number), &with_number(message, which / 4, number));
    }
}

#[test]
fn fuzz_extreme_numbers() {
    let mut spec = SimSpec { threads: 1, ..SimSpec::default() };
    spec.engine.max_model_len = 64;
    let simulator = Server::start(spec).unwrap();
    let rendezvous = Some("127.0.0.1:0".to_owned());
    let options = RankOptions { rank: Some(0), ranks: Some(3), rendezvous, ..RankOptions::default() };
    let mut member = Membership::find(&options, &|_| None, 1).unwrap().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    member.port = free.port();
    let coordinator = Coordinator::open(&member, SystemClock::start(), "h", "v", None).unwrap();
    let traces = ["mooncake-session.jsonl", "azure.csv", "burstgpt.csv", "bailian.jsonl", "guidellm-graph.jsonl"];
    let more =
        ["aiperf-multi-turn.jsonl", "aiperf-dag.jsonl", "weka-1.json", "sglang-agentic.json", "otel-sessions.jsonl"];
    let trace = |name: &str| (name.to_owned(), golden(&format!("sessions/{name}")));
    let doors = Doors {
        simulator: simulator.addr(),
        rank_0: free,
        tokenizer: Tokenizer::builtin(),
        traces: traces.into_iter().chain(more).map(trace).collect(),
        rows: [("timed_trace", "timed_trace.jsonl"), ("burstgpt", "burstgpt.csv"), ("custom", "custom.jsonl")]
            .map(|(name, file)| (name, golden(&format!("data/{file}"))))
            .to_vec(),
    };
    fuzz_files(
        "extreme numbers",
        &NUMBERS.map(|number| number.as_bytes().to_vec()),
        FEW,
        |_| {},
        |directory, bytes| {
            let number = String::from_utf8_lossy(bytes);
            let sum = bytes.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
            for which in (0..12).map(|step| sum.wrapping_mul(2 * step + 1) >> 3) {
                doors.command_lines(which, &number);
                Doors::configurations(directory, which, &number);
                doors.traces(directory, which, &number);
                doors.datasets(directory, which, &number);
                Doors::files(which, &number);
            }
            doors.servers(sum >> 3, &number);
        },
    );
    drop((coordinator, simulator));
}
