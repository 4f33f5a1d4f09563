//! Save and replay: for random flags over all backends, a saved workload is sent again to the byte, and workload
//! digests differ if and only if what is sent or its times differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;
use tacho_client::{BackendKind, Client, ClientPlan, RequestIdentity};
use tacho_core::{Request, SystemClock};
use tacho_pyrand::Random;
use tacho_run::ServePlan;
use tacho_run::serve::{Contact, Prepared, prepare, workload_digest};
use tacho_sim::{Server, SimSpec};
use tacho_testkit::golden_path;

use super::{plan, save};
use crate::args::serve::{ServeArgs, TABLE};
use crate::commands::values_for;

const CASES: usize = 3;

/// A header that is not part of a workload.
const SECRET: &str = "X-Api-Key: ***\r\n";

/// What a run sends, and when.
#[derive(Debug, PartialEq)]
struct Sent {
    requests: Vec<String>,
    times: Vec<String>,
    digest: String,
}

struct Bench {
    server: Server,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rows = "{\"prompt\": \"a b\", \"output_tokens\": 4}\n{\"prompt\": \"c\", \"output_tokens\": 2}\n".repeat(3);
        std::fs::write(directory.path().join("custom.jsonl"), rows).unwrap();
        let turns = r#"[{"from": "human", "value": "one two three"}, {"from": "gpt", "value": "four five six"}]"#;
        let shared = format!("[{}]", vec![format!("{{\"id\": \"x\", \"conversations\": {turns}}}"); 8].join(", "));
        std::fs::write(directory.path().join("sharegpt.json"), shared).unwrap();
        let sound = golden_path("data/audio/tone8k.wav");
        let row = |text: &str| format!("{}\n", json!({"prompt": text, "audio": &sound, "output_tokens": 3}));
        std::fs::write(directory.path().join("audio.jsonl"), ["a b", "c", "d e f", "g"].map(row).concat()).unwrap();
        Bench { server: Server::start(SimSpec { threads: 1, ..SimSpec::default() }).unwrap(), directory }
    }

    fn args(&self, argv: &[String]) -> anyhow::Result<ServeArgs> {
        args(&[&["--sim".to_owned()], argv].concat())
    }

    fn prepared(&self, args: &ServeArgs) -> anyhow::Result<(ServePlan, Prepared)> {
        let plan = plan::of(args, Some(&self.server))?;
        let prepared = prepare(&plan, Contact::Minimal, &())?;
        Ok((plan, prepared))
    }

    fn sent(&self, plan: &ServePlan, prepared: &Prepared) -> anyhow::Result<Sent> {
        let requests = prepared.requests.all()?;
        let payload = prepared.payload(plan);
        let clock = SystemClock::start();
        let client = Client::new(plan.endpoint.clone(), &payload, &requests, ClientPlan::default(), clock)?;
        let identity = RequestIdentity::new(plan.endpoint.clone(), &plan.base_path, &payload);
        let shown = |(index, request): (usize, &Request)| -> anyhow::Result<String> {
            if plan.endpoint.backend.name() != "openai-realtime" {
                return Ok(client.shown(index).replace(SECRET, ""));
            }
            // The key and the masks of a WebSocket are random.
            let mut unmasked = Vec::new();
            identity.parts(index, request, |part| unmasked.extend_from_slice(part))?;
            Ok(String::from_utf8_lossy(&unmasked).into_owned())
        };
        let seconds = prepared.timeline.scheduled().iter().zip(requests.iter());
        Ok(Sent {
            requests: requests.iter().enumerate().map(shown).collect::<Result<_, _>>()?,
            times: seconds.map(|(due, request)| format!("{due:.6} {:?}", request.cancel_after)).collect(),
            digest: workload_digest(plan, prepared)?,
        })
    }

    /// What a run with these flags sends, and what its saved workload sends with `more` flags.
    fn both(&self, argv: &[String], more: &[&str]) -> anyhow::Result<(Sent, anyhow::Result<Sent>)> {
        let path = self.directory.path().join("w.jsonl").to_str().unwrap().to_owned();
        let argv = [argv, &["--save-workload".to_owned(), path.clone()]].concat();
        let args = self.args(&argv)?;
        let (plan, prepared) = self.prepared(&args)?;
        let sent = self.sent(&plan, &prepared)?;
        save(&args, &plan, &prepared)?;
        let again = ["--workload", &path].iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let again = self.args(&again).and_then(|args| {
            let (plan, prepared) = self.prepared(&args)?;
            assert_eq!(plan.replayed.as_ref().unwrap().digest.as_ref(), Some(&sent.digest));
            self.sent(&plan, &prepared)
        });
        Ok((sent, again))
    }
}

fn args(argv: &[String]) -> anyhow::Result<ServeArgs> {
    let common = ["serve", "--quiet", "--request-id-prefix", "r-"].map(str::to_owned);
    let values = values_for(&TABLE, &[&common[..], argv].concat())?.expect("words of tacho serve");
    Ok(ServeArgs::read(values)?)
}

fn argv(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn pick<'a>(random: &mut Random, choices: &[&'a str]) -> &'a str {
    choices[random.randint(0, choices.len() as i64 - 1) as usize]
}

fn command(random: &mut Random, backend: &str, directory: &Path) -> Vec<String> {
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let datasets = [
        "--dataset-name random --random-input-len 6 --random-output-len 3".to_owned(),
        "--dataset-name random --random-input-len 6 --random-output-len 3 --random-batch-size 2".to_owned(),
        "--dataset-name prefix_repetition --prefix-repetition-prefix-len 4 --prefix-repetition-suffix-len 4".to_owned(),
        format!("--dataset-name custom --dataset-path {}", file("custom.jsonl")),
        format!("--dataset-name sharegpt --dataset-path {}", file("sharegpt.json")),
        "--dataset-name random-mm --random-input-len 6 --random-output-len 3 --random-mm-base-items-per-request 1 \
         --random-mm-bucket-config={(16,16,1):1.0}"
            .to_owned(),
        "--dataset-name random-rerank --random-input-len 12".to_owned(),
        format!("--dataset-name custom_audio --dataset-path {}", file("audio.jsonl")),
    ];
    let dataset = match backend {
        "vllm-rerank" => &datasets[1 + 5 * random.randint(0, 1) as usize],
        "openai-image-edits" => &datasets[5],
        "openai-audio" | "openai-realtime" => &datasets[7],
        _ => &datasets[random.randint(0, 5) as usize],
    };
    let mut line = format!("--backend {backend} --num-prompts 4 {dataset}");
    for choices in [
        &["", "", "--temperature 0.5", "--temperature 0.9"][..],
        &["", "", "--extra-body.min_tokens 2", "--extra-body.a.b 1"],
        &["--model m", "--model n", "--model m --served-model-name z"],
        &["", "--seed 3"],
        &["", "--request-rate 5", "--request-rate 9 --burstiness 0.5"],
        &["", "", "--ignore-eos"],
        &["", "", "--header X-A=1", "--header X-A=2 X-Api-Key=hunter2"],
        &["", "", "--max-concurrency 2"],
        &["", "", "--lora-modules a b"],
        &["", "", "--request-cancellation-rate 50 --request-cancellation-delay 1"],
        &["", "", "", "--cache-salt random"],
        &["", "", "", "--class x=1:--temperature=0.1 --class y"],
        &["", "", "", "--stages a:1s@3,b:1s@2"],
    ] {
        line += &format!(" {}", pick(random, choices));
    }
    argv(&line)
}

#[test]
fn random_workloads_are_replayed_to_the_byte_and_named_by_what_they_send() {
    let bench = Bench::new();
    let mut random = Random::new(11);
    let mut by_digest: BTreeMap<String, Sent> = BTreeMap::new();
    let mut backends = BTreeSet::new();
    for backend in BackendKind::NAMES {
        let mut cases = 0;
        // Some flags do not fit: what is refused is not sent.
        for _ in 0..40 * CASES {
            let line = command(&mut random, backend, bench.directory.path());
            let Ok((sent, again)) = bench.both(&line, &["--header", "X-Api-Key=hunter3"]) else { continue };
            assert_eq!(again.unwrap_or_else(|error| panic!("{line:?}: {error:#}")), sent, "{line:?}");
            match by_digest.get(&sent.digest) {
                Some(other) => assert_eq!(other, &sent, "{line:?}"),
                None => {
                    let is_same = |other: &&Sent| (&other.requests, &other.times) == (&sent.requests, &sent.times);
                    assert!(!by_digest.values().any(|other| is_same(&other)), "{line:?}");
                    by_digest.insert(sent.digest.clone(), sent);
                }
            }
            backends.insert(backend);
            cases += 1;
            if cases == CASES {
                break;
            }
        }
    }
    let missing: Vec<&&str> = BackendKind::NAMES.iter().filter(|name| !backends.contains(**name)).collect();
    assert!(missing.is_empty() && by_digest.len() > 40, "{missing:?} {}", by_digest.len());
}

#[test]
fn each_part_of_what_is_sent_changes_the_digest_and_nothing_else_does() {
    let bench = Bench::new();
    let base = "--model m --num-prompts 4 --random-input-len 6 --random-output-len 3 --request-rate 5 --seed 1";
    let digest = |more: &str| {
        let args = bench.args(&argv(&format!("{base} {more}"))).unwrap();
        let (plan, prepared) = bench.prepared(&args).unwrap();
        workload_digest(&plan, &prepared).unwrap()
    };
    let first = digest("");
    assert!(first.starts_with("v2:") && first.len() == 19, "{first}");
    for same in ["--api-key k", "--header X-Api-Key=k", "--max-concurrency 2", "--http2"] {
        assert_eq!(digest(same), first, "{same}");
    }
    let others = [
        "--temperature 0.5",
        "--backend openai-chat",
        "--backend sglang --endpoint /other/v1/completions",
        "--extra-body.top_k 7",
        "--served-model-name z",
        "--seed 2",
        "--request-rate 6",
        "--header X-A=1",
        "--logprobs 2",
        "--cache-salt s",
        "--request-cancellation-rate 100 --request-cancellation-delay 1",
        "--duration 3",
    ];
    let digests: BTreeSet<String> = others.iter().map(|more| digest(more)).chain([first.clone()]).collect();
    assert_eq!(digests.len(), others.len() + 1);
    // Another host, and a path before the API's.
    let elsewhere = |url: &str| {
        let args = args(&argv(&format!("{base} --base-url {url}"))).unwrap();
        let plan = ServePlan { tokenizer: tacho_run::TokenizerPlan::Builtin, ..plan::of(&args, None).unwrap() };
        workload_digest(&plan, &prepare(&plan, Contact::Minimal, &()).unwrap()).unwrap()
    };
    assert_eq!(elsewhere("http://127.0.0.1:1"), first);
    assert_eq!(elsewhere("http://localhost:2/prefix"), first);
}

#[test]
fn sessions_are_replayed_from_any_name_with_the_digest_of_their_run() {
    let bench = Bench::new();
    let file = golden_path("sessions/mooncake-session.jsonl");
    let sessions = format!("--backend openai-chat --model m --sessions {} --temperature 0.3", file.display());
    let made =
        "--backend openai-chat --model m --multi-turn --num-prompts 3 --random-input-len 8 --random-output-len 4";
    for line in [
        sessions.clone(),
        format!("{sessions} --session-rate 0.7 --tool-latency uniform:1:2 --seed 9"),
        format!("{sessions} --num-users 2 --user-centric-rate 1 --lora-modules a b"),
        format!("{made} --request-cancellation-rate 50 --think-time 0.25"),
    ] {
        let (sent, again) = bench.both(&argv(&line), &[]).unwrap();
        let again = again.unwrap();
        assert_eq!((again.requests, again.digest), (sent.requests, sent.digest), "{line}");
    }
}

#[test]
fn a_flag_that_would_change_the_requests_is_refused_beside_a_saved_workload() {
    let bench = Bench::new();
    let line = argv("--model m --num-prompts 3 --random-input-len 6 --header X-Api-Key=hunter2 X-A=1");
    let refused = |more: &[&str]| bench.both(&line, more).unwrap().1.unwrap_err().to_string();
    let key = ["--header", "X-Api-Key=hunter3"];
    assert!(bench.both(&line, &key).unwrap().1.is_ok());
    assert!(
        bench.both(&line, &[&key[..], &["X-A=1", "--model", "m", "--backend", "openai"]].concat()).unwrap().1.is_ok()
    );
    for flag in
        [&["--backend", "openai-chat"][..], &["--temperature", "0.1"], &["--model", "other"], &["--duration", "2"]]
    {
        let error = refused(&[&key[..], flag].concat());
        assert!(error.starts_with(&format!("{} would change the requests", flag[0])), "{error}");
    }
    let error = refused(&[&key[..], &["X-A=2"]].concat());
    assert!(error.starts_with("--header would change the requests"), "{error}");
    let error = refused(&[]);
    assert!(error.contains("X-Api-Key in --header, which files do not keep"), "{error}");
    assert!(!std::fs::read_to_string(bench.directory.path().join("w.jsonl")).unwrap().contains("hunter"));
}
