//! Generated speech and images, measured against a simulator whose speed is known.

use serde_json::json;

use crate::backends::{Run, Sim, bench, sounds};
use crate::tacho::at_once;

/// Twelve requests, three at a time.
const LOAD: [&str; 6] = ["--num-prompts", "12", "--max-concurrency", "3", "--random-input-len", "8"];

fn speak(sim: &Sim, flags: &[&str]) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let run = bench(sim, directory.path(), &[&LOAD, flags].concat());
    assert_eq!(run.output.status.code(), Some(0), "{}", run.stderr());
    run
}

impl Run {
    fn number(&self, key: &str) -> f64 {
        self.result[key].as_f64().unwrap_or_else(|| panic!("{key} is missing: {}", self.stderr()))
    }

    /// Checks that these lists have a number for every request.
    fn lists(&self, keys: &[&str], requests: usize) {
        for key in keys {
            let list = self.result["tacho"][key].as_array().unwrap_or_else(|| panic!("{key}: {}", self.stderr()));
            assert!(list.len() == requests && list.iter().all(|value| value.is_number()), "{key}: {list:?}");
        }
    }

    /// Checks that a value is at least `truth`, and not more than a busy machine explains.
    fn near(&self, key: &str, truth: f64, late: f64) {
        let value = self.number(key);
        assert!(value >= truth * 0.98 && value <= truth + late, "{key}: {value} for {truth}");
    }
}

#[test]
fn speech_is_measured_as_the_simulator_makes_it() {
    // 8 tokens of 0.1 s each, in chunks of 0.2 s that take 0.1 s.
    let flags = ["--speech-seconds-per-token", "0.1", "--speech-rtf", "0.5", "--speech-chunk", "0.2"];
    let sim = Sim::start(&flags);
    let stream = r#"{"stream_format": "sse"}"#;
    let wav = r#"{"response_format": "wav"}"#;
    for (backend, body) in
        [("openai-speech", "{}"), ("openai-audio-speech", "{}"), ("openai-speech", wav), ("openai-speech", stream)]
    {
        let run = speak(&sim, &["--backend", backend, "--extra-body", body]);
        let tokens = run.number("total_input_tokens");
        assert_eq!(run.result["completed"], 12, "{backend} {body}: {}", run.stderr());
        let seconds = run.number("total_audio_duration_s");
        assert!((seconds - tokens * 0.1).abs() < 1e-6, "{backend} {body}: {seconds} s for {tokens} tokens");
        assert_eq!(run.number("total_audio_frames"), (tokens * 2400.0).round(), "{backend} {body}");
        let each = ["audio_ttfps", "audio_rtfs", "audio_durations", "audio_underrun_times", "audio_underrun_counts"];
        run.lists(&each, 12);
        run.near("median_audio_ttfp_ms", 100.0, 500.0);
        run.near("median_audio_rtf", 0.5, 1.0);
        run.near("median_e2el_ms", 400.0, 800.0);
        let throughput = seconds / run.number("duration");
        assert!((run.number("audio_throughput") - throughput).abs() < 1e-9, "{backend} {body}");
        let interval = &run.result["tacho"]["intervals"]["mean_audio_rtf"];
        let (low, mean) = (interval[0].as_f64().unwrap(), run.number("mean_audio_rtf"));
        assert!(low <= mean && low > 0.0, "{interval} {mean}");
        assert!(run.result.get("mean_ttft_ms").is_none() && run.result.get("output_throughput").is_none());
    }
}

#[test]
fn planted_gaps_are_found() {
    // 8 chunks of 0.1 s, one every 0.01 s: after k chunks, 0.09 k s of audio are ahead of a pause.
    let flags = ["--speech-seconds-per-token", "0.1", "--speech-rtf", "0.1", "--speech-chunk", "0.1"];
    let smooth = Sim::start(&flags);
    let stalling = Sim::start(&[&flags[..], &["--stall-rate", "1", "--stall-seconds", "1"]].concat());
    let cases = [(&smooth, "0.3"), (&stalling, "0"), (&stalling, "0.3"), (&stalling, "3")];
    let [played, run, shorter, passed]: [Run; 4] =
        at_once(&cases, |(sim, buffer)| speak(sim, &["--backend", "openai-speech", "--playback-buffer", buffer]))
            .try_into()
            .unwrap_or_else(|_| unreachable!());
    assert_eq!((played.number("mean_audio_underrun_s"), played.number("audio_continuity_ok_rate")), (0.0, 1.0));
    assert_eq!(played.result["tacho"]["audio_underruns"], 0);
    assert_eq!(run.result["tacho"]["audio_underruns"], 12, "{}", String::from_utf8_lossy(&run.output.stdout));
    assert_eq!(run.number("audio_continuity_ok_rate"), 0.0);
    let gap = run.number("median_audio_underrun_s");
    assert!((0.33..1.1).contains(&gap), "{gap}");
    // The pauses of two runs are at different places: their means differ by 0.3 s with a standard deviation of 0.07 s.
    let [shorter, gap] = [&shorter, &run].map(|run| run.number("mean_audio_underrun_s"));
    assert!(shorter < gap - 0.05, "{shorter} with a buffer of 0.3 s, {gap} without");
    assert_eq!(passed.number("mean_audio_underrun_s"), 0.0);
}

#[test]
fn images_are_counted_and_timed_by_their_end() {
    // 10 steps of 10 ms for each of two images.
    let sim = Sim::start(&["--image-step", "0.01"]);
    let body = r#"{"n": 2, "num_inference_steps": 10}"#;
    for extra in [body, r#"{"n": 2, "num_inference_steps": 10, "response_format": "url"}"#] {
        let run = speak(&sim, &["--backend", "openai-images", "--extra-body", extra]);
        assert_eq!((&run.result["completed"], &run.result["total_images"]), (&json!(12), &json!(24)));
        assert_eq!(run.result["tacho"]["image_counts"], json!(vec![2; 12]));
        run.near("median_e2el_ms", 200.0, 800.0);
        let rate = 24.0 / run.number("duration");
        assert!((run.number("image_throughput") - rate).abs() < 1e-9);
        assert!(rate > 3.0 && rate <= 30.5, "three at a time, ten images a second each: {rate}");
        assert!(run.result["tacho"]["intervals"]["image_throughput"][0].as_f64().unwrap() > 0.0);
        assert!(run.result.get("mean_ttft_ms").is_none() && run.result.get("audio_throughput").is_none());
    }
}

#[test]
fn images_are_edited() {
    let sim = Sim::start(&["--image-step", "0.001"]);
    let flags =
        ["--backend", "openai-image-edits", "--dataset-name", "random-mm", "--random-mm-base-items-per-request", "2"];
    let limits = ["--random-mm-limit-mm-per-prompt", r#"{"image": 2, "video": 0}"#];
    let small = ["--random-mm-bucket-config", "{(64, 48, 1): 1.0}"];
    let run = speak(&sim, &[&flags[..], &limits, &small].concat());
    assert_eq!((&run.result["completed"], &run.result["total_images"]), (&json!(12), &json!(12)), "{}", run.stderr());
}

#[test]
fn faults_of_speech_and_images_are_failures() {
    let directory = tempfile::tempdir().unwrap();
    for (fault, backend, body, expected) in [
        ("--error-rate", "openai-speech", "{}", "http_error"),
        ("--disconnect-rate", "openai-speech", "{}", "connection_lost"),
        ("--stream-error-rate", "openai-speech", r#"{"stream_format": "sse"}"#, "error_in_stream"),
        ("--truncate-rate", "openai-speech", r#"{"stream_format": "sse"}"#, "truncated"),
        ("--truncate-rate", "openai-images", "{}", "malformed"),
        ("--disconnect-rate", "openai-images", "{}", "connection_lost"),
    ] {
        let sim = Sim::start(&[fault, "1"]);
        let run = bench(&sim, directory.path(), &[&LOAD[..], &["--backend", backend, "--extra-body", body]].concat());
        assert_eq!(run.outcomes()[expected], 12, "{fault} {backend}: {} {}", run.outcomes(), run.stderr());
        assert_eq!(run.output.status.code(), Some(1), "{fault} {backend}");
    }
}

#[test]
fn what_speech_does_not_have_is_said() {
    let tacho = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tacho")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = tacho(&["predict", "--sim-profile", "tiny", "--backend", "openai-speech"]);
    assert!(code == Some(2) && text.contains("a --backend for speech or images"), "{text}");
    let (code, text) = tacho(&["serve", "--sim", "--backend", "openai-image-edits"]);
    assert!(code == Some(2) && text.contains("images"), "{text}");
    let flags = ["--num-prompts", "1", "--random-input-len", "2", "--goodput", "tpot:5", "ttft:1000", "--omni"];
    let (code, text) = tacho(&[&["serve", "--sim", "--backend", "openai-speech"], &flags[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("--goodput tpot has no effect") && text.contains("--omni has no effect"), "{text}");
}

#[test]
fn conditions_and_logs_know_the_metrics_of_speech() {
    let sim = Sim::start(&["--speech-seconds-per-token", "0.05"]);
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let flags = ["--backend", "openai-speech", "--fail-if", "p99_audio_rtf>0.001", "--log", log.to_str().unwrap()];
    let run = bench(&sim, directory.path(), &[&LOAD[..], &flags].concat());
    assert_eq!(run.output.status.code(), Some(3), "{}", run.stderr());
    let again = std::process::Command::new(env!("CARGO_BIN_EXE_tacho")).arg("report").arg(&log).output().unwrap();
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    for line in ["Total audio frames generated:", "Median AUDIO_RTF:", "Mean AUDIO_TTFP (ms):"] {
        let found = |text: &str| text.lines().find(|one| one.starts_with(line)).map(str::to_owned);
        let printed = String::from_utf8_lossy(&run.output.stdout).into_owned();
        assert!(found(&text).is_some() && found(&text) == found(&printed), "{line}\n{text}\n{printed}");
    }
}

#[test]
fn a_live_transcript_is_measured_as_the_simulator_writes_it() {
    // Audio is sent every 128 ms, so that a word of 0.256 s is heard with every second chunk.
    let sim = Sim::start(&["--word-seconds", "0.256", "--word-delay", "0.2"]);
    let directory = tempfile::tempdir().unwrap();
    let workload = sounds(directory.path(), 8192);
    let flags = ["--backend", "openai-realtime", "--workload", workload.to_str().unwrap()];
    let run = bench(&sim, directory.path(), &flags);
    assert_eq!((run.output.status.code(), &run.result["completed"]), (Some(0), &json!(3)), "{}", run.stderr());
    let own = |key: &str| run.result["tacho"][key].as_f64().unwrap_or_else(|| panic!("{key}: {}", run.stderr()));
    for (key, truth) in [("median_ttft_from_audio_ms", 456.0), ("median_finalization_latency_ms", 200.0)] {
        assert!(own(key) >= truth * 0.98 && own(key) <= truth + 500.0, "{key}: {} for {truth}", own(key));
    }
    run.near("median_itl_ms", 256.0, 200.0);
    assert_eq!(run.result["output_lens"], json!([4, 4, 4]));
    run.lists(&["ttfts_from_audio", "finalization_latencies"], 3);
    let seconds = run.number("rtfx") * run.number("duration");
    assert!((seconds - 3.0 * 1.024).abs() < 1e-9, "three sounds of 1.024 s, not {seconds} s");
    // Faster than real time, the audio is over sooner; the delays stay.
    let fast = bench(&sim, directory.path(), &[&flags[..], &["--audio-speed", "4"]].concat());
    let first = |run: &Run| run.result["tacho"]["median_ttft_from_audio_ms"].as_f64().unwrap();
    assert!(first(&fast) >= 264.0 * 0.98 && first(&fast) < first(&run), "{} {}", first(&fast), first(&run));
}

#[test]
fn every_fault_of_a_live_transcript_is_a_typed_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let workload = sounds(directory.path(), 8192);
    let flags = ["--backend", "openai-realtime", "--audio-speed", "inf", "--workload", workload.to_str().unwrap()];
    for (fault, outcome) in [
        ("--error-rate", "http_error"),
        ("--stream-error-rate", "error_in_stream"),
        ("--disconnect-rate", "connection_lost"),
        ("--truncate-rate", "truncated"),
    ] {
        let sim = Sim::start(&["--word-seconds", "0.256", fault, "1"]);
        let run = bench(&sim, directory.path(), &flags);
        assert_eq!(run.outcomes()[outcome], 3, "{fault}: {}", run.outcomes());
    }
    let sim = Sim::start(&[]);
    let refused = bench(&sim, directory.path(), &[&flags[..], &["--http2"]].concat());
    assert!(refused.stderr().contains("remove --http2"), "{}", refused.stderr());
}
