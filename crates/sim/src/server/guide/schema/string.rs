//! Strings by length, pattern and format.

use tacho_core::json::{Dict, Value};

use super::{super::dice::Dice, super::pattern::Pattern};

/// Supported formats, with a pattern for each.
const PATTERNS: [(&str, &str); 14] = [
    ("email", "[a-z]{3,8}@[a-z]{3,8}\\.com"),
    ("date", "20[0-3][0-9]-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"),
    ("time", "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"),
    ("date-time", "20[0-3][0-9]-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"),
    ("duration", "P[1-9]D"),
    ("ipv4", "(1[0-9]|2[0-4])[0-9](\\.[1-9][0-9]){3}"),
    ("ipv6", "[1-9a-f][0-9a-f]{3}(:[1-9a-f][0-9a-f]{3}){7}"),
    ("hostname", "[a-z]{3,8}\\.[a-z]{3,8}\\.com"),
    ("uuid", "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
    ("uri", "https://[a-z]{3,8}\\.com/[a-z]{2,6}"),
    ("uri-reference", "/[a-z]{2,6}"),
    ("uri-template", "/[a-z]{2,6}/\\{[a-z]{2,4}\\}"),
    ("json-pointer", "/[a-z]{2,6}"),
    ("relative-json-pointer", "[0-3]/[a-z]{2,6}"),
];
const WORDS: [&str; 16] = [
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper", "kestrel", "lagoon",
    "meadow", "north", "orchid", "prairie",
];

pub(super) fn of_format(format: &str) -> Option<&'static str> {
    PATTERNS.iter().find(|(name, _)| *name == format).map(|(_, pattern)| *pattern)
}

pub(super) fn draw(schema: &Dict, dice: &mut Dice) -> String {
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64).and_then(|count| usize::try_from(count).ok());
    let (min, max) = (bound("minLength").unwrap_or(0), bound("maxLength").unwrap_or(usize::MAX));
    let pattern = schema.text("pattern").or_else(|| schema.text("format").and_then(of_format));
    match pattern.map(Pattern::parse) {
        Some(Ok(pattern)) => of_length(min, max, dice, |dice| pattern.text(dice)),
        _ => fitted(&words(1 + dice.size, dice), min, max, dice),
    }
}

pub(super) fn words(count: usize, dice: &mut Dice) -> String {
    let word = |_| WORDS[dice.below(WORDS.len())];
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// The first of many draws with a valid length; the last of them if none has.
fn of_length(min: usize, max: usize, dice: &mut Dice, mut draw: impl FnMut(&mut Dice) -> String) -> String {
    let size = dice.size;
    let mut text = String::new();
    for attempt in 0..64 {
        // Longer and longer draws, where the pattern allows them.
        dice.size = if min > 0 { attempt } else { size.saturating_sub(attempt / 8) };
        text = draw(dice);
        if (min..=max).contains(&text.chars().count()) {
            break;
        }
    }
    dice.size = size;
    text
}

fn fitted(text: &str, min: usize, max: usize, dice: &mut Dice) -> String {
    let mut text: String = text.chars().take(max).collect();
    let more = min.saturating_sub(text.chars().count()).min(dice.left());
    dice.spend(more);
    text.extend((0..more).map(|_| char::from(b'a' + dice.below(26) as u8)));
    text
}
