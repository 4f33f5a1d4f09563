use super::*;

fn stages(words: &[&str]) -> Vec<StageArg> {
    read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), 2.0).unwrap()
}

fn plain(name: &str, length: StageLength, load: StageLoad) -> StageArg {
    StageArg {
        stage: Stage { name: name.to_owned(), length, load, burstiness: 2.0 },
        lengths: [None, None],
        flags: Dict::new(),
    }
}

#[test]
fn every_form_of_load_is_read() {
    let constant = |rate| StageLoad::Rate(Curve::Linear { from: rate, to: rate });
    let read = stages(&["warm:30s@5, peak:1.5m@5..40,up:1h@5..40/4 ,day:200r@20~15/60s", "idle:250ms@0"]);
    let wanted = [
        plain("warm", StageLength::Seconds(30.0), constant(5.0)),
        plain("peak", StageLength::Seconds(90.0), StageLoad::Rate(Curve::Linear { from: 5.0, to: 40.0 })),
        plain("up", StageLength::Seconds(3600.0), StageLoad::Rate(Curve::Steps { from: 5.0, to: 40.0, count: 4 })),
        plain(
            "day",
            StageLength::Requests(200),
            StageLoad::Rate(Curve::Sine { mean: 20.0, amplitude: 15.0, period: 60.0 }),
        ),
        plain("idle", StageLength::Seconds(0.25), constant(0.0)),
    ];
    assert_eq!(read, wanted);
    assert_eq!(stages(&["a:5s@c32"])[0].stage.load, StageLoad::Concurrency(32));
}

#[test]
fn options_follow_the_load() {
    let read = stages(&["a:5s@9 burstiness=0.5 input_len=normal(512, 100) output_len=64, b:5s@9"]);
    assert_eq!((read.len(), read[0].stage.burstiness, read[1].stage.burstiness), (2, 0.5, 2.0));
    assert_eq!(read[0].lengths, [Some("normal(512, 100)".to_owned()), Some("64".to_owned())]);
}

#[test]
fn a_file_says_the_same_as_a_text() {
    let wanted = stages(&["warm:30s@5", "peak:60s@5..40 burstiness=0.5 input_len=512", "calm:200r@2.5"]);
    let dir = tempfile::tempdir().unwrap();
    let yaml = "- {name: warm, duration: 30, rate: 5}\n- name: peak\n  duration: 1m\n  rate: 5..40\n  burstiness: 0.5\n  \
                input_len: 512\n- name: calm\n  requests: 200\n  rate: 2.5\n";
    let json = r#"{"stages": ["warm:30s@5", {"name": "peak", "duration": 60.0, "rate": "5..40", "burstiness": 0.5,
        "input_len": "512"}, {"name": "calm", "requests": 200, "rate": 2.5, "output_len": null}]}"#;
    for (name, text) in [("s.yaml", yaml), ("s.json", json)] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(stages(&[path.to_str().unwrap()]), wanted, "{name}");
    }
    for (text, expected) in [("5\n", "write a list"), ("- {a: [}\n", "line 1"), ("- 5\n", "a stage is a mapping")] {
        let path = dir.path().join("bad.yaml");
        std::fs::write(&path, text).unwrap();
        let error = read(&[path.to_str().unwrap().to_owned()], 1.0).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
