//! Distributed runs: the same requests at the same times as one process, one result, and behavior when a rank is
//! lost.

use std::process::{Child, Command, Output, Stdio};
use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::tacho::{Place, stderr, stdout};
use crate::{limits::limited, scripted::Scripted};

const LOAD: [&str; 16] = [
    "--model",
    "gpt2",
    "--tokenizer",
    "gpt2",
    "--dataset-name",
    "random",
    "--random-input-len",
    "8",
    "--random-output-len",
    "6",
    "--ready-check-timeout-sec",
    "0",
    "--temperature",
    "0",
    "--request-id-prefix",
    "p-",
];

/// A server whose responses have six tokens.
pub(crate) fn server() -> Scripted {
    Scripted::start(json!({"cycle": true, "routes": {"POST /v1/completions": [
        {"gen": "completions", "tokens": 6}
    ]}}))
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A distributed run in one directory.
pub(crate) struct Run {
    pub(crate) place: Place,
    url: String,
    port: u16,
    ranks: usize,
    further: Vec<String>,
}

impl Run {
    pub(crate) fn new(server: &Scripted, ranks: usize, further: &[&str]) -> Run {
        let further = further.iter().map(|&word| word.to_owned()).collect();
        Run { place: Place::new(), url: format!("http://{}", server.address), port: free_port(), ranks, further }
    }

    pub(crate) fn start(&self, rank: usize) -> Child {
        self.command(rank).spawn().unwrap()
    }

    pub(crate) fn command(&self, rank: usize) -> Command {
        let mut command = self.place.command(&["serve", "--base-url", &self.url]);
        command.args(LOAD).args(&self.further);
        command.args(["--save-result", "--result-filename", "r.json", "--save-detailed"]);
        if self.ranks > 1 {
            let meet = format!("127.0.0.1:{}", self.port);
            let (rank, ranks) = (rank.to_string(), self.ranks.to_string());
            command.args(["--rank", &rank, "--ranks", &ranks, "--rendezvous", &meet]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start_all(&self) -> Vec<Child> {
        (0..self.ranks).map(|rank| self.start(rank)).collect()
    }

    /// Runs all ranks and returns rank 0's output.
    pub(crate) fn finish(&self) -> Output {
        let mut outputs = self.start_all().into_iter().map(|child| child.wait_with_output().unwrap());
        let first = outputs.next().unwrap();
        for (at, other) in outputs.enumerate() {
            assert!(other.status.success(), "rank {}: {}", at + 1, stderr(&other));
            assert_eq!(stdout(&other), "", "only rank 0 speaks");
        }
        first
    }

    pub(crate) fn result(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.place.path().join("r.json")).unwrap()).unwrap()
    }

    fn logs(&self) -> Vec<String> {
        let named = |rank| if rank == 0 { "r.rows".to_owned() } else { format!("r.rank{rank}.rows") };
        (0..self.ranks).map(named).collect()
    }

    /// The report of some of the logs.
    fn report(&self, logs: &[String]) -> Value {
        let mut args: Vec<&str> = vec!["report"];
        args.extend(logs.iter().map(String::as_str));
        args.extend(["--save-result", "again.json", "--save-detailed"]);
        let output = self.place.run(&args);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&std::fs::read(self.place.path().join("again.json")).unwrap()).unwrap()
    }
}

/// The request bodies that a server received, by request id.
pub(crate) fn bodies(server: &Scripted) -> BTreeMap<String, String> {
    server.asked().into_iter().filter_map(|asked| Some((asked.id?, asked.body))).collect()
}

/// Scheduled times relative to the first request, in ms.
fn due(result: &Value) -> Vec<f64> {
    let due: Vec<f64> =
        result["tacho"]["scheduled"].as_array().unwrap().iter().map(|due| due.as_f64().unwrap()).collect();
    due.iter().map(|moment| (moment - due[0]) * 1e3).collect()
}

/// The values that all results of a run share: vLLM's metrics and the per-request values.
fn numbers(result: &Value) -> BTreeMap<String, Value> {
    // Queue times start at a time of rank 0's clock, which each rank converts separately: see
    // `assert_waits_are_near`.
    let own = ["date", "tacho", "num_prompts", "start_times", "queue_times"];
    let fields = result.as_object().unwrap().iter().filter(|(key, _)| !own.contains(&key.as_str()));
    fields.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[test]
fn ranks_together_send_what_one_sends_and_report_it_once() {
    let load = ["--num-prompts", "30", "--request-rate", "60", "--seed", "7", "--verbose"];
    let (one, three) = (server(), server());
    let (alone, together) = (Run::new(&one, 1, &load), Run::new(&three, 3, &load));
    assert!(alone.finish().status.success());
    let output = together.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bodies(&one), bodies(&three));
    assert_eq!(bodies(&one).len(), 30);
    let (single, result) = (alone.result(), together.result());
    for (one, other) in due(&single).iter().zip(due(&result)) {
        assert!((one - other).abs() < 1.0, "due {one} and {other} ms after the first");
    }
    assert_eq!(single["tacho"]["ranks"], Value::Null);
    assert_eq!(result["completed"], 30);
    let ranks = result["tacho"]["ranks"].as_array().unwrap();
    assert_eq!(ranks.iter().map(|rank| rank["requests"].as_u64().unwrap()).collect::<Vec<_>>(), [10, 10, 10]);
    assert!(ranks[1]["clock_bound_ms"].as_f64().unwrap() < 50.0, "{ranks:?}");
    assert!(result["tacho"]["client"]["clock_bound_ms"].is_number());
    assert!(stdout(&output).contains("Rank 2 ("), "{}", stdout(&output));
    // The logs of all ranks in any order, or rank 0's alone, give the run.
    let mut logs = together.logs();
    assert_eq!(numbers(&together.report(&logs[..1])), numbers(&result));
    logs.reverse();
    assert_eq!(numbers(&together.report(&logs)), numbers(&result));
}

#[test]
fn ranks_share_the_times_of_stages() {
    let load = ["--stages", "calm:1s@10, peak:1s@20..60, limit:1s@15", "--seed", "7"];
    let (one, two) = (server(), server());
    let (alone, together) = (Run::new(&one, 1, &load), Run::new(&two, 2, &load));
    assert!(alone.finish().status.success());
    let output = together.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(bodies(&one), bodies(&two));
    let (single, result) = (alone.result(), together.result());
    assert_eq!(due(&single).len(), 10 + 40 + 15);
    for (one, other) in due(&single).iter().zip(due(&result)) {
        assert!((one - other).abs() < 1.0, "due {one} and {other} ms after the first");
    }
    assert_eq!(single["tacho"]["labels"], result["tacho"]["labels"]);
    let requests = |stage: &str| result["tacho"]["groups"]["stage"][stage]["completed"].as_u64();
    assert_eq!([requests("calm"), requests("peak"), requests("limit")], [Some(10), Some(40), Some(15)]);
}

#[test]
fn concurrency_limits_of_stages_are_shared() {
    let server = server();
    let run = Run::new(&server, 2, &["--stages", "a:500ms@c2, b:500ms@c6"]);
    let output = run.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    let result = run.result();
    // Each rank sends 3 at a time. Its rows are placed on rank 0's clock one by one: one that follows another within a
    // microsecond may seem to overlap with it.
    assert!(result["tacho"]["peak_concurrency"].as_u64().unwrap() <= 8, "{}", result["tacho"]["peak_concurrency"]);
    for stage in ["a", "b"] {
        assert!(result["tacho"]["groups"]["stage"][stage]["completed"].as_u64() > Some(0), "{stage}");
    }
    let fewer = Run::new(&server, 2, &["--stages", "a:500ms@c1"]);
    let output = fewer.start(0).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there are 2 ranks: use at least 2"), "{}", stderr(&output));
}

#[test]
fn a_rank_that_is_killed_costs_its_own_requests_alone() {
    std::thread::scope(|scope| {
        for moment in [0, 5, 40] {
            scope.spawn(move || a_killed_rank_costs_its_own_requests(moment));
        }
    });
}

/// Kills a rank after the server received `moment` requests.
fn a_killed_rank_costs_its_own_requests(moment: usize) {
    let server = server();
    let run = Run::new(&server, 3, &["--num-prompts", "90", "--request-rate", "60", "--rendezvous-timeout", "15"]);
    let mut ranks = run.start_all();
    while server.asked().len() < moment {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut killed = ranks.remove(1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let outputs: Vec<Output> = ranks.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    if outputs[0].status.success() {
        // The rank had finished before it was killed.
        assert_eq!(run.result()["completed"], 90);
        return;
    }
    assert_eq!(outputs[0].status.code(), Some(1), "{}", stderr(&outputs[0]));
    assert!(outputs[1].status.success(), "{}", stderr(&outputs[1]));
    let result = run.result();
    let ranks = result["tacho"]["ranks"].as_array().unwrap();
    let have = |rank: usize| ranks[rank]["requests"].as_u64().unwrap();
    assert_eq!((have(0), have(2)), (30, 30), "{ranks:?}");
    let caveat = result["tacho"]["caveats"][0]["text"].as_str().unwrap();
    assert!(caveat.contains("rank 1 on"), "{caveat}");
    let missing = format!("{} requests of its share are missing", 30 - have(1));
    assert!(caveat.contains(&missing), "{caveat}: {missing}");
    assert_eq!(result["completed"].as_u64(), Some(60 + have(1)));
}

#[test]
fn the_logs_are_the_run_where_rank_0_is_lost() {
    let server = server();
    let run = Run::new(&server, 3, &["--num-prompts", "90", "--request-rate", "60"]);
    let mut ranks = run.start_all();
    while server.asked().len() < 30 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut killed = ranks.remove(0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    for rank in ranks {
        let output = rank.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains("rows are in") && stderr(&output).contains("lost rank 0"),
            "{}",
            stderr(&output)
        );
    }
    let result = run.report(&run.logs());
    let finished = result["completed"].as_u64().unwrap();
    assert!((60..90).contains(&finished), "the shares of the others are whole: {finished}");
    let ids =
        result["tacho"]["caveats"].as_array().unwrap().iter().filter(|caveat| caveat["kind"] == "rank_lost").count();
    assert_eq!(ids, 1, "{}", result["tacho"]["caveats"]);
}

#[test]
fn a_lost_rank_ends_the_run_where_that_is_asked_for() {
    let server = server();
    let run = Run::new(&server, 3, &["--num-prompts", "600", "--request-rate", "60", "--on-lost-rank", "stop"]);
    let mut ranks = run.start_all();
    while server.asked().len() < 20 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut killed = ranks.remove(2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let outputs: Vec<Output> = ranks.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    assert_eq!(outputs[0].status.code(), Some(1), "{}", stderr(&outputs[0]));
    assert!(outputs[1].status.success(), "{}", stderr(&outputs[1]));
    let result = run.result();
    assert!(result["completed"].as_u64().unwrap() < 400, "{}", result["completed"]);
    let kinds: Vec<&str> =
        result["tacho"]["caveats"].as_array().unwrap().iter().map(|caveat| caveat["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"rank_lost") && kinds.contains(&"ended_by_lost_rank"), "{kinds:?}");
}

#[test]
fn a_signal_to_any_rank_ends_all_of_them() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "600", "--request-rate", "60"]);
    let ranks = run.start_all();
    while server.asked().len() < 20 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-TERM", &ranks[1].id().to_string()]).status().unwrap();
    assert!(killed.success());
    for rank in ranks {
        let output = rank.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    }
    let result = run.result();
    assert_eq!(result["tacho"]["interrupted"], true);
    assert!(result["tacho"]["caveats"].as_array().unwrap().iter().all(|caveat| caveat["kind"] != "rank_lost"));
}

#[test]
fn rows_may_stay_in_files_until_the_end() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "20", "--max-concurrency", "4", "--gather", "files"]);
    let output = run.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(run.result()["completed"], 20);
    assert_eq!(numbers(&run.report(&run.logs())), numbers(&run.result()));
    assert_waits_are_near(&run.report(&run.logs()), &run.result());
}

#[test]
fn rows_of_other_ranks_are_in_the_log_of_rank_0_during_the_run() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "3000", "--request-rate", "25"]);
    let mut ranks = run.start_all();
    let logged = || -> Option<u64> {
        let output = run.place.run(&["report", "r.rows", "--save-result", "now.json"]);
        let text = std::fs::read(run.place.path().join("now.json")).ok().filter(|_| output.status.success())?;
        serde_json::from_slice::<Value>(&text).unwrap()["completed"].as_u64()
    };
    // Rank 0 sends every second request.
    let more_than_its_own = (0..120).any(|_| {
        std::thread::sleep(Duration::from_millis(250));
        logged().is_some_and(|rows| rows > server.asked().len() as u64 / 2 + 2)
    });
    for rank in &mut ranks {
        rank.kill().unwrap();
        rank.wait().unwrap();
    }
    assert!(more_than_its_own, "{:?} rows of {} requests", logged(), server.asked().len());
}

/// Asserts that queue times of the same requests agree within the clock error on one machine.
fn assert_waits_are_near(one: &Value, other: &Value) {
    let waits = |result: &Value| -> Vec<f64> {
        result["queue_times"].as_array().into_iter().flatten().map(|wait| wait.as_f64().unwrap()).collect()
    };
    let (one, other) = (waits(one), waits(other));
    assert_eq!(one.len(), other.len());
    let near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-4;
    assert!(one.iter().zip(&other).all(near), "{one:?} {other:?}");
}

#[test]
fn a_run_by_time_goes_on_at_all_ranks() {
    let (one, two) = (server(), server());
    let load = ["--max-concurrency", "2", "--duration", "1.5"];
    for (server, ranks) in [(&one, 1), (&two, 2)] {
        let run = Run::new(server, ranks, &load);
        let output = run.finish();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(run.result()["completed"].as_u64().unwrap() > 8, "{}", run.result()["completed"]);
    }
    // Both servers together received the same requests.
    let (one, two) = (bodies(&one), bodies(&two));
    let common = one.iter().filter(|(id, _)| two.contains_key(*id)).count();
    assert!(common > 8);
    assert!(one.iter().all(|(id, body)| two.get(id).is_none_or(|other| other == body)));
}

#[test]
fn every_rank_balances_over_all_replicas() {
    let (one, two) = (server(), server());
    let mut run = Run::new(&one, 2, &["--num-prompts", "10"]);
    run.url = format!("http://{},http://{}", one.address, two.address);
    let output = run.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((bodies(&one).len(), bodies(&two).len()), (5, 5));
    let groups = &run.result()["tacho"]["groups"]["replica"];
    assert_eq!(
        (&groups[one.address.to_string()]["completed"], &groups[two.address.to_string()]["completed"]),
        (&5.into(), &5.into())
    );
}

#[test]
fn what_ranks_cannot_do_is_said_in_a_line() {
    let server = server();
    for (args, says) in [
        (&["--rank", "2", "--ranks", "2"][..], "--rank 2 and --ranks 2"),
        (&["--rank", "1"], "--rank needs --ranks"),
        (&["--rank", "0", "--ranks", "2", "--rendezvous", "nowhere"], "is not HOST:PORT"),
        (&["--rank", "0", "--ranks", "2", "--rendezvous", "10.0.0.1:7"], "TACHO_RENDEZVOUS_TOKEN"),
        (&["--rank", "0", "--ranks", "2", "--rendezvous", "127.0.0.1:7", "--cache-salt", "random"], "--cache-salt"),
        (&["--rank", "0", "--ranks", "2", "--rendezvous", "127.0.0.1:7", "--gather", "files", "--no-log"], "--no-log"),
        (&["--rank", "0", "--ranks", "2", "--rendezvous", "127.0.0.1:7", "--rendezvous-cert", "x"], "go together"),
    ] {
        let run = Run::new(&server, 1, args);
        let output = run.finish();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
    let meet = format!("127.0.0.1:{}", free_port());
    let alone =
        Run::new(&server, 1, &["--rendezvous", &meet, "--rank", "0", "--ranks", "2", "--rendezvous-timeout", "0.2"]);
    let output = alone.finish();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("missing: rank 1"), "{}", stderr(&output));
}

#[test]
fn all_ranks_end_when_rank_0_cannot_start_its_workers() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "800", "--workers", "400"]);
    // 400 threads with stacks of 2 MiB exceed the limit.
    let mut rank_0 = limited(&run.command(0), "ulimit -v 600000").spawn().unwrap();
    let mut rank_1 = run.start(1);
    for child in [&mut rank_0, &mut rank_1] {
        let ended = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        assert!(ended, "a rank waits for ever");
    }
    let [rank_0, rank_1] = [rank_0, rank_1].map(|child| child.wait_with_output().unwrap());
    assert!(stderr(&rank_0).contains("of 400 cannot be started: use fewer --workers"), "{}", stderr(&rank_0));
    assert_eq!((rank_0.status.code(), rank_1.status.code()), (Some(1), Some(1)), "{}", stderr(&rank_1));
}
