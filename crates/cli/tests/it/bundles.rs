//! Bundles: honest ones of several kinds are valid, and a bundle says what it lacks.
//!
//! `TACHO_BUNDLES=200` sets the number of honest bundles and of forgeries of the generator.
#![expect(clippy::print_stderr, reason = "measured numbers are shown")]

mod forgeries;
mod ranks;
mod reproduction;

use std::process::Output;

use serde_json::{Value, json};
use tacho_decide::verify::Check;
use tacho_record::bundle::{Bundle, MANIFEST, MEMBERS, RESULT, SELFCHECK, WORKLOAD, pack};
use tacho_record::zip::{Member, unzip};

use crate::tacho::{Place, stderr, stdout};

/// Most runs of a kind until the client is not held up.
const REPEATS: usize = 3;

/// Nanoseconds that recorded times are multiples of.
const GRID: u64 = 1024;

const SMALL: [&str; 11] = [
    "serve",
    "--sim",
    "--sim-profile",
    "h100-8b",
    "--save-result",
    "--result-filename",
    "r.json",
    "--quiet",
    "--random-output-len",
    "12",
    "--random-input-len=64",
];

/// Kinds of runs, each about a second long.
#[rustfmt::skip]
const KINDS: [(&str, &[&str]); 9] = [
    ("rate", &["--num-prompts", "40", "--request-rate", "40", "--save-detailed"]),
    ("closed loop", &["--num-prompts", "40", "--max-concurrency", "4"]),
    ("burst", &["--num-prompts", "30"]),
    ("classes", &["--num-prompts", "40", "--request-rate", "40", "--class", "a=3: --random-input-len 32", "--class", "b: --random-output-len 24"]),
    ("sessions", &["--multi-turn", "--num-prompts", "8", "--save-workload", "w.jsonl"]),
    ("failures", &["--num-prompts", "40", "--request-rate", "40", "--sim-args", "--error-rate 0.2"]),
    ("duration", &["--num-prompts", "400", "--request-rate", "40", "--duration", "1"]),
    ("chat", &["--num-prompts", "40", "--request-rate", "40", "--backend", "openai-chat", "--random-range-ratio", "0.4", "--save-workload", "w.jsonl"]),
    ("endless", &["--max-concurrency", "3", "--duration", "1"]),
];

/// The run of a kind, bundled.
fn bundled(kind: usize, seed: u64) -> Place {
    bundled_run(KINDS[kind].1, seed)
}

/// The same of a run whose client was not held up.
fn trusted(kind: usize) -> Place {
    let made = (1..=10).map(|seed| bundled(kind, seed));
    let mut trusted = made.filter(|place| !verified(place, "a.tacho.zip").1.contains(&"client_unreliable".to_owned()));
    trusted.next().expect("the client was held up in ten runs")
}

fn bundled_run(flags: &[&str], seed: u64) -> Place {
    let place = Place::new();
    let seed = seed.to_string();
    let output = place.run(&[&SMALL[..], flags, &["--seed", &seed]].concat());
    assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    let output = place.run(&["bundle", "r.json", "-o", "a.tacho.zip"]);
    assert!(output.status.success(), "{}", stderr(&output));
    place
}

/// The verdict and the checks that found something.
fn verified(place: &Place, bundle: &str) -> (String, Vec<String>) {
    let output = place.run(&["verify", bundle, "--json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let verdict = found["verdict"].as_str().unwrap().to_owned();
    assert_eq!(output.status.code(), Some(if verdict == "INVALID" { 3 } else { 0 }), "{found:#}");
    let checks = found["findings"].as_array().unwrap().iter();
    (verdict, checks.map(|finding| finding["check"].as_str().unwrap().to_owned()).collect())
}

/// Whether an honest bundle is valid; `None` if the machine held up the client, which is a finding about the run.
fn honest(kind: usize, seed: u64) -> Option<bool> {
    let place = bundled(kind, seed);
    let (verdict, checks) = verified(&place, "a.tacho.zip");
    let disturbed = checks.iter().all(|check| check == "client_unreliable") && !checks.is_empty();
    if verdict != "VALID" && !disturbed {
        eprintln!("{} with seed {seed}: {verdict} {checks:?}", KINDS[kind].0);
    }
    (!disturbed).then_some(verdict == "VALID")
}

fn count(preset: usize) -> usize {
    std::env::var("TACHO_BUNDLES").ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

/// A client that was held up is a true finding: the run is repeated with another seed, so that each kind is judged.
#[test]
fn honest_bundles_raise_no_alarm() {
    let (mut held_up, mut judged) = (0, 0);
    for at in 0..count(KINDS.len()) {
        let seeds = (0..REPEATS).map(|repeat| (at + repeat * 1000) as u64);
        let found = seeds.map(|seed| honest(at % KINDS.len(), seed)).find(|found| {
            held_up += usize::from(found.is_none());
            found.is_some()
        });
        judged += usize::from(found.is_some());
        assert_ne!(found, Some(Some(false)), "{}", KINDS[at % KINDS.len()].0);
    }
    eprintln!("{judged} honest bundles: all valid, {held_up} runs with a client that was held up");
    assert!(judged * 3 >= count(KINDS.len()), "{judged} judged");
}

#[test]
fn a_bundle_without_a_log_is_checked_by_its_lists() {
    let place = Place::new();
    assert!(place.run(&[&SMALL[..], KINDS[0].1, &["--no-log"]].concat()).status.success());
    assert!(place.run(&["bundle", "r.json"]).status.success());
    let (verdict, checks) = verified(&place, "r.tacho.zip");
    assert_eq!((verdict.as_str(), checks), ("VALID WITH REMARKS", vec!["client_unreliable".to_owned()]));
    let (mut members, mut result) = (members(&place), place.json("r.json"));
    result["ttfts"][3] = json!(-0.5);
    result["mean_tpot_ms"] = json!(1.0);
    put(&mut members, RESULT, result.to_string().into_bytes());
    let (verdict, checks) = forged(&place, &members);
    assert_eq!(verdict, "INVALID");
    assert!(
        checks.contains(&"times_impossible".to_owned()) && checks.contains(&"metrics_differ".to_owned()),
        "{checks:?}"
    );
}

/// The members of `a.tacho.zip` or of `r.tacho.zip`, without its manifest.
fn members(place: &Place) -> Vec<Member> {
    let path = ["a.tacho.zip", "r.tacho.zip"].map(|name| place.file(name)).into_iter().find(|path| path.exists());
    let mut members = unzip(&std::fs::read(path.unwrap()).unwrap()).unwrap();
    members.retain(|member| member.name != MANIFEST);
    members
}

fn put(members: &mut Vec<Member>, name: &str, content: Vec<u8>) {
    members.retain(|member| member.name != name);
    members.push(Member { name: name.to_owned(), content });
}

fn member<'m>(members: &'m [Member], name: &str) -> &'m [u8] {
    &members.iter().find(|member| member.name == name).unwrap().content
}

/// Packs the members with a manifest that fits, as a careful forger does, and checks the bundle.
fn forged(place: &Place, members: &[Member]) -> (String, Vec<String>) {
    std::fs::write(place.file("forged.tacho.zip"), pack(members, "0.1.0", "", None)).unwrap();
    verified(place, "forged.tacho.zip")
}

/// The page of the format has every member and every check.
#[test]
fn the_reference_lists_members_and_checks() {
    let page = std::fs::read_to_string(crate::docs::root().join("docs/reference/bundle-file.md")).unwrap();
    for (name, about) in MEMBERS {
        assert!(page.contains(&format!("| `{name}` | {about} |")), "{name}");
    }
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).map(|row| row.0);
    let listed: Vec<&str> = listed.filter(|code| MEMBERS.iter().all(|(name, _)| name != code)).collect();
    assert_eq!(listed.len(), Check::NAMES.len());
    assert!(Check::NAMES.iter().all(|code| listed.contains(code)), "{listed:?}");
}

#[test]
fn a_self_check_and_several_runs_are_kept() {
    let place = Place::new();
    let run = [&SMALL[..], &["--num-prompts", "20", "--num-runs", "2", "--card", "card.svg"]].concat();
    let output = place.run(&run);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(place.file("card-run1.svg").exists() && place.file("card.svg").exists());
    place.write("selfcheck.json", "{\"points\": []}");
    let output = place.run(&["bundle", "r-run2.json", "--selfcheck", "selfcheck.json", "--no-workload"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let bundle = Bundle::read(&std::fs::read(place.file("r-run2.tacho.zip")).unwrap()).unwrap();
    assert_eq!(bundle.member(SELFCHECK), Some(&b"{\"points\": []}"[..]));
    assert!(bundle.member(WORKLOAD).is_none() && bundle.altered.is_empty());
}

#[test]
fn hostile_files_are_refused_in_one_line() {
    let place = Place::new();
    let mut zip = tacho_record::zip::Zip::default();
    zip.add("../evil", b"x");
    std::fs::write(place.file("path.zip"), zip.finish()).unwrap();
    place.write("text.zip", "not an archive");
    for (name, problem) in [
        ("path.zip", "the name \"../evil\" of a member is not a plain relative path"),
        ("text.zip", "it is not a ZIP archive"),
        ("none.zip", "none.zip does not exist: pass a file of tacho bundle"),
    ] {
        for command in [&["verify", name][..], &["reproduce", name, "--sim"]] {
            let output = place.run(command);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains(problem), "{text}");
        }
    }
    assert!(!place.path().parent().unwrap().join("evil").exists());
}

#[test]
fn a_bundle_holds_no_secret() {
    let key = "sk-9f3a7c5e1b2d4f60";
    let body = format!("{{\"api_key\": \"{key}\"}}");
    let header = format!("Authorization=Bearer {key}");
    // Requests with a secret in the body cannot be checked without it, and are left out.
    for (further, files) in [(&[][..], 6), (&["--extra-body", &body], 5)] {
        let place = Place::new();
        let run = [
            &SMALL[..],
            KINDS[0].1,
            &["--header", &header, "X-Plain=shown", "--sim-args", "--error-rate 0.1", "--save-workload", "w.jsonl"],
            further,
        ]
        .concat();
        let run_with = |args: &[&str]| -> Output { place.command(args).env("OPENAI_API_KEY", key).output().unwrap() };
        for args in [&run[..], &["bundle", "r.json", "-o", "a.tacho.zip"]] {
            let output = run_with(args);
            assert!(output.status.success(), "{}", stderr(&output));
        }
        let (_, checks) = verified(&place, "a.tacho.zip");
        assert_eq!(checks.contains(&"plan_unknown".to_owned()), files == 5, "{checks:?}");
        let bundle = Bundle::read(&std::fs::read(place.file("a.tacho.zip")).unwrap()).unwrap();
        bundle.unpack(&place.file("unpacked")).unwrap();
        // The rows are packed: their columns are written as text.
        assert!(place.run(&["report", "unpacked/log", "--save-requests", "unpacked/rows.jsonl"]).status.success());
        let all = place.tree("unpacked");
        assert_eq!(all.len(), files);
        for (name, content) in all {
            assert!(!String::from_utf8_lossy(&content).contains(key), "{name}");
        }
        // One that was added by hand is refused.
        let mut result = place.json("r.json");
        result["note"] = json!(key);
        place.write("r.json", &result.to_string());
        let output = run_with(&["bundle", "r.json", "-o", "b.tacho.zip"]);
        assert!(stderr(&output).contains("result.json holds a secret"), "{}", stderr(&output));
        assert!(!place.file("b.tacho.zip").exists());
    }
}

#[test]
fn a_bundle_says_what_it_lacks() {
    let place = Place::new();
    let lines: String =
        (0..20).map(|at| format!("{{\"prompt\": \"question {at}\", \"output_tokens\": 4}}\n")).collect();
    place.write("own.jsonl", &lines);
    let run = [
        "--dataset-name",
        "custom",
        "--dataset-path",
        "own.jsonl",
        "--num-prompts",
        "20",
        "--request-rate",
        "40",
        "--skip-chat-template",
    ];
    let output = place.run(&[&SMALL[..], &run].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let output = place.run(&["bundle", "r.json"]);
    assert!(stderr(&output).contains("the bundle has no requests"), "{}", stderr(&output));
    let (_, checks) = verified(&place, "r.tacho.zip");
    assert!(checks.contains(&"plan_unknown".to_owned()), "{checks:?}");
    let output = place.run(&["reproduce", "r.tacho.zip", "--sim"]);
    assert!(stderr(&output).contains("its requests cannot be made again"), "{}", stderr(&output));
    assert!(place.run(&[&SMALL[..8], &["--no-log", "--num-prompts", "5"]].concat()).status.success());
    let output = place.run(&["bundle", "r.json", "-o", "x.zip"]);
    assert_eq!(output.status.code(), Some(1));
}
