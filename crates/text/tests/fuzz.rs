//! Fuzzes vocabularies and templates: an error or a tokenizer, never a panic or an abort. `TACHO_FUZZ_COUNT=1000000
//! cargo test --release -p tacho-text fuzz -- --nocapture --test-threads=1` tries a million inputs of each kind on all
//! cores.

use std::path::Path;

use tacho_core::json;
use tacho_testkit::{Counted, fuzz_files, golden_path};
use tacho_text::{Aborted, ChatInput, Tokenizer, TokenizerMode};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Inputs of each kind in an ordinary run.
const CASES: u64 = 150;

fn small(name: &str) -> Vec<u8> {
    std::fs::read(golden_path(&format!("tokenizers/small/{name}"))).expect("a golden file")
}

/// Loads corrupted vocabularies and uses those that load.
fn vocabularies(name: &str, source: &str, siblings: &[(&str, Vec<u8>)], mode: TokenizerMode) {
    let prepare = |directory: &Path| {
        for (name, bytes) in siblings {
            std::fs::write(directory.join(name), bytes).expect("the file can be written");
        }
    };
    fuzz_files(&format!("{name} ({source})"), &[small(source)], CASES, prepare, |directory, bytes| {
        std::fs::write(directory.join(name), bytes).expect("the file can be written");
        let Ok(tokenizer) = Tokenizer::load_as(directory, mode) else { return };
        let ids = tokenizer.encode("Hello, wörld <s> 1234", true);
        let _ = (tokenizer.decode(&ids), tokenizer.decode(&[0, 7, u32::MAX]), tokenizer.special_ids());
    });
}

#[test]
fn fuzz_sentencepiece() {
    vocabularies("tokenizer.model", "bpe.model", &[], TokenizerMode::Hf);
    vocabularies("tokenizer.model", "unigram.model", &[], TokenizerMode::Hf);
    vocabularies("tokenizer.model.v3", "bpe.model", &[], TokenizerMode::Mistral);
}

#[test]
fn fuzz_tiktoken_and_tekken() {
    vocabularies("x.tiktoken", "ranks.tiktoken", &[], TokenizerMode::Hf);
    vocabularies("tekken.json", "tekken.json", &[], TokenizerMode::Mistral);
}

#[test]
fn fuzz_plain() {
    vocabularies("vocab.json", "vocab.json", &[("merges.txt", small("merges.txt"))], TokenizerMode::Hf);
    vocabularies("merges.txt", "merges.txt", &[("vocab.json", small("vocab.json"))], TokenizerMode::Hf);
    vocabularies("vocab.txt", "vocab.txt", &[], TokenizerMode::Hf);
    vocabularies("tokenizer.json", "llama.json", &[], TokenizerMode::Hf);
}

#[test]
fn fuzz_settings() {
    let llama = small("llama.json");
    let settings = br#"{"tokenizer_class": "LlamaTokenizer", "bos_token": {"content": "<s>"}, "add_bos_token": true,
        "added_tokens_decoder": {"1": {"content": "<s>", "special": true}}, "clean_up_tokenization_spaces": true,
        "chat_template": [{"name": "default", "template": "{{ messages }}"}], "additional_special_tokens": ["<x>"]}"#;
    let prepare =
        |directory: &Path| std::fs::write(directory.join("tokenizer.json"), &llama).expect("it can be written");
    fuzz_files("tokenizer_config.json", &[settings.to_vec()], CASES, prepare, |directory, bytes| {
        std::fs::write(directory.join("tokenizer_config.json"), bytes).expect("the file can be written");
        let Ok(tokenizer) = Tokenizer::load(directory) else { return };
        let _ = (tokenizer.encode("a <s> b", true), tokenizer.eos_id(), tokenizer.chat_template(true).is_ok());
    });
}

#[test]
fn a_template_that_never_ends_is_stopped() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::copy(golden_path("tokenizers/small/llama.json"), directory.path().join("tokenizer.json")).expect("copied");
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a %}{% endfor %}{% endfor %}";
    std::fs::write(directory.path().join("chat_template.jinja"), endless).expect("the file can be written");
    let tokenizer = Tokenizer::load(directory.path()).expect("it loads");
    let messages = json::parse("[]").expect("JSON");
    let now = jiff::civil::date(2024, 7, 26).at(9, 5, 0, 0);
    let input = ChatInput { messages: &messages, tools: None, variables: None, now };
    assert!(tokenizer.chat_template(false).expect("it is Jinja").render(&input).is_err());
}

#[test]
fn a_file_that_the_library_panics_on_is_refused() {
    let mut file: serde_json::Value = serde_json::from_slice(&small("llama.json")).expect("JSON");
    let piece = serde_json::json!([{"SpecialToken": {"id": "<nowhere>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]);
    file["post_processor"] =
        serde_json::json!({"type": "TemplateProcessing", "single": piece, "pair": piece, "special_tokens": {}});
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().join("tokenizer.json");
    std::fs::write(&path, file.to_string()).expect("the file can be written");
    let refused = Tokenizer::load(directory.path()).expect_err("it cannot be used").to_string();
    assert!(refused.contains("tokenizer.json"), "{refused}");
}

/// Its trie claims to have a thousand million units.
#[test]
fn normalizing_rules_that_lie_are_refused() {
    let rules = [0xff; 64];
    let rules: String = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, rules);
    let mut file: serde_json::Value = serde_json::from_slice(&small("llama.json")).expect("JSON");
    file["normalizer"] = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": rules});
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(directory.path().join("tokenizer.json"), file.to_string()).expect("the file can be written");
    let refused = Tokenizer::load(directory.path()).expect_err("it cannot be used");
    let why = std::error::Error::source(&refused).expect("a reason").to_string();
    assert!(why.contains("precompiled_charsmap"), "{why}");
}

/// A rule that doubles each `a`, forty times over, and a pattern that tries every split of a text.
#[test]
fn a_tokenizer_that_never_ends_is_refused() {
    let with = |part: &str, value: serde_json::Value| {
        let mut file: serde_json::Value = serde_json::from_slice(&small("llama.json")).expect("JSON");
        file[part] = value;
        let directory = tempfile::tempdir().expect("a directory can be made");
        std::fs::write(directory.path().join("tokenizer.json"), file.to_string()).expect("the file can be written");
        (Tokenizer::load(directory.path()), directory)
    };
    let twice = serde_json::json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
    let (doubled, _directory) =
        with("normalizer", serde_json::json!({"type": "Sequence", "normalizers": vec![twice; 40]}));
    let why = doubled.expect_err("it cannot be used").to_string();
    assert!(why.contains("tokenizer.json is not a tokenizer that can be used"), "{why}");
    let pattern = serde_json::json!({"Regex": "(a+)+$"});
    let split = serde_json::json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
    let (tokenizer, _directory) = with("pre_tokenizer", split);
    let tokenizer = tokenizer.expect("it can be used for most texts");
    let text = "a".repeat(60) + "b";
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tokenizer.count(&text, true)));
    let aborted = unwound.expect_err("it has no count").downcast::<Aborted>().expect("a line");
    assert!(aborted.0.contains("tokenizer.json gives up on a text of 61 characters"), "{}", aborted.0);
}
