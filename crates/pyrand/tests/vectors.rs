//! Short vectors that the recorded files lack: mixed use of one generator, and integers of several words.

use tacho_pyrand::{Generator, Globals, HashKey, Random, RandomState, SeedSequence};

#[test]
fn seed_sequence_pool_is_stirred() {
    assert_eq!(SeedSequence::new(0).pool(), [0xfe40_eb07, 0x4f36_3a36, 0x4eb2_009d, 0xc89a_7aa7]);
    assert_eq!(SeedSequence::new(42).pool(), [0x631d_3606, 0x07ae_90ae, 0x6fc4_be28, 0x2ced_5c75]);
}

#[test]
fn half_word_survives_doubles_and_byte_blocks() {
    let mut generator = Generator::new(0);
    assert_eq!(generator.integers(0, 10), 8);
    assert_eq!(generator.random(), 0.2697867137638703);
    assert_eq!((generator.integers(0, 10), generator.integers(0, 10)), (6, 3));
    let mut generator = Generator::new(0);
    let mut bytes = [0; 13];
    generator.fill_bytes(&mut bytes);
    assert_eq!(bytes, [95, 130, 194, 217, 207, 235, 15, 163, 33, 215, 217, 130, 248]);
    assert_eq!(generator.integers(0, 1000), 307);
}

#[test]
fn one_value_ranges_draw_nothing() {
    let (mut generator, mut state) = (Generator::new(7), RandomState::new(7));
    assert_eq!(generator.integers_vec(5, 6, 100), vec![5; 100]);
    assert_eq!(state.randint_vec(5, 6, 100), vec![5; 100]);
    assert_eq!(generator, Generator::new(7));
    assert_eq!(state, RandomState::new(7));
}

#[test]
fn weighted_choice_counts_the_sums_passed() {
    let mut generator = Generator::new(42);
    let drawn: Vec<usize> = (0..10).map(|_| generator.choice_weighted(&[0.5, 0.3, 0.2])).collect();
    assert_eq!(drawn, [1, 0, 2, 1, 0, 2, 1, 1, 0, 0]);
}

#[test]
fn leading_zero_words_do_not_change_a_seed() {
    assert_eq!(Random::from_words(&[42, 0, 0]), Random::new(42));
    assert_ne!(Random::from_words(&[42, 0, 1]), Random::new(42));
    assert_eq!(SeedSequence::from_words(&[42, 0, 0]), SeedSequence::new(42));
    assert_ne!(SeedSequence::from_words(&[42, 0, 0, 0, 1]), SeedSequence::new(42));
}

#[test]
fn one_element_choice_still_draws() {
    let mut random = Random::new(0);
    assert_eq!(random.choice_index(1), Some(0));
    assert_ne!(random, Random::new(0));
    assert_eq!(random.choice_index(0), None);
}

#[test]
fn string_hash_takes_the_low_half_as_seed() {
    let low = |seed, text: &str| HashKey::from_seed(seed).hash(text) as u32;
    assert_eq!([low(0, "1:16"), low(0, "2:4"), low(0, "46:512")], [4276743264, 2500958548, 515549297]);
    assert_eq!([low(42, "1:16"), low(42, "2:4"), low(42, "46:512")], [2547990164, 2187315019, 4228918182]);
    assert_eq!(low(42, ""), 0);
}

#[test]
fn string_hash_reads_wide_characters_as_cpython_does() {
    // `hash(text)` of CPython 3.11.
    let unsalted = [
        ("é:16", 8486814460925029589),
        ("中文:16", 2969089186192293108),
        ("😀:512", 5006109832406546428),
        ("ÿ", 3476900567878811119),
        ("Ā", 75343234424780393),
        ("aé中😀:3", 5543497964083520045),
    ];
    for (text, expected) in unsalted {
        assert_eq!(HashKey::from_seed(0).hash(text), expected, "{text}");
    }
    assert_eq!(HashKey::from_seed(42).hash("中文:16"), 4391840965557622635);
    assert_eq!(HashKey::from_seed(42).hash("😀:512"), -8411540031197259432);
}

#[test]
fn globals_are_seeded_together() {
    let mut globals = Globals::seeded(0);
    assert_eq!(globals.py.random(), 0.8444218515250481);
    assert_eq!(globals.np.random_sample(), 0.5488135039273248);
    globals.seed(0);
    assert_eq!(globals, Globals::seeded(0));
}
