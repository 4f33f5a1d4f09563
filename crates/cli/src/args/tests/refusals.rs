//! Errors before the first request. The messages are in `tests/snapshots/refusals.txt`: after a rewording, run
//! `TACHO_ACCEPT=1 cargo test -p tacho-cli refusals` and review the diff.

use std::path::PathBuf;

use super::*;
use crate::args::help::suggest::advice;

/// The error report of a command line, with its hints.
fn report(line: &str) -> String {
    let args = tacho_core::command::split(line).unwrap();
    match parse(args.iter().map(Into::into)) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.report() + &advice(COMMANDS, &error),
    }
}

#[test]
fn refusals_read_as_recorded() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/refusals.txt");
    let recorded = std::fs::read_to_string(&path).unwrap();
    let accept = std::env::var_os("TACHO_ACCEPT").is_some();
    let mut now = String::new();
    for entry in recorded.split("$ ").skip(1) {
        let (line, sentences) = entry.split_once('\n').unwrap_or((entry, ""));
        let report = report(line);
        // A line without messages is new: `TACHO_ACCEPT=1` fills it in.
        assert!(accept || sentences.trim_end() == report, "{line}: {report}");
        now += &format!("$ {line}\n{report}\n");
    }
    if accept {
        std::fs::write(&path, &now).unwrap();
    }
}

#[test]
fn a_misspelt_key_flag_does_not_show_its_value() {
    for line in ["serve --api-kee sk-secret-key", "serve --api_kye=sk-secret-key", "multi-turn --apikey sk-secret-key"]
    {
        let said = report(line);
        assert!(said.contains("unrecognized arguments") && !said.contains("sk-secret-key"), "{said}");
    }
}

#[test]
fn urls_follow_host_backend_and_parity() {
    let url = |args: &[&str]| serve(args).unwrap().api_url();
    assert_eq!(url(&["--host", "::1", "--port", "7"]), "http://[::1]:7/v1/completions");
    assert_eq!(url(&["--backend", "openai-chat"]), "http://127.0.0.1:8000/v1/chat/completions");
    assert_eq!(url(&["--base-url", "https://h/x/"]), "https://h/x/v1/completions");
    assert_eq!(url(&["--base-url", "https://h/x/", "--strict-parity"]), "https://h/x//v1/completions");
    assert_eq!(url(&["--base-url", "http://h/v1/completions", "--endpoint="]), "http://h/v1/completions");
    assert_eq!(url(&["--base-url", "http+unix://%2Frun%2Fs"]), "http+unix://%2Frun%2Fs/v1/completions");
}

#[test]
fn flags_without_effect_are_announced() {
    let said = |args: &[&str]| serve(args).unwrap().notices();
    assert_eq!(said(&["--model", "m", "--served-model-name", "s"]), [""; 0]);
    assert_eq!(
        said(&["--backend=openai-chat", "--logprobs=1"]),
        ["--logprobs has no effect: only completions send it"]
    );
    let both = ["--base-url", "http://a,https://b", "--ca-file", "ca.pem"];
    assert_eq!(said(&both), [""; 0], "one replica is spoken to over TLS");
    assert!(
        said(&["--base-url", "http://a,http://b", "--ca-file", "ca.pem"])[0].starts_with("--ca-file has no effect")
    );
    for args in [
        &["--trust-remote-code"][..],
        &["--ramp-up-end-rps", "1"],
        &["--served-model-name", "s"],
        &["--lora-assignment", "random"],
        &["--save-detailed"],
        &["--burstiness", "2"],
    ] {
        assert!(said(args)[0].starts_with(args[0]), "{args:?}");
    }
}

#[test]
fn pooling_drops_what_is_about_generated_text() {
    let args = serve(&["--backend", "openai-embeddings", "--temperature", "0", "--goodput", "e2el:100"]).unwrap();
    assert_eq!(args.percentile_metrics(), ["e2el"]);
    assert!(!args.ignore_eos());
    assert_eq!(
        args.notices(),
        [
            "a sampling flag has no effect: no text is generated",
            "--goodput has no effect: it is defined for generated text only"
        ]
    );
}

#[test]
fn dataset_flags_are_read() {
    let argv = ["--dataset-name", "custom", "--dataset-path", "x.jsonl", "--num-prompts", "0", "--disable-shuffle"];
    let args = serve(&argv).unwrap();
    assert!(args.dataset.flags.disable_shuffle && !args.dataset.flags.no_oversample);
    assert!(!args.ignore_eos() && !args.self_timed());
    assert!(serve(&[]).unwrap().ignore_eos());
    let trace = serve(&["--dataset-name", "timed_trace", "--dataset-path", "x"]).unwrap();
    assert!(trace.ignore_eos() && trace.self_timed());
    let bfcl = ["--dataset-name", "hf", "--dataset-path", "x", "--bfcl-categories", " a, ,b"];
    assert_eq!(serve(&bfcl).unwrap().dataset.flags.bfcl_categories.unwrap(), ["a", "b"]);
}

#[test]
fn an_address_is_given_in_one_form() {
    for host in ["localhost", "::1", "10.0.0.1", "fe80::1"] {
        assert!(serve(&["--host", host]).is_ok(), "{host}");
    }
    assert!(serve(&["--base-url", "http://h/v1/completions", "--endpoint", "/v1/completions"]).is_ok());
    assert!(serve(&["--base-url", "http://h/v1/completions", "--strict-parity"]).is_ok());
    for socket in ["unix:/run/s", "/run/s"] {
        let said = report(&format!("serve --base-url {socket}"));
        assert!(said.contains("http+unix://%2Frun%2Fvllm.sock"), "{said}");
    }
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
    assert_eq!(serve(&["--endpoint-type", "openai-chat"]).unwrap().target.backend().name(), "openai-chat");
    assert!(parse_args(&["latency", "--sim", "-O0"]).is_ok());
    assert!(parse_args(&["benchmark_serving.py", "--sim"]).is_ok());
}

#[test]
fn values_at_their_bounds_are_taken() {
    for speed in ["1e-300", "0", "-1", "nan"] {
        let said = report(&format!("serve --backend openai-realtime --audio-speed {speed}"));
        assert!(said.contains("--audio-speed"), "{speed}: {said}");
    }
    assert!(serve(&["--timeout", "0.5", "--metrics-interval", "0", "--probe-request-rate", "0.5"]).is_ok());
    assert!(parse_args(&["sim", "--error-rate", "1.0", "--port", "0", "--max-num-seqs", "1"]).is_ok());
    let ramp = ["--ramp-up-strategy", "linear", "--ramp-up-start-rps", "5", "--ramp-up-end-rps", "5"];
    assert!(serve(&ramp).is_ok());
    let args = serve(&["--random-range-ratio", "0.25", "--metric-percentiles", "0, 99.9,100"]).unwrap();
    let ratio = args.dataset.range_ratio().unwrap();
    assert_eq!((ratio.input, ratio.output), (0.25, 0.25));
    assert_eq!(args.report.metric_percentiles, [0.0, 99.9, 100.0]);
}

#[test]
fn the_simulator_has_a_moderate_load_unless_one_is_given() {
    let of = |argv: &[&str]| {
        let args = serve(argv).unwrap();
        (args.load.num_prompts, args.load.request_rate)
    };
    let burst = (1000, f64::INFINITY);
    assert_eq!(of(&["--sim", "--seed", "3", "--save-result", "--random-input-len", "8"]), (100, 10.0));
    assert_eq!(of(&[]), burst);
    assert_eq!(of(&["--sim", "--strict-parity"]), burst);
    assert_eq!(of(&["--sim", "--num-prompts", "7"]), (7, f64::INFINITY));
    assert_eq!(of(&["--sim", "--max-concurrency", "8"]), burst);
    assert_eq!(of(&["--sim", "--request-rate", "5"]), (1000, 5.0));
    assert_eq!(of(&["--sim", "--sweep-request-rate", "5"]), burst);
    let namespace = |argv: &[&str]| serve(argv).unwrap().final_namespace();
    assert_eq!(namespace(&["--sim"]).get("num_prompts").unwrap().as_i64(), Some(100));
    assert_eq!(namespace(&[]).get("num_prompts").unwrap().as_i64(), Some(1000));
    let filled = |argv: &[&str]| {
        let args = serve(argv).unwrap();
        (args.tacho.sim_profile.clone(), args.dataset.input_len(), args.dataset.output_len())
    };
    assert_eq!(filled(&["--sim"]), (Some("h100-8b".to_owned()), 256, 32));
    assert_eq!(
        filled(&["--sim", "--sim-profile", "tiny", "--random-output-len", "5"]),
        (Some("tiny".to_owned()), 256, 5)
    );
    assert_eq!(filled(&["--sim", "--sim-args", "--max-num-seqs 4"]), (None, 256, 32));
    assert_eq!(filled(&["--sim", "--num-prompts", "9"]), (None, 1024, 128));
    assert_eq!(namespace(&["--sim"]).get("random_output_len").unwrap().as_i64(), Some(32));
}

#[test]
fn texts_that_no_header_can_hold_name_their_flag() {
    for args in
        [["--api-key", "a\nb"], ["--request-id-prefix", "a\r\nX: y"], ["--header", "A B=c"], ["--header", "A=b\nc"]]
    {
        let error = message(&args);
        assert!(error.starts_with(&format!("{}: the header ", args[0])) && !error.contains("a\nb"), "{error}");
    }
    assert!(serve(&["--request-id-prefix", "run-1-ü", "--header", "X-A=b c", "--api-key", "k"]).is_ok());
}
