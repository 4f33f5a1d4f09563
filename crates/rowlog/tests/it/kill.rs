//! A writer that is killed without warning: every row that was reported as logged is there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::{ops::Range, path::Path, time::Duration};

use tacho_rowlog::Stored;

use crate::sample::{log, parts, plausible, read};

const DIRECTORY: &str = "TACHO_TEST_LOG";

/// The process that is killed: this test program, started again for this test only.
#[test]
#[ignore = "started by the test below"]
fn writer() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let mut log = log(Path::new(&directory), &[]);
    let mut out = std::io::stdout();
    for index in 0.. {
        log.append(parts(&[plausible(index, 200)])).unwrap();
        writeln!(out, "\nlogged {index}").unwrap();
    }
}

fn killed_after(directory: &Path, time: Duration) -> Option<usize> {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::writer", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let mut lines = out.lines().map(Result::unwrap);
    let logged = |line: String| line.strip_prefix("logged ").and_then(|index| index.parse().ok());
    let first = lines.by_ref().find_map(logged);
    let reader = std::thread::spawn(move || lines.filter_map(logged).last());
    std::thread::sleep(time);
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap().or(first)
}

#[test]
fn killed_at_any_moment_it_loses_no_row_that_was_logged() {
    kill_at(0..30);
}

#[test]
#[ignore = "slow: many processes"]
fn slow_group_killed_at_many_moments_it_loses_no_row_that_was_logged() {
    kill_at(30..200);
}

fn kill_at(moments: Range<u64>) {
    for moment in moments {
        let directory = tempfile::tempdir().unwrap();
        let last = killed_after(directory.path(), Duration::from_micros(moment * 7919 % 30_000)).unwrap();
        let rows = read(directory.path());
        assert!(rows.len() > last, "{} rows after {last} was logged", rows.len());
        assert!(rows.iter().enumerate().all(|(index, row)| *row == plausible(index, 200)));
        assert!(Stored::open(directory.path()).unwrap().segments()[0].tail().is_ok());
    }
}
