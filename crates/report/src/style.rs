//! The common layout of reports: titles, value lines, numbers, and text that is safe on a terminal.

use std::{fmt::Display, io::IsTerminal, os::fd::AsFd};

use rustix::termios::tcgetwinsize;
pub use tacho_core::shown::{harmless, harmless_line};
use tacho_core::{command::quoted, json::float_repr};

pub const WIDTH: usize = 50;

/// `text` centered in a line of `fill`; an odd character goes to the right.
pub fn title(text: &str, fill: char) -> String {
    let rest = WIDTH.saturating_sub(text.chars().count());
    let repeat = |count: usize| fill.to_string().repeat(count);
    format!("{}{text}{}", repeat(rest / 2), repeat(rest - rest / 2))
}

/// A label and its value in vLLM's columns; the trailing spaces are part of the format.
pub fn value_line(label: &str, value: impl Display) -> String {
    format!("{label:<40} {:<10}", value.to_string())
}

/// Returns whether a terminal may have colors: `NO_COLOR` is not set, and the terminal is not a dumb one.
pub fn colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// A color of text on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Red,
    Yellow,
    Green,
    Dim,
    Bold,
}

impl Ink {
    pub fn paint(self, colors: bool, text: &str) -> String {
        let code = match self {
            Ink::Red => "1;31",
            Ink::Yellow => "33",
            Ink::Green => "32",
            Ink::Dim => "2",
            Ink::Bold => "1",
        };
        if colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Columns of a terminal that does not report its own.
pub const USUAL_COLUMNS: usize = 80;

/// Columns of the terminal on a stream; `None` if it is not one or does not report them.
pub fn columns_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Width of standard output in columns, and whether it may have colors: 80 and no colors for a file or a pipe.
pub fn screen() -> (usize, bool) {
    match crate::out().is_terminal() {
        true => (columns_of(&std::io::stdout()).unwrap_or(USUAL_COLUMNS).clamp(40, 100), colors()),
        false => (USUAL_COLUMNS, false),
    }
}

/// Two decimals, rounded half to even as in Python.
pub fn two(number: f64) -> String {
    format!("{number:.2}")
}

/// A percentile as in keys and labels: `99`, `99.9`.
pub fn percent(percentile: f64) -> String {
    if percentile.fract() == 0.0 { format!("{percentile:.0}") } else { float_repr(percentile) }
}

/// `line` in lines of at most `width` columns, wrapped between words; all but the first are indented.
pub fn fold(line: &str, width: usize, indent: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    // Leading spaces, and those that align a label, stay.
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if used > indent && length > 0 && used + length > width {
            lines.push(" ".repeat(indent));
            used = indent;
        }
        lines.last_mut().expect("never empty").push_str(word);
        used += word.chars().count();
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// A number with readable precision: `12,346`, `346`, `34.6`, `3.46`.
pub fn short(value: f64) -> String {
    match value.abs() {
        f64::INFINITY => value.to_string(),
        size if size >= 999.5 => grouped(value.round() as i64),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Like [`short`] for a round number: without a fraction of zeros.
pub fn short_tick(value: f64) -> String {
    let text = short(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The next round number, for the end of an axis: 1, 2, 2.5 or 5 times a power of ten.
pub fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|round| *round >= value).unwrap_or(value)
}

/// An integer with thousands separators.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if number < 0 { format!("-{out}") } else { out }
}

/// A command as one line, quoted for a shell.
pub fn command_line(args: &[String]) -> String {
    quoted(args).join(" ")
}

/// A command in lines of about this width, continued for a shell.
pub fn command_lines(args: &[String], width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in quoted(args) {
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

/// `text` as HTML text or attribute value; control and bidirectional characters are made visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in harmless_line(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
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
        let args = ["tacho", "serve", "--extra-body", "{\"a\": 1}", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(&args), "tacho serve --extra-body '{\"a\": 1}' 'it'\\''s' ''");
        assert_eq!(
            command_lines(&args, 12),
            "tacho serve \\\n    --extra-body \\\n    '{\"a\": 1}' \\\n    'it'\\''s' ''"
        );
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(fold("warning: one two three four five", 16, 2), ["warning: one two", "  three four", "  five"]);
        assert_eq!(fold("short", 16, 2), ["short"]);
        assert_eq!(fold("label   a · b · c", 12, 8), ["label   a ·", "        b ·", "        c"]);
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!([0.0, 7.0, 23.0, 100.0, 501.0, 0.03].map(round_up), [1.0, 10.0, 25.0, 100.0, 1000.0, 0.05]);
    }

    #[test]
    fn numbers_have_the_digits_that_people_read() {
        assert_eq!([12345.6, 345.67, 34.56, 3.456, 0.0].map(short), ["12,346", "346", "34.6", "3.46", "0.00"]);
        assert_eq!([short(-1_234_567.0), grouped(999), short_tick(2.5)], ["-1,234,567", "999", "2.5"]);
    }
}
