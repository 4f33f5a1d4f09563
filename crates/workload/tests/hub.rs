//! The Hub: which files are downloaded, where they are stored, and failures.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod fake_hub;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fake_hub::{COMMIT, FakeHub, sha256};
use tacho_core::{EventSink, RunEvent};
use tacho_workload::hub::{Hub, HubError};

const CONFIG: &[u8] = br#"{"tokenizer_class": "GPT2Tokenizer"}"#;

fn large() -> Vec<u8> {
    (0..200_000_u32).flat_map(|number| number.to_le_bytes()).collect()
}

fn model(tokenizer: &[u8]) -> FakeHub {
    let files: [(&str, &[u8]); 4] = [
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", CONFIG),
        ("additional_chat_templates/tool_use.jinja", b"{{ messages }}"),
        ("model.safetensors", b"weights"),
    ];
    FakeHub::start(&[("models/org/name", &files)])
}

fn hub(home: &Path, variables: &[(&str, &str)]) -> Hub {
    let home = home.to_str().unwrap().to_owned();
    Hub::from_variables(|name| match name {
        "HF_HOME" => Some(home.clone()),
        name => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
    })
}

fn text(error: &HubError) -> String {
    error.to_string()
}

/// Collects the events.
#[derive(Default)]
struct Collected(Mutex<Vec<String>>);

impl EventSink for Collected {
    fn event(&self, event: RunEvent) {
        let line = match event {
            RunEvent::Warning(note) => format!("{note:?}"),
            RunEvent::Started { work, total, .. } => format!("{work:?} {total}"),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn tokenizers_are_put_where_the_python_library_puts_them() {
    let bytes = large();
    let fake = model(&bytes);
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    let told = Collected::default();
    let directory = hub.tokenizer("org/name", None, &told).unwrap();
    let repo = home.path().join("hub/models--org--name");
    assert_eq!(directory, repo.join("snapshots").join(COMMIT));
    assert_eq!(std::fs::read(repo.join("refs/main")).unwrap(), COMMIT.as_bytes());
    let link = |name: &str| std::fs::read_link(directory.join(name)).unwrap();
    assert_eq!(link("tokenizer.json"), PathBuf::from(format!("../../blobs/{}", sha256(&bytes))));
    assert!(link("additional_chat_templates/tool_use.jinja").starts_with("../../../blobs"));
    assert_eq!(std::fs::read(directory.join("tokenizer.json")).unwrap(), bytes);
    assert_eq!(std::fs::read(directory.join("tokenizer_config.json")).unwrap(), CONFIG);
    assert!(!directory.join("model.safetensors").exists(), "weights are not needed");
    let left: Vec<_> = std::fs::read_dir(repo.join("blobs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with("incomplete")), "{left:?}");
    assert_eq!(*told.0.lock().unwrap(), [format!("Downloading {}", bytes.len() + CONFIG.len() + 14)]);
}

#[test]
fn what_is_there_is_not_fetched_again() {
    let fake = model(&large());
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    let first = hub.tokenizer("org/name", None, &()).unwrap();
    let (before, asked) = (fake.downloads(), fake.state.lock().unwrap().requests.len());
    assert_eq!(before, 3);
    assert_eq!(hub.tokenizer("org/name", None, &()).unwrap(), first);
    assert_eq!(fake.downloads(), before);
    assert_eq!(fake.state.lock().unwrap().requests.len(), asked + 1, "only the listing is requested");
    let by_commit = hub.tokenizer("org/name", Some(COMMIT), &()).unwrap();
    assert_eq!((by_commit, fake.downloads()), (first, before));
}

#[test]
fn a_download_that_breaks_off_is_continued() {
    let bytes = large();
    let fake = model(&bytes);
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    fake.state.lock().unwrap().cut = Some(300_000);
    let directory = hub.tokenizer("org/name", None, &()).unwrap();
    assert_eq!(std::fs::read(directory.join("tokenizer.json")).unwrap(), bytes);
    let ranges: Vec<_> = fake.state.lock().unwrap().fetched.iter().map(|(_, _, range)| range.clone()).collect();
    assert_eq!(ranges, [None, Some("bytes=300000-".to_owned())]);
}

#[test]
fn bytes_of_an_earlier_process_are_used_and_checked() {
    let bytes = large();
    let fake = model(&bytes);
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    let incomplete = home.path().join(format!("hub/models--org--name/blobs/{}.incomplete", sha256(&bytes)));
    std::fs::create_dir_all(incomplete.parent().unwrap()).unwrap();
    std::fs::write(&incomplete, vec![7; 1000]).unwrap();
    let error = hub.tokenizer("org/name", None, &()).unwrap_err();
    assert!(matches!(&error, HubError::Damaged { file, .. } if file == "tokenizer.json"), "{error}");
    assert!(!incomplete.exists(), "bytes that are wrong are not kept");
    std::fs::write(&incomplete, &bytes[..1000]).unwrap();
    let directory = hub.tokenizer("org/name", None, &()).unwrap();
    assert_eq!(std::fs::read(directory.join("tokenizer.json")).unwrap(), bytes);
    let last = fake.state.lock().unwrap().fetched.last().cloned().unwrap();
    assert_eq!(last.2.as_deref(), Some("bytes=1000-"));
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let fake = model(&large());
    fake.state.lock().unwrap().token = Some("hf_secret".to_owned());
    let home = tempfile::tempdir().unwrap();
    let without = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    let error = without.tokenizer("org/name", None, &()).unwrap_err();
    assert!(matches!(error, HubError::NeedsToken { status: 401, .. }) && text(&error).contains("HF_TOKEN"), "{error}");
    let wrong = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint), ("HF_TOKEN", "hf_other")]);
    let error = wrong.tokenizer("org/name", None, &()).unwrap_err();
    assert!(matches!(error, HubError::Refused { .. }) && !text(&error).contains("hf_other"), "{error}");
    let with = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint), ("HF_TOKEN", "hf_secret")]);
    with.tokenizer("org/name", None, &()).unwrap();
    let state = fake.state.lock().unwrap();
    assert!(state.requests.iter().any(|(_, _, sent)| sent.as_deref() == Some("Bearer hf_secret")));
    assert!(!state.fetched.is_empty() && state.fetched.iter().all(|(_, sent, _)| sent.is_none()));
}

#[test]
fn the_cache_serves_when_the_hub_does_not() {
    let fake = model(&large());
    let home = tempfile::tempdir().unwrap();
    let online = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    let away = hub(home.path(), &[("HF_ENDPOINT", "http://127.0.0.1:1")]);
    let offline = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint), ("HF_HUB_OFFLINE", "1")]);
    let error = away.tokenizer("org/name", None, &()).unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }) && text(&error).contains("HF_ENDPOINT"), "{error}");
    let error = offline.tokenizer("org/name", None, &()).unwrap_err();
    assert!(matches!(error, HubError::Offline { .. }) && text(&error).contains("HF_HUB_OFFLINE"), "{error}");
    assert!(fake.state.lock().unwrap().requests.is_empty());
    let directory = online.tokenizer("org/name", None, &()).unwrap();
    let told = Collected::default();
    assert_eq!(away.tokenizer("org/name", None, &told).unwrap(), directory);
    assert!(told.0.lock().unwrap()[0].contains("cannot be reached"), "{told:?}", told = told.0);
    assert_eq!(offline.tokenizer("org/name", None, &()).unwrap(), directory);
    fake.state.lock().unwrap().status = Some(503);
    assert_eq!(online.tokenizer("org/name", None, &()).unwrap(), directory);
    assert!(matches!(online.tokenizer("org/other", None, &()), Err(HubError::Status { status: 503, .. })));
}

#[test]
fn what_cannot_be_is_said() {
    let fake = FakeHub::start(&[
        ("models/org/bare", &[("model.safetensors", b"weights")]),
        ("models/org/evil", &[("../../tokenizer.json", b"{}"), ("/tokenizer.json", b"{}")]),
    ]);
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    let ask = |name: &str| hub.tokenizer(name, None, &()).unwrap_err();
    assert!(matches!(ask("org/none"), HubError::NotFound { .. }));
    assert!(matches!(ask("org/bare"), HubError::NoTokenizer { .. }));
    assert!(matches!(ask("org/evil"), HubError::NoTokenizer { .. }));
    assert!(matches!(ask("/no/such/directory"), HubError::NeitherPathNorId { .. }));
    assert!(!home.path().parent().unwrap().join("tokenizer.json").exists());
    assert_eq!(hub.tokenizer(home.path().to_str().unwrap(), None, &()).unwrap(), home.path());
}

#[test]
fn several_processes_share_one_download() {
    let fake = model(&large());
    let home = tempfile::tempdir().unwrap();
    let hub = hub(home.path(), &[("HF_ENDPOINT", &fake.endpoint)]);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| hub.tokenizer("org/name", None, &()).unwrap());
        }
    });
    assert_eq!(fake.state.lock().unwrap().fetched.len(), 1);
}
