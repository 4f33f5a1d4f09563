//! Compares the byte-level engine with the general library: equal IDs and equal text for any input.

use std::sync::LazyLock;

use proptest::prelude::*;
use tacho_testkit::golden_path;
use tacho_text::{Decoder, Tokenizer};

static LIBRARY: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| {
    let file = golden_path("tokenizers/gpt2/tokenizer.json");
    tokenizers::Tokenizer::from_file(file).expect("the golden tokenizer loads")
});
static LOADED: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::load(&golden_path("tokenizers/gpt2")).expect("the golden tokenizer loads"));
static BUILTIN: LazyLock<Tokenizer> = LazyLock::new(Tokenizer::builtin);

fn library_ids(text: &str) -> Vec<u32> {
    LIBRARY.encode(text, false).expect("byte-level BPE encodes anything").get_ids().to_vec()
}

fn library_text(ids: &[u32]) -> String {
    LIBRARY.decode(ids, false).expect("byte-level BPE decodes anything")
}

/// Fragments that interact: spaces of all kinds, contractions, digits, special tokens, long runs.
fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<char>().prop_map(String::from),
        "[a-zA-Z]{1,12}",
        "[ \\t\\n\\r\u{85}\u{a0}\u{1680}\u{2003}\u{2028}\u{3000}]{1,4}",
        "'(s|t|re|ve|m|ll|d|S|x|')?",
        "[0-9²½Ⅷ٣१]{1,5}",
        "[!-/:-@\\[-`{-~]{1,6}",
        "[а-яα-ωאבגदे漢字ひらがな한글]{1,6}",
        "[\u{300}-\u{36f}\u{200d}\u{fe0f}\u{1f468}\u{1f469}\u{1f600}\u{10ffff}\u{0}]{1,4}",
        Just("<|endoftext|>".to_owned()),
        Just("<|endoftext|".to_owned()),
        "[a-z]{97,300}",
        "(ab|aa| ){50,200}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(fragment(), 0..24).prop_map(|fragments| fragments.concat())
}

fn ids() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![0..50_257_u32, 0..256_u32, Just(50_256), Just(60_000)], 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn texts_encode_as_the_library_encodes_them(text in text()) {
        let expected = library_ids(&text);
        prop_assert_eq!(&LOADED.encode(&text, false), &expected);
        prop_assert_eq!(&LOADED.encode(&text, true), &expected);
        prop_assert_eq!(&BUILTIN.encode(&text, false), &expected);
    }

    #[test]
    fn ids_decode_as_the_library_decodes_them_and_encode_again(ids in ids()) {
        let expected = library_text(&ids);
        prop_assert_eq!(&LOADED.decode(&ids), &expected);
        prop_assert_eq!(&BUILTIN.decode(&ids), &expected);
        prop_assert_eq!(LOADED.encode(&expected, false), library_ids(&expected));
    }

    #[test]
    fn streamed_text_is_the_whole_text(ids in ids()) {
        let mut decoder = Decoder::new();
        let mut streamed: String = ids.iter().map(|&id| decoder.push(&LOADED, id)).collect();
        streamed += &decoder.finish(&LOADED);
        prop_assert_eq!(streamed, LOADED.decode(&ids));
    }
}

#[test]
fn every_token_alone_decodes_and_encodes_as_in_the_library() {
    for id in 0..50_257 {
        let text = library_text(&[id]);
        assert_eq!(LOADED.decode(&[id]), text, "token {id}");
        assert_eq!(BUILTIN.decode(&[id]), text, "token {id}");
        assert_eq!(LOADED.encode(&text, false), library_ids(&text), "token {id}");
    }
}
