//! `result/pytorch-*`: the records of a result file, byte for byte.

use tacho_core::json::{Value, dumps};
use tacho_report::export::pytorch::records;
use tacho_testkit::{golden_dir, golden_files, golden_text};

use crate::given::{Flags, golden, read};

#[test]
fn records_equal_vllms() {
    let mut checked = 0;
    for path in golden_files("result", ".case.json") {
        let case = read(&path);
        let flags = Flags::of(&case);
        let Some(filename) = flags.one("--result-filename") else { continue };
        let stem = path.file_name().unwrap().to_string_lossy().strip_suffix(".case.json").unwrap().to_owned();
        let side = format!("result/{stem}.files/{}", filename.replace(".json", ".pytorch.json"));
        if !golden_dir().join(&side).is_file() {
            continue;
        }
        let result = golden(&format!("result/{stem}.files/{filename}"));
        let theirs = golden(&side);
        // The flags are the caller's; additions by the metadata are not.
        let first = &theirs.as_list().unwrap()[0];
        let extra = first.get("benchmark").unwrap().get("extra_info").unwrap();
        let mut args = extra.get("args").unwrap().as_dict().unwrap().clone();
        args.remove("tensor_parallel_size");
        let ours = records(result.as_dict().unwrap(), &args, Some(filename));
        assert_eq!(dumps(&Value::List(ours)), golden_text(&side), "{stem}");
        checked += 1;
    }
    assert!(checked >= 4, "only {checked} cases found");
}

#[test]
fn missing_name_means_not_eager_and_missing_metrics_mean_no_record() {
    let result = golden("result/pytorch-no-p99.files/r.json");
    let result = result.as_dict().unwrap();
    let ours = records(result, &Default::default(), None);
    let benchmark = ours[0].get("benchmark").unwrap().get("extra_info").unwrap();
    assert_eq!(benchmark.get("use_compile"), Some(&Value::Bool(true)));
    assert_eq!(ours.len(), 3);
    let mut eager = result.clone();
    eager.set("compilation_config.mode", "0");
    let ours = records(&eager, &Default::default(), None);
    assert_eq!(
        ours[0].get("benchmark").unwrap().get("extra_info").unwrap().get("use_compile"),
        Some(&Value::Bool(false))
    );
}
