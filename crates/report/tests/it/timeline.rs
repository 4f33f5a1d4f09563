//! The timeline page: foreign text is escaped, and nothing is loaded.

use tacho_core::FailureKind;
use tacho_metrics::{BoxedRareFields, RareFields, Sample};
use tacho_record::{Measured, RunRecord};
use tacho_report::html::timeline::{Thresholds, save, write_page};

use crate::browser::{STEPS, fine, used};
use crate::given::{Flags, golden};

const HOSTILE: &str = "</script><script>alert(1)</script>\u{202e}&\"'";

fn record(samples: Vec<Sample>) -> RunRecord {
    let case = golden("console/basic.case.json");
    let mut setup = Flags::of(&case).setup();
    setup.model_id = HOSTILE.into();
    RunRecord::compute(setup, Measured { samples: samples.into(), duration: 1.0, ..Measured::default() })
}

fn page(samples: Vec<Sample>) -> String {
    let mut out = Vec::new();
    write_page(&record(samples), Thresholds(25.0, 50.0), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn failed(error: &str) -> BoxedRareFields {
    RareFields { error: error.into(), ..RareFields::default() }.into()
}

fn sample(error: &str) -> Sample {
    Sample { ttft: 0.1, itl: vec![0.01, 0.03].into(), latency: 0.14, rare: failed(error), ..Sample::default() }
}

#[test]
fn hostile_texts_cannot_leave_their_place() {
    let page = page(vec![sample(HOSTILE), sample("")]);
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'));
    // The data, five arrays, and the page's own script.
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (7, 7));
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn nothing_is_fetched() {
    let page = page(vec![sample("")]);
    for word in ["http:", "https:", "src=", "href=", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn ten_thousand_requests_stay_small() {
    let many: Vec<Sample> = (0..1000)
        .map(|at| Sample {
            itl: (0..100).map(|token| 0.01 + f64::from((at * 31 + token * 17) % 89) * 1e-5).collect(),
            ..sample("")
        })
        .collect();
    let size = page(many).len();
    assert!(size < 100_000 * 2 + 60_000, "{size} bytes for 100 000 segments");
}

#[test]
fn failures_and_waits_are_drawn_and_labeled() {
    let failed = Sample {
        dispatched: 0.0,
        sent: 0.2,
        done: 0.5,
        ttft: 0.1,
        itl: vec![0.01].into(),
        failure: Some(FailureKind::Truncated),
        rare: failed(HOSTILE),
        ..Sample::default()
    };
    let good = Sample { done: 0.14, ..sample("") };
    let page = page(vec![failed, good]);
    let script = r##"(async () => {
      await drawn();
      const names = [...document.querySelectorAll("#legend button")].map((button) => button.textContent);
      check("legend: " + names, names.includes("wait for a slot") && names.includes("cut off"));
      const canvas = document.getElementById("plot"), tip = document.getElementById("tip"), edge = canvas.getBoundingClientRect();
      const seen = [];
      for (let x = 110; x < canvas.clientWidth - 20; x += 6) {
        canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: edge.left + x, clientY: edge.top + 60, bubbles: true }));
        if (!tip.hidden) seen.push(tip.textContent);
      }
      check("the wait is told", seen.some((text) => text.includes("Type: wait for a slot")));
      check("the failure is told", seen.some((text) => text.includes("Type: cut off") && text.includes("Failed: truncated")));
      document.querySelector("#legend button").click();
      clean();
      document.body.dataset.use = "fine";
    })().catch((problem) => { document.body.dataset.use = String(problem); });"##;
    if let Some(text) = used(&page, &format!("{STEPS}{script}")) {
        fine(&text);
    }
}

#[test]
fn an_empty_run_has_no_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.html");
    assert!(!save(&record(Vec::new()), Thresholds(25.0, 50.0), &path).unwrap() && !path.exists());
}
