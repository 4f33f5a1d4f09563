//! The page of a run: complete, small, and safe whatever names a server or a user has chosen. If a browser is
//! installed, the page is opened and used in it.

use tacho_core::{FailureKind, Labels};
use tacho_metrics::{Audio, Media, MetricSettings, RareFields, Sample, Setup, Task};
use tacho_record::{Measured, Provenance, RunRecord, ServerFacts};
use tacho_report::html::run::{About, write_page};

use crate::browser::{STEPS, fine, opens, used};

const HOSTILE: &str = "</script><img src=x onerror=\"document.title='owned'\">";

fn setup() -> Setup {
    Setup {
        started: "2026-01-02T03:04:00+00:00".into(),
        label: Some(HOSTILE.into()),
        model_id: HOSTILE.into(),
        tokenizer_id: None,
        metadata: vec![(HOSTILE.into(), HOSTILE.into())],
        request_rate: 20.0,
        max_concurrency: Some(4),
        ..Setup::example()
    }
}

fn sample(index: usize) -> Sample {
    let scheduled = index as f64 * 0.01;
    let noise = (index * 7919 % 97) as f64 / 97.0;
    let failed = index % 40 == 7;
    let itl: Vec<f64> = (0..20).map(|gap| 0.01 + 0.002 * ((gap * 31 + index) % 7) as f64 + noise * 1e-3).collect();
    let ttft = 0.05 + noise * 0.1;
    let latency = ttft + itl.iter().sum::<f64>();
    Sample {
        index,
        scheduled,
        dispatched: scheduled,
        sent: scheduled + noise * 0.02,
        done: scheduled + noise * 0.02 + latency,
        ttft,
        latency: if failed { 0.0 } else { latency },
        itl: itl.into(),
        output_len: if failed { 0 } else { 21 },
        prompt_len: 100 + (index * 37 % 400) as u64,
        failure: failed.then_some(FailureKind::TimedOut),
        rare: RareFields {
            error: if failed { HOSTILE.into() } else { String::new() },
            labels: Labels::NONE.with("adapter", if index.is_multiple_of(2) { "even" } else { HOSTILE }),
            ..RareFields::default()
        }
        .into(),
        ..Sample::default()
    }
}

fn page(count: usize) -> String {
    let samples: Vec<Sample> = (0..count).map(sample).collect();
    let duration = samples.iter().map(|sample| sample.done).fold(0.0, f64::max);
    let mut server = tacho_metrics::ServerMetrics::default();
    for second in 0..5 {
        let page = format!("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {}\n", 3 + second);
        server.add(f64::from(second), &page);
    }
    let measured = Measured { samples: samples.into(), duration, server, ..Measured::default() };
    let mut record = RunRecord::compute(setup(), measured);
    let server = ServerFacts { engine: Some(HOSTILE.into()), version: Some(HOSTILE.into()), ..ServerFacts::default() };
    record.provenance = Provenance { command: Some(HOSTILE.into()), server, ..Provenance::default() };
    let mut out = Vec::new();
    write_page(&record, &About::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn ten_thousand_requests_fit_in_a_megabyte() {
    let page = page(10_000);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn texts_of_others_stay_texts_and_nothing_is_fetched() {
    let page = page(50);
    assert!(!page.contains("<img"), "markup got through");
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
    assert!(page.contains("default-src 'none'") && page.contains("<h2>By adapter</h2>"));
    for way in ["http:", "https:", "url(", "@import", "src=\"", "href="] {
        assert!(!page.contains(way), "{way}");
    }
}

/// The page of a closed loop of speech or images, with a price.
fn media_page(media: Media) -> String {
    let metrics = MetricSettings { price_per_hour: Some(2.0), ..MetricSettings::default() };
    let setup = Setup { task: Task::Media, request_rate: f64::INFINITY, metrics, ..setup() };
    let rare = RareFields { media: Some(media), ..RareFields::default() };
    let one = |index| Sample { rare: rare.clone().into(), output_len: 0, ..sample(index) };
    let samples: Vec<Sample> = (0..6).map(one).collect();
    let measured = Measured { samples: samples.into(), duration: 1.0, ..Measured::default() };
    let mut out = Vec::new();
    write_page(&RunRecord::compute(setup, measured), &About::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn media_have_their_own_metrics_and_no_tokens() {
    let speech = media_page(Media::Audio(Some(Audio { frames: 48_000, duration: 2.0, underrun: 0.0, underruns: 0 })));
    let images = media_page(Media::Images(2));
    for (page, has) in [
        (&speech, &["Audio s/s", "P99 TTFP", "P99 RTF", "Time to first packet (TTFP)", r#""first": "TTFP""#][..]),
        (&images, &["Images/s", "P99 E2EL", r#""first": null"#]),
    ] {
        for text in has.iter().chain(&["Cost per 1,000 requests"]) {
            assert!(page.contains(text), "{text}");
        }
        let (words, _) = page.split_once("<script>").unwrap();
        for text in ["tok/s", "TTFT", "TPOT", "ITL", "Wait for a concurrency slot"] {
            assert!(!words.contains(text), "{text}");
        }
        opens(page);
    }
}

#[test]
fn a_run_without_a_success_has_a_page_too() {
    let failed: Vec<Sample> =
        (0..3).map(|index| Sample { failure: Some(FailureKind::Connect), ..sample(index * 40 + 7) }).collect();
    for samples in [failed, Vec::new()] {
        let record =
            RunRecord::compute(setup(), Measured { samples: samples.into(), duration: 1.0, ..Measured::default() });
        let mut out = Vec::new();
        write_page(&record, &About::default(), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("NOT USABLE: no request succeeded") && !page.contains("class=\"card\""));
        opens(&page);
    }
}

/// User actions; the result is in the page's title: `fine`, or the problem.
const USE: &str = r##"
(async () => {
  await drawn();
  const plots = Draw.plots.filter((plot) => plot.canvas);
  check("pictures: " + plots.length, plots.length >= 10);
  for (const plot of plots) {
    const { width, height } = plot.canvas, pixels = plot.pen.getImageData(0, 0, width, height).data;
    check("ink on " + plot.options.title, pixels.some((value, at) => at % 4 === 3 && value > 0));
  }
  const timed = plots.filter((plot) => plot.options.group === "time"), first = timed[0];
  first.canvas.setPointerCapture = () => {};
  fire(first, "pointermove", 300, 80);
  await wait(60);
  check("hover tells a value", !first.tip.hidden && /tok/.test(first.tip.textContent));
  fire(first, "pointerdown", 200, 80);
  fire(first, "pointermove", 400, 80);
  fire(first, "pointerup", 400, 80);
  await wait(60);
  check("dragging zooms all of them", timed.every((plot) => plot.view && plot.view[0] === first.view[0]));
  first.canvas.dispatchEvent(new MouseEvent("dblclick"));
  check("a double click shows all", timed.every((plot) => plot.view === null));
  const button = document.querySelector(".legend button");
  button.click();
  check("a legend hides", button.getAttribute("aria-pressed") === "false");
  const points = timed.find((plot) => /TTFT of each/.test(plot.options.title)), at = points.layers[0];
  fire(points, "pointermove", points.px(at.x[3]), points.py(at.y[3]));
  await wait(60);
  check("hover names a request", /request/.test(points.tip.textContent));
  check("hostile texts", document.title.includes("onerror") && !document.querySelector("img"));
  check("no script error", !document.body.dataset.fault);
  check("nothing fetched", performance.getEntriesByType("resource").length === 0);
  document.body.dataset.use = "fine";
})().catch((problem) => { document.body.dataset.use = String(problem); });
"##;

#[test]
fn the_page_works_in_a_browser() {
    if let Some(text) = used(&page(300), &format!("{STEPS}{USE}")) {
        fine(&text);
    }
}

#[test]
fn ten_thousand_requests_open_within_a_second() {
    let told = r#"(async () => {
        const began = performance.now();
        for (let tries = 0; !document.documentElement.dataset.ready && tries < 500; tries++) await wait(10);
        check("drawn", document.documentElement.dataset.ready === "yes");
        check("nothing fetched", performance.getEntriesByType("resource").length === 0);
        document.body.dataset.use = "fine";
    })().catch((problem) => { document.body.dataset.use = String(problem); });"#;
    let page = page(10_000);
    let began = std::time::Instant::now();
    let empty = used("<body></body>", "document.body.dataset.use = 'fine';");
    let alone = began.elapsed();
    let began = std::time::Instant::now();
    let Some((text, _)) = used(&page, &format!("{STEPS}{told}")).zip(empty) else { return };
    fine(&text);
    // The browser's own startup does not count. A loaded machine gets five times the time of an idle one.
    let took = began.elapsed().saturating_sub(alone);
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}
