//! Texts that match a regular expression as a whole.

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look};

use super::dice::Dice;

const PREFERRED: [(char, char); 3] = [('a', 'z'), ('0', '9'), ('A', 'Z')];

#[derive(Debug)]
pub(crate) struct Pattern(Hir);

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // Python escapes some characters without need, and has another name for the end.
        let text = text.replace("\\Z", "\\z");
        match regex_syntax::parse(&text) {
            Ok(hir) if has_lookaround(&hir) => Err("lookarounds not supported yet".to_owned()),
            Ok(hir) => Ok(Pattern(hir)),
            Err(regex_syntax::Error::Parse(error)) => Err(error.kind().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn text(&self, dice: &mut Dice) -> String {
        let mut out = String::new();
        write(&self.0, dice, &mut out);
        out
    }
}

/// Returns whether a pattern has look-around assertions other than ends.
fn has_lookaround(hir: &Hir) -> bool {
    const ENDS: [Look; 4] = [Look::Start, Look::End, Look::StartLF, Look::EndLF];
    hir.properties().look_set().iter().any(|look| !ENDS.contains(&look))
}

fn write(hir: &Hir, dice: &mut Dice, out: &mut String) {
    if !dice.spend(1) {
        return;
    }
    match hir.kind() {
        // Zero-width assertions are assumed to hold.
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            dice.spend(literal.0.len());
            out.push_str(&String::from_utf8_lossy(&literal.0));
        }
        HirKind::Class(Class::Unicode(class)) => out.extend(character(class, dice)),
        HirKind::Class(Class::Bytes(class)) => {
            let unicode = class.to_unicode_class();
            out.extend(unicode.and_then(|class| character(&class, dice)));
        }
        HirKind::Repetition(repetition) => {
            let limit = repetition.max.map(|limit| limit as usize);
            for _ in 0..dice.times(repetition.min as usize, limit) {
                write(&repetition.sub, dice, out);
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, dice, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, dice, out)),
        HirKind::Alternation(parts) => {
            if let Some(part) = dice.pick(parts) {
                write(part, dice, out);
            }
        }
    }
}

/// A letter or a digit if possible, else any character.
fn character(class: &ClassUnicode, dice: &mut Dice) -> Option<char> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    for (low, high) in PREFERRED {
        let cut = |range: &regex_syntax::hir::ClassUnicodeRange| (range.start().max(low), range.end().min(high));
        ranges.extend(class.ranges().iter().map(cut).filter(|(low, high)| low <= high));
    }
    if ranges.is_empty() {
        let printable = |range: &regex_syntax::hir::ClassUnicodeRange| (range.start().max(' '), range.end().min('~'));
        ranges.extend(class.ranges().iter().map(printable).filter(|(low, high)| low <= high));
    }
    if ranges.is_empty() {
        ranges.extend(class.ranges().iter().map(|range| (range.start(), range.end())));
    }
    let (low, high) = *dice.pick(&ranges)?;
    let span = u32::from(high) - u32::from(low);
    // The range may include surrogates, which are not characters.
    char::from_u32(u32::from(low) + dice.below(span as usize + 1) as u32).or(Some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_as_a_whole() {
        for pattern in [
            r"\w+@\w+\.com\n",
            "a{2,5}(b|cd)?[^a-z]",
            r"[0-9]{3}-[0-9]{4}",
            r"(?:yes|no)(, (?:yes|no)){0,3}",
            r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z",
            "[äöü]+",
            ".*",
            "",
            r"[^\x00-\x7f]{2}",
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            let whole = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
            for seed in 0..50 {
                let text = parsed.text(&mut Dice::new(seed, (seed % 3) as usize));
                assert!(whole.is_match(&text), "{pattern}: {text:?}");
            }
        }
        for bad in ["(", r"(a)\1", "(?=a)b", r"\bword\b"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
