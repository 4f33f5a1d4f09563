//! The live terminal view at four sizes, character for character. `UPDATE_SNAPSHOTS=1` rewrites the files.

use std::{path::Path, sync::Arc};

use tacho_core::StageSpan;
use tacho_core::live::{Histogram, LoadTitle, Output};
use tacho_report::live::{Page, Point, Snapshot, View, text};

/// Pseudorandom numbers from 0 to 1, the same in every run.
fn noise(at: usize) -> f64 {
    (at as f64 * 0.754_877_666).fract()
}

/// Half a second of a run whose load doubles after a minute.
fn point(at: usize) -> Point {
    let load = if at < 120 { 1.0 } else { 2.0 };
    let times = [0.03, 0.012, 0.011, 0.6].map(|seconds| {
        let mut times = Histogram::default();
        (0..20).for_each(|of| times.add(seconds * load * (1.0 + noise(20 * at + of))));
        times
    });
    let percentiles = |times: &Histogram| Some([0.5, 0.9, 0.99].map(|share| times.quantile(share).unwrap() * 1e3));
    Point {
        time: (at + 1) as f64 / 2.0,
        requests_per_s: 20.0 * load * (0.8 + 0.4 * noise(at)),
        target_per_s: Some(20.0 * load),
        tokens_per_s: 1500.0 * load * (0.9 + 0.2 * noise(at)),
        in_flight: (12.0 * load) as u64,
        waiting: Some(if at < 120 { 0 } else { at as u64 - 120 }),
        latency: times.each_ref().map(percentiles),
        bands: times.each_ref().map(Histogram::bands),
    }
}

fn running() -> Snapshot {
    Snapshot {
        phase: "benchmark".into(),
        title: Arc::new(LoadTitle {
            model: "meta-llama/Llama-3.1-8B-Instruct".into(),
            server: "http://127.0.0.1:8000".into(),
            load: "20 to 40 req/s, concurrency 64".into(),
        }),
        finished: 2700,
        total: 6000,
        failed: 2,
        in_flight: 24,
        elapsed: 90.0,
        left: Some(110.0),
        latency: [Some([45.6, 71.2, 118.0]), Some([18.1, 22.9, 24.0]), None, Some([912.0, 1140.0, 12_345.0])],
        failures: [("timed_out", 2)].into(),
        history: (0..180).map(point).collect(),
        lines: vec!["Starting main benchmark run...".into(), "warning: slow\\x1b[2J".into()],
        waiting: Some(60),
        server: vec![("running", 24.0), ("waiting", 3.0), ("KV cache %", 12.34), ("prefix hits %", 89.6)],
        late: Some(0.2),
        outer: vec![("sweep", 3, 12)],
        ..Snapshot::default()
    }
}

fn check(name: &str, view: View, size: (usize, usize)) {
    check_of(&running(), name, view, size);
}

fn check_of(shown: &Snapshot, name: &str, view: View, size: (usize, usize)) {
    let found = text(shown, view, size);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live").join(name).with_extension("txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, wanted, "{name}: UPDATE_SNAPSHOTS=1 accepts the new text");
}

#[test]
fn the_overview_at_four_sizes() {
    for size in [(60, 16), (80, 24), (120, 40), (200, 50)] {
        check(&format!("{}x{}", size.0, size.1), View::default(), size);
    }
}

#[test]
fn the_other_pages() {
    for (name, page) in [("latency", Page::Latency), ("load", Page::Load), ("messages", Page::Messages)] {
        check(name, View { page, ..View::default() }, (80, 24));
    }
    let stage = |name: &str, start| StageSpan { name: name.into(), start, ..StageSpan::default() };
    let stages = [stage("warm", 0.0), stage("peak", 58.0), stage("spike", 66.0), stage("later", 99.0)].into();
    check_of(&Snapshot { stages, ..running() }, "stages", View::default(), (80, 24));
    let latency = [Some([45.6, 71.2, 118.0]), None, None, Some([912.0, 1140.0, 12_345.0])];
    let speech = Snapshot { output: Output::Audio, latency, ..running() };
    check_of(&speech, "speech", View { metric: 2, ..View::default() }, (80, 24));
    check_of(&speech, "speech-latency", View { page: Page::Latency, ..View::default() }, (80, 24));
    check("help", View { help: true, frozen: true, ..View::default() }, (60, 16));
}

#[test]
fn a_legend_names_only_what_is_drawn() {
    let load = |history: Vec<Point>| {
        text(&Snapshot { history, ..running() }, View { page: Page::Load, ..View::default() }, (80, 40))
    };
    let names = ["━achieved", "━target", "━in flight", "━queued"];
    let paced = load(running().history);
    assert!(names.iter().all(|name| paced.contains(name)), "{paced}");
    let free = |point: Point| Point { target_per_s: None, waiting: None, ..point };
    let burst = load(running().history.into_iter().map(free).collect());
    let drawn = names.map(|name| burst.contains(name));
    assert_eq!(drawn, [true, false, true, false], "{burst}");
}

#[test]
fn every_size_has_what_matters() {
    for (width, height) in [(60, 16), (61, 17), (79, 23), (100, 30), (200, 16), (60, 50), (300, 90)] {
        let text = text(&running(), View::default(), (width, height));
        assert!(text.lines().all(|line| line.chars().count() <= width) && text.lines().count() == height);
        for part in [
            "Llama-3.1-8B",
            "01:30",
            "2700 of 6000",
            "01:50 left",
            "target 40.0",
            "2 failed",
            "118",
            "60 queued",
            "q end",
        ] {
            assert!(text.contains(part), "{part} at {width}x{height}:\n{text}");
        }
    }
    for size in [(1, 1), (5, 2), (59, 16), (60, 15), (300, 3), (3, 300)] {
        text(&running(), View::default(), size);
        text(&Snapshot::default(), View::default(), size);
    }
    assert!(text(&running(), View::default(), (40, 5)).starts_with("2700/6000 01:30"));
    for page in [Page::Overview, Page::Latency, Page::Load, Page::Messages] {
        text(&Snapshot::default(), View { page, recent: true, ..View::default() }, (60, 16));
    }
}

#[test]
fn keys_choose_what_is_shown() {
    let mut view = View::default();
    for (key, page) in [(b'2', Page::Latency), (b'\t', Page::Load), (b'4', Page::Messages), (b'\t', Page::Overview)] {
        view.key(key);
        assert_eq!(view.page, page);
    }
    view.key(b'?');
    assert!(view.help);
    view.key(b'm');
    assert_eq!((view.metric, view.help, view.recent), (1, false, false));
    view.key(b'w');
    assert!(view.recent);
}
