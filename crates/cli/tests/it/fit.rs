//! `tacho fit`, `predict`, `plan` and `whatif` from the command line.

use crate::tacho::{Place, stderr, stdout};

#[test]
fn results_without_lists_are_refused() {
    let place = Place::new();
    std::fs::write(place.path().join("plain.json"), "{}").unwrap();
    let output = place.run(&["fit", "plain.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("plain.json") && stderr(&output).contains("--save-detailed"),
        "{}",
        stderr(&output)
    );
    assert_eq!(place.run(&["fit"]).status.code(), Some(2));
    let missing = place.run(&["predict", "--sim-profile", "nope.json"]);
    assert!(stderr(&missing).contains("nope.json"), "{}", stderr(&missing));
}

#[test]
fn a_simulated_server_is_fitted_predicted_and_planned_for() {
    let place = Place::new();
    for level in ["1", "8"] {
        let output = place.run(&[
            "serve",
            "--sim",
            "--sim-profile",
            "tiny",
            "--num-prompts",
            "40",
            "--max-concurrency",
            level,
            "--ignore-eos",
            "--random-input-len",
            "200",
            "--random-output-len",
            "40",
            "--random-range-ratio",
            "0.8",
            "--save-result",
            "--save-detailed",
            "--result-filename",
            &format!("r{level}.json"),
            "--disable-tqdm",
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let output = place.run(&["fit", "r1.json", "r8.json", "--output", "mine.json"]);
    // On a busy machine, steps of a millisecond are inaccurate: the exit code must match the warning.
    let said = stdout(&output).contains("warning: poor fit");
    assert_eq!(output.status.code(), Some(if said { 3 } else { 0 }), "{}", stderr(&output));
    assert!(stdout(&output).contains("profile written to mine.json"), "{}", stdout(&output));
    assert_eq!(place.json("mine.json")["tacho_profile"], 2);
    let predict = place.run(&[
        "predict",
        "--sim-profile",
        "mine.json",
        "--num-prompts",
        "100",
        "--request-rate",
        "20",
        "--ignore-eos",
        "--random-input-len",
        "200",
        "--random-output-len",
        "40",
        "--save-result",
        "--result-filename",
        "p.json",
    ]);
    let text = stdout(&predict);
    assert!(predict.status.success(), "{}", stderr(&predict));
    assert!(text.contains("predicted with profile mine, not measured") && text.contains("Mean TTFT"), "{text}");
    let ranges: Vec<Vec<f64>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  mean_ttft_ms "))
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .collect();
    // A profile fitted on a busy machine has rare stalls, which one simulated run may lack: it may be outside its range.
    assert!(matches!(ranges.as_slice(), [range] if range[0] > 0.0 && range[1] < range[2]), "{text}");
    assert_eq!(
        (&place.json("p.json")["predicted_by"], &place.json("p.json")["completed"]),
        (&"mine".into(), &100.into())
    );
    let same = ["--num-prompts", "40", "--max-concurrency", "8", "--ignore-eos", "--random-input-len", "200"];
    let lengths = ["--random-output-len", "40", "--random-range-ratio", "0.8", "--save-result", "--save-detailed"];
    for (profile, file, says) in [("mine.json", "p8.json", ""), ("l4-8b", "far.json", "poor fit here")] {
        let args = [&["predict", "--sim-profile", profile], &same[..], &lengths, &["--result-filename", file]].concat();
        assert!(place.run(&args).status.success());
        let compared = place.run(&["compare", "r8.json", file]);
        let text = stdout(&compared);
        assert!(text.contains("## Step by step: predicted by") && text.contains(says), "{text} {}", stderr(&compared));
        assert!(text.contains("5 to 8 sequences, no prompt") && text.contains("fit"), "{text}");
    }
    let plan = place.run(&[
        "plan",
        "--sim-profile",
        "tiny",
        "--rate",
        "400",
        "--sla",
        "p99_tpot_ms<=3",
        "--sla",
        "p99_ttft_ms<=200",
        "--bench-cmd",
        "serve --num-prompts 100 --random-input-len 100 --random-output-len 20 --ignore-eos",
    ]);
    assert!(plan.status.success(), "{}", stderr(&plan));
    assert!(stdout(&plan).contains("replicas for 400 requests/s:"), "{}", stdout(&plan));
    let sized = ["--num-prompts", "200", "--random-input-len", "50", "--random-output-len", "20"];
    let measured = ["--request-rate", "20", "--save-result", "--result-filename", "p.json"];
    assert!(place.run(&[&["predict", "--sim-profile", "tiny"], &sized[..], &measured].concat()).status.success());
    let bench = format!("serve {} --ignore-eos", sized.join(" "));
    let args = ["plan", "--sim-profile", "tiny", "--rate", "40", "--sla", "p99_ttft_ms<=200", "--bench-cmd", &bench];
    let drawn = place.run(&[&args[..], &["--plot", "p.svg", "--measured", "p.json"]].concat());
    assert!(stdout(&drawn).contains("p at 20.00 requests/s: median_ttft_ms"), "{} {}", stdout(&drawn), stderr(&drawn));
    let picture = std::fs::read_to_string(place.file("p.svg")).unwrap();
    assert!(picture.contains("P99 TTFT (ms) of one replica by load") && picture.contains("p: "), "{picture}");
    let endless = place.run(&[&args[..], &["--plot", "p.gif"]].concat());
    assert_eq!(endless.status.code(), Some(2), "{}", stderr(&endless));
    let wrong = place.run(&["plan", "--sim-profile", "tiny", "--rate", "4", "--sla", "p99_nope_ms<=3"]);
    assert!(stderr(&wrong).contains("p99_nope_ms"), "{}", stderr(&wrong));
}

#[test]
fn the_workload_of_a_plan_is_given_as_flags_or_as_a_command() {
    let place = Place::new();
    let plan = ["plan", "--sim-profile", "tiny", "--rate", "40", "--slo", "p99_ttft<=0.2s"];
    let workload = ["--random-input-len", "60", "--random-output-len", "20", "--seed", "5"];
    let by_flags = place.run(&[&plan[..], &workload].concat());
    let command = format!("tacho serve {}", workload.join(" "));
    let by_command = place.run(&[&plan[..], &["--bench-cmd", &command]].concat());
    assert!(stdout(&by_flags).contains("replicas for 40 requests/s: "), "{}", stderr(&by_flags));
    assert_eq!(stdout(&by_flags), stdout(&by_command));
    for (flags, said) in [
        (&["--request-rate", "5"][..], "--request-rate: tacho plan sets the load of each run: remove it"),
        (&["--seed", "1", "--bench-cmd", "serve"], "--seed=1: put it into --bench-cmd, or remove --bench-cmd"),
        (&["--save-result"], "unrecognized arguments: --save-result"),
        (&["--bench-cmd", "latency"], "a command line of tacho serve"),
    ] {
        let refused = place.run(&[&plan[..], flags].concat());
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains(said), "{flags:?}: {}", stderr(&refused));
    }
}

#[test]
fn a_prediction_writes_what_it_is_asked_for_and_refuses_the_rest() {
    let place = Place::new();
    let args = ["predict", "--num-prompts", "20", "--random-input-len", "50", "--random-output-len", "10"];
    let unnamed = place.run(&args);
    let said = stderr(&unnamed);
    assert!(
        unnamed.status.code() == Some(2) && said.contains("--sim-profile is required: a file of tacho fit"),
        "{said}"
    );
    let args = [&args[..], &["--sim-profile", "tiny"]].concat();
    let files =
        ["--summary-json", "-", "--report", "r.html", "--save-requests", "q.csv", "--fail-if", "p99_ttft_ms<1e9"];
    let output = place.run(&[&args[..], &files].concat());
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(summary["completed"], 20);
    assert!(place.file("r.html").exists() && place.file("q.csv").exists());
    let served = [&["--live"][..], &["--duration", "5"], &["--log", "l"], &["--base-url", "http://127.0.0.1:1"]];
    let more = [&["--num-runs", "3"][..], &["--timeout", "1"], &["--otlp", "http://127.0.0.1:1"]];
    for flag in served.into_iter().chain(more) {
        let refused = place.run(&[&args[..], flag].concat());
        let said = stderr(&refused);
        assert!(refused.status.code() == Some(2) && said.contains("a prediction does not support"), "{flag:?}: {said}");
    }
}

#[test]
fn embeddings_take_one_step_and_a_plan_refuses_what_it_does_not_play() {
    let place = Place::new();
    let args = ["predict", "--sim-profile", "h100-8b", "--num-prompts", "4", "--random-input-len", "50"];
    let long = ["--random-output-len", "500", "--save-result", "--result-filename", "e.json"];
    let output = place.run(&[&args[..], &long, &["--backend", "openai-embeddings", "--max-concurrency", "1"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let latency = place.json("e.json")["mean_e2el_ms"].as_f64().unwrap();
    // 6.4 ms, 32 us per token, and a small overhead.
    assert!((7.9..8.2).contains(&latency), "{latency}");
    for (flag, said) in
        [("--max-concurrency 4", "a plan does not support"), ("--duration 5", "a prediction does not support")]
    {
        let bench = format!("serve --num-prompts 20 {flag}");
        let plan = ["plan", "--sim-profile", "tiny", "--rate", "4", "--sla", "p99_ttft_ms<=3", "--bench-cmd", &bench];
        let refused = place.run(&plan);
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

#[test]
fn conversations_limits_on_prefills_and_cancellations_are_predicted() {
    let place = Place::new();
    let talks =
        ["predict", "--sim-profile", "h100-8b", "--num-prompts", "12", "--multi-turn", "--multi-turn-num-turns"];
    let more = ["3", "--multi-turn-concurrency", "4", "--random-input-len", "120", "--random-output-len", "20"];
    let saved = ["--per-turn-input-len", "30", "--save-result", "--save-detailed", "--result-filename", "t.json"];
    let output = place.run(&[&talks[..], &more, &saved].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("sessions       12 of 12 finished"), "{}", stdout(&output));
    let result = place.json("t.json");
    assert_eq!((&result["completed"], &result["failed"]), (&36.into(), &0.into()));
    // The prompt of a later turn contains the earlier turns with their responses.
    let lens: Vec<i64> = result["input_lens"].as_array().unwrap().iter().map(|len| len.as_i64().unwrap()).collect();
    assert!(lens.iter().any(|len| *len > 200), "{lens:?}");
    let many = ["predict", "--sim-profile", "h100-8b", "--num-prompts", "40", "--random-input-len", "500"];
    let file = ["--random-output-len", "30", "--save-result", "--result-filename"];
    for (name, flags) in [("free", &[][..]), ("held", &["--prefill-concurrency", "1"][..])] {
        assert!(place.run(&[&many[..], &file, &[name], flags].concat()).status.success());
    }
    let ttft = |name: &str| place.json(name)["mean_ttft_ms"].as_f64().unwrap();
    assert!(ttft("held") < ttft("free") / 2.0, "{} {}", ttft("held"), ttft("free"));
    let off = ["off", "--request-cancellation-rate", "50", "--request-cancellation-delay", "0.05"];
    assert!(place.run(&[&many[..], &file, &off].concat()).status.success());
    let completed = place.json("off")["completed"].as_i64().unwrap();
    assert!((5..35).contains(&completed), "{completed}");
}

#[test]
fn a_run_is_forecast_with_other_settings() {
    let place = Place::new();
    let run = |args: &str| place.run(&args.split_whitespace().collect::<Vec<_>>());
    let profile = r#"{"tacho_profile": 2, "name": "server", "noise": 0.01, "engine": {"max_num_seqs": 4},
        "cost": {"fixed_us": 6400, "per_prefill_token_us": 32, "per_sequence_us": 60, "per_kv_token_us": 0.05}}"#;
    place.write("server.json", profile);
    let args = "predict --sim-profile server.json --num-prompts 80 --request-rate 16 --random-input-len 512 --random-range-ratio 0.5 \
        --random-output-len 32 --save-result --save-detailed --result-filename run.json";
    assert!(run(args).status.success());
    let found = run("whatif run.json --set max_num_seqs=4,16 --max-num-seqs 4 --json");
    let text = stdout(&found);
    assert!(found.status.success(), "{}", stderr(&found));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let best = &json["forecasts"][0];
    assert_eq!((&best["setting"]["max_num_seqs"], &best["flags"]), (&16.into(), &"--max-num-seqs 16".into()));
    let ttft = |of: &serde_json::Value| of["mean_ttft_ms"]["expected"].as_f64().unwrap();
    assert!(ttft(&best["metrics"]) * 5.0 < ttft(&json["forecasts"][1]["metrics"]), "{text}");
    let missed = run("whatif run.json --set max_num_seqs=4 --max-num-seqs 4 --slo p99_ttft_ms<=50");
    assert_eq!(missed.status.code(), Some(3), "{}", stdout(&missed));
    assert!(stdout(&missed).contains("violates an SLO"), "{}", stdout(&missed));
    let wrong = run("whatif run.json --set tensor_parallel_size=2");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("those are max_num_seqs"), "{}", stderr(&wrong));
}
