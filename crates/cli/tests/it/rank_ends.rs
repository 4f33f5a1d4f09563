//! How distributed runs end: signals before the start and during calls, slow disks, killed ranks.

use std::process::{Child, Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::ranks::{Run, bodies, server};
use crate::{scripted::Scripted, tacho::stderr};

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until the server has received this many requests.
fn wait_for_requests(server: &Scripted, count: usize) {
    while server.asked().len() < count {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn outputs(ranks: Vec<Child>) -> Vec<Output> {
    ranks.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

fn caveats(result: &Value) -> String {
    result["tacho"]["caveats"].to_string()
}

/// A library that makes the sync of a log at its end take 12 s, longer than rank 0 waits for a message.
fn slow_sync(run: &Run) -> String {
    let (source, library) = (run.place.path().join("slow.c"), run.place.path().join("slow.so"));
    let code = r#"
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        int fsync(int file) {
            char link[64], path[4096] = {0};
            snprintf(link, sizeof link, "/proc/self/fd/%d", file);
            if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, ".arrows")) sleep(12);
            return 0;
        }
    "#;
    std::fs::write(&source, code).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(built.success());
    library.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "slow: a sync of 12 s"]
fn a_rank_that_syncs_its_log_for_long_is_not_lost() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "20", "--request-rate", "60"]);
    let library = slow_sync(&run);
    let slow = run.command(1).env("LD_PRELOAD", library).spawn().unwrap();
    for output in outputs(vec![run.start(0), slow]) {
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(run.result()["completed"], 20);
    assert!(!caveats(&run.result()).contains("rank_lost"), "{}", caveats(&run.result()));
}

#[test]
fn a_rank_that_was_suspended_goes_on() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "120", "--request-rate", "60"]);
    let ranks = run.start_all();
    wait_for_requests(&server, 10);
    for _ in 0..40 {
        signal(&ranks[1], "-STOP");
        signal(&ranks[1], "-CONT");
    }
    signal(&ranks[1], "-STOP");
    std::thread::sleep(Duration::from_millis(600));
    signal(&ranks[1], "-CONT");
    for output in outputs(ranks) {
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(run.result()["completed"], 120);
}

#[test]
fn a_signal_before_the_start_interrupts_all_ranks() {
    // Rank 2 never comes: the others wait for it.
    for signaled in [0, 1] {
        let server = server();
        let run = Run::new(&server, 3, &["--num-prompts", "30", "--request-rate", "60"]);
        let ranks = vec![run.start(0), run.start(1)];
        let joined = || run.place.path().join("r.rank1.rows").exists();
        while !joined() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(200));
        signal(&ranks[signaled], "-INT");
        for (rank, output) in outputs(ranks).iter().enumerate() {
            let text = stderr(output);
            assert_eq!(output.status.code(), Some(130), "signal at rank {signaled}, rank {rank}: {text}");
            assert!(text.contains("stopped before the benchmark began") && !text.contains("rows are in"), "{text}");
        }
        assert!(bodies(&server).is_empty());
    }
}

#[test]
fn a_run_that_never_begins_leaves_no_rows() {
    let server = server();
    let seeds = ["1", "1", "2"];
    let seeded = |rank: usize| {
        let further = ["--num-prompts", "30", "--request-rate", "60", "--on-lost-rank", "stop", "--seed", seeds[rank]];
        further.map(str::to_owned)
    };
    let run = Run::new(&server, 3, &[]);
    let began = std::time::Instant::now();
    let ranks = (0..3).map(|rank| run.command(rank).args(seeded(rank)).spawn().unwrap()).collect();
    let outputs = outputs(ranks);
    assert!(began.elapsed() < Duration::from_secs(60), "the rendezvous timeout is 300 s");
    for output in &outputs {
        let text = stderr(output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("requests or their times differ") && !text.contains("rows are in"), "{text}");
    }
    assert!(stderr(&outputs[1]).contains("rank 2 on"), "{}", stderr(&outputs[1]));
}

#[test]
fn a_lost_rank_of_a_closed_loop_lacks_only_what_it_sent() {
    let server = server();
    let run = Run::new(&server, 2, &["--max-concurrency", "4", "--duration", "3"]);
    let mut ranks = run.start_all();
    wait_for_requests(&server, 40);
    let mut killed = ranks.remove(1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = outputs(ranks).remove(0);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result = run.result();
    let rank = &result["tacho"]["ranks"][1];
    let missing = rank["planned"].as_u64().unwrap() - rank["requests"].as_u64().unwrap();
    // It had two requests in flight; requests that were generated ahead are not missing.
    assert!(missing <= 2, "{rank}");
    let rows = result["tacho"]["ranks"].as_array().unwrap().iter().map(|rank| rank["requests"].as_u64().unwrap());
    assert!(result["num_prompts"].as_u64().unwrap() <= rows.sum::<u64>() + 4, "{}", result["num_prompts"]);
}

#[test]
fn the_log_of_a_killed_rank_is_read_with_gather_files() {
    let server = server();
    let run = Run::new(&server, 2, &["--num-prompts", "120", "--request-rate", "60", "--gather", "files"]);
    let mut ranks = run.start_all();
    wait_for_requests(&server, 60);
    std::thread::sleep(Duration::from_millis(600));
    let mut killed = ranks.remove(1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = outputs(ranks).remove(0);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let result = run.result();
    let rows = result["tacho"]["ranks"][1]["requests"].as_u64().unwrap();
    assert!((25..60).contains(&rows), "{}", result["tacho"]["ranks"]);
    assert_eq!(result["completed"].as_u64(), Some(60 + rows));
}
