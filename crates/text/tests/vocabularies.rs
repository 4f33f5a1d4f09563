//! Compares vocabularies of every kind with Python's libraries: IDs, text, special tokens, sizes.

use std::path::Path;

use serde_json::Value;
use tacho_testkit::{golden_json, golden_path};
use tacho_text::{Error, Tokenizer, TokenizerMode};

/// A directory with the files of a case under their names.
fn directory(case: &Value) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for (name, source) in case["files"].as_object().expect("a case has files") {
        let source = golden_path(&format!("tokenizers/small/{}", source.as_str().expect("a name")));
        std::fs::copy(source, directory.path().join(name)).expect("the file can be copied");
    }
    for name in ["config", "tokenizer_config"] {
        if !case[name].is_null() {
            write(directory.path(), &format!("{name}.json"), &case[name].to_string());
        }
    }
    directory
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).expect("the file can be written");
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("a list of ids")
}

#[test]
fn vocabularies_are_read_as_in_python() {
    let golden = golden_json("tokenizers/small/cases.json");
    let texts: Vec<&str> = golden["texts"].as_array().expect("texts").iter().filter_map(Value::as_str).collect();
    for case in golden["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        let directory = directory(case);
        let mode = TokenizerMode::parse(case["mode"].as_str().expect("a mode")).expect("a known mode");
        let tokenizer = Tokenizer::load_as(directory.path(), mode).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (text, expected) in texts.iter().zip(case["ids"].as_array().expect("ids")) {
            assert_eq!(tokenizer.encode(text, true), ids(expected), "{name}: {text:?}");
        }
        for pair in case["decoded"].as_array().expect("decoded texts") {
            assert_eq!(tokenizer.decode(&ids(&pair[0])), pair[1].as_str().expect("a text"), "{name}: {}", pair[0]);
        }
        let sizes = [tokenizer.vocab_size(), tokenizer.full_vocab_size(), tokenizer.num_special()];
        for (size, key) in sizes.into_iter().zip(["vocab_size", "full_vocab_size", "num_special"]) {
            assert_eq!(size as u64, case[key].as_u64().expect("a number"), "{name}: {key}");
        }
        assert_eq!(tokenizer.special_ids(), ids(&case["special_ids"]), "{name}");
        assert_eq!(tokenizer.added_special_ids(), ids(&case["added_special_ids"]), "{name}");
    }
}

#[test]
fn mistral_directories_are_known_by_their_weights() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for name in ["tekken.json", "tokenizer.model.v3"] {
        let source = if name == "tekken.json" { "tekken.json" } else { "bpe.model" };
        std::fs::copy(golden_path(&format!("tokenizers/small/{source}")), directory.path().join(name)).expect("copied");
    }
    let plain = Tokenizer::load(directory.path()).expect("it loads");
    assert_eq!(plain.num_special(), 0, "without weights it is Hugging Face's");
    write(directory.path(), "consolidated.safetensors", "");
    assert_eq!(Tokenizer::load(directory.path()).expect("it loads").num_special(), 1);
    std::fs::remove_file(directory.path().join("tekken.json")).expect("it can be removed");
    let old = Tokenizer::load(directory.path()).expect("it loads");
    assert_eq!(old.encode("</s>", true).first(), Some(&1));
    assert!(!old.encode("</s>", true).contains(&2), "special tokens are never found in text");
    // If special tokens are kept, Mistral's library joins the raw pieces, including byte tokens.
    assert_eq!(old.decode(&old.encode(" Hello  world", false)), "▁▁<0x48>ello▁▁world");
}

#[test]
fn what_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    write(directory.path(), "tokenizer.model", "neither this nor that");
    let error = Tokenizer::load(directory.path()).expect_err("it is no vocabulary");
    assert!(matches!(&error, Error::NotVocabulary { path, .. } if path.ends_with("tokenizer.model")), "{error}");
    std::fs::remove_file(directory.path().join("tokenizer.model")).expect("it can be removed");
    write(directory.path(), "tokenizer_config.json", r#"{"auto_map": {"AutoTokenizer": ["own.Slow", null]}}"#);
    let error = Tokenizer::load(directory.path()).expect_err("it is a program");
    assert!(matches!(&error, Error::RemoteCode { class, .. } if class == "own.Slow"), "{error}");
    let error = Tokenizer::load_as(directory.path(), TokenizerMode::Mistral).expect_err("there is none");
    assert!(error.to_string().contains("tekken.json"), "{error}");
}

#[test]
fn chats_that_are_coded_have_no_template() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::copy(golden_path("tokenizers/gpt2/tokenizer.json"), directory.path().join("tokenizer.json"))
        .expect("copied");
    write(directory.path(), "chat_template.jinja", "{{ messages }}");
    assert!(Tokenizer::load(directory.path()).expect("it loads").has_chat_template());
    let coded = Tokenizer::load_as(directory.path(), TokenizerMode::CodedChat).expect("it loads");
    assert!(!coded.has_chat_template());
}
