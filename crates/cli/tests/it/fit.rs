//! Learning a server's cost model: planted parameters come back, and predictions are what a run gives.

use std::sync::Arc;

use tacho_core::Stamp;
use tacho_metrics::fit::{self, Estimate, Limits, Profile, Traced};
use tacho_sim::foresight::{Coming, Router, Sending, foresee};
use tacho_sim::{CostModel, Front, Machine, Profile as Speed};

use crate::tacho::{Place, stderr, stdout};

fn planted() -> Machine {
    Machine {
        name: "planted".to_owned(),
        cost: CostModel {
            fixed_ns: 8e6,
            per_prefill_token_ns: 30e3,
            per_sequence_ns: 200e3,
            per_kv_token_ns: 300.0,
            per_attention_ns: 4.0,
        },
        engine: Speed::Tiny.engine(),
        front: Front { per_request_ns: 1.5e6, per_prompt_token_ns: 2e3 },
        noise: 0.02,
    }
}

/// Requests of many lengths, all due at once.
fn requests(count: usize, seed: u64) -> Vec<Coming> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut one = |at: u32| {
        let (prompt, output) = (30 + draw(1200) as u32, 20 + draw(150) as usize);
        let ids: Arc<[u32]> = (0..prompt).map(|id| id.wrapping_mul(31).wrapping_add(at << 16)).collect();
        Coming { due: Stamp::ZERO, prompt: ids, output, priority: 0 }
    };
    (0..count as u32).map(&mut one).collect()
}

fn traced(machine: &Machine, limit: usize, count: usize, seed: u64) -> Vec<Traced> {
    let coming = requests(count, seed);
    let sending = Sending { limit: Some(limit), replicas: 1, router: Router::RoundRobin, seed };
    let gone = foresee(machine, &coming, &sending).unwrap();
    let one = |(coming, gone): (&Coming, &tacho_sim::foresight::Gone)| Traced {
        sent: gone.sent.secs(),
        prompt: coming.prompt.len() as u64,
        tokens: gone.tokens.iter().map(|token| token.secs()).collect(),
    };
    coming.iter().zip(&gone).map(one).collect()
}

#[test]
fn planted_parameters_come_back_and_their_intervals_cover_them() {
    let machine = planted();
    let runs: Vec<Vec<Traced>> =
        [(1, 60, 1), (8, 160, 2), (24, 300, 3)].map(|(limit, count, seed)| traced(&machine, limit, count, seed)).into();
    let fitted = fit::fit(&runs, machine.engine.max_num_batched_tokens).unwrap();
    let costs = &fitted.costs;
    let near = |name: &str, estimate: &Estimate, planted_ns: f64| {
        let off = estimate.value * 1e9 / planted_ns - 1.0;
        assert!(off.abs() < 0.02, "{name} is off by {:.2} %", off * 100.0);
        let (low, high) = estimate.interval();
        assert!(low * 1e9 <= planted_ns * 1.005 && planted_ns * 0.995 <= high * 1e9, "{name}: {low} to {high}");
    };
    near("a step", &costs.fixed, 8e6);
    near("a prompt token", &costs.prefill, 30e3);
    near("a sequence", &costs.sequence, 200e3);
    near("context", &costs.kv, 300.0);
    assert!((costs.attention.value * 1e9 / 4.0 - 1.0).abs() < 0.1, "{:?}", costs.attention);
    assert!((fitted.noise - 0.02).abs() < 0.004, "{}", fitted.noise);
    assert!((fitted.front.0.value * 1e3 - 1.5).abs() < 0.3, "{:?}", fitted.front);
    assert!(fitted.held_out.0 < 0.03 && fitted.unclear * 20 < fitted.steps, "{fitted:?}");

    let limits = Limits {
        max_num_seqs: machine.engine.max_num_seqs,
        max_num_batched_tokens: machine.engine.max_num_batched_tokens,
        block_size: machine.engine.block_size,
        num_blocks: machine.engine.num_blocks,
        max_model_len: machine.engine.max_model_len,
        prefix_caching: machine.engine.enable_prefix_caching,
    };
    let file = Profile { name: "learned".to_owned(), limits, fitted };
    let learned = Machine::parse(&tacho_core::json::dumps(&file.to_json()), "learned.json").unwrap();
    // A load that was not fitted: other lengths, arrivals and a limit between.
    let mean = |machine: &Machine| {
        let run = traced(machine, 14, 200, 9);
        let ttft = run.iter().map(|one| one.tokens[0] - one.sent).sum::<f64>() / run.len() as f64;
        let last = run.iter().filter_map(|one| one.tokens.last()).copied().fold(0.0, f64::max);
        (ttft, last)
    };
    let ((true_ttft, true_end), (ttft, end)) = (mean(&machine), mean(&learned));
    assert!(
        (ttft / true_ttft - 1.0).abs() < 0.05 && (end / true_end - 1.0).abs() < 0.03,
        "{ttft} {true_ttft} {end} {true_end}"
    );
}

#[test]
fn runs_that_tell_nothing_are_said_so() {
    let machine = planted();
    assert!(fit::fit(&[traced(&machine, 1, 1, 1)], 8192).is_err(), "one request is too few steps");
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
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("profile written to mine.json"), "{}", stdout(&output));
    assert_eq!(place.json("mine.json")["tacho_profile"], 1);
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
    assert!(text.contains("predicted by mine, not measured") && text.contains("Mean TTFT"), "{text}");
    assert_eq!(
        (&place.json("p.json")["predicted_by"], &place.json("p.json")["completed"]),
        (&"mine".into(), &100.into())
    );
    let plan = place.run(&[
        "plan",
        "--sim-profile",
        "tiny",
        "--rate",
        "400",
        "--sla",
        "p99_tpot_ms<=3",
        "--fail",
        "p99_ttft_ms>200",
        "--bench-cmd",
        "serve --num-prompts 100 --random-input-len 100 --random-output-len 20 --ignore-eos",
    ]);
    assert!(plan.status.success(), "{}", stderr(&plan));
    assert!(stdout(&plan).contains("replicas for 400 requests/s:"), "{}", stdout(&plan));
    let sized = ["--num-prompts", "200", "--random-input-len", "50", "--random-output-len", "20"];
    let measured = ["--request-rate", "20", "--save-result", "--result-filename", "p.json"];
    assert!(place.run(&[&["predict", "--sim-profile", "tiny"], &sized[..], &measured].concat()).status.success());
    let bench = format!("serve {} --ignore-eos", sized.join(" "));
    let words = ["plan", "--sim-profile", "tiny", "--rate", "40", "--sla", "p99_ttft_ms<=200", "--bench-cmd", &bench];
    let drawn = place.run(&[&words[..], &["--plot", "p.svg", "--measured", "p.json"]].concat());
    assert!(stdout(&drawn).contains("p at 20.00 requests/s: median_ttft_ms"), "{} {}", stdout(&drawn), stderr(&drawn));
    let picture = std::fs::read_to_string(place.file("p.svg")).unwrap();
    assert!(picture.contains("P99 TTFT (ms) of one replica by load") && picture.contains("p: "), "{picture}");
    let endless = place.run(&[&words[..], &["--plot", "p.gif"]].concat());
    assert_eq!(endless.status.code(), Some(2), "{}", stderr(&endless));
    let wrong = place.run(&["plan", "--sim-profile", "tiny", "--rate", "4", "--sla", "p99_nope_ms<=3"]);
    assert!(stderr(&wrong).contains("p99_nope_ms"), "{}", stderr(&wrong));
}

#[test]
fn a_prediction_writes_what_it_is_asked_for_and_refuses_the_rest() {
    let place = Place::new();
    let words = ["predict", "--num-prompts", "20", "--random-input-len", "50", "--random-output-len", "10"];
    let files =
        ["--summary-json", "-", "--report", "r.html", "--save-requests", "q.csv", "--fail-if", "p99_ttft_ms<1e9"];
    let output = place.run(&[&words[..], &files].concat());
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let summary: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(summary["completed"], 20);
    assert!(place.file("r.html").exists() && place.file("q.csv").exists());
    for flag in [&["--live"][..], &["--duration", "5"], &["--log", "l"], &["--base-url", "http://127.0.0.1:1"]] {
        let refused = place.run(&[&words[..], flag].concat());
        let said = stderr(&refused);
        assert!(refused.status.code() == Some(2) && said.contains("a prediction cannot honour"), "{flag:?}: {said}");
    }
}
