//! `result/name-*`: vLLM's default file names.

use std::path::Path;

use tacho_metrics::Setup;
use tacho_report::names::{file_name, result_path};
use tacho_testkit::golden_files;

use crate::given::{Flags, read};

#[test]
fn names_follow_the_flags() {
    let mut checked = 0;
    for path in golden_files("result", ".case.json") {
        let case = read(&path);
        let flags = Flags::of(&case);
        let files = path.to_string_lossy().replace(".case.json", ".files");
        let Ok(directory) = std::fs::read_dir(&files) else { continue };
        if case.get("argv").is_none() || flags.has("--result-filename") || flags.has("--result-dir") {
            continue;
        }
        for entry in directory.map(|entry| entry.unwrap()) {
            assert_eq!(file_name(&flags.setup()), entry.file_name().to_string_lossy(), "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 8, "only {checked} names found");
}

#[test]
fn given_name_wins_and_an_absolute_one_leaves_the_directory() {
    let setup = Setup { request_rate: 1e-5, label: Some(String::new()), ..crate::given::plain_setup() };
    assert_eq!(result_path(&setup, None, None), Path::new("openai-1e-05qps-m-DATE.json"));
    assert_eq!(result_path(&setup, Some(Path::new("out")), Some("x.json")), Path::new("out/x.json"));
    assert_eq!(result_path(&setup, Some(Path::new("out")), Some("/x.json")), Path::new("/x.json"));
}
