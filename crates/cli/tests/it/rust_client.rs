//! The flags of vLLM's Rust client, which `VLLM_USE_RUST_BENCH=1` starts: each works under its name, or its error
//! names the alternative. `docs/parity.md` has the list.

use crate::tacho::{Place, each, stderr, stdout};

/// Flags that vLLM's Python client does not have, with valid values.
const TAKEN: &[&[&str]] = &[
    &["--tokenizer-mode", "auto"],
    &["--skip-chat-template"],
    &["--dataset-name", "prefix-repetition", "--prefix-repetition-num-prefixes", "2"],
    &["--dataset-name", "timed-trace", "--dataset-path", "trace.jsonl", "--backend", "vllm"],
    &["--dataset-name", "sonnet", "--dataset-path", "poem.txt", "--tokenizer", "golden/tokenizers/mistral-v3"],
    &["--max-model-len", "200"],
    &["--prompt-token-ids"],
    &["--prompt-token-ids", "--random-cache-hit-fraction", "0.5", "--random-cache-ratio", "0.5"],
    &["--profile", "--profile-batch-threshold", "2"],
    &["--profile", "--profile-batch-threshold", "2", "--profile-duration", "1.5"],
    &["--speed-bench-config", "throughput_1k"],
    &["--speed-bench-max-input-len", "100"],
    &["--sonnet-input-len", "600", "--sonnet-output-len", "100", "--sonnet-prefix-len", "100"],
    &["--hf-text-column", "text"],
    &["--reset-prefix-cache"],
    &["--num-runs", "1"],
    &["--max-concurrency", "2", "--steady-state-threshold", "0.9", "--steady-state-min-window", "1"],
    &["--max-concurrency", "2", "--no-steady-state"],
    &["--sweep-max-concurrency", "1,2", "--sweep-num-prompts-factor", "4", "--sweep-summary-percentiles", "99,99.9"],
    &["--sweep-request-rate", "1,inf"],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-num-turns", "3"],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-min-turns", "1", "--multi-turn-max-turns", "4"],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-concurrency", "2", "--multi-turn-delay-ms", "5"],
    &[
        "--backend",
        "openai-chat",
        "--multi-turn",
        "--per-turn-input-len",
        "8",
        "--multi-turn-prefix-global-ratio",
        "0.1",
    ],
    &["--backend", "openai-chat", "--multi-turn", "--multi-turn-prefix-conversation-ratio", "0.1"],
];

/// Every option of `vllm-rs bench serve`, from its help.
const ALL: &str = "append-result backend base-url burstiness compare custom-output-len dataset-name dataset-path \
    disable-shuffle disable-tqdm dry-run enable-multimodal-chat endpoint extra-body frequency-penalty goodput header \
    hf-output-len hf-split hf-subset hf-text-column host ignore-eos input-len insecure label logprobs lora-assignment \
    lora-modules max-concurrency max-model-len metadata metric-percentiles min-p model multi-turn multi-turn-concurrency \
    multi-turn-delay-ms multi-turn-max-turns multi-turn-min-turns multi-turn-num-turns \
    multi-turn-prefix-conversation-ratio multi-turn-prefix-global-ratio no-oversample no-reranker no-self-timed \
    no-steady-state num-prompts num-runs num-warmups output-len per-turn-input-len percentile-metrics port \
    prefix-repetition-num-prefixes prefix-repetition-output-len prefix-repetition-prefix-len prefix-repetition-suffix-len \
    presence-penalty profile profile-batch-threshold profile-duration prompt-token-ids ramp-up-end-rps ramp-up-start-rps \
    ramp-up-strategy random-batch-size random-cache-hit-fraction random-cache-ratio random-input-len \
    random-mm-base-items-per-request random-mm-bucket-config random-mm-limit-mm-per-prompt \
    random-mm-num-mm-items-range-ratio random-output-len random-prefix-len random-range-ratio ready-check-timeout-sec \
    repetition-penalty request-id-prefix request-rate reset-prefix-cache result-dir result-filename save-detailed \
    save-result seed self-timed served-model-name sharegpt-output-len skip-chat-template skip-tokenizer-init \
    sonnet-input-len sonnet-output-len sonnet-prefix-len speed-bench-category speed-bench-config \
    speed-bench-dataset-subset speed-bench-max-input-len speed-bench-output-len steady-state-min-window \
    steady-state-threshold sweep-max-concurrency sweep-num-prompts-factor sweep-request-rate sweep-summary-percentiles \
    temperature timed-trace-chunk-hash-size timed-trace-label-hash-ids timed-trace-label-input-length \
    timed-trace-label-output-length timed-trace-label-timestamp timed-trace-sec-multiplier tokenizer tokenizer-mode top-k \
    top-p trust-remote-code";

/// Options covered by other tests of this file.
const ELSEWHERE: [&str; 2] = ["--compare", "--dataset-name speed-bench"];

/// The flags of the first column of the page's table, with the values it names.
fn of_the_page() -> Vec<String> {
    let page = std::fs::read_to_string(crate::docs::root().join("docs/parity.md")).unwrap();
    let part = page.split("## Flags of vLLM's Rust client").nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = part.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let codes = cells.flat_map(|cell| cell.split('`').step_by(2).map(str::to_owned).collect::<Vec<_>>());
    codes.filter(|code| code.starts_with("--")).collect()
}

#[test]
fn every_option_of_the_client_is_one_here() {
    let help = stdout(&Place::new().run(&["serve", "--help=all"]));
    let known: Vec<&str> = help.split([' ', ',', '\n']).collect();
    for name in ALL.split_whitespace() {
        assert!(known.contains(&&*format!("--{name}")), "--{name}");
    }
}

#[test]
fn every_flag_of_the_page_is_run() {
    let flags = of_the_page();
    assert!(flags.len() > 30, "{flags:?}");
    let small = ["bench", "serve", "--sim", "--dry-run"].join(" ");
    let runs: Vec<String> = TAKEN.iter().map(|flags| format!("{small} {} ", flags.join(" "))).collect();
    for flag in flags.iter().map(|flag| flag.trim_end_matches(" A B")).filter(|flag| !ELSEWHERE.contains(flag)) {
        assert!(runs.iter().any(|run| run.contains(&format!("{flag} "))), "{flag} is in the table, and not run");
    }
}

#[test]
fn each_flag_is_taken_or_says_what_does_it() {
    let place = Place::new();
    place.write("trace.jsonl", "{\"timestamp\": 0, \"input_length\": 8, \"output_length\": 2, \"hash_ids\": [1]}\n");
    place.write("poem.txt", &"Shall I compare thee to a day of spring, and sing of it\n".repeat(200));
    let small = ["bench", "serve", "--sim", "--dry-run", "--num-prompts", "4", "--random-input-len", "16"];
    each(TAKEN, |flags| {
        let output = place.run(&[&small[..], flags].concat());
        assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    });
    for (flags, needs) in [
        (&["--profile-batch-threshold", "2"][..], "--profile"),
        (&["--profile", "--profile-duration", "2"], "--profile-batch-threshold"),
        (&["--sweep-num-prompts-factor", "2"], "--sweep-max-concurrency"),
        (&["--sweep-summary-percentiles", "90"], "--sweep-request-rate"),
        (&["--sweep-request-rate", "1,x"], "--sweep-request-rate 1,x"),
        (&["--sweep-max-concurrency", "0"], "--sweep-max-concurrency 0"),
        (&["--sweep-max-concurrency", "2", "--sweep-request-rate", "1"], "exclude each other"),
        (&["--sweep-max-concurrency", "2", "--num-runs", "2"], "--num-runs"),
        (&["--sweep-max-concurrency", "2", "--max-concurrency", "2"], "--max-concurrency"),
        (&["--compare", "a.json"], "two results"),
    ] {
        let output = place.run(&[&small[..], flags].concat());
        assert!(output.status.code() == Some(2) && stderr(&output).contains(needs), "{}", stderr(&output));
    }
}

#[test]
fn a_series_of_loads_ends_in_a_table_and_its_results_are_compared() {
    let place = Place::new();
    let load =
        ["serve", "--sim", "--random-input-len", "8", "--random-output-len", "4", "--sweep-max-concurrency", "1,2"];
    let more = ["--sweep-num-prompts-factor", "3", "--sweep-summary-percentiles", "99", "--save-result"];
    let output = place.run(&[&load[..], &more, &["--result-filename", "x.json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    let table: Vec<&str> =
        printed.lines().skip_while(|line| !line.contains(" Concurrency Sweep (2 points) ")).collect();
    assert!(table[1].starts_with("Point") && table[1].ends_with("P99 TTFT  P99 TPOT"), "{printed}");
    assert!(table[2].starts_with("concurrency 1 ") && table[3].starts_with("concurrency 2 "), "{printed}");
    assert!(table[5].starts_with("Best throughput: ") && table[5].contains(" req/s at concurrency "), "{printed}");
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(place.file(name)).unwrap()).unwrap()
    };
    let (first, second, sum) = (read("x-concurrency1.json"), read("x-concurrency2.json"), read("x.sweep.json"));
    assert_eq!((&first["num_prompts"], &second["num_prompts"]), (&3.into(), &6.into()));
    assert_eq!((&first["max_concurrency"], &second["max_concurrency"]), (&1.into(), &2.into()));
    assert_eq!(sum["points"][1]["request_throughput"], second["request_throughput"]);
    assert_eq!(sum["points"][1]["file"], "x-concurrency2.json");
    let output = place.run(&["serve", "--compare", "x-concurrency1.json", "x-concurrency2.json"]);
    let printed = stdout(&output);
    assert!(output.status.success() && printed.contains(" Benchmark Comparison "), "{printed}{}", stderr(&output));
    assert!(printed.contains("x-concurrency2 against x-concurrency1: "), "{printed}");
}

#[test]
fn a_load_that_fails_is_written_down_and_the_next_is_run() {
    let place = Place::new();
    // No server listens on this port.
    let load =
        ["serve", "--base-url", "http://127.0.0.1:9", "--model", "m", "--tokenizer", "gpt2", "--num-prompts", "3"];
    let more = ["--random-input-len", "8", "--random-output-len", "4", "--ready-check-timeout-sec", "0"];
    let output = place.run(&[&load[..], &more, &["--sweep-request-rate", "5,inf"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 of 2 loads failed: rate 5, rate inf"), "{}", stderr(&output));
    assert!(stdout(&output).contains("Request Rate Sweep (2 points)"), "{}", stdout(&output));
}

#[test]
fn requests_that_do_not_fit_the_model_are_left_out() {
    let place = Place::new();
    let load = ["serve", "--sim", "--num-prompts", "40", "--random-input-len", "64", "--random-output-len", "16"];
    let more = ["--random-range-ratio", "0.5", "--max-model-len", "80", "--dry-run", "--save-workload", "w.jsonl"];
    let output = place.run(&[&load[..], &more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output) + &stdout(&output);
    assert!(said.contains("requests were left out") && said.contains("--max-model-len 80"), "{said}");
    let text = std::fs::read_to_string(place.file("w.jsonl")).unwrap();
    let lengths: Vec<u64> = text
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| row["prompt_len"].as_u64().unwrap() + row["expected_output_len"].as_u64().unwrap())
        .collect();
    assert!(!lengths.is_empty() && lengths.len() < 40 && lengths.iter().all(|length| *length <= 80), "{lengths:?}");
    let output = place.run(&[&load[..], &["--max-model-len", "3"]].concat());
    assert!(output.status.code() == Some(1) && stderr(&output).contains("--max-model-len 3"), "{}", stderr(&output));
}

#[test]
fn a_question_is_cut_to_the_length_that_was_asked_for() {
    let place = Place::new();
    let words = "one two three four five six seven eight nine ten ".repeat(20);
    let row =
        format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"{words}\"}}], \"category\": \"coding\"}}\n");
    place.write("speed/throughput_1k.jsonl", &row);
    let output = place.run(&[
        "serve",
        "--sim",
        "--dataset-name",
        "speed-bench",
        "--dataset-path",
        "speed",
        "--speed-bench-config",
        "throughput_1k",
        "--speed-bench-max-input-len",
        "12",
        "--skip-chat-template",
        "--num-prompts",
        "1",
        "--dry-run",
        "--save-workload",
        "w.jsonl",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(place.file("w.jsonl")).unwrap();
    let row: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(row["prompt_len"], 12, "{row}");
}
