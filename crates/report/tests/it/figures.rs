//! The pages of figures: sweeps, searches, frontiers and comparisons, in a browser.

use tacho_core::json::{Dict, parse};
use tacho_report::compare::{CompareSpec, Comparison, load, verdicts};
use tacho_report::html::{Head, chart_page};
use tacho_report::plots::pareto::{Pareto, ParetoSpec};
use tacho_report::plots::sweep::{Combination, SweepPlotSpec, figures};
use tacho_report::plots::{ScaleKind, search};

use crate::browser::{STEPS, fine, used};

const HOSTILE: &str = "</script><img src=x onerror=\\\"document.title='owned'\\\">";

fn combination(mode: &str, level: u32) -> Combination {
    let run = |number: u32| {
        let text = format!(
            r#"{{"mode": "{mode}", "max_concurrency": {level}, "request_rate": "inf", "run_number": {number},
                "duration": 2.0, "completed": 10, "request_throughput": {level}.5, "output_throughput": {0}.0,
                "total_token_throughput": {0}.0, "median_ttft_ms": {1}.0}}"#,
            level * 100 + number,
            level * 3 + number
        );
        parse(&text).unwrap().as_dict().unwrap().clone()
    };
    Combination { path: "summary.json".into(), runs: vec![run(0), run(1)] }
}

fn sweep() -> Vec<Combination> {
    let levels = [1, 2, 4, 8];
    ["plain", HOSTILE].into_iter().flat_map(|mode| levels.map(|level| combination(mode, level))).collect()
}

fn spec(x: &str) -> SweepPlotSpec {
    SweepPlotSpec {
        fig_by: Vec::new(),
        row_by: Vec::new(),
        col_by: Vec::new(),
        curve_by: None,
        x: x.into(),
        y: "median_ttft_ms".into(),
        filters: Vec::new(),
        binners: Vec::new(),
        scale_x: ScaleKind::Linear,
        scale_y: ScaleKind::Symlog,
        name: "FIGURE".into(),
        error_bars: true,
        panel: 4.0,
    }
}

/// User actions on any page of figures.
const USE: &str = r##"(async () => {
  await drawn();
  const plots = Draw.plots;
  check("pictures: " + plots.length, plots.length >= LEAST);
  for (const plot of plots) {
    const pixels = plot.pen.getImageData(0, 0, plot.canvas.width, plot.canvas.height).data;
    check("ink on " + plot.options.title, pixels.some((value, at) => at % 4 === 3 && value > 0));
    check("it fills the width", plot.canvas.clientWidth > 300);
  }
  const first = plots[0], layer = first.layers.find((one) => one.y && one.x.length > 2);
  first.canvas.setPointerCapture = () => {};
  const middle = layer.x.length >> 1;
  fire(first, "pointermove", first.px(layer.x[middle]), first.py(layer.y[middle], layer.axis));
  await wait(60);
  check("hover tells a value", !first.tip.hidden && first.tip.textContent.length > 3);
  fire(first, "pointerdown", 200, 80);
  fire(first, "pointermove", 400, 80);
  fire(first, "pointerup", 400, 80);
  await wait(60);
  check("dragging zooms", first.view !== null);
  first.canvas.dispatchEvent(new MouseEvent("dblclick"));
  check("a double click shows all", first.view === null);
  const button = document.querySelector(".legend button");
  button.click();
  await wait(60);
  check("a legend hides", button.getAttribute("aria-pressed") === "false" && first.layers.some((one) => !one.shown));
  clean();
  document.body.dataset.use = "fine";
})().catch((problem) => { document.body.dataset.use = String(problem); });"##;

fn in_browser(page: &str, min: usize) {
    assert!(!page.contains("<img") && page.contains("default-src 'none'"));
    for way in ["http:", "https:", "url(", "@import", "src=\"", "href="] {
        assert!(!page.contains(way), "{way}");
    }
    if let Some(text) = used(page, &format!("{STEPS}{}", USE.replace("LEAST", &min.to_string()))) {
        fine(&text);
    }
}

#[test]
fn curves_of_a_sweep_are_those_of_what_was_swept() {
    let (sweep, spec) = (sweep(), spec("max_concurrency"));
    let chart = figures(&sweep, &spec).unwrap()[0].chart(&spec).unwrap().unwrap();
    assert_eq!(chart.title, "Median TTFT against maximum concurrency");
    let page = chart_page(&Head::new("a sweep"), std::slice::from_ref(&chart));
    // A curve for each mode, each with its repeats: two are too few for a band.
    let kinds = ["line", "points", "band"].map(|kind| page.matches(&format!(r#""kind": "{kind}""#)).count());
    assert_eq!(kinds, [2, 2, 0]);
    assert!(page.contains(r#""label": "maximum concurrency (requests)""#) && page.contains("mean of: 2 runs"));
    in_browser(&page, 1);
}

#[test]
fn a_frontier_names_what_was_swept() {
    let spec =
        ParetoSpec { user_count: Some("max_concurrency".into()), gpu_count: None, label_by: None, strict: false };
    let chart = Pareto::new(&sweep(), &spec).unwrap().chart(&spec);
    let page = chart_page(&Head::new("a frontier"), &[chart]);
    assert!(page.contains("maximum concurrency 8") && !page.contains("gpu_count") && !page.contains("gpu count"));
    in_browser(&page, 1);
}

#[test]
fn a_search_has_a_page() {
    let text = r#"{"variable": "request_rate", "criteria": ["p99_ttft_ms<=200.00", "p99_tpot_ms<=20.00"], "curve": [
        {"level": 10, "met": true, "p99_ttft_ms": 50.0, "p99_tpot_ms": 5.0},
        {"level": 15, "met": true, "p99_ttft_ms": 90.0, "p99_tpot_ms": 8.0},
        {"level": 17, "met": true, "p99_ttft_ms": 95.0, "p99_tpot_ms": 8.5, "client_unreliable": true},
        {"level": 20, "met": false, "p99_ttft_ms": 5000.0, "p99_tpot_ms": 9.0}]}"#;
    let chart = search::chart(parse(text).unwrap().as_dict().unwrap(), &[]).unwrap();
    let page = chart_page(&Head::new("a search"), std::slice::from_ref(&chart));
    assert_eq!(page.matches("met, client unreliable").count(), 2, "one point in each panel");
    in_browser(&chart_page(&Head::new("a search"), &[chart]), 2);
}

#[test]
fn two_runs_lie_on_each_other_below_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (name, factor) in [("a.json", 1.0), ("b.json", 1.4)] {
        let times = |base: f64| -> Vec<f64> {
            (0..200).map(|at| factor * (base + f64::from((at * 7919) % 101) / 2000.0)).collect()
        };
        let (ttfts, latencies) = (times(0.05), times(0.3));
        let text = format!(
            r#"{{"duration": 10.0, "completed": 200, "request_throughput": 20.0, "max_concurrency": 8,
                "request_rate": "inf", "model_id": "{HOSTILE}", "output_throughput": 100.0, "p99_ttft_ms": 5.0,
                "p99_tpot_ms": 1.0, "latencies": {latencies:?}, "ttfts": {ttfts:?}}}"#
        );
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        paths.push(path);
    }
    let spec = CompareSpec::usual();
    let sides = load(&paths).unwrap();
    let verdicts = verdicts(&sides, &spec).unwrap();
    let page = Comparison::new(&sides, &spec).unwrap().html(&sides, &verdicts, &spec);
    let (sentence, first) = (page.find("b against a: worse").unwrap(), page.find("data-figure").unwrap());
    assert!(sentence < first, "the sentence comes first");
    assert!(page.contains("Time to first token (TTFT)") && !page.contains("Time between tokens"));
    in_browser(&page, 4);
}

#[test]
fn a_result_without_its_requests_says_so() {
    let dict = parse(
        r#"{"duration": 10.0, "completed": 3, "failed": 0, "request_throughput": 0.3, "p99_ttft_ms": 5.0,
        "latencies": [0.1, 0.2, 0.3], "tacho": {"client": {"verdict": "client: fine <b>"}}}"#,
    );
    let run = tacho_record::StoredRun::from_dict(dict.unwrap().as_dict().unwrap()).unwrap();
    let page = tacho_report::html::run::stored::page(&HOSTILE.replace('\\', ""), &run);
    assert!(page.contains("--save-detailed") && page.contains("client: fine &lt;b&gt;"));
    assert!(page.contains("P99 TTFT (ms)") && !page.contains("Median"));
    in_browser_quietly(&page);
    let empty: Dict = Dict::new();
    assert!(tacho_record::StoredRun::from_dict(&empty).is_ok());
}

/// A page with one line has no legend to use.
fn in_browser_quietly(page: &str) {
    let script = r#"(async () => { await drawn(); check("two pictures", Draw.plots.length === 2); clean();
        document.body.dataset.use = "fine"; })().catch((problem) => { document.body.dataset.use = String(problem); });"#;
    if let Some(text) = used(page, &format!("{STEPS}{script}")) {
        fine(&text);
    }
}
