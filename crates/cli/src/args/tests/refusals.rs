//! What is refused before the first request, and in which words.

use super::*;

#[test]
fn refusals_name_flag_value_and_remedy() {
    let cases: &[(&[&str], &str)] = &[
        (&["--seed=-1"], "--seed -1 is out of range: give 0 to 4294967295"),
        (&["--seed", "4294967296"], "--seed 4294967296 is out of range: give 0 to 4294967295"),
        (&["--max-concurrency", "0"], "--max-concurrency 0 is out of range: give 1 or more"),
        (&["--request-rate", "nan"], "--request-rate nan is out of range: give more than 0, or inf"),
        (&["--burstiness", "0"], "--burstiness 0.0 is out of range: give more than 0, or inf"),
        (&["--num-prompts", "0"], "--num-prompts 0 is out of range: give 1 or more"),
        (&["--goodput", "ttft"], "--goodput 'ttft': write NAME:MILLISECONDS, such as ttft:200"),
        (&["--goodput", "itl:1"], "--goodput 'itl:1': there is no objective on 'itl', only on ttft, tpot and e2el"),
        (&["--goodput", "ttft:-1"], "--goodput 'ttft:-1': an objective is 0 ms or more"),
        (&["--header", "x"], "--header '***': write KEY=VALUE"),
        (&["--metadata", "x"], "--metadata 'x': write KEY=VALUE"),
        (&["--base-url", "localhost:1"], "--base-url 'localhost:1': write http://HOST[:PORT] or https://HOST[:PORT]"),
        (&["--port", "0"], "--port 0 is out of range: give 1 to 65535"),
        (
            &["--endpoint", "/v1/x"],
            "--endpoint: http://127.0.0.1:8000/v1/x must end in completions for --backend openai: \
             correct --endpoint, or leave it out",
        ),
        (
            &["--backend", "openai-chat", "--strict-parity"],
            "--endpoint: http://127.0.0.1:8000/v1/completions must end in chat/completions for --backend openai-chat: \
             correct --endpoint, or leave it out",
        ),
        (
            &["--tokenizer-mode", "kimi_audio"],
            "--tokenizer-mode 'kimi_audio': give auto, hf, mistral, slow, cohere, deepseek_v32, deepseek_v4, deepseek_v41, \
             inkling or kimi_k3; others need code of their models",
        ),
        (&["--temperature", "nan"], "--temperature nan is out of range: give a finite number, as JSON has no other"),
        (&["--lora-modules", ""], "--lora-modules: an adapter name is empty: give the names the server knows"),
        (&["--sim-profile", "x"], "--sim-profile needs --sim: add it, or remove --sim-profile"),
        (&["--sim", "--port", "1"], "--sim and --port exclude each other: remove one of them"),
        (
            &["--dataset-path", "x"],
            "cannot use the random dataset with --dataset-path x, since it reads no file: remove it, or pass the \
             --dataset-name of the file",
        ),
        (
            &["--dataset-name", "sharegpt"],
            "--dataset-name sharegpt needs --dataset-path with its file, folder or Hub id",
        ),
        (
            &["--self-timed"],
            "--self-timed/--no-self-timed is only for --dataset-name timed_trace, mooncake, burstgpt, custom and openai, not for random: remove it",
        ),
        (
            &["--dataset-name", "timed_trace", "--dataset-path", "x", "--backend", "openai-chat"],
            "--dataset-name timed_trace sends token ids, which --backend openai-chat cannot: use vllm or openai",
        ),
        (
            &["--dataset-name", "random-mm"],
            "multi-modal content of --dataset-name random-mm is not supported on --backend openai: use openai-chat or \
             openai-audio",
        ),
        (&["--skip-tokenizer-init"], "--dataset-name random needs a tokenizer: remove --skip-tokenizer-init"),
        (
            &["--chat-template-kwargs", "[1]"],
            "--chat-template-kwargs [1]: must be a JSON object, such as '{\"enable_thinking\": false}'",
        ),
        (
            &["--random-mm-limit-mm-per-prompt", "{\"image\": \"x\"}"],
            "--random-mm-limit-mm-per-prompt {\"image\": \"x\"}: must be a JSON object of whole numbers, such as \
             '{\"image\": 3}'",
        ),
        (&["--timeout", "0"], "--timeout 0.0 is out of range: give more than 0 and at most 1000000000"),
        (
            &["--plot-timeline", "--timeline-itl-thresholds", "1,2,3"],
            "--timeline-itl-thresholds '1,2,3': give two numbers of milliseconds, such as 25,50",
        ),
        (&["--workers", "0"], "--workers 0 is out of range: give 1 to 1024"),
        (&["--workers", "1025"], "--workers 1025 is out of range: give 1 to 1024"),
    ];
    for (words, expected) in cases {
        let error = serve(words).unwrap_err();
        assert_eq!(error.to_string(), *expected);
        assert_eq!(error.report(), format!("error: {expected}"));
    }
    assert!(message(&["--use-beam-search"]).contains("cannot be honoured"));
}

#[test]
fn ramps_need_bounds_that_go_up_from_one() {
    let ramp = |words: &[&str]| serve(&[&["--ramp-up-strategy", "linear"], words].concat());
    for words in [
        &["--ramp-up-start-rps", "1"][..],
        &["--ramp-up-start-rps", "1", "--ramp-up-end-rps", "5", "--request-rate", "3"],
        &["--ramp-up-start-rps", "-1", "--ramp-up-end-rps", "5"],
        &["--ramp-up-start-rps", "6", "--ramp-up-end-rps", "5"],
        &["--ramp-up-start-rps", "0", "--ramp-up-end-rps", "5"],
    ] {
        assert!(matches!(ramp(words), Err(ArgError::Refused(_))), "{words:?}");
    }
    assert!(ramp(&["--ramp-up-start-rps", "5", "--ramp-up-end-rps", "5"]).is_ok());
}

#[test]
fn range_ratios_are_one_number_or_two() {
    for text in ["abc", "1.0", "-0.1", "nan", "[0.1]", r#"{"input": 0.1}"#, r#"{"input": 0.1, "output": 1}"#] {
        assert!(serve(&[&format!("--random-range-ratio={text}")]).is_err(), "{text}");
    }
    let refused = message(&["--random-range-ratio", r#"{"input": 0.1, "output": 1.5}"#]);
    assert!(refused.contains("output is 1.5;"), "{refused}");
    let ratio = serve(&["--random-range-ratio", "0.25"]).unwrap().dataset.range_ratio().unwrap();
    assert_eq!((ratio.input, ratio.output), (0.25, 0.25));
}

#[test]
fn percentiles_lie_between_0_and_100() {
    for text in ["abc", "", "101", "-1", "nan", "50,,99"] {
        assert!(serve(&[&format!("--metric-percentiles={text}")]).is_err(), "{text:?}");
    }
    assert_eq!(
        serve(&["--metric-percentiles", "0, 99.9,100"]).unwrap().report.percentiles().unwrap(),
        [0.0, 99.9, 100.0]
    );
}

#[test]
fn urls_follow_host_backend_and_parity() {
    let url = |words: &[&str]| serve(words).unwrap().api_url();
    assert_eq!(url(&["--host", "::1", "--port", "7"]), "http://[::1]:7/v1/completions");
    assert_eq!(url(&["--backend", "openai-chat"]), "http://127.0.0.1:8000/v1/chat/completions");
    assert_eq!(url(&["--base-url", "https://h/x/"]), "https://h/x/v1/completions");
    assert_eq!(url(&["--base-url", "https://h/x/", "--strict-parity"]), "https://h/x//v1/completions");
    assert_eq!(url(&["--base-url", "http://h/v1/completions", "--endpoint="]), "http://h/v1/completions");
    assert_eq!(url(&["--base-url", "http+unix://%2Frun%2Fs"]), "http+unix://%2Frun%2Fs/v1/completions");
}

#[test]
fn flags_without_effect_are_announced() {
    let said = |words: &[&str]| serve(words).unwrap().notices().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(said(&["--model", "m", "--served-model-name", "s"]), [""; 0]);
    assert_eq!(
        said(&["--backend=openai-chat", "--logprobs=1"]),
        ["--logprobs has no effect: only completions send it"]
    );
    for words in [
        &["--trust-remote-code"][..],
        &["--ramp-up-end-rps", "1"],
        &["--served-model-name", "s"],
        &["--lora-assignment", "random"],
        &["--save-detailed"],
        &["--burstiness", "2"],
    ] {
        assert!(said(words)[0].starts_with(words[0]), "{words:?}");
    }
}

#[test]
fn the_simulator_checks_its_numbers() {
    assert!(sim(&["--error-rate", "1.0", "--port", "0", "--max-num-seqs", "1"]).is_ok());
    for words in [
        ["--error-rate", "1.5"],
        ["--stall-rate", "nan"],
        ["--stall-seconds", "-1"],
        ["--start-delay", "inf"],
        ["--block-size", "0"],
        ["--port", "65536"],
        ["--fault-seed", "-1"],
    ] {
        let error = sim(&words).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{} ", words[0])), "{error}");
    }
}

#[test]
fn backends_refuse_what_they_cannot_do() {
    for (words, expected) in [
        (
            &["--backend", "openai-audio", "--top-p", "0.5", "--workload", "w"][..],
            "--top-p cannot be sent: --backend openai-audio does not take sampling parameters",
        ),
        (&["--backend", "tgi", "--temperature", "0"], "--temperature cannot be sent: --backend tgi"),
        (&["--backend", "openai-audio"], "--dataset-name random has no sounds, which --backend openai-audio sends"),
        (&["--backend", "vllm-rerank"], "--backend vllm-rerank needs a query and documents"),
        (&["--backend", "vllm-generate", "--random-batch-size", "2"], "--random-batch-size above 1 makes lists"),
        (
            &["--backend", "vllm-rerank", "--random-batch-size", "2", "--probe-request-rate", "1"],
            "--probe-request-rate: --backend vllm-rerank has no tiny request",
        ),
        (
            &["--backend", "vllm-pooling", "--endpoint", "/v1/embeddings"],
            "--endpoint: http://127.0.0.1:8000/v1/embeddings must end in pooling",
        ),
        (&["--retries", "-1"], "--retries -1 is out of range"),
        (&["--metrics-interval", "nan"], "--metrics-interval nan is out of range"),
        (&["--first-token-timeout", "0"], "--first-token-timeout 0.0 is out of range"),
        (&["--ca-file", "f", "--insecure"], "--ca-file and --insecure exclude each other"),
    ] {
        assert!(message(words).starts_with(expected), "{}", message(words));
    }
}

#[test]
fn pooling_drops_what_is_about_generated_text() {
    let args = serve(&["--backend", "openai-embeddings", "--temperature", "0", "--goodput", "e2el:100"]).unwrap();
    assert_eq!(args.percentile_metrics(), ["e2el"]);
    assert!(!args.ignore_eos());
    let notices: Vec<String> = args.notices().iter().map(ToString::to_string).collect();
    assert_eq!(
        notices,
        [
            "a sampling flag has no effect: no text is generated",
            "--goodput has no effect: it is defined for generated text only"
        ]
    );
}

#[test]
fn every_backend_has_an_endpoint_of_its_own() {
    for (name, endpoint) in [
        ("openai-responses", "/v1/responses"),
        ("openai-embeddings-clip", "/v1/embeddings"),
        ("infinity-embeddings", "/embeddings"),
        ("vllm-pooling", "/pooling"),
        ("tgi", "/generate_stream"),
        ("tensorrt-llm", "/v2/models/ensemble/generate_stream"),
        ("llama.cpp", "/v1/completions"),
        ("vllm-generate", "/generate"),
        ("anthropic-messages", "/v1/messages"),
    ] {
        let args = serve(&["--backend", name]).unwrap();
        assert_eq!(args.endpoint(), endpoint, "{name}");
        assert_eq!(args.ignore_eos(), args.target.backend.is_openai_compatible(), "{name}");
    }
}

#[test]
fn dataset_flags_are_read() {
    let words = ["--dataset-name", "custom", "--dataset-path", "x.jsonl", "--num-prompts", "0", "--disable-shuffle"];
    let args = serve(&words).unwrap();
    assert!(args.values.switch("--disable-shuffle") && !args.values.switch("--no-oversample"));
    assert!(!args.ignore_eos() && !args.self_timed());
    assert!(serve(&[]).unwrap().ignore_eos());
    let trace = serve(&["--dataset-name", "timed_trace", "--dataset-path", "x"]).unwrap();
    assert!(trace.ignore_eos() && trace.self_timed());
    let bfcl = ["--dataset-name", "hf", "--dataset-path", "x", "--bfcl-categories", " a, ,b"];
    assert_eq!(serve(&bfcl).unwrap().values.list("--bfcl-categories").unwrap(), ["a", "b"]);
    assert_eq!(
        message(&["--random-mm-bucket-config", "{(1, 2): 1.0}"]),
        "argument --random-mm-bucket-config: invalid _parse_mm_bucket_config value: '{(1, 2): 1.0}'"
    );
    let refused = message(&["--dataset-name", "sonett"]);
    assert!(
        refused.contains("'sonett'") && refused.contains("'mooncake'") && refused.contains("'sonnet'"),
        "{refused}"
    );
}

#[test]
fn numbers_that_no_clock_or_machine_can_count_are_refused() {
    for flag in ["--timeout", "--connect-timeout", "--first-token-timeout", "--metrics-interval"] {
        for value in ["inf", "nan", "1e30", "-1"] {
            let message = message(&[&format!("{flag}={value}")]);
            assert!(message.starts_with(&format!("{flag} ")) && message.contains("is out of range"), "{message}");
        }
    }
    for words in [
        ["serve", "--probe-request-rate=1e-25"],
        ["serve", "--probe-request-rate=inf"],
        ["serve", "--workers=100000"],
        ["serve", "--port=70000"],
        ["serve", "--ready-check-timeout-sec=99999999999"],
        ["serve", "--ramp-up-end-rps=5000000000"],
        ["selfcheck", "--rates=1e-30"],
        ["selfcheck", "--streams=99999999999"],
        ["selfcheck", "--workers=0"],
        ["selfcheck", "--seconds=1e30"],
        ["sim", "--start-delay=1e30"],
        ["sim", "--stall-seconds=inf"],
        ["sim", "--port=65536"],
        ["latency", "--worker-timeout=inf"],
    ] {
        let error = parse_words(&words).unwrap_err().to_string();
        let flag = words[1].split('=').next().unwrap();
        assert!(error.starts_with(&format!("{flag} ")) && error.contains("is out of range"), "{error}");
    }
    assert!(serve(&["--timeout", "0.5", "--metrics-interval", "0", "--probe-request-rate", "0.5"]).is_ok());
}

#[test]
fn texts_that_no_header_can_hold_name_their_flag() {
    for words in
        [["--api-key", "a\nb"], ["--request-id-prefix", "a\r\nX: y"], ["--header", "A B=c"], ["--header", "A=b\nc"]]
    {
        let error = serve(&words).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: the header ", words[0])) && !error.contains("a\nb"), "{error}");
    }
    assert!(serve(&["--request-id-prefix", "run-1-ü", "--header", "X-A=b c", "--api-key", "k"]).is_ok());
}

#[test]
fn an_address_is_given_in_one_form() {
    for host in ["http://localhost", "localhost:8000", "a b", ""] {
        let error = serve(&["--host", host]).unwrap_err().to_string();
        assert!(error.starts_with("--host ") && error.contains("--base-url"), "{error}");
    }
    for host in ["localhost", "::1", "10.0.0.1", "fe80::1"] {
        assert!(serve(&["--host", host]).is_ok(), "{host}");
    }
    let error = serve(&["--base-url", "http://h/v1/chat/completions/"]).unwrap_err().to_string();
    assert!(error.contains("ends in the path of an API") && error.ends_with("--backend openai-chat"), "{error}");
    assert!(serve(&["--base-url", "http://h/v1/completions", "--endpoint", "/v1/completions"]).is_ok());
    assert!(serve(&["--base-url", "http://h/v1/completions", "--strict-parity"]).is_ok());
    let parted = serve(&["--base-url", "http://h/", "--endpoint", "v1/completions"]).unwrap();
    assert_eq!(parted.api_url(), "http://h/v1/completions");
}

#[test]
fn keys_and_addresses_may_be_given_as_elsewhere() {
    let args = serve(&["--api-key", "sk-1", "--base-url", "https://h/api/v1/"]).unwrap();
    assert_eq!(args.target.api_key.as_ref().map(tacho_core::secret::Secret::expose), Some("sk-1"));
    assert_eq!(args.api_url(), "https://h/api/v1/completions");
    assert!(!args.namespace_line().contains("sk-1"));
    assert_eq!(
        serve(&["--base-url", "http://h/v1", "--strict-parity"]).unwrap().api_url(),
        "http://h/v1/v1/completions"
    );
    let pooling = serve(&["--base-url", "http://h/v1", "--backend", "vllm-pooling"]).unwrap();
    assert_eq!(pooling.api_url(), "http://h/v1/pooling");
    assert_eq!(serve(&["--endpoint-type", "openai-chat"]).unwrap().target.backend.name(), "openai-chat");
    assert!(parse_words(&["latency", "--sim", "-O0"]).is_ok() && parse_words(&["latency", "--sim", "-O7"]).is_err());
    assert!(parse_words(&["benchmark_serving.py", "--sim"]).is_ok());
}
