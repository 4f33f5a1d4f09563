//! Compares runs with recorded ones: the same command line must send the same requests, write a file with the same
//! keys in the same order, and print a report of the same shape. A report from a run's log must equal the run's
//! report.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use serde_json::Value;
use tacho_testkit::{golden_files, golden_text};

use crate::scripted::{Asked, Scripted};
use crate::tacho::{Place, each, stderr, stdout};

/// Runs with nondeterministic traffic or unavailable prerequisites, and the reason.
const LEFT_OUT: [(&str, &str); 8] = [
    ("https-", "needs a TLS server"),
    ("real-server-", "recorded against a real server"),
    ("probe", "probes are sent by the clock"),
    ("timed-trace", "token ids come from a hash that Python salts"),
    ("connection-refused", "nothing listens"),
    ("ready-check-retry", "waits five seconds"),
    ("plots", "pictures are not compared"),
    ("failures", "failures are cut differently by the scripted server"),
];

/// Exit code of a usage error.
const USAGE: i32 = 2;

fn recorded(case: &Value) -> Vec<Asked> {
    let requests = case["requests"].as_array().cloned().unwrap_or_default();
    let header = |request: &Value| {
        let headers = request["headers"].as_array()?;
        let pair = headers.iter().find(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case("x-request-id"))?;
        pair[1].as_str().map(str::to_owned)
    };
    let mut asked: Vec<Asked> = requests
        .iter()
        .map(|request| Asked {
            method: request["method"].as_str().unwrap().to_owned(),
            path: request["path"].as_str().unwrap().to_owned(),
            body: request["body_text"].as_str().unwrap_or_default().to_owned(),
            id: request["x-request-id"].as_str().map(str::to_owned).or_else(|| header(request)),
        })
        .collect();
    asked.sort();
    asked
}

/// vLLM's report within a text.
fn block(text: &str) -> Vec<&str> {
    let start = text.lines().skip_while(|line| !line.contains(" Serving Benchmark Result "));
    let end = start.clone().skip(1).position(|line| line == "=".repeat(50)).unwrap_or(0);
    start.take(end + 2).collect()
}

/// A report without its numbers.
fn shape(text: &str) -> Vec<String> {
    let label = |line: &str| line.split_once(':').map_or(line.to_owned(), |(label, _)| format!("{label}:"));
    block(text).into_iter().map(label).collect()
}

/// The texts of the result files in a run's directory.
fn results(place: &Place) -> Vec<String> {
    let files = std::fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.path());
    let texts = files.filter(|path| path.is_file()).filter_map(|path| std::fs::read_to_string(path).ok());
    texts.filter(|text| text.starts_with("{\"date\": ") && text.contains("\"completed\": ")).collect()
}

/// Regenerates report and result file from the log of a run and asserts that all numbers are equal. Returns false if
/// there is no log.
fn check_log(name: &str, place: &Place, args: &[&str], printed: &str) -> bool {
    if !place.file("kept/summary.json").exists() {
        return false;
    }
    let before = results(place);
    let detailed = args.contains(&"--save-detailed").then_some("--save-detailed");
    let report: Vec<&str> = ["report", "kept", "--save-result", "again.json"].into_iter().chain(detailed).collect();
    let output = place.run(&report);
    assert!(output.status.success(), "{name}: {}", stderr(&output));
    assert_eq!(block(&stdout(&output)), block(printed), "{name}");
    if let [text] = before.as_slice() {
        let again = std::fs::read_to_string(place.file("again.json")).unwrap();
        assert_eq!(again.trim_end(), text.trim_end(), "{name}");
    }
    true
}

fn keys(text: &str) -> Vec<String> {
    let line = text.lines().next().unwrap_or_default();
    match tacho_core::json::parse(line) {
        Ok(tacho_core::json::Value::Dict(dict)) => {
            dict.iter().map(|(key, _)| key.to_owned()).filter(|key| key != "tacho").collect()
        }
        other => panic!("not a result: {other:?}"),
    }
}

/// The outcome of a command line.
enum Ran {
    NotUnderstood,
    WithoutLog,
    Logged,
}

/// Runs one command line of a case.
fn check(name: &str, case: &Value, directory: &str) -> Ran {
    let server = Scripted::start(case["server_script"].clone());
    let place = Place::new();
    for (file, content) in case["files_given"].as_object().into_iter().flatten() {
        let bytes = match content["b64"].as_str() {
            Some(code) => base64::engine::general_purpose::STANDARD.decode(code).unwrap(),
            None => content.as_str().unwrap_or_default().as_bytes().to_vec(),
        };
        std::fs::write(place.path().join(file), bytes).unwrap();
    }
    let port = server.address.port().to_string();
    let argv: Vec<String> =
        case["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().replace("{port}", &port)).collect();
    let mut args: Vec<&str> = argv.iter().map(String::as_str).collect();
    args.extend(["--strict-parity", "--log", "kept"]);
    let mut command = place.command(&args);
    for (key, value) in case["env"].as_object().into_iter().flatten() {
        command.env(key, value.as_str().unwrap());
    }
    let output = command.output().unwrap();
    if output.status.code() == Some(USAGE) {
        return Ran::NotUnderstood;
    }
    let all_failed = name.contains("all-failed");
    let fixed = all_failed || name == "pytorch-no-filename";
    let expected = if all_failed { 1 } else { case["exit_code"].as_i64().unwrap() };
    assert!(fixed || output.status.code() == Some(expected as i32), "{name}: {}", stderr(&output));
    let mut ours = server.asked();
    ours.sort();
    let comparable = |asked: Vec<Asked>| -> Vec<Asked> {
        // Multipart forms have random boundaries; the client's tests compare their parts.
        let formless =
            |asked: Asked| if asked.path.contains("/audio/") { Asked { body: String::new(), ..asked } } else { asked };
        asked.into_iter().map(formless).collect()
    };
    // Errors that vLLM reports after its first requests are reported before them here.
    if expected == 0 && !case["requests"].is_null() {
        assert_eq!(comparable(ours), comparable(recorded(case)), "{name}");
    }
    if case["exit_code"] == 0 {
        let theirs = golden_text(&format!("{directory}/{name}.txt"));
        assert_eq!(shape(&stdout(&output)), shape(&theirs), "{name}");
    }
    check_files(name, case, directory, &place);
    if check_log(name, &place, &args, &stdout(&output)) { Ran::Logged } else { Ran::WithoutLog }
}

fn check_files(name: &str, case: &Value, directory: &str, place: &Place) {
    for (file, about) in case["files_written"].as_object().into_iter().flatten() {
        let saved = tacho_testkit::golden_path(&format!("{directory}/{name}.files/{file}"));
        if about["kept"] != true || !file.ends_with(".json") || file.contains("pytorch") || !saved.exists() {
            continue;
        }
        // The date in the name differs.
        let ours = place.path().join(file);
        if ours.exists() {
            let (theirs, ours) = (std::fs::read_to_string(saved).unwrap(), std::fs::read_to_string(ours).unwrap());
            assert_eq!(keys(&ours), keys(&theirs), "{name}: {file}");
        }
    }
}

/// All cases to run: directory, name, content.
fn cases() -> Vec<(&'static str, String, Value)> {
    let mut cases = Vec::new();
    for directory in ["console", "result"] {
        for path in golden_files(directory, ".case.json") {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let name = file.trim_end_matches(".case.json").to_owned();
            let case: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            if !LEFT_OUT.iter().any(|(start, _)| name.starts_with(start)) && !case["argv"].is_null() {
                cases.push((directory, name, case));
            }
        }
    }
    cases
}

#[test]
fn runs_send_and_write_what_the_recorded_ones_did() {
    let cases = cases();
    let lacking = Mutex::new(Vec::new());
    let logged = AtomicUsize::new(0);
    each(&cases, |(directory, name, case)| match check(name, case, directory) {
        Ran::NotUnderstood => lacking.lock().unwrap().push(name.clone()),
        Ran::WithoutLog => {}
        Ran::Logged => drop(logged.fetch_add(1, Ordering::Relaxed)),
    });
    let lacking = lacking.into_inner().unwrap();
    let run = cases.len() - lacking.len();
    assert!(lacking.is_empty(), "not understood: {lacking:?}");
    assert!(run >= 90, "only {run} runs were compared");
    let logged = logged.into_inner();
    assert!(logged >= 75, "only {logged} runs were compared with what their logs give");
}
