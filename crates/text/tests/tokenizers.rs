//! Loading of tokenizers and their properties.

use tacho_testkit::golden_path;
use tacho_text::{Decoder, Error, Tokenizer};

fn load(name: &str) -> Tokenizer {
    Tokenizer::load(&golden_path(&format!("tokenizers/{name}"))).expect("the golden tokenizer loads")
}

#[test]
fn gpt2_has_one_special_token_and_adds_none() {
    for tokenizer in [load("gpt2"), Tokenizer::builtin()] {
        assert_eq!((tokenizer.vocab_size(), tokenizer.full_vocab_size(), tokenizer.num_special()), (50_257, 50_257, 0));
        assert_eq!(tokenizer.special_ids(), [50_256]);
        assert_eq!(tokenizer.added_special_ids(), [50_256]);
        assert_eq!(tokenizer.eos_id(), Some(50_256));
        assert_eq!(tokenizer.all_ids(), (0..50_257).collect::<Vec<_>>());
        let ids = tokenizer.encode("Hello world, this is GPT-2!", true);
        assert_eq!(ids, [15496, 995, 11, 428, 318, 402, 11571, 12, 17, 0]);
        assert_eq!(tokenizer.count("a<|endoftext|>b", false), 3);
    }
}

#[test]
fn mistral_names_three_of_its_special_tokens_and_adds_one() {
    let tokenizer = load("mistral-v3");
    assert_eq!((tokenizer.vocab_size(), tokenizer.full_vocab_size(), tokenizer.num_special()), (32_768, 32_768, 1));
    assert_eq!(tokenizer.special_ids(), [0, 1, 2]);
    assert_eq!(tokenizer.added_special_ids(), (0..771).collect::<Vec<_>>());
    assert_eq!(tokenizer.class(), Some("LlamaTokenizer"));
    let plain = tokenizer.encode("Hello [INST] world", false);
    assert_eq!(tokenizer.encode("Hello [INST] world", true), [&[1], plain.as_slice()].concat());
    assert!(plain.contains(&3));
}

#[test]
fn file_and_directory_load_the_same_tokenizer() {
    let file = Tokenizer::load(&golden_path("tokenizers/gpt2/tokenizer.json")).expect("the file loads");
    assert_eq!(file.special_ids(), load("gpt2").special_ids());
    assert!(file.name().ends_with("gpt2/tokenizer.json"));
}

#[test]
fn streams_of_other_engines_come_out_whole() {
    let tokenizer = load("mistral-v3");
    for text in
        ["Hello, world: it's 3 o'clock", "naïve 漢字 \u{1f600}\u{1f469}\u{200d}\u{1f52c} end", " two  spaces\n\nlines"]
    {
        let ids = tokenizer.encode(text, false);
        let mut decoder = Decoder::new();
        let parts: Vec<String> = ids.iter().map(|&id| decoder.push(&tokenizer, id)).collect();
        assert!(!parts.concat().contains(char::REPLACEMENT_CHARACTER), "{parts:?}");
        assert_eq!(parts.concat() + &decoder.finish(&tokenizer), tokenizer.decode(&ids));
    }
}

#[test]
fn missing_tokenizer_says_what_was_looked_for() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let error = Tokenizer::load(directory.path()).expect_err("the directory is empty");
    assert!(matches!(&error, Error::Missing { path, .. } if path == directory.path()));
    assert!(error.to_string().contains("tokenizer.json") && error.to_string().contains("--tokenizer"));
}

#[test]
fn broken_files_are_named() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let file = directory.path().join("tokenizer.json");
    std::fs::write(&file, "{").expect("the file can be written");
    assert!(matches!(Tokenizer::load(&file), Err(Error::NotJson { path, .. }) if path == file));
    std::fs::write(&file, "{}").expect("the file can be written");
    assert!(matches!(Tokenizer::load(&file), Err(Error::NotTokenizer { path, .. }) if path == file));
}
