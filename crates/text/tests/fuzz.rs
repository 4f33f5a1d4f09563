//! Broken vocabularies and templates: an error or a tokenizer, never a panic or an abort.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-text --test fuzz` tries a million of each kind.

use tacho_core::json;
use tacho_testkit::{fuzz, golden_path};
use tacho_text::{ChatInput, Tokenizer, TokenizerMode};

/// Inputs of each kind in an ordinary run.
const FEW: u64 = 150;

fn small(name: &str) -> Vec<u8> {
    std::fs::read(golden_path(&format!("tokenizers/small/{name}"))).expect("a golden file")
}

/// Loads broken forms of a vocabulary and uses those that load.
fn vocabularies(name: &str, source: &str, beside: &[(&str, Vec<u8>)], mode: TokenizerMode) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for (name, bytes) in beside {
        std::fs::write(folder.path().join(name), bytes).expect("the file can be written");
    }
    fuzz(&[small(source)], FEW, |bytes| {
        std::fs::write(folder.path().join(name), bytes).expect("the file can be written");
        let Ok(tokenizer) = Tokenizer::load_as(folder.path(), mode) else { return };
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
fn fuzz_templates() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::copy(golden_path("tokenizers/small/llama.json"), folder.path().join("tokenizer.json")).expect("copied");
    let messages = json::parse(r#"[{"role": "user", "content": "hé"}]"#).expect("JSON");
    let now = jiff::civil::date(2024, 7, 26).at(9, 5, 0, 0);
    let good = [
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[{{ m['content'].strip() }}]{% endif %}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% macro f(a) %}{{ a | tojson(indent=2) }}{% endmacro %}{{ f(messages) }}",
        "{{ '%s-%05d' % ('a', 7) }}{{ messages | map(attribute='role') | join(',') }}{% generation %}x{% endgeneration %}",
        "{{ strftime_now('%Y') }}{{ raise_exception('no') if tools else messages[0].content[::-1] }}",
    ];
    fuzz(&good.map(|text| text.as_bytes().to_vec()), FEW, |bytes| {
        std::fs::write(folder.path().join("chat_template.jinja"), bytes).expect("the file can be written");
        let Ok(tokenizer) = Tokenizer::load(folder.path()) else { return };
        let Ok(template) = tokenizer.chat_template(false) else { return };
        let input = ChatInput { messages: &messages, tools: None, variables: None, now };
        let _ = template.render(&input);
    });
}

#[test]
fn a_template_that_never_ends_is_stopped() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::copy(golden_path("tokenizers/small/llama.json"), folder.path().join("tokenizer.json")).expect("copied");
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a %}{% endfor %}{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), endless).expect("the file can be written");
    let tokenizer = Tokenizer::load(folder.path()).expect("it loads");
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
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, file.to_string()).expect("the file can be written");
    let refused = Tokenizer::load(folder.path()).expect_err("it cannot be used").to_string();
    assert!(refused.contains("tokenizer.json"), "{refused}");
}
