//! Cards: their size, texts within the frame whatever a server sends, and no invented values.

use tacho_core::json::{Value, parse};
use tacho_metrics::{Audio, Media, RareFields, Sample};
use tacho_record::{Measured, ServerFacts};

use super::*;
use crate::plots::{Anchor, Scene, Shape, text_width};

fn sample(at: usize) -> Sample {
    let (sent, ttft) = (at as f64 * 0.1, 0.03 + 0.01 * (at as f64 * 0.754_877_666).fract());
    Sample {
        index: at,
        scheduled: sent,
        dispatched: sent,
        sent,
        done: sent + ttft + 0.2,
        ttft,
        itl: vec![0.02; 10].into(),
        latency: ttft + 0.2,
        output_tokens: Some(11),
        output_len: 11,
        prompt_len: 100,
        ..Sample::default()
    }
}

fn record(count: usize) -> RunRecord {
    let setup = Setup { request_rate: 10.0, num_prompts: count as i64, strict_parity: false, ..Setup::example() };
    let samples = (0..count).map(sample).collect::<Vec<_>>().into();
    let duration = count as f64 * 0.1 + 0.24;
    let mut record = RunRecord::compute(setup, Measured { samples, duration, ..Measured::default() });
    record.provenance = Provenance {
        tacho: Some("0.1.0 (abc)".into()),
        command: Some("/bin/tacho serve --model m --api-key '***' --request-rate 10 --card x.png".into()),
        seed: Some(7),
        dataset: Some("random".into()),
        server: ServerFacts { engine: Some("vLLM".into()), version: Some("0.32.0".into()), ..ServerFacts::default() },
        ..Provenance::default()
    };
    record.measured.telemetry.gpus = vec!["NVIDIA H200".into(), "NVIDIA H200".into()];
    record
}

fn texts(scene: &Scene) -> Vec<String> {
    let text = |shape: &Shape| if let Shape::Text { text, .. } = shape { Some(text.clone()) } else { None };
    scene.shapes.iter().filter_map(text).collect()
}

/// Left, right, top and bottom of a text, its lowest letters included.
fn extent(shape: &Shape) -> Option<(String, [f64; 4])> {
    let Shape::Text { at, text, size, anchor, .. } = shape else { return None };
    assert_eq!(*anchor, Anchor::Start);
    Some((text.clone(), [at.0, at.0 + text_width(text, *size), at.1 - 0.76 * size, at.1 + 0.24 * size]))
}

fn assert_fits(card: &Card) {
    let scene = card.scene();
    let extents: Vec<_> = scene.shapes.iter().filter_map(extent).collect();
    for (text, [left, right, top, bottom]) in &extents {
        let inside = *left >= 47.9 && *right <= 1152.1 && *top >= 10.0 && *bottom <= 630.0;
        assert!(inside, "{text:?} reaches from {left} to {right}, {top} to {bottom}");
    }
    for (at, (text, [left, right, top, bottom])) in extents.iter().enumerate() {
        for (other, [l, r, t, b]) in &extents[at + 1..] {
            let disjoint = right <= l || r <= left || bottom <= t || b <= top;
            assert!(disjoint, "{text:?} and {other:?} overlap");
        }
    }
}

#[test]
fn a_card_says_what_was_run_and_what_came_out() {
    let card = of_record(&record(300), &About::default());
    assert_fits(&card);
    let all = texts(&card.scene()).join("\n");
    for part in ["vLLM 0.32.0 · 2× NVIDIA H200", "10 req/s · random · 100 prompt and 11 output tokens", "95% CI", "p99"]
    {
        assert!(all.contains(part), "{part} in {all}");
    }
    assert!(all.contains("tacho serve --model m --api-key '***' --request-rate 10\n"), "{all}");
    assert!(all.contains("tacho 0.1.0 · seed 7 · 300 requests in 30.2 s · 2026-01-02"), "{all}");
}

#[test]
fn several_runs_have_one_card_with_their_means() {
    let (first, other) = (record(300), record(300));
    let setup = Setup { interrupted: true, ..other.setup };
    let second = RunRecord::compute(setup, other.measured);
    let card = of_runs(&first, &[second, record(200)]);
    assert_fits(&card);
    let all = texts(&card.scene()).join("\n");
    assert!(all.contains("3 runs, means") && all.contains("interrupted"), "{all}");
    assert!(all.contains("800 requests in"), "{all}");
    assert!(all.contains("95% CI"), "{all}");
}

#[test]
fn cards_are_1200_by_630_pixels_and_the_same_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("a.png"), directory.path().join("b.PNG"));
    save(&record(40), &About::default(), &first).unwrap();
    save(&record(40), &About::default(), &second).unwrap();
    let bytes = std::fs::read(&first).unwrap();
    assert_eq!(&bytes[16..24], [0, 0, 4, 176, 0, 0, 2, 118]);
    assert_eq!(bytes, std::fs::read(&second).unwrap());
    let vector = directory.path().join("a.svg");
    save(&record(40), &About::default(), &vector).unwrap();
    assert!(std::fs::read_to_string(&vector).unwrap().starts_with("<svg"));
    let error = save(&record(2), &About::default(), &directory.path().join("a.jpg")).unwrap_err().to_string();
    assert!(error.ends_with("the name must end in .png or .svg"), "{error}");
}

#[test]
fn hostile_texts_stay_in_their_place() {
    let long = "x".repeat(10_000);
    let hostile =
        ["a\x1b[2J\nb\0", long.as_str(), "\u{202e}dlrow\u{2066} שלום مرحبا", "漢字🦀\u{300}\u{300}", "", "   "];
    for text in hostile {
        let mut record = record(30);
        record.setup.model_id = text.to_owned();
        record.setup.backend = text.to_owned();
        record.setup.label = Some(text.repeat(2));
        record.measured.telemetry.gpus = vec![text.to_owned(); 9];
        record.provenance.server.engine = Some(text.to_owned());
        record.provenance.dataset = Some(text.to_owned());
        record.provenance.tacho = Some(text.to_owned());
        record.provenance.command = Some(format!("tacho serve {text} '{text}'"));
        let card = of_record(&record, &About { warnings: vec![text.to_owned()], ..About::default() });
        assert_fits(&card);
        let harmful = |text: &String| text.chars().any(|c| c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c));
        assert!(!texts(&card.scene()).iter().any(harmful), "{text:?}");
        if text.starts_with('漢') {
            png(&card.scene(), DPI).unwrap();
        }
    }
}

#[test]
fn media_have_no_tokens() {
    let names = |media: Media| {
        let rare = RareFields { media: Some(media), ..RareFields::default() };
        let one = |at| Sample { rare: rare.clone().into(), ..sample(at) };
        let setup = Setup { strict_parity: false, task: Task::Media, ..Setup::example() };
        let samples = (0..5).map(one).collect::<Vec<_>>().into();
        let record = RunRecord::compute(setup, Measured { samples, duration: 1.0, ..Measured::default() });
        let card = of_record(&record, &About::default());
        assert_fits(&card);
        assert!(card.tiles.iter().all(|tile| tile.value != "–") && !card.curves[1].name.contains("TTFT"));
        card.tiles.into_iter().map(|tile| tile.name).collect::<Vec<_>>()
    };
    let audio = Audio { frames: 48_000, duration: 2.0, underrun: 0.0, underruns: 0 };
    assert_eq!(names(Media::Audio(Some(audio))), ["Audio throughput", "TTFP p50", "RTF p50", "E2EL p50"]);
    assert_eq!(names(Media::Images(2)), ["Image throughput", "E2EL p50"]);
}

#[test]
fn metrics_that_are_missing_are_dashes() {
    let failed = |at| Sample { failure: Some(tacho_core::FailureKind::Http(500)), ..sample(at) };
    let setup = Setup { strict_parity: false, ..Setup::example() };
    let samples = (0..5).map(failed).collect::<Vec<_>>().into();
    let none = RunRecord::compute(setup, Measured { samples, duration: 1.0, ..Measured::default() });
    let card = of_record(&none, &About::default());
    assert_fits(&card);
    assert_eq!((card.tone, card.verdict.as_str()), (Tone::Bad, "NOT USABLE: no request succeeded"));
    assert!(card.tiles.iter().all(|tile| tile.value == "–" && tile.interval.is_empty() && tile.below.is_empty()));
    assert!(card.foot.contains("5 requests in 1.00 s, 5 failed"), "{}", card.foot);
}

#[test]
fn results_without_requests_have_cards_too() {
    let text = r#"{"date": "20260203-040506", "model_id": "m", "backend": "vllm", "num_prompts": 10, "request_rate": "inf",
        "max_concurrency": 4, "duration": 2.0, "completed": 10, "failed": 0, "total_input_tokens": 100,
        "total_output_tokens": 50, "output_throughput": 25.0, "request_throughput": 5.0, "median_ttft_ms": 12.5}"#;
    let dict = parse(text).unwrap().as_dict().unwrap().clone();
    let card = of_stored(&StoredRun::from_dict(&dict).unwrap());
    assert_fits(&card);
    let values: Vec<&str> = card.tiles.iter().map(|tile| tile.value.as_str()).collect();
    assert_eq!(values, ["25.0", "12.5", "–", "–"]);
    assert_eq!((card.server.as_str(), card.tone), ("vllm", Tone::Warning));
    assert_eq!(card.load, "at most 4 in flight · 10 prompt and 5 output tokens (mean)");
    assert!(card.foot.ends_with("10 requests in 2.00 s · 2026-02-03"), "{}", card.foot);
    assert!(texts(&card.scene()).contains(&"This result holds no values over time.".to_owned()));
    let mut judged = dict;
    judged
        .set("tacho", parse(r#"{"version": 1, "caveats": [{"text": "one"}, {"text": "two"}]}"#).unwrap_or(Value::Null));
    let card = of_stored(&StoredRun::from_dict(&judged).unwrap());
    assert_eq!((card.tone, card.verdict.as_str()), (Tone::Warning, "USABLE WITH CARE: (1 of 2) one"));
}
