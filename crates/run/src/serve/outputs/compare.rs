//! The comparison of two texts: where they differ, how much, and what is wrong with the second.

use std::collections::HashSet;

use tacho_core::{Flaw, OutputCheck};

/// Characters of the sequences whose repetition counts.
const SEQUENCE: usize = 8;
/// Most characters that are searched for repetition.
const SEARCHED: usize = 4000;
/// Fraction of repeated sequences of a repetitive output, and the most of its reference.
const REPETITIVE: (f64, f64) = (0.5, 0.25);
/// Fraction of bad characters of a garbled output, and the most of its reference.
const GARBLED: (f64, f64) = (0.05, 0.01);
/// Fraction of the letters that a text's script has.
const SCRIPT: f64 = 0.5;

/// Properties of a text as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Traits {
    repetition: f64,
    garbage: f64,
    script: Option<&'static str>,
}

impl Traits {
    pub(super) fn of(text: &str) -> Self {
        Traits { repetition: repetition(text), garbage: garbage(text), script: script(text) }
    }

    /// The flaws of this text, given the properties of the expected one.
    fn flaws(self, expected: &Traits) -> impl Iterator<Item = Flaw> {
        let exceeds = |own: f64, other: f64, (min, max): (f64, f64)| own >= min && other <= max;
        let scripts = self.script.zip(expected.script);
        let found = [
            (Flaw::Repetitive, exceeds(self.repetition, expected.repetition, REPETITIVE)),
            (Flaw::Garbled, exceeds(self.garbage, expected.garbage, GARBLED)),
            (Flaw::OtherScript, scripts.is_some_and(|(own, other)| own != other)),
        ];
        found.into_iter().filter_map(|(flaw, is_there)| is_there.then_some(flaw))
    }
}

/// Compares an output with the expected text. Texts are WTF-8.
pub(super) fn compare(expected: &[u8], traits: &Traits, output: &[u8], keep_texts: bool) -> OutputCheck {
    let mut check = OutputCheck::default();
    if expected == output {
        return check;
    }
    let (expected, output) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(output));
    let same = expected.chars().zip(output.chars()).take_while(|(a, b)| a == b).count();
    check.first_difference = Some(same as u32);
    let rest = |text: &str| text.chars().skip(same).take(OutputCheck::MAX_EDITED).collect::<String>();
    check.edits = strsim::levenshtein(&rest(&expected), &rest(&output)) as u32;
    if output.chars().count() == same {
        check.add(Flaw::Truncated);
    } else {
        Traits::of(&output).flaws(traits).for_each(|flaw| check.add(flaw));
    }
    if keep_texts {
        check.expected = OutputCheck::excerpt(&expected, same);
    }
    check
}

/// Fraction of the sequences of characters that occur before in the text.
fn repetition(text: &str) -> f64 {
    let chars: Vec<char> = text.chars().take(SEARCHED).collect();
    let mut seen = HashSet::new();
    let repeated = chars.windows(SEQUENCE).filter(|sequence| !seen.insert(*sequence)).count();
    repeated as f64 / chars.len().saturating_sub(SEQUENCE).max(1) as f64
}

/// Fraction of characters that no text has: control, replacement and private-use ones.
fn garbage(text: &str) -> f64 {
    let is_bad = |c: &char| (c.is_control() && !c.is_whitespace()) || matches!(c, '\u{fffd}' | '\u{e000}'..='\u{f8ff}');
    text.chars().filter(is_bad).count() as f64 / text.chars().count().max(1) as f64
}

/// Scripts by the first and last characters of their main blocks.
const SCRIPTS: [(&str, char, char); 11] = [
    ("Latin", '\u{41}', '\u{24f}'),
    ("Greek", '\u{370}', '\u{3ff}'),
    ("Cyrillic", '\u{400}', '\u{52f}'),
    ("Hebrew", '\u{590}', '\u{5ff}'),
    ("Arabic", '\u{600}', '\u{77f}'),
    ("Indic", '\u{900}', '\u{dff}'),
    ("Thai", '\u{e00}', '\u{e7f}'),
    ("Kana", '\u{3040}', '\u{30ff}'),
    ("Han", '\u{3400}', '\u{9fff}'),
    ("Hangul", '\u{ac00}', '\u{d7af}'),
    ("Hangul", '\u{1100}', '\u{11ff}'),
];

/// The script of most letters.
fn script(text: &str) -> Option<&'static str> {
    let mut counts = [0_usize; SCRIPTS.len()];
    let mut letters = 0;
    for letter in text.chars().filter(|c| c.is_alphabetic()) {
        letters += 1;
        let script = SCRIPTS.iter().position(|(_, first, last)| (*first..=*last).contains(&letter));
        script.into_iter().for_each(|script| counts[script] += 1);
    }
    let (script, max) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    (letters > 0 && *max as f64 > SCRIPT * f64::from(letters)).then_some(SCRIPTS[script].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expected: &str, output: &str) -> (Option<u32>, u32, Vec<Flaw>) {
        let check = compare(expected.as_bytes(), &Traits::of(expected), output.as_bytes(), false);
        assert!(check.expected.is_empty());
        (check.first_difference, check.edits, check.flaws().collect())
    }

    #[test]
    fn differences_have_a_position_and_a_size() {
        assert_eq!(found("Öl kostet 3 Euro", "Öl kostet 3 Euro"), (None, 0, vec![]));
        assert_eq!(found("Öl kostet 3 Euro", "Öl kostet 4 Euro"), (Some(10), 1, vec![]));
        assert_eq!(found("abc", "abcd"), (Some(3), 1, vec![]));
        assert_eq!(found("one two three", "one two"), (Some(7), 6, vec![Flaw::Truncated]));
        assert_eq!(found("abc", ""), (Some(0), 3, vec![Flaw::Truncated]));
        let (long, other) = ("a".repeat(5000), "b".repeat(5000));
        assert_eq!(found(&long, &other).1, 256, "the distance is bounded");
    }

    #[test]
    fn flaws_are_those_that_the_reference_does_not_have() {
        let text = "The quick brown fox jumps over the lazy dog while twelve wizards box quietly at noon.";
        assert_eq!(found(text, &format!("The {}", "very ".repeat(100))).2, [Flaw::Repetitive]);
        assert_eq!(found(&"no ".repeat(100), &"yes ".repeat(100)).2, []);
        assert_eq!(found(text, "The \u{fffd}\u{fffd}\u{1}\u{e123} fox").2, [Flaw::Garbled]);
        assert_eq!(found(text, "Съешь же ещё этих мягких французских булок").2, [Flaw::OtherScript]);
        assert_eq!(found(text, "A quick brown fox").2, []);
    }

    #[test]
    fn the_expected_text_is_kept_around_the_difference() {
        let expected = format!("{}X{}", "a".repeat(100), "b".repeat(500));
        let output = format!("{}Y", "a".repeat(100));
        let check = compare(expected.as_bytes(), &Traits::of(&expected), output.as_bytes(), true);
        assert_eq!(check.expected, format!("{}X{}", "a".repeat(40), "b".repeat(119)));
    }
}
