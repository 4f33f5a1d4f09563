//! Invalid results: an error or a value, never a panic, an abort or unbounded memory, in every use of them.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-report --test it fuzz -- --nocapture --test-threads=1`
//! tries a million of each kind on all cores.

use std::path::Path;

use tacho_decide::compare::Confidence;
use tacho_record::{StoredRun, restored::restored};
use tacho_report::compare::{CompareSpec, Comparison, Latency, load, verdicts};
use tacho_report::html::run::{About, write_page};
use tacho_report::{dashboard::Dashboard, results, tables::sweep};
use tacho_testkit::{Counted, fuzz_files, golden_files};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Inputs of each kind in an ordinary run.
const CASES: u64 = 200;

/// Small results of vLLM, of different kinds.
fn good() -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = Vec::new();
    for directory in std::fs::read_dir(tacho_testkit::golden_path("result")).unwrap().flatten() {
        let inside = std::fs::read_dir(directory.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let texts = inside.filter(|path| path.extension().is_some_and(|end| end == "json"));
        files.extend(texts.filter_map(|path| std::fs::read(path).ok()).filter(|bytes| bytes.len() < 6_000));
    }
    files.truncate(20);
    files.push(br#"{"avg_latency": 0.5, "latencies": [0.4, 0.6], "percentiles": {"50": 0.5}}"#.to_vec());
    files.push(br#"{"elapsed_time": 2.0, "num_requests": 4, "total_num_tokens": 40, "requests_per_second": 2.0, "tokens_per_second": 20.0}"#.to_vec());
    assert!(files.len() > 5 && !golden_files("result", ".case.json").is_empty());
    files
}

fn spec() -> CompareSpec {
    CompareSpec {
        x: "# of max concurrency.".into(),
        latency: Latency::P99,
        ttft: (3000.0, 5.0),
        tpot: (100.0, 5.0),
        confidence: Confidence::USUAL,
        margin: 0.02,
        limits_set: true,
        noise: None,
        debug: false,
        plots: true,
        keys: None,
    }
}

/// Selects the results that are rendered, not only read: pages and charts take a hundred times as long.
fn is_drawn(bytes: &[u8]) -> bool {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) < 4
}

#[test]
fn fuzz_results() {
    let good = good();
    let prepare = |directory: &Path| std::fs::write(directory.join("w.json"), &good[0]).unwrap();
    fuzz_files("results", &good, CASES, prepare, |directory, bytes| {
        let path = directory.join("r.json");
        std::fs::write(&path, bytes).unwrap();
        for dict in results::read(&path).unwrap_or_default() {
            let _ = (StoredRun::from_dict(&dict).is_ok(), sweep::summary_csv(std::slice::from_ref(&dict)).len());
            if let Ok(Some(run)) = restored(&dict, |_| ())
                && is_drawn(bytes)
            {
                write_page(&run.record, &About::default(), &mut std::io::sink()).unwrap();
            }
            let _ = sweep::stats_csv(&[dict]).len();
        }
        if is_drawn(bytes) {
            compared(directory, &path);
        }
    });
}

fn compared(directory: &Path, path: &Path) {
    if let Ok(sides) = load(&[directory.join("w.json"), path.to_owned()]) {
        let (found, joined) = (verdicts(&sides, &spec()), Comparison::new(&sides, &spec()));
        if let (Ok(found), Ok(joined)) = (found, joined) {
            let _ = (joined.markdown(&spec()).len(), joined.html(&sides, &found, &spec()).len());
        }
    }
    if let Ok(dashboard) = Dashboard::read(directory) {
        let _ = (dashboard.markdown().len(), dashboard.rows());
    }
}
