//! Several servers in one run: each is measured as if it were alone, and a failing one is seen.

use std::{collections::BTreeSet, io::Write, process::Stdio, time::Duration};

use serde_json::Value;
use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::write_plain;

use crate::backends::Sim;
use crate::tacho::{Place, at_once, stderr, stdout};

const LOAD: [&str; 13] = [
    "serve",
    "--model",
    "gpt2",
    "--tokenizer",
    "gpt2",
    "--random-input-len",
    "64",
    "--random-output-len",
    "12",
    "--temperature",
    "0",
    "--save-result",
    "--result-filename=r.json",
];

/// Evenly spaced requests to these servers.
fn args<'a>(urls: &'a [String], rate: &'a str, prompts: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = LOAD.to_vec();
    args.extend(urls.iter().flat_map(|url| ["--base-url", url.as_str()]));
    args.extend(["--request-rate", rate, "--burstiness", "10000", "--num-prompts", prompts]);
    args.extend(more);
    args
}

fn name(url: &str) -> &str {
    url.trim_start_matches("http://")
}

fn caveats(result: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let caveats = result["tacho"]["caveats"].as_array().cloned().unwrap_or_default();
    caveats.iter().map(|one| (text(&one["kind"]), text(&one["text"]))).collect()
}

#[test]
fn each_replica_is_measured_as_if_it_were_alone() {
    let place = Place::new();
    let sims = ["h100-8b", "a100-8b", "l4-8b"].map(|profile| Sim::of_profile(profile, &[]));
    let urls: Vec<String> = sims.iter().map(|sim| sim.url.clone()).collect();
    let output = place.run(&args(&urls, "24", "120", &["--num-warmups", "2"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("by replica"), "{}", stdout(&output));
    let together = place.json("r.json");
    assert_eq!(together["completed"], 120);
    let mut medians = Vec::new();
    let alone = at_once(&urls, |url| {
        let place = Place::new();
        let output = place.run(&args(std::slice::from_ref(url), "8", "40", &["--num-warmups", "2"]));
        assert!(output.status.success(), "{}", stderr(&output));
        place.json("r.json")
    });
    for (url, alone) in urls.iter().zip(alone) {
        let group = &together["tacho"]["groups"]["replica"][name(url)];
        assert_eq!((&group["completed"], &group["failed"]), (&40.into(), &0.into()), "{url}");
        for key in ["median_ttft_ms", "median_tpot_ms"] {
            let bounds = |intervals: &Value| {
                let bound = |at: usize, open: f64| intervals[key][at].as_f64().unwrap_or(open);
                (bound(0, 0.0), bound(1, f64::INFINITY))
            };
            let (own, other) = (bounds(&group["intervals"]), bounds(&alone["tacho"]["intervals"]));
            // Every third arrival is more regular than arrivals at a third of the rate, and other tests share the
            // machine. The profiles differ by more.
            assert!(own.0 <= other.1 * 1.5 && other.0 <= own.1 * 1.5, "{url} {key}: {own:?} {other:?}");
        }
        medians.push(group["median_tpot_ms"].as_f64().unwrap());
    }
    assert!(medians[0] * 1.2 < medians[1] && medians[1] * 2.0 < medians[2], "{medians:?}");
    let slow: Vec<_> = caveats(&together).into_iter().filter(|(kind, _)| kind == "replica_slow").collect();
    assert!(slow.len() == 1 && slow[0].1.contains(name(&urls[2])), "{slow:?}");
}

/// The result of a run whose second replica is killed after a second and a half.
fn bereaved(policy: &str) -> (Value, String) {
    let place = Place::new();
    let mut sims: Vec<Sim> = (0..3).map(|_| Sim::start(&[])).collect();
    let urls: Vec<String> = sims.iter().map(|sim| sim.url.clone()).collect();
    let mut command = place.command(&args(&urls, "60", "240", &["--on-replica-failure", policy]));
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    drop(sims.remove(1));
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{policy}: {}", stderr(&output));
    (place.json("r.json"), name(&urls[1]).to_owned())
}

fn completed(result: &Value, replica: &str) -> u64 {
    result["tacho"]["groups"]["replica"][replica]["completed"].as_u64().unwrap()
}

fn unhealthy(result: &Value, replica: &str) -> String {
    let found: Vec<_> = caveats(result).into_iter().filter(|(kind, _)| kind == "replica_unhealthy").collect();
    assert!(found.len() == 1 && found[0].1.contains(replica), "{found:?}");
    found[0].1.clone()
}

#[test]
fn requests_of_a_dead_replica_fail() {
    let (result, dead) = bereaved("fail");
    let failed = result["failed"].as_u64().unwrap();
    assert!((5..=79).contains(&failed), "{failed}");
    assert_eq!(completed(&result, &dead) + failed, 80);
    assert!(unhealthy(&result, &dead).contains(&format!("failed {failed} of 80")));
}

#[test]
fn requests_of_a_dead_replica_are_sent_elsewhere() {
    let (result, dead) = bereaved("retry-elsewhere");
    let failed = result["failed"].as_u64().unwrap();
    // Responses may have been cut off after their first token.
    assert!(failed <= 8, "{failed}");
    assert!(completed(&result, &dead) < 76);
    assert!(completed(&result, "retried") >= 5, "{}", result["tacho"]["groups"]["replica"]);
    unhealthy(&result, &dead);
}

#[test]
fn a_dead_replica_is_removed() {
    let (result, dead) = bereaved("remove");
    let failed = result["failed"].as_u64().unwrap();
    // Those in flight, and three connections; without the removal about fifty fail.
    assert!((1..=25).contains(&failed), "{failed}");
    assert!(completed(&result, &dead) + failed < 76);
    assert!(unhealthy(&result, &dead).contains("no more requests"));
}

/// A server whose responses name it in a header.
fn labeled(label: &'static str) -> Scripted {
    Scripted::start(move |seen, stream| {
        if seen.method() != "POST" {
            return write_plain(stream, 404, "Not Found", "text/plain", b"").map_or(Keep::Close, |()| Keep::Open);
        }
        let body = "data: {\"choices\": [{\"index\": 0, \"text\": \" t\", \"delta\": {\"content\": \" t\"}}]}\n\ndata: [DONE]\n\n";
        let head = format!("HTTP/1.1 200 OK\r\nX-Replica: {label}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).map_or(Keep::Close, |()| Keep::Open)
    })
}

fn sessions_of(server: &Scripted, header: &str) -> BTreeSet<String> {
    server.calls().iter().filter_map(|call| Some(call.header(header)?.to_owned())).collect()
}

#[test]
fn sessions_stay_on_their_replica() {
    let place = Place::new();
    let servers = [labeled("a"), labeled("b"), labeled("c")];
    let turn = |session: usize| {
        format!("{{\"session_id\": \"s{session}\", \"input_length\": 20, \"output_length\": 1, \"delay\": 1}}\n")
    };
    let trace: String = (0..3).flat_map(|_| (0..30).map(turn)).collect();
    place.write("trace.jsonl", &trace);
    let list: String = servers.iter().map(|server| format!("{}\n", server.url())).collect();
    place.write("urls", &format!("# all of them\n{list}"));
    let output = place.run(&[
        "serve",
        "--model",
        "gpt2",
        "--tokenizer",
        "gpt2",
        "--backend",
        "openai-chat",
        "--sessions",
        "trace.jsonl",
        "--base-url",
        "@urls",
        "--balance",
        "session",
        "--session-header",
        "X-Route",
        "--response-header",
        "x-replica",
        "--save-result",
        "--result-filename",
        "r.json",
        "--log",
        "rows",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let ids = servers.each_ref().map(|server| sessions_of(server, "X-Route"));
    assert_eq!(ids.iter().map(BTreeSet::len).sum::<usize>(), 30, "{ids:?}");
    assert!(ids.iter().all(|ids| ids.len() >= 3), "{ids:?}");
    let groups = &place.json("r.json")["tacho"]["groups"];
    for (server, label) in servers.iter().zip(["a", "b", "c"]) {
        let sent = server.calls().iter().filter(|call| call.method() == "POST").count();
        assert_eq!(sent % 3, 0, "all turns of a session");
        assert_eq!(groups["header:x-replica"][label]["completed"], sent);
        assert_eq!(groups["replica"][name(&server.url())]["completed"], sent);
        let own = name(&server.url()).to_owned();
        assert!(server.calls().iter().all(|call| call.header("host") == Some(&own)));
    }
    let output = place.run(&["report", "rows", "--save-result", "again.json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(place.json("again.json")["tacho"]["groups"]["replica"], groups["replica"]);
}

#[test]
fn a_condition_names_a_replica() {
    let place = Place::new();
    let (servers, mut args) = ([labeled("a"), labeled("b")], LOAD.to_vec());
    let urls = servers.each_ref().map(Scripted::url);
    args.extend([
        "--base-url",
        &urls[0],
        "--base-url",
        &urls[1],
        "--num-prompts",
        "40",
        "--balance",
        "least-in-flight",
    ]);
    let condition = format!("replica.{}.completed<1", name(&urls[1]));
    args.extend(["--fail-if", &condition]);
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let counts = servers.each_ref().map(|server| server.count("/v1/completions"));
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|&count| count >= 10), "{counts:?}");
}

#[test]
fn mistakes_are_named_in_a_line() {
    let place = Place::new();
    place.write("empty", "# nothing\n");
    let two = ["--base-url", "http://127.0.0.1:1", "--base-url", "http://127.0.0.1:2"];
    for (more, says) in [
        (&["--strict-parity"][..], "--strict-parity"),
        (&["--base-url", "http://127.0.0.1:1"], "twice"),
        (&["--base-url", "@nowhere"], "--base-url @nowhere"),
        (&["--base-url", "@empty"], "no line with an address"),
        (&["--base-url", "http://u:p@127.0.0.1:3"], "credentials"),
        (&["--balance", "fair"], "--balance"),
        (&["--balance", "session"], "--balance session needs sessions"),
        (&["--balance-prefix-len", "9"], "--balance prefix"),
        (&["--response-header", "set-cookie"], "--response-header"),
        (&["--response-header", "a b"], "--response-header"),
        (&["--session-header", "a:b"], "--session-header"),
    ] {
        let output = place.run(&[&LOAD[..], &two, more].concat());
        let error = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{more:?}: {error}");
        let errors: Vec<&str> = error.lines().filter(|line| line.contains("error: ")).collect();
        assert!(errors.len() == 1 && errors[0].contains(says), "{more:?}: {error}");
        assert!(!error.contains("u:p@"), "{error}");
    }
    for flag in [&["--balance", "random"][..], &["--on-replica-failure", "remove"]] {
        let output = place.run(&[&LOAD[..], flag].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("several --base-url"), "{}", stderr(&output));
    }
}
