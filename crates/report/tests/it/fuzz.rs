//! Broken results: an error or a value, never a panic, an abort or memory without end, whatever is made of them.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-report --test it fuzz` tries a million of each kind.

use tacho_metrics::compare::Confidence;
use tacho_metrics::restored::restored;
use tacho_metrics::{ServerMetrics, StoredRun};
use tacho_report::compare::{CompareSpec, Comparison, Latency, load, verdicts};
use tacho_report::dashboard::Dashboard;
use tacho_report::html::run::{About, write_page};
use tacho_report::{results, sweep_table};
use tacho_testkit::{fuzz, golden_files};

/// Inputs of each kind in an ordinary run.
const FEW: u64 = 200;

/// Results of vLLM's, small ones of different kinds.
fn good() -> Vec<Vec<u8>> {
    let mut files: Vec<Vec<u8>> = Vec::new();
    for folder in std::fs::read_dir(tacho_testkit::golden_path("result")).unwrap().flatten() {
        let inside = std::fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|entry| entry.path());
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
        noise: None,
        debug: false,
        plots: true,
        keys: None,
    }
}

#[test]
fn fuzz_results() {
    let folder = tempfile::tempdir().unwrap();
    let (path, whole) = (folder.path().join("r.json"), folder.path().join("w.json"));
    let good = good();
    std::fs::write(&whole, &good[0]).unwrap();
    fuzz(&good, FEW, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        for dict in results::read(&path).unwrap_or_default() {
            let _ = (StoredRun::from_dict(&dict).is_ok(), sweep_table::summary_csv(std::slice::from_ref(&dict)).len());
            if let Ok(Some(run)) = restored(&dict, |_| ()) {
                write_page(&run.record, &About::default(), &mut std::io::sink()).unwrap();
            }
            let _ = sweep_table::stats_csv(&[dict]).len();
        }
        if let Ok(sides) = load(&[whole.clone(), path.clone()]) {
            let (found, joined) = (verdicts(&sides, &spec()), Comparison::new(&sides, &spec()));
            if let (Ok(found), Ok(joined)) = (found, joined) {
                let _ = (joined.markdown().len(), joined.html(&sides, &found, &spec()).len());
            }
        }
        if let Ok(dashboard) = Dashboard::read(folder.path()) {
            let _ = (dashboard.markdown().len(), dashboard.rows());
        }
    });
}

#[test]
fn fuzz_server_metrics() {
    let page =
        b"# HELP a b\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model=\"m\",e=\"\\\"x\"} 3.0\n\
        # TYPE b_total counter\nb_total{} +Inf 1700\nc_bucket{le=\"0.5\"} 7\n";
    fuzz(&[page.to_vec()], FEW, |bytes| {
        let mut metrics = ServerMetrics::default();
        metrics.add(0.0, &String::from_utf8_lossy(bytes));
        metrics.add(1.0, &String::from_utf8_lossy(bytes));
        let _ = metrics.prefix_cache_hit_rate();
    });
}
