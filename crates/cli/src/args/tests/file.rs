//! `--config FILE.yaml`.

use super::*;

fn with_file(name: &str, text: &str, args: &[&str]) -> Result<ServeArgs, ArgError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    serve(&[args, &["--config", path.to_str().unwrap()]].concat())
}

#[test]
fn a_file_stands_for_flags() {
    let text = "\
num_prompts: 3
request-rate: .inf
presence-penalty: -0.5
save-result: true
profile: false
label: 'true'
model: null
header: [a=1, b=2]
metadata: []
extra-body:
  stop: [x, 1]
  nested: {deep: yes, none: ~, half: 0.5, text: \"1\"}
";
    let args = with_file("c.yaml", text, &[]).unwrap();
    assert_eq!((args.load.num_prompts, args.load.request_rate), (3, f64::INFINITY));
    assert_eq!(args.content.presence_penalty, Some(-0.5));
    assert_eq!((args.report.save_result, args.load.profile), (true, false));
    assert_eq!(args.report.label.as_deref(), Some("true"));
    assert_eq!((args.target.model, args.report.metadata), (None, Vec::new()));
    assert_eq!(args.target.header, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    assert_eq!(
        tacho_core::json::dumps(&args.content.extra_body.unwrap()),
        r#"{"stop": ["x", 1], "nested": {"deep": true, "none": null, "half": 0.5, "text": "1"}}"#
    );
}

#[test]
fn the_command_line_wins_over_the_file() {
    let args = with_file("c.yml", "seed: 1\ngoodput: ['ttft:1']\n", &["--seed", "2"]).unwrap();
    assert_eq!(args.load.seed, 2);
    assert!(args.notices().is_empty(), "overriding the file is no mistake");
    assert!(with_file("c.yml", "goodput: ['ttft:1']\n", &["stray"]).is_err(), "a stray word joins no list of the file");
}

#[test]
fn false_is_the_off_form_where_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.yaml");
    std::fs::write(&path, "enable_prefix_caching: false\n").unwrap();
    let args = sim(&[&format!("--config={}", path.display())]).unwrap();
    assert_eq!(args.enable_prefix_caching, Some(false));
}

#[test]
fn bad_files_say_what_is_wrong() {
    let cases = [
        ("c.txt", "x: 1\n", "only .yaml and .yml files are read"),
        ("c.yaml", "[1, 2]\n", "line 1: the file must hold a mapping"),
        ("c.yaml", "seed: 1\nlabel: {a: [}\n", "line 2:"),
        ("c.yaml", "a: &x 1\nb: *x\n", "line 2: anchors and aliases"),
        ("c.yaml", "bogus: 1\n", "c.yaml: line 1: unrecognized arguments: --bogus=1"),
        (
            "c.yaml",
            "label: a\nheader: [a=1,\n  b=2]\nseed: x\n",
            "c.yaml: line 4: argument --seed: invalid int value: 'x'",
        ),
        ("c.yaml", "label: a\nworkers: 100000\n", "c.yaml: line 2: --workers 100000 is out of range"),
    ];
    for (name, text, expected) in cases {
        let error = with_file(name, text, &[]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(message(&["--config"]).contains("names no file"));
    assert!(message(&["--config", "a.yaml", "--config=b.yaml"]).contains("more than once"));
    assert!(message(&["--config", "no-such.yaml"]).contains("cannot be read"));
    assert!(with_file("c.yaml", "", &[]).is_ok(), "an empty file asks for nothing");
}

#[test]
fn hostile_nesting_is_refused() {
    let text = format!("a: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    assert!(with_file("c.yaml", &text, &[]).is_err());
}
