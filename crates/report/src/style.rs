//! The layout shared by reports: titles, value lines, numbers, and text that is safe to show on a terminal.

use std::fmt::{Display, Write};

use tacho_core::json::float_repr;

/// Width of vLLM's report.
pub const WIDTH: usize = 50;

/// `text` in the middle of a line of `fill`; an odd one goes to the right.
pub fn title(text: &str, fill: char) -> String {
    let rest = WIDTH.saturating_sub(text.chars().count());
    let repeat = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", repeat(rest / 2), repeat(rest - rest / 2))
}

/// A label and its value in vLLM's columns; the blanks at the end are part of the format.
pub fn value_line(label: &str, value: impl Display) -> String {
    format!("{label:<40} {:<10}", value.to_string())
}

/// Whether people want colours on a terminal: `NO_COLOR` is not set, and the terminal is not a dumb one.
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Two decimals, ties to even as Python rounds.
pub fn two(number: f64) -> String {
    format!("{number:.2}")
}

/// A percentile as keys and labels spell it: `99`, `99.9`.
pub fn percent(percentile: f64) -> String {
    if percentile.fract() == 0.0 { format!("{percentile:.0}") } else { float_repr(percentile) }
}

/// `text` with everything escaped that could move a cursor, change a terminal or reorder what is read. Line breaks
/// and tabs stay.
pub fn harmless(text: &str) -> String {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

/// The same for text that must stay on one line.
pub fn harmless_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if keep(character) || !is_harmful(character) {
            out.push(character);
        } else if u32::from(character) < 0x100 {
            let _ = write!(out, "\\x{:02x}", u32::from(character));
        } else {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
    }
    out
}

/// Control characters, line and paragraph separators, and the marks that change the direction of text.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A text for a screen of this width: lines that are too long are broken at blanks, and go on indented.
pub fn folded(text: &str, width: usize) -> String {
    text.split_inclusive('\n')
        .map(|line| if line.trim_end().chars().count() <= width { line.to_owned() } else { fold(line, width) })
        .collect()
}

fn fold(line: &str, width: usize) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for word in line.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out += "\n  ";
            used = 2;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += length;
    }
    out + "\n"
}

/// A command as a line, its words quoted where a shell would need it.
pub fn command_line(words: &[String]) -> String {
    quoted(words).join(" ")
}

/// The same in lines of about this width, as a shell reads them.
pub fn command_lines(words: &[String], width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in quoted(words) {
        let last = lines.last_mut().expect("never empty");
        if last.is_empty() {
            *last = word;
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            *last += &format!(" {word}");
        } else {
            lines.push(word);
        }
    }
    lines.join(" \\\n    ")
}

fn quoted(words: &[String]) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_fill_fifty_columns() {
        assert_eq!(title(" Serving Benchmark Result ", '='), "============ Serving Benchmark Result ============");
        assert_eq!(
            title("Time per Output Token (excl. 1st token)", '-'),
            "-----Time per Output Token (excl. 1st token)------"
        );
    }

    #[test]
    fn percentiles_drop_a_zero_fraction() {
        assert_eq!([percent(99.0), percent(99.9), percent(0.0), percent(12.5)], ["99", "99.9", "0", "12.5"]);
    }

    #[test]
    fn escape_sequences_of_a_server_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b[2J\u{9b}b\r\n\tc\u{202e}é"), "a\\x1b[2J\\x9bb\\x0d\n\tc\\u202eé");
        assert_eq!(harmless_line("a\nb"), "a\\x0ab");
    }

    #[test]
    fn commands_can_be_typed_again() {
        let words = ["tacho", "serve", "--extra-body", "{\"a\": 1}", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(&words), "tacho serve --extra-body '{\"a\": 1}' 'it'\\''s' ''");
        assert_eq!(
            command_lines(&words, 12),
            "tacho serve \\\n    --extra-body \\\n    '{\"a\": 1}' \\\n    'it'\\''s' ''"
        );
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "short\ncaveat: one two three four five\nend";
        assert_eq!(folded(text, 16), "short\ncaveat: one two\n  three four\n  five\nend");
        assert_eq!(folded(text, 80), text);
        assert!(
            folded("a verylongwordindeed b\n", 8)
                .lines()
                .all(|line| !line.contains(' ') || line.trim_start().split(' ').count() <= 2)
        );
    }
}
