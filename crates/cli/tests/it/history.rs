//! `tacho history` through the binary: what is added, found, compared, removed and shown.

use std::{fs, process::Output};

use serde_json::{Value, json};

use crate::tacho::{Place, at_once, stderr, stdout};

/// The change of the planted series is with this entry.
const CHANGED: usize = 14;
const COUNT: usize = 24;
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

/// A result of the day with noise of about 1%.
fn result(model: &str, day: usize, factor: f64) -> Value {
    let noise = 1.0 + 0.01 * ((day * 7919 + 13) % 101) as f64 / 101.0;
    json!({
        "date": format!("202610{:02}-120000", day + 1), "model_id": model, "backend": "openai", "num_prompts": 10,
        "request_rate": 5.0, "max_concurrency": null, "duration": 2.0, "completed": 10, "request_throughput": 5.0,
        "output_throughput": 640.0 / factor / noise, "mean_tpot_ms": 12.0 * factor * noise,
        "tacho": {"cost_per_million_tokens": 0.5 * factor * noise},
    })
}

/// A history with a series that gets 10% slower and one that does not change.
fn planted() -> Place {
    let place = Place::new();
    for day in 0..COUNT {
        let factor = if day < CHANGED { 1.0 } else { 1.1 };
        place.write(&format!("slower{day}.json"), &result("slower", day, factor).to_string());
        place.write(&format!("same{day}.json"), &result("same", day, 1.0).to_string());
        let files = [format!("slower{day}.json"), format!("same{day}.json")];
        let tags = format!("commit=c{day:02}f00d,branch=main");
        ok(place.run(&["history", "add", &files[0], &files[1], "--history", "h", "--tag", &tags]));
    }
    place
}

fn ok(output: Output) -> String {
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

fn of(place: &Place, args: &[&str]) -> Output {
    place.run(&[&["history"], args, &["--history", "h"]].concat())
}

fn listed(place: &Place) -> Vec<Value> {
    let text = ok(of(place, &["list", "--json"]));
    serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
}

#[test]
fn a_planted_change_is_found_with_its_commit_and_none_elsewhere() {
    let place = planted();
    let text = ok(of(&place, &["trend", "--metric", "mean_tpot_ms,output_throughput", "--json"]));
    let trends: Value = serde_json::from_str(&text).unwrap();
    let found = |trend: &Value| -> Vec<(String, String)> {
        let changes = trend["changes"].as_array().unwrap().iter();
        changes.map(|one| (one["commit"].as_str().unwrap().into(), one["verdict"].as_str().unwrap().into())).collect()
    };
    for trend in trends.as_array().unwrap() {
        let is_slower = trend["series"].as_str().unwrap().contains("model_id=slower");
        let expected = if is_slower { vec![(format!("c{CHANGED}f00d"), "worse".to_owned())] } else { Vec::new() };
        assert_eq!(found(trend), expected, "{trend}");
    }
    let worse = |filter: &str, last: &str| {
        let args = ["trend", "--metric", "mean_tpot_ms", "--filter", filter, "--fail-if-worse", last];
        of(&place, &args).status.code()
    };
    let slower = "branch=main,model_id=slower";
    assert_eq!([worse(slower, "10"), worse(slower, "9"), worse("model_id=same", "24")], [Some(3), Some(0), Some(0)]);
    let text = ok(of(&place, &["trend", "--metric", "mean_tpot_ms", "--filter", slower]));
    assert!(text.contains("worse from c14f00d on (entry 15 of 24, 2026-10-15"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn too_few_entries_and_unknown_metrics_are_said() {
    let place = Place::new();
    for day in 0..7 {
        place.write(&format!("{day}.json"), &result("m", day, 1.0).to_string());
        ok(of(&place, &["add", &format!("{day}.json")]));
    }
    let mut late = result("m", 8, 1.0);
    late["tacho"]["client"] = json!({"word": "STARVED", "bounds": {"mean_tpot_ms": [6.0, 13.0]}});
    place.write("late.json", &late.to_string());
    ok(of(&place, &["add", "late.json"]));
    let text = ok(of(&place, &["trend", "--fail-if-worse", "3", "--metric", "mean_tpot_ms"]));
    assert!(text.contains("7 entries") && text.contains("left out: 1 in which the client"), "{text}");
    assert!(text.contains("too few entries to look for a change: 12 are needed"), "{text}");
    let error = of(&place, &["trend", "--metric", "mean_tpot"]);
    assert!(
        stderr(&error).contains("--metric mean_tpot: no entry has it: did you mean mean_tpot_ms? tacho history show"),
        "{}",
        stderr(&error)
    );
    let error = of(&place, &["trend", "--filter", "branch=x"]);
    assert!(stderr(&error).contains("h has no entry with branch=x"), "{}", stderr(&error));
    let error = place.run(&["history", "list"]);
    assert_eq!((error.status.code(), stderr(&error).contains("--history")), (Some(2), true));
    let error = place.run(&["history", "list", "--history", "none"]);
    assert!(stderr(&error).contains("none is not a history: add a result first"), "{}", stderr(&error));
    let mut list = place.command(&["history", "list"]);
    assert!(ok(list.env("TACHO_HISTORY", "h").output().unwrap()).starts_with("8 entries: "));
}

#[test]
fn entries_are_listed_shown_compared_and_removed() {
    let place = planted();
    let list = ok(of(&place, &["list", "--filter", "model_id=slower"]));
    assert!(list.starts_with("24 entries: ") && list.contains("branch=main"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let only = ["--filter", "model_id=slower"];
    let shown = ok(of(&place, &[&["show", "c14"], &only[..]].concat()));
    assert!(shown.contains("tag commit") && shown.contains("mean_tpot_ms"), "{shown}");
    let error = of(&place, &["show", "c14"]);
    assert!(stderr(&error).contains("2 entries have an id or commit that begins with c14"), "{}", stderr(&error));
    let diff = ok(of(&place, &[&["diff", "c13", "c14", "--html", "d.html"], &only[..]].concat()));
    assert!(diff.contains("mean_tpot_ms") && place.file("d.html").is_file(), "{diff}");
    let kept = of(&place, &[&["prune", "--keep", "20"], &only[..]].concat());
    assert!(ok(kept.clone()).starts_with("4 entries") && stderr(&kept).contains("nothing is removed without --yes"));
    assert_eq!(listed(&place).len(), 2 * COUNT);
    ok(of(&place, &[&["prune", "--keep", "20", "--yes"], &only[..]].concat()));
    assert_eq!(listed(&place).len(), 2 * COUNT - 4);
    ok(of(&place, &["prune", "--older-than", "0", "--yes"]));
    assert_eq!(listed(&place).iter().filter(|entry| entry["time"].as_str() < Some("2026-11")).count(), 0);
    assert_eq!(of(&place, &["prune"]).status.code(), Some(2));
}

#[test]
fn results_of_others_and_files_without_one_are_told_apart() {
    let place = Place::new();
    place.write("d/a.json", &result("m", 1, 1.0).to_string());
    place.write("d/other.json", "{\"x\": 1}");
    place.write("none.json", "{\"x\": 1}");
    let mut empty = result("m", 2, 1.0);
    empty["completed"] = 0.into();
    place.write("empty.json", &empty.to_string());
    let sglang = json!({
        "backend": "sglang", "duration": 2.0, "completed": 4, "request_throughput": 2.0, "total_input_tokens": 40,
        "total_output_tokens": 40, "output_throughput": 20.0, "mean_tpot_ms": 9.0, "mean_e2e_latency_ms": 90.0,
        "median_e2e_latency_ms": 90.0, "mean_itl_ms": 9.0, "mean_ttft_ms": 5.0,
    });
    place.write("sglang.jsonl", &sglang.to_string());
    let output = of(&place, &["add", "d", "none.json", "empty.json", "sglang.jsonl", "gone.json"]);
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for part in [
        "none.json: it holds no result of a benchmark",
        "empty.json: not added: the run has no successful request",
        "gone.json",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let entries = listed(&place);
    assert_eq!(entries.len(), 2, "{errors}");
    let tool = entries.iter().find(|entry| entry["settings"]["tool"] != Value::Null).unwrap();
    let directory = place.file("h/runs").join(tool["id"].as_str().unwrap());
    assert!(directory.join("original.jsonl").is_file(), "{tool}");
    ok(of(&place, &["add", "d/a.json", "--tag", "gpu=l4", "--tag", "api_token=s3cret"]));
    let again = &listed(&place)[0];
    assert_eq!((&again["tags"]["gpu"], &again["tags"]["api_token"]), (&"l4".into(), &"***".into()), "{again}");
}

#[test]
fn processes_that_add_at_once_lose_nothing() {
    let place = Place::new();
    let days: Vec<usize> = (0..8).collect();
    at_once(&days, |day| {
        place.write(&format!("{day}.json"), &result("m", *day, 1.0).to_string());
        ok(of(&place, &["add", &format!("{day}.json")]));
    });
    assert_eq!(listed(&place).len(), 8);
    let index = fs::read(place.file("h/index.parquet")).unwrap();
    assert!(index.starts_with(b"PAR1") && !index.windows(5).any(|part| part == b".new-"));
}

#[test]
fn a_run_adds_its_result_and_a_history_that_breaks_is_a_warning() {
    let place = Place::new();
    let serve = [
        "serve",
        "--sim",
        "--num-prompts",
        "4",
        "--random-output-len",
        "2",
        "--save-result",
        "--result-filename",
        "r.json",
    ];
    let run = |more: &[&str]| place.run(&[&serve[..], more].concat());
    let mut command = place.command(&[&serve[..], &["--history", "h", "--tag", "gpu=none", "--tag-git"]].concat());
    let output = command.envs([("GITHUB_SHA", "abc123"), ("GITHUB_HEAD_REF", "topic")]).output().unwrap();
    ok(output.clone());
    assert!(stderr(&output).contains("added to h: 20"), "{}", stderr(&output));
    let entry = &listed(&place)[0];
    assert_eq!(entry["tags"], json!({"branch": "topic", "commit": "abc123", "gpu": "none"}));
    place.write("file", "");
    let refused = run(&["--history", "file"]);
    assert!(!refused.status.success() && stdout(&refused).is_empty(), "{}", stdout(&refused));
    assert!(stderr(&refused).contains("--history: cannot write into the history file"), "{}", stderr(&refused));
    fs::remove_file(place.file("r.json")).unwrap();
    let broken = run(&["--history", "b", "--on-row-command", "rm -r b; touch b; cat > rows"]);
    assert_eq!(broken.status.code(), Some(0), "{}", stderr(&broken));
    assert!(stderr(&broken).contains("warning: --history b: "), "{}", stderr(&broken));
    assert_eq!(place.json("r.json")["completed"], 4);
    let sweep = "tacho serve --num-prompts 4 --random-output-len 2";
    let args = ["sweep", "serve", "--sim", "--bench-cmd", sweep, "--num-runs", "2", "--history", "s", "--tag", "a=b"];
    let output = place.run(&args);
    assert!(output.status.success() && stderr(&output).contains("added to s: 2 entries"), "{}", stderr(&output));
}

#[test]
fn a_search_adds_its_answer() {
    let place = Place::new();
    let search = [
        "capacity",
        "--sim",
        "--slo",
        "p99_ttft<=2s",
        "--budget",
        "1",
        "--random-output-len",
        "2",
        "--by",
        "concurrency",
    ];
    let output = place.run(&[&search[..], &["--history", "h", "--tag", "commit=a1"]].concat());
    let entries = listed(&place);
    assert_eq!(entries.len(), 1, "{}", stderr(&output));
    let settings = &entries[0]["settings"];
    assert_eq!((&entries[0]["kind"], &settings["variable"]), (&"search".into(), &"max_concurrency".into()));
    assert!(settings["model_id"].is_string() && settings["num_prompts"].is_null(), "{settings}");
    ok(place.run(&["history", "site", "--history", "h", "-o", "site"]));
}

/// Text of a server or a user must not become markup or end the script's data.
#[test]
fn the_site_has_its_pages_and_escapes_what_others_wrote() {
    let place = Place::new();
    for day in 0..14 {
        let mut result = result(HOSTILE, day, if day < 7 { 1.0 } else { 2.0 });
        result["label"] = HOSTILE.into();
        place.write("r.json", &result.to_string());
        ok(of(&place, &["add", "r.json", "--tag", &format!("commit={day}{HOSTILE},{HOSTILE}=1")]));
    }
    let detailed = [
        "serve",
        "--sim",
        "--num-prompts",
        "4",
        "--random-output-len",
        "2",
        "--save-result",
        "--save-detailed",
        "--history",
        "h",
    ];
    ok(place.run(&detailed));
    ok(of(&place, &["site", "-o", "site", "--title", HOSTILE]));
    let entries = listed(&place);
    let pages = entries.iter().map(|entry| format!("site/runs/{}.html", entry["id"].as_str().unwrap()));
    for page in pages.chain(["site/index.html".to_owned()]) {
        let text = fs::read_to_string(place.file(&page)).unwrap();
        assert!(!text.contains("<img") && text.contains("default-src 'none'"), "{page}");
    }
    let index = fs::read_to_string(place.file("site/index.html")).unwrap();
    let detailed = entries.last().unwrap()["id"].as_str().unwrap();
    assert!(index.contains(&format!("href=\"runs/{detailed}.html\"")) && index.contains("&lt;img"));
    let page = fs::read_to_string(place.file(&format!("site/runs/{detailed}.html"))).unwrap();
    assert!(page.contains("../index.html") && page.contains("id=\"rows\""), "the report of a detailed result");
}

#[test]
fn a_result_and_its_log_are_one_run() {
    let place = Place::new();
    let run = ["serve", "--sim", "--num-prompts", "10", "--save-result", "--result-filename", "r.json", "--quiet"];
    ok(place.run(&run));
    ok(of(&place, &["add", "r.json"]));
    let again = of(&place, &["add", "r.rows", "--tag", "gpu=l4"]);
    assert!(stderr(&again).contains("there already, with the new tags"), "{}", stderr(&again));
    assert_eq!(listed(&place).len(), 1);
    let failed = place.run(&["history", "add", "nope", "--history", "hh"]);
    assert!(failed.status.code() == Some(1) && !place.file("hh").exists(), "{}", stderr(&failed));
    place.write(
        "latency.json",
        &json!({"avg_latency": 1.0, "latencies": [1.0], "percentiles": {"50": 1.0}}).to_string(),
    );
    ok(of(&place, &["add", "latency.json"]));
    assert!(ok(of(&place, &["list"])).starts_with("2 entries\n"), "nothing in common");
}
